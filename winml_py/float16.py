"""Converting models to float16, with a check: the public names of `tools.float16`."""

from .tools.float16.convert import convert
from .tools.float16.report import ConversionReport, OutputReport

__all__ = ["ConversionReport", "OutputReport", "convert"]

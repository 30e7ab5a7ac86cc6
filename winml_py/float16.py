"""Converting models to float16, with a check: the public names of `tools.float16`."""

from .tools.float16 import ConversionReport, OutputReport, convert

__all__ = ["ConversionReport", "OutputReport", "convert"]

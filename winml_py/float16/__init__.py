"""Converting a float32 model to float16, with a check: `convert`, and its report."""

from .._examples import StatedSizes
from .convert import convert
from .report import ConversionReport, OutputReport

__all__ = ["ConversionReport", "OutputReport", "StatedSizes", "convert"]

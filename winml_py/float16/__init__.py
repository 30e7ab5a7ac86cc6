"""From a float32 model to a float16 one that is checked: `convert`, and what it reports."""

from .convert import convert
from .report import ConversionReport, OutputReport

__all__ = ["ConversionReport", "OutputReport", "convert"]

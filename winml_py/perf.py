"""Measuring models phase by phase: the public names of `tools.perf`."""

from .features.free_sizes import ExampleShape, StatedSizes
from .tools.perf import PHASES, Case, Measurement, measure

__all__ = ["PHASES", "Case", "ExampleShape", "Measurement", "StatedSizes", "measure"]

"""Measuring models phase by phase: the public names of `tools.perf`."""

from .tools.perf import PHASES, Case, Measurement, measure

__all__ = ["PHASES", "Case", "Measurement", "measure"]

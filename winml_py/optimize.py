"""Writing optimised models: the public names of `tools.optimize`."""

from .tools.optimize import OptimizationReport, optimize

__all__ = ["OptimizationReport", "optimize"]

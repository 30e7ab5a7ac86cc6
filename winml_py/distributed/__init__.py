"""From one machine to many: an evaluation as a callable for engines such as Ray, Dask and Spark."""

from .evaluator import Evaluator

__all__ = ["Evaluator"]

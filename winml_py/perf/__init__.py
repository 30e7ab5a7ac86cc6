"""Measuring the time of load, bind and evaluate, phase by phase; and finding the fastest session options.

Example:
    >>> from winml_py.perf import Case, measure
    >>> measured = measure(Case("models/digits.onnx"), iterations=5)
    >>> sorted(measured.samples)
    ['bind', 'evaluate', 'load', 'session']
"""

from .._cases.case import Case
from .._cases.examples import ExampleShape, StatedSizes
from .measure import PHASES, Measurement, measure
from .tuning import tune

__all__ = ["PHASES", "Case", "ExampleShape", "Measurement", "StatedSizes", "measure", "tune"]

"""Measuring the time of bind and evaluate, phase by phase; and finding the fastest session options.

Example:
    >>> from winml_py import LearningModel
    >>> from winml_py.perf import measure
    >>> measured = measure(LearningModel.load("models/digits.onnx"), iterations=5)
    >>> sorted(measured.times)
    ['bind', 'evaluate']
"""

from .._examples import ExampleShape
from .measure import Measurement, Time, measure
from .profile import Profile, profile
from .tuning import tune

__all__ = ["ExampleShape", "Measurement", "Profile", "Time", "measure", "profile", "tune"]

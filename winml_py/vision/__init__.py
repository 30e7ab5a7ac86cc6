"""The answers of picture models: classes, boxes, masks and points, in the coordinates of the picture.

Example:
    >>> from winml_py import LearningModel, LearningModelSession, vision
    >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
    >>> result = next(session.evaluate_many(["samples/pictures/seven.png"]))
    >>> vision.classes(result, 1)[0].index
    7
"""

from .detections import Detection, Detections, detections
from .layouts import DetectionLayout
from .outputs import classes
from .segmentation import Segmentation, masks

__all__ = [
    "Detection",
    "DetectionLayout",
    "Detections",
    "Segmentation",
    "classes",
    "detections",
    "masks",
]

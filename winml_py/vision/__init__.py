"""The answers of picture models: boxes, masks, points and lines of text, in the coordinates of the picture.

The classes of a classifier need no module: `result.top_k` ranks them.

Example:
    >>> from winml_py import LearningModel, LearningModelSession, vision
    >>> session = LearningModelSession(LearningModel.load("models/shapes.onnx"))
    >>> result = next(session.evaluate_many(["samples/pictures/cat.jpg"]))
    >>> vision.detections(result, threshold=0.99)
    <Detections 0 in 451x300: >
"""

from .detections import Detection, Detections, detections
from .layouts import DetectionLayout
from .masks import Segmentation, masks
from .text import TextLines, TextReading, batch_by_width, read_text, text_lines

__all__ = [
    "Detection",
    "DetectionLayout",
    "Detections",
    "Segmentation",
    "TextLines",
    "TextReading",
    "batch_by_width",
    "detections",
    "masks",
    "read_text",
    "text_lines",
]

"""Classes of returned objects, for annotations: programs receive them, but do not make any."""

from .core.base.async_operation import AsyncOperation
from .core.imaging.picture_placement import PicturePlacement
from .core.model.contracts import AttachedContracts
from .core.runtime.device import DisplayAdapterId
from .core.runtime.engine import AssignedNode, Explanation
from .core.session.result import Prediction
from .core.session.stream import EvaluationStream

__all__ = [
    "AssignedNode",
    "AsyncOperation",
    "AttachedContracts",
    "DisplayAdapterId",
    "EvaluationStream",
    "Explanation",
    "PicturePlacement",
    "Prediction",
]

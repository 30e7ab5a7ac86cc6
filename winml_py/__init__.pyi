"""The public names, for type checkers; `__init__.py` loads each when it is first used."""

from . import authoring as authoring
from . import compare as compare
from . import distributed as distributed
from . import errors as errors
from . import experimental as experimental
from . import float16 as float16
from . import operators as operators
from . import perf as perf
from . import results as results
from . import scaling as scaling
from . import serve as serve
from . import testing as testing
from . import view as view
from . import vision as vision
from .core.base.child_process import freeze_support
from .core.contracts.files import read_contract
from .core.contracts.labels import labels_of
from .core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from .core.features.pictures import ImageFeatureValue
from .core.features.tensor import Tensor
from .core.features.tensor_classes import (
    TensorBoolean,
    TensorDouble,
    TensorFloat,
    TensorFloat16Bit,
    TensorInt8Bit,
    TensorInt16Bit,
    TensorInt32Bit,
    TensorInt64Bit,
    TensorString,
    TensorUInt8Bit,
    TensorUInt16Bit,
    TensorUInt32Bit,
    TensorUInt64Bit,
)
from .core.imaging.bitmap import SoftwareBitmap, VideoFrame
from .core.imaging.contract import BitmapBounds, ImageContract
from .core.imaging.video import VideoReader
from .core.model.model import LearningModel
from .core.runtime.custom.operator import CustomOperator, OperatorOutput
from .core.runtime.device import LearningModelDevice
from .core.runtime.engine import Isolation, Tuning
from .core.session.options import LearningModelSessionOptions
from .core.session.result import LearningModelEvaluationResult
from .core.session.session import LearningModelBinding, LearningModelSession
from .enums import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    FramePolicy,
    ImageAnchor,
    ImageGray,
    ImageKernel,
    ImageRounding,
    LearningModelDeviceKind,
    LearningModelFeatureKind,
    LearningModelPixelRange,
    Precision,
    TensorKind,
    TensorLayout,
    Weights,
)
from .errors import (
    CanceledError,
    ClosedError,
    CorruptModelError,
    DeviceLostError,
    EvaluationError,
    EvaluationTimeoutError,
    InvalidArgumentError,
    InvalidBindingError,
    InvalidDeviceError,
    ModelNotFoundError,
    NotSupportedError,
    PictureError,
    SizeMismatchError,
    WinMLError,
)

__version__: str
__all__ = [
    "BitmapAlphaMode",
    "BitmapBounds",
    "BitmapPixelFormat",
    "CanceledError",
    "ClosedError",
    "CorruptModelError",
    "CustomOperator",
    "DeviceLostError",
    "EvaluationError",
    "EvaluationTimeoutError",
    "FeatureDescriptor",
    "FramePolicy",
    "ImageAnchor",
    "ImageContract",
    "ImageFeatureDescriptor",
    "ImageFeatureValue",
    "ImageGray",
    "ImageKernel",
    "ImageRounding",
    "InvalidArgumentError",
    "InvalidBindingError",
    "InvalidDeviceError",
    "Isolation",
    "LearningModel",
    "LearningModelBinding",
    "LearningModelDevice",
    "LearningModelDeviceKind",
    "LearningModelEvaluationResult",
    "LearningModelFeatureKind",
    "LearningModelPixelRange",
    "LearningModelSession",
    "LearningModelSessionOptions",
    "MapFeatureDescriptor",
    "ModelNotFoundError",
    "NotSupportedError",
    "OperatorOutput",
    "PictureError",
    "Precision",
    "SequenceFeatureDescriptor",
    "SizeMismatchError",
    "SoftwareBitmap",
    "Tensor",
    "TensorBoolean",
    "TensorDouble",
    "TensorFeatureDescriptor",
    "TensorFloat",
    "TensorFloat16Bit",
    "TensorInt8Bit",
    "TensorInt16Bit",
    "TensorInt32Bit",
    "TensorInt64Bit",
    "TensorKind",
    "TensorLayout",
    "TensorString",
    "TensorUInt8Bit",
    "TensorUInt16Bit",
    "TensorUInt32Bit",
    "TensorUInt64Bit",
    "Tuning",
    "VideoFrame",
    "VideoReader",
    "Weights",
    "WinMLError",
    "__version__",
    "freeze_support",
    "labels_of",
    "read_contract",
]

"""The public names, for type checkers; `__init__.py` loads each when it is first used."""

from . import authoring as authoring
from . import backend as backend
from . import experimental as experimental
from . import float16 as float16
from . import operators as operators
from . import optimize as optimize
from . import perf as perf
from . import scale as scale
from . import testing as testing
from . import view as view
from . import vision as vision
from .core.base.async_operation import AsyncOperation
from .core.base.buffers import MemoryBufferReference
from .core.base.collections import KeyValuePair, NameMap, PropertySet, Vector, VectorView
from .core.contracts.labels import labels_of
from .core.evaluation.evaluation import LearningModelBinding
from .core.evaluation.result import LearningModelEvaluationResult
from .core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from .core.features.pictures import ImageFeatureValue
from .core.features.ranking import Prediction
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
from .core.imaging.bitmap import BitmapBuffer, BitmapPlaneDescription, SoftwareBitmap
from .core.imaging.contract import ImageContract
from .core.imaging.frame import VideoFrame
from .core.imaging.geometry import BitmapBounds
from .core.imaging.picture_placement import PicturePlacement
from .core.imaging.scaling import ImageScaling
from .core.imaging.video import VideoReader
from .core.imaging.video_writer import Framed, VideoWriter
from .core.model.contracts import AttachedContracts, MissingContractWarning
from .core.model.known_answers import AnswerCheck, ModelCheck
from .core.model.model import LearningModel
from .core.model.operators import OperatorProvider
from .core.runtime.custom.operator import CustomOperator, OperatorOutput
from .core.runtime.device import DisplayAdapterId, LearningModelDevice
from .core.runtime.engine import Candidate, Explanation, Isolation, PlacedNode, Tuning
from .core.session.options import LearningModelSessionOptions
from .core.session.session import LearningModelSession
from .core.streams.stream import EvaluationStream
from .enums import (
    AsyncStatus,
    BitmapAlphaMode,
    BitmapBufferAccessMode,
    BitmapPixelFormat,
    FramePolicy,
    ImageAnchor,
    ImageCropMode,
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
    ConversionError,
    CorruptModelError,
    DeviceLostError,
    EngineLostError,
    EngineWarning,
    EvaluationError,
    EvaluationTimeoutError,
    IllegalCallError,
    InvalidArgumentError,
    InvalidBindingError,
    InvalidDeviceError,
    MissingInputError,
    MissingPackageError,
    ModelDisposedError,
    ModelNotFoundError,
    ModelVersionError,
    NotBoundError,
    NotSupportedError,
    PictureError,
    PictureNotFoundError,
    SizeMismatchError,
    StorageAccessError,
    StorageExistsError,
    StorageNotFoundError,
    WinMLError,
)

__version__: str
__all__ = [
    "AnswerCheck",
    "AsyncOperation",
    "AsyncStatus",
    "AttachedContracts",
    "BitmapAlphaMode",
    "BitmapBounds",
    "BitmapBuffer",
    "BitmapBufferAccessMode",
    "BitmapPixelFormat",
    "BitmapPlaneDescription",
    "CanceledError",
    "Candidate",
    "ClosedError",
    "ConversionError",
    "CorruptModelError",
    "CustomOperator",
    "DeviceLostError",
    "DisplayAdapterId",
    "EngineLostError",
    "EngineWarning",
    "EvaluationError",
    "EvaluationStream",
    "EvaluationTimeoutError",
    "Explanation",
    "FeatureDescriptor",
    "FramePolicy",
    "Framed",
    "IllegalCallError",
    "ImageAnchor",
    "ImageContract",
    "ImageCropMode",
    "ImageFeatureDescriptor",
    "ImageFeatureValue",
    "ImageGray",
    "ImageKernel",
    "ImageRounding",
    "ImageScaling",
    "InvalidArgumentError",
    "InvalidBindingError",
    "InvalidDeviceError",
    "Isolation",
    "KeyValuePair",
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
    "MemoryBufferReference",
    "MissingContractWarning",
    "MissingInputError",
    "MissingPackageError",
    "ModelCheck",
    "ModelDisposedError",
    "ModelNotFoundError",
    "ModelVersionError",
    "NameMap",
    "NotBoundError",
    "NotSupportedError",
    "OperatorOutput",
    "OperatorProvider",
    "PictureError",
    "PictureNotFoundError",
    "PicturePlacement",
    "PlacedNode",
    "Precision",
    "Prediction",
    "PropertySet",
    "SequenceFeatureDescriptor",
    "SizeMismatchError",
    "SoftwareBitmap",
    "StorageAccessError",
    "StorageExistsError",
    "StorageNotFoundError",
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
    "Vector",
    "VectorView",
    "VideoFrame",
    "VideoReader",
    "VideoWriter",
    "Weights",
    "WinMLError",
    "__version__",
    "labels_of",
]

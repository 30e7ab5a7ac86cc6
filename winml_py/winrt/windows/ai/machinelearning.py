"""Windows.AI.MachineLearning: the classes of `winml_py`."""

from ....enums import LearningModelDeviceKind, LearningModelFeatureKind, LearningModelPixelRange, TensorKind
from ....features.descriptors import FeatureDescriptor as ILearningModelFeatureDescriptor
from ....features.descriptors import (
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from ....features.pictures import ImageFeatureValue
from ....features.tensor import Tensor as ITensor
from ....features.tensor_classes import (
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
from ....session.binding import LearningModelBinding
from ....session.device import LearningModelDevice
from ....session.model import LearningModel
from ....session.options import LearningModelSessionOptions
from ....session.result import LearningModelEvaluationResult
from ....session.session import LearningModelSession

ILearningModelFeatureValue = ITensor | ImageFeatureValue

__all__ = [
    "ILearningModelFeatureDescriptor",
    "ILearningModelFeatureValue",
    "ITensor",
    "ImageFeatureDescriptor",
    "ImageFeatureValue",
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
    "SequenceFeatureDescriptor",
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
    "TensorString",
    "TensorUInt8Bit",
    "TensorUInt16Bit",
    "TensorUInt32Bit",
    "TensorUInt64Bit",
]

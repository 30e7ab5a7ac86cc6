"""Windows.AI.MachineLearning: the classes of `winml_py`."""

from ....binding import LearningModelBinding
from ....descriptors import (
    FeatureDescriptor as ILearningModelFeatureDescriptor,
)
from ....descriptors import (
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
)
from ....device import LearningModelDevice
from ....kinds import LearningModelDeviceKind, LearningModelFeatureKind, LearningModelPixelRange, TensorKind
from ....model import LearningModel
from ....options import LearningModelSessionOptions
from ....result import LearningModelEvaluationResult
from ....session import LearningModelSession
from ....values.image import ImageFeatureValue
from ....values.tensor import Tensor as ITensor
from ....values.tensors import (
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

"""Windows.AI.MachineLearning: the classes of `winml_py`, with Windows ML's silence."""

from ....core.base.winrt_object import Object as _Object
from ....core.evaluation.evaluation import LearningModelBinding as LearningModelBinding
from ....core.evaluation.result import LearningModelEvaluationResult as LearningModelEvaluationResult
from ....core.features.descriptors import FeatureDescriptor as _FeatureDescriptor
from ....core.features.descriptors import ImageFeatureDescriptor as ImageFeatureDescriptor
from ....core.features.descriptors import MapFeatureDescriptor as MapFeatureDescriptor
from ....core.features.descriptors import SequenceFeatureDescriptor as SequenceFeatureDescriptor
from ....core.features.descriptors import TensorFeatureDescriptor as TensorFeatureDescriptor
from ....core.features.pictures import ImageFeatureValue as ImageFeatureValue
from ....core.features.tensor import Tensor as _Tensor
from ....core.features.tensor_classes import TensorBoolean as TensorBoolean
from ....core.features.tensor_classes import TensorDouble as TensorDouble
from ....core.features.tensor_classes import TensorFloat as TensorFloat
from ....core.features.tensor_classes import TensorFloat16Bit as TensorFloat16Bit
from ....core.features.tensor_classes import TensorInt8Bit as TensorInt8Bit
from ....core.features.tensor_classes import TensorInt16Bit as TensorInt16Bit
from ....core.features.tensor_classes import TensorInt32Bit as TensorInt32Bit
from ....core.features.tensor_classes import TensorInt64Bit as TensorInt64Bit
from ....core.features.tensor_classes import TensorString as TensorString
from ....core.features.tensor_classes import TensorUInt8Bit as TensorUInt8Bit
from ....core.features.tensor_classes import TensorUInt16Bit as TensorUInt16Bit
from ....core.features.tensor_classes import TensorUInt32Bit as TensorUInt32Bit
from ....core.features.tensor_classes import TensorUInt64Bit as TensorUInt64Bit
from ....core.model.model import LearningModel as _LearningModel
from ....core.model.operators import Operators as _Operators
from ....core.runtime.device import LearningModelDevice as LearningModelDevice
from ....core.session.options import LearningModelSessionOptions as LearningModelSessionOptions
from ....core.session.session import LearningModelSession as LearningModelSession
from ....enums import LearningModelDeviceKind as LearningModelDeviceKind
from ....enums import LearningModelFeatureKind as LearningModelFeatureKind
from ....enums import LearningModelPixelRange as LearningModelPixelRange
from ....enums import TensorKind as TensorKind


class LearningModel(_LearningModel):
    """A model whose sessions and bindings pass over what Windows ML passes over, without an error or a warning.

    That is: unknown properties of a bind, overrides of dimensions that the model does not have, and pictures for an
    input without a contract. What an exporter wrote into the metadata is not read.
    """

    _is_silent = True


class ILearningModelOperatorProvider(_Object):
    """Provides operators of the program's own, to `load_from_file_path` and the other ways to load.

    Derive from it, and set `operators`: `winml_py.CustomOperator` objects, and paths of shared libraries. Windows ML
    asks the native side of the interface for a registry of COM objects; here an operator is a Python function.
    """

    operators: _Operators = ()


ILearningModelFeatureDescriptor = _FeatureDescriptor
ITensor = _Tensor
ILearningModelFeatureValue = ITensor | ImageFeatureValue

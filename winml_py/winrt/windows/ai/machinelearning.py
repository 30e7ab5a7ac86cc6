"""Windows.AI.MachineLearning: the classes of `winml_py`, ignoring what Windows ML ignores."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Self

from ....core.base.async_operation import AsyncOperation
from ....core.base.messages import type_name
from ....core.base.winrt_object import Object as _Object
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
from ....core.runtime.custom.operator import ModelOperators
from ....core.runtime.custom.operator import Operators as _Operators
from ....core.runtime.device import LearningModelDevice as LearningModelDevice
from ....core.session.options import LearningModelSessionOptions as LearningModelSessionOptions
from ....core.session.result import LearningModelEvaluationResult as LearningModelEvaluationResult
from ....core.session.session import LearningModelBinding as LearningModelBinding
from ....core.session.session import LearningModelSession as LearningModelSession
from ....enums import LearningModelDeviceKind as LearningModelDeviceKind
from ....enums import LearningModelFeatureKind as LearningModelFeatureKind
from ....enums import LearningModelPixelRange as LearningModelPixelRange
from ....enums import TensorKind as TensorKind
from ....errors import InvalidArgumentError


class ILearningModelOperatorProvider(_Object):
    """Provides custom operators to `load_from_file_path` and the other ways to load.

    Derive from it, and set `operators`: `winml_py.CustomOperator` objects, and paths of shared libraries. Windows ML
    gets a registry of COM objects from the interface's native side; here an operator is a Python function.
    """

    operators: _Operators = ()


def _read_operators(provider: ILearningModelOperatorProvider | None) -> ModelOperators:
    if provider is None:
        return ModelOperators()
    operators = getattr(provider, "operators", None)
    if operators is None:
        raise InvalidArgumentError(
            f"{type_name(provider)} provides no operators.",
            hint="Give the provider an attribute `operators`: a list of CustomOperators and paths of shared libraries.",
        )
    return ModelOperators.from_list(operators)


class LearningModel(_LearningModel):
    """A model whose sessions and bindings ignore what Windows ML ignores, without an error or a warning.

    That is: unknown properties of a bind, overrides of dimensions that the model does not have, and pictures for an
    input without a contract. Exporters' metadata are not read.
    """

    _is_silent = True

    @classmethod
    def load_from_file_path(
        cls, file_path: str | os.PathLike[str], operator_provider: ILearningModelOperatorProvider | None = None, /
    ) -> Self:
        """Loads a model from the path to an .onnx file."""
        return cls._load_file(file_path, _read_operators(operator_provider))

    @classmethod
    def load_from_stream(
        cls, stream: BinaryIO, operator_provider: ILearningModelOperatorProvider | None = None, /
    ) -> Self:
        """Loads a model from a stream, read to its end."""
        return cls._load_stream(stream, _read_operators(operator_provider))

    @classmethod
    def load_from_storage_file_async(
        cls, file: Any, operator_provider: ILearningModelOperatorProvider | None = None, /
    ) -> AsyncOperation[Self]:
        """Starts loading from a `StorageFile`, or from a path."""
        return AsyncOperation(lambda _: cls.load_from_file_path(getattr(file, "path", file), operator_provider))

    @classmethod
    def load_from_stream_async(
        cls, stream: BinaryIO, operator_provider: ILearningModelOperatorProvider | None = None, /
    ) -> AsyncOperation[Self]:
        """Starts loading from a stream."""
        return AsyncOperation(lambda _: cls.load_from_stream(stream, operator_provider))

    # pywinrt 3's names
    load_from_file_path_with_operator_provider = load_from_file_path
    load_from_stream_with_operator_provider = load_from_stream
    load_from_storage_file_with_operator_provider_async = load_from_storage_file_async
    load_from_stream_with_operator_provider_async = load_from_stream_async


ILearningModelFeatureDescriptor = _FeatureDescriptor
ITensor = _Tensor
ILearningModelFeatureValue = ITensor | ImageFeatureValue

"""CompiledOperator: one operator, compiled for the types and shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.base.arrays import DType
from ..core.base.winrt_object import Closeable, private_state
from ..core.evaluation.binding import LearningModelBinding
from ..core.features.descriptors import FeatureDescriptor, SequenceFeatureDescriptor, TensorFeatureDescriptor
from ..core.features.tensor import Tensor, over
from ..core.features.tensor_classes import CLASSES_BY_DTYPE, TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.runs import Bound
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, WinMLError
from .arguments import arrange, require_complete
from .node_model import OutputSpec, input_names, node_model, output_names
from .signature import Signature
from .value_types import TensorSequence, TensorValueType, ValueType, describe_type, type_of

if TYPE_CHECKING:
    from ..core.features.resolve import BoundValue


class CompiledOperator(Closeable):
    """A compiled operator: bind, execute, dispose. `compile` makes it.

    As a function, it takes inputs of the types that it was compiled for, and returns its outputs. It can be called from
    any thread. `bind` and `execute` share one binding, as in a session: only one thread may use it at a time.

    Example:
        >>> import numpy as np
        >>> from winml_py import operators
        >>> a, b, out = (np.full((2, 3), number, np.float32) for number in (1, 2, 0))
        >>> with operators.compile("Add", a, b) as add:
        ...     add.bind(a, b, C=out)
        ...     _ = add.execute()
        >>> out.tolist()
        [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]
    """

    def __init__(
        self,
        signature: Signature,
        kinds: Sequence[ValueType],
        outputs: OutputSpec,
        attributes: dict[str, Any],
        device: LearningModelDevice | None,
        options: LearningModelSessionOptions,
    ) -> None:
        """Use `operators.compile`."""
        self._signature, self._kinds = signature, tuple(kinds)
        require_complete(signature, kinds, attributes)
        names = output_names(signature, outputs, attributes)
        self._outputs = [name for name in names if name]
        if isinstance(outputs, tuple):
            self._outputs = list(outputs)  # in the requested order
        try:
            self._model = LearningModel.load(node_model(signature, kinds, names, attributes).SerializeToString())
            self._session = LearningModelSession(self._model, device, options)
        except InvalidArgumentError:  # the error already names the operator
            raise
        except WinMLError as error:
            raise self._refuse(error) from error
        self._names = input_names(signature, len(kinds))
        self._sequences = _sequences(self._model.output_features)
        self._binding: LearningModelBinding | None = None
        self._session_state = private_state(self._session)
        # On other devices the session watches for a lost device.
        self._is_on_cpu = self._session.device.hardware == "cpu"

    def _refuse(self, error: WinMLError) -> WinMLError:
        types = ", ".join(map(describe_type, self._kinds)) or "no input"
        where = self._signature.domain or "ai.onnx"
        return type(error)(
            f"The operator {self._signature.name} of {where} {self._signature.opset} cannot be compiled for {types}: "
            f"{error.message}",
            hint=error.hint or "Check the types, the shapes and the attributes.",
            hresult=error.hresult,
        )

    @property
    def name(self) -> str:
        """The operator's name."""
        return self._signature.name

    @property
    def model(self) -> LearningModel:
        """The compiled model of one node: its features are the operator's inputs and outputs."""
        return self._model

    @property
    def session(self) -> LearningModelSession:
        """The session that runs the operator."""
        return self._session

    def bind(self, *inputs: BoundValue | None, **named: BoundValue) -> None:
        """Binds inputs in their order, and inputs and outputs by name, for `execute`.

        Arrays are bound by reference: write to them, and execute again. An array or a tensor that is bound to an output
        is written in place. Values stay bound.

        Raises:
            InvalidBindingError: no such input or output, or a value of the wrong type.
            SizeMismatchError: a value of the wrong shape.
            ClosedError: the operator has been disposed of.
        """
        if len(inputs) > len(self._names):
            raise InvalidArgumentError(
                f"{self.name} was compiled for {len(self._names)} inputs, got {len(inputs)}.",
                hint=f"They are {', '.join(self._names)}.",
            )
        if self._binding is None:
            self._binding = LearningModelBinding(self._session)
        pairs = {name: value for name, value in zip(self._names, inputs, strict=False) if value is not None}
        for name, value in (pairs | named).items():
            self._binding.bind(name, value)

    def execute(self, *, timeout: float | None = None) -> Any:
        """Runs the operator on the bound values.

        Args:
            timeout: seconds after which the run is stopped.

        Returns:
            The output, or a tuple of several. For a bound output, the bound value itself; for the others,
            new arrays, lists or dicts.

        Raises:
            MissingInputError: an input has not been bound.
            WinMLError: as in `LearningModelSession.evaluate`.
        """
        binding = self._binding if self._binding is not None else LearningModelBinding(self._session)
        outputs = self._session.evaluate(binding, timeout=timeout).outputs
        return self._result({name: value if name in binding else _plain(value) for name, value in outputs.items()})

    def __call__(self, *inputs: object, **named: object) -> Any:
        """Runs the operator on these inputs, of the types and shapes that it was compiled for."""
        values, attributes = arrange(self._signature, inputs, named)
        require_complete(self._signature._replace(attributes={}), values, attributes)
        for name, kind, value in zip(self._names, self._kinds, values, strict=False):
            if (kind is None) != (value is None):
                raise InvalidArgumentError(
                    f"{self.name} was compiled {'without' if kind is None else 'with'} its input {name}.",
                    hint="Compile it again for these inputs.",
                )
            if isinstance(kind, TensorValueType) and not _fits(value, kind):
                raise InvalidArgumentError(
                    f"{self.name} was compiled for {describe_type(kind)} as its input {name}, got "
                    f"{describe_type(type_of(value))}.",
                    hint="Convert the value, or compile the operator again.",
                )
        return self.run(values)

    def run(self, values: Sequence[Any]) -> Any:
        """Like a call, with values that fit: arrays, tensors, lists and dicts in the schema's order.

        Returns:
            Arrays; or tensors, if an input is one, which stay on the device if an input is there.
        """
        engine = self._session_state.require_open()  # a forked process must not use its parent's engine
        pairs = dict(zip(self._names, values, strict=False))
        if None in self._kinds:
            pairs = {name: value for name, value in pairs.items() if value is not None}
        tensors = [value for value in values if isinstance(value, Tensor)]
        if not self._is_on_cpu or any(private_state(tensor).device_array is not None for tensor in tensors):
            return self._result(self._evaluate(pairs, tensors))
        arrays = {name: value.to_numpy() if isinstance(value, Tensor) else value for name, value in pairs.items()}
        outputs = engine.run(Bound(arrays, lock=self._session_state.lock))
        return self._result({name: _as_tensor(value) for name, value in outputs.items()} if tensors else outputs)

    def _evaluate(self, pairs: Mapping[str, Any], tensors: Sequence[Tensor]) -> dict[str, Any]:
        binding = LearningModelBinding(self._session)
        for name, value in pairs.items():
            binding.bind(name, value)
        if any(private_state(tensor).device_array is not None for tensor in tensors):
            for feature in self._model.output_features:
                if isinstance(feature, TensorFeatureDescriptor):
                    empty = TENSOR_CLASSES[feature.tensor_kind].create()
                    binding.bind(feature.name, empty, {"DisableTensorCpuSync": True})
        outputs = self._session.evaluate(binding).outputs
        return dict(outputs) if tensors else {name: _plain(value) for name, value in outputs.items()}

    def _result(self, outputs: Mapping[str, Any]) -> Any:
        values = [outputs[name] for name in self._outputs]
        if self._sequences:
            dtypes = [self._sequences.get(name) for name in self._outputs]
            pairs = zip(dtypes, values, strict=True)
            values = [value if dtype is None else TensorSequence(dtype, value) for dtype, value in pairs]
        return values[0] if len(values) == 1 else tuple(values)

    def dispose(self) -> None:
        """Frees the compiled operator. Calling it twice is harmless."""
        self._binding = None
        self._session.close()
        self._model.dispose()

    close = dispose

    def __repr__(self) -> str:
        return f"<CompiledOperator {self.name}: {', '.join(map(describe_type, self._kinds))}>"


def _fits(value: Any, kind: TensorValueType) -> bool:
    """Whether a value is a tensor of the compiled dtype and rank; the engine checks the sizes."""
    is_tensor = isinstance(value, (np.ndarray, Tensor))
    return is_tensor and value.dtype == kind.dtype and len(value.shape) == len(kind.shape)


def _sequences(features: Sequence[FeatureDescriptor]) -> dict[str, DType]:
    """The outputs that are sequences of tensors, and their types, which an empty list does not show."""
    elements = {
        feature.name: feature.element_descriptor
        for feature in features
        if isinstance(feature, SequenceFeatureDescriptor)
    }
    return {
        name: TENSOR_CLASSES[element.tensor_kind].dtype
        for name, element in elements.items()
        if isinstance(element, TensorFeatureDescriptor) and element.tensor_kind in TENSOR_CLASSES
    }


def _as_tensor(value: Any) -> Any:
    """An array as a tensor over its memory; other values as they are."""
    is_known = isinstance(value, np.ndarray) and value.dtype in CLASSES_BY_DTYPE
    return over(CLASSES_BY_DTYPE[value.dtype], value) if is_known else value


def _plain(value: object) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return value.to_numpy() if isinstance(value, Tensor) else value

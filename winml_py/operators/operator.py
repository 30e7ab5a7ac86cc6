"""Operators as functions, and the same in steps. A compiled operator is a session of a model of one node."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from onnx import NodeProto

from .._values import make_output_tensors
from ..core.base.agreement import as_numpy
from ..core.base.winrt_object import Closeable
from ..core.features.tensor import Tensor
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelBinding, LearningModelSession
from ..errors import CorruptModelError, DeviceLostError, InvalidArgumentError, WinMLError
from .node import (
    TensorDesc,
    ValueType,
    describe_type,
    infer_type,
    list_names,
    make_node,
    make_node_model,
    sort_arguments,
)
from .schemas import Signature, find_schema, find_signature, make_doc

CACHE_SIZE = 128
"""The number of compiled operators that functions keep."""

_SMALL = 1 << 16
"""Operators with inputs of fewer bytes get one thread: waking others takes longer than the work."""

_WRONG_TYPES = re.compile("Type Error|ShapeInferenceError")
"""What the runtime calls types and shapes that an operator does not take, among the failures of all kinds."""

_WRONG_MODEL = re.compile(r"This is an invalid model\. (In Node, .* , Error )?")
"""What the runtime says before its reason, about a model that the caller has not seen."""


class CompiledOperator(Closeable):
    """A compiled operator: bind, execute, dispose. `compile` makes it.

    As a function, it takes inputs of the types that it was compiled for, and returns its outputs. It can be called from
    any thread. `bind` and `execute` share one binding, as in a session: only one thread may use it at a time.

    Attributes:
        name: the operator's name.
        model: the model of one node: its features are the operator's inputs and outputs.
        session: the session that runs the operator.

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
        node: NodeProto,
        types: Sequence[ValueType],
        device: LearningModelDevice | None,
        options: LearningModelSessionOptions | None,
    ) -> None:
        """Use `operators.compile`."""
        self.name = signature.name
        self._signature = signature
        self._names = list_names(signature.inputs, len(types))
        try:
            self.model = LearningModel.load(make_node_model(node, signature.opset, types))
            self.session = LearningModelSession(self.model, device, options or _make_default_options(types))
        except WinMLError as error:
            described = ", ".join(map(describe_type, types)) or "no input"
            # The model is made of the arguments: where the runtime finds it wrong, they are.
            is_invalid = isinstance(error, CorruptModelError) or bool(_WRONG_TYPES.search(error.message))
            reason = _WRONG_MODEL.sub("", error.message).rstrip(".")
            kind = InvalidArgumentError if is_invalid else type(error)
            raise kind(
                f"The operator {self.name} of {signature.domain or 'ai.onnx'} {signature.opset} cannot be compiled for "
                f"{described}: {reason}.",
                hint=error.hint or f"To see its inputs and attributes, call help(operators.{self.name}).",
                hresult=None if is_invalid else error.hresult,
            ) from error
        self._binding = LearningModelBinding(self.session)

    def bind(self, *inputs: Any, **named: Any) -> None:
        """Binds inputs in their order, and inputs and outputs by name, for `execute`.

        Arrays are bound by reference: write to them, and execute again. An array or a tensor that is bound to an output
        is written in place. Values stay bound.

        Raises:
            InvalidBindingError: no such input or output, or a value of the wrong type.
            InvalidArgumentError: too many inputs, or one twice.
            SizeMismatchError: a value of the wrong shape.
            ClosedError: the operator has been disposed of.
        """
        positional = self._name_values(inputs)
        if twice := positional.keys() & named:
            raise InvalidArgumentError(f"{self.name} got the input {min(twice)} twice.", hint="Pass it once.")
        for name, value in {**positional, **named}.items():
            self._binding.bind(name, value)

    def execute(self, *, timeout: float | None = None) -> Any:
        """Runs the operator on the bound values.

        Args:
            timeout: seconds after which a run that goes on is stopped.

        Returns:
            The output, or a tuple of several. For a bound output, the bound value itself; for the others,
            new arrays, lists or dicts.

        Raises:
            MissingInputError: an input has not been bound.
            WinMLError: as in `LearningModelSession.evaluate`.
        """
        outputs = self.session.evaluate(self._binding, timeout=timeout).outputs
        return _unwrap_single([value if name in self._binding else as_numpy(value) for name, value in outputs.items()])

    def __call__(self, *inputs: object, **named: object) -> Any:
        """Runs the operator on these inputs, of the types and shapes that it was compiled for."""
        values, _ = sort_arguments(self._signature._replace(attributes={}), inputs, named)
        return self.run(values)

    def run(self, values: Sequence[Any]) -> Any:
        """Like a call, with values in the schema's order.

        Returns:
            Arrays; or tensors, if an input is one, which stay on the device if an input is there.
        """
        features = self._name_values(values)
        tensors = [value for value in values if isinstance(value, Tensor)]
        if any(tensor.is_on_device for tensor in tensors):
            binding = LearningModelBinding(self.session)
            for name, value in features.items():
                binding.bind(name, value)
            for name, tensor in make_output_tensors(self.model).items():
                binding.bind(name, tensor, {"DisableTensorCpuSync": True})
            outputs = self.session.evaluate(binding).outputs
        else:
            outputs = self.session.evaluate_features(features).outputs
        return _unwrap_single([value if tensors else as_numpy(value) for value in outputs.values()])

    def _name_values(self, values: Sequence[Any]) -> dict[str, Any]:
        if len(values) > (count := len(self._names)):
            raise InvalidArgumentError(
                f"{self.name} was compiled for {count} input{'s' * (count != 1)}, got {len(values)}.",
                hint=f"Pass {', '.join(self._names)}." if count else "Call it without values.",
            )
        pairs = zip(self._names, values, strict=False)
        return {name: value for name, value in pairs if value is not None}

    def dispose(self) -> None:
        """Frees the compiled operator. Calling it twice is harmless."""
        self.session.close()
        self.model.dispose()

    close = dispose


def _make_default_options(types: Sequence[ValueType]) -> LearningModelSessionOptions:
    """Many operators are cached at once, so their threads must not spin, and small ones have no threads."""
    byte_count = 0
    for kind in types:
        if isinstance(kind, TensorDesc):
            byte_count += kind.dtype.itemsize * math.prod(size for size in kind.shape if isinstance(size, int))
    options = LearningModelSessionOptions()
    options.intra_op_thread_spinning = False
    if byte_count < _SMALL:
        options.intra_op_num_threads = 1
    return options


def _unwrap_single(outputs: list[Any]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


class Operator:
    """An operator as a function; see `winml_py.operators`."""

    def __init__(self, name: str) -> None:
        find_schema(name)  # refuses an unknown one
        self.__name__ = self.__qualname__ = name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The schema's documentation."""
        return make_doc(self.__name__)

    def __call__(
        self,
        *inputs: Any,
        device: LearningModelDevice | None = None,
        opset: int | None = None,
        domain: str | None = None,
        outputs: int | None = None,
        **named: Any,
    ) -> Any:
        """Runs the operator; see `winml_py.operators`."""
        signature = find_signature(self.__name__, domain, opset)
        values, attributes = sort_arguments(signature, inputs, named)
        node = make_node(signature, values, attributes, outputs)
        # Sessions do not survive a fork, so each process compiles its own.
        key = node.SerializeToString(), domain, opset, tuple(map(infer_type, values)), device, os.getpid()
        try:
            return _compile_cached(*key).run(values)
        except DeviceLostError:  # a new device equals the lost one, whose operators are useless
            clear_cache()
            raise


@lru_cache(CACHE_SIZE)
def _compile_cached(
    data: bytes,
    domain: str | None,
    opset: int | None,
    types: tuple[ValueType, ...],
    device: LearningModelDevice | None,
    process: int,
) -> CompiledOperator:
    """The compiled operator of a node for these types; those that were used last are kept."""
    node = NodeProto.FromString(data)
    return CompiledOperator(find_signature(node.op_type, domain, opset), node, types, device, None)


def compile(  # noqa: A001 - read as operators.compile, like re.compile
    name: str,
    /,
    *inputs: object,
    device: LearningModelDevice | None = None,
    opset: int | None = None,
    domain: str | None = None,
    outputs: int | None = None,
    options: LearningModelSessionOptions | None = None,
    **named: object,
) -> CompiledOperator:
    """Compiles an operator for the types and shapes of inputs, to be bound and executed step by step.

    Args:
        name: the operator's name: "Conv".
        inputs: arrays, tensors, lists and dicts, whose values are ignored; `TensorDesc`, which has none; None for an
            omitted one.
        device: where it runs; the CPU by default.
        opset: the version of the operators; by default 23, or the first that has it.
        domain: "" is ONNX's own; by default it is looked for there, in `ai.onnx.ml`, and in `com.microsoft`.
        outputs: how many outputs; by default those that it always has.
        options: of the session.
        named: inputs and attributes by name.

    Raises:
        InvalidArgumentError: an unknown operator, input or attribute, or one that is missing.
        WinMLError: the operator cannot be compiled; the message names it and the types.

    Example:
        >>> import numpy as np
        >>> from winml_py import operators
        >>> pool = operators.compile("MaxPool", np.zeros((1, 1, 4, 4), np.float32), kernel_shape=[2, 2], strides=[2, 2])
        >>> pool.bind(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
        >>> pool.execute().tolist()
        [[[[5.0, 7.0], [13.0, 15.0]]]]
        >>> pool.dispose()
    """
    signature = find_signature(name, domain, opset)
    values, attributes = sort_arguments(signature, inputs, named)
    node = make_node(signature, values, attributes, outputs)
    return CompiledOperator(signature, node, [infer_type(value) for value in values], device, options)


def clear_cache() -> None:
    """Disposes of all cached operators; the next calls compile them again."""
    _compile_cached.cache_clear()

"""Operators as functions, and the same in steps; compiled operators are cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..core.base import child_process
from ..core.features.tensor import Tensor
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..errors import DeviceLostError, InvalidArgumentError
from .arguments import are_plain, arrange
from .compiled_operator import CompiledOperator
from .node_model import OutputSpec
from .signature import doc_of, find_schema, signature_of
from .value_types import type_of


class OperatorCache:
    """Compiled operators by key: when full, it drops the least recently used. A call keeps its operator alive."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._begin()
        child_process.watch_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._operators: OrderedDict[Hashable, CompiledOperator] = OrderedDict()

    in_child = _begin  # sessions do not survive a fork

    def __len__(self) -> int:
        return len(self._operators)

    def get(self, key: Hashable, create: Callable[[], CompiledOperator]) -> CompiledOperator:
        """The operator under `key`; if there is none, `create` makes it."""
        with self._lock:
            if (found := self._operators.get(key)) is not None:
                self._operators.move_to_end(key)
                return found
        made = create()  # without the lock, because compiling takes time
        with self._lock:
            found = self._operators.setdefault(key, made)
            dropped = self._operators.popitem(last=False) if len(self._operators) > self._size else None
        del dropped  # without the lock, because this frees an engine
        return found

    def clear(self) -> None:
        """Drops everything."""
        with self._lock:
            dropped, self._operators = self._operators, OrderedDict()
        del dropped


CACHE_SIZE = 128
"""The cache of compiled operators."""

_SMALL = 1 << 16
"""Operators with inputs of fewer bytes get one thread: waking others takes longer than the work."""

_PLAIN = frozenset((int, float, bool, str, bytes))
"""Types that `repr` writes completely."""

_cache = OperatorCache(CACHE_SIZE)


class Operator:
    """An operator as a function; see `winml_py.operators`."""

    def __init__(self, name: str) -> None:
        find_schema(name)  # refuses an unknown one
        self.__name__ = self.__qualname__ = name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """The schema's documentation."""
        return doc_of(self.__name__)

    def __call__(
        self,
        *inputs: Any,
        device: LearningModelDevice | None = None,
        opset: int | None = None,
        domain: str | None = None,
        outputs: int | Sequence[str] | None = None,
        **named: Any,
    ) -> Any:
        """Runs the operator; see `winml_py.operators`."""
        values: Sequence[Any]
        kinds: tuple[Any, ...]
        signature = signature_of(self.__name__, domain, opset)
        if are_plain(signature, inputs, named):
            values, attributes = inputs, named
            kinds = tuple([(value.dtype, value.shape) for value in inputs])  # equal to `type_of`'s result, and faster
        else:
            values, attributes = arrange(signature, inputs, named)
            kinds = tuple(map(type_of, values))
        output_spec = _output_spec(outputs)
        key = (self.__name__, domain, opset, output_spec, device, kinds, _key(attributes))

        def compile_operator() -> CompiledOperator:
            exact = list(map(type_of, values))
            return CompiledOperator(signature, exact, output_spec, attributes, device, _options(values))

        try:
            return _cache.get(key, compile_operator).run(values)
        except DeviceLostError:  # a new device equals the lost one, whose operators are useless
            _cache.clear()
            raise

    def __repr__(self) -> str:
        return f"<operator {self.__name__}>"


def compile(  # noqa: A001 - read as operators.compile, like re.compile
    name: str,
    /,
    *inputs: object,
    device: LearningModelDevice | None = None,
    opset: int | None = None,
    domain: str | None = None,
    outputs: int | Sequence[str] | None = None,
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
        outputs: how many outputs, or their names; by default those that it always has.
        options: of the session.
        named: inputs and attributes by name.

    Raises:
        InvalidArgumentError: an unknown operator, input, attribute or output, or types that it does not take.
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
    signature = signature_of(name, domain, opset)
    values, attributes = arrange(signature, inputs, named)
    kinds = list(map(type_of, values))
    return CompiledOperator(signature, kinds, _output_spec(outputs), attributes, device, options or _options(values))


def clear_cache() -> None:
    """Disposes of all cached operators; the next calls compile them again."""
    _cache.clear()


def _output_spec(outputs: int | Sequence[str] | None) -> OutputSpec:
    if outputs is None or (isinstance(outputs, int) and not isinstance(outputs, bool)):
        return outputs
    names = tuple(outputs) if isinstance(outputs, Sequence) and not isinstance(outputs, str) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"outputs is {outputs!r}.", hint="Expected a number, or a list of names.")
    return names


def _options(values: Sequence[object]) -> LearningModelSessionOptions:
    """Many operators are cached at once, so their threads must not spin, and small ones have no threads."""
    options = LearningModelSessionOptions()
    options.intra_op_thread_spinning = False
    if sum(value.nbytes for value in values if isinstance(value, np.ndarray)) < _SMALL:
        options.intra_op_num_threads = 1
    return options


def _key(value: object) -> Hashable:
    """Equal for equal attributes only: 1 and 1.0 are different attributes, and so are 0.0 and -0.0."""
    if isinstance(value, dict):
        return tuple([(name, _key(item)) for name, item in value.items()])
    if isinstance(value, (list, tuple)) and not _PLAIN.issuperset(map(type, value)):
        return tuple(map(_key, value))
    if isinstance(value, Tensor):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        data = tuple(value.reshape(-1)) if value.dtype.kind in "OU" else value.tobytes()
        return (value.dtype, value.shape, data)
    if hasattr(value, "SerializeToString"):
        return (type(value), value.SerializeToString(deterministic=True))
    return (type(value), repr(value))

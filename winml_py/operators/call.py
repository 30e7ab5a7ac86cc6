"""Operators as functions, and the same in steps; what is compiled of them is kept."""

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
from ..errors import InvalidArgumentError
from .arguments import are_plain, arrange
from .compiled_operator import CompiledOperator
from .node_model import OutputSpec
from .signature import doc_of, require_known, signature_of
from .value_types import type_of


class OperatorCache:
    """Compiled operators by key: beyond a size, the least recently used is dropped. A call keeps its operator alive."""

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
        """The operator under `key`, which `create` makes where there is none."""
        with self._lock:
            if (found := self._operators.get(key)) is not None:
                self._operators.move_to_end(key)
                return found
        made = create()  # without the lock: to compile takes time
        with self._lock:
            found = self._operators.setdefault(key, made)
            dropped = self._operators.popitem(last=False) if len(self._operators) > self._size else None
        del dropped  # nor is an engine freed with the lock held
        return found

    def clear(self) -> None:
        """Drops everything."""
        with self._lock:
            dropped, self._operators = self._operators, OrderedDict()
        del dropped


CACHE_SIZE = 128
"""Compiled operators that are kept."""

_SMALL = 1 << 16
"""Bytes of inputs below which an operator gets one thread: to wake others takes longer than the work."""

_PLAIN = frozenset((int, float, bool, str, bytes))
"""Types that `repr` spells in full."""

_cache = OperatorCache(CACHE_SIZE)


class Operator:
    """An operator as a function; see `winml_py.operators`."""

    def __init__(self, name: str) -> None:
        require_known(name)
        self.__name__ = self.__qualname__ = name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """What the schema says."""
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
            kinds = tuple([(value.dtype, value.shape) for value in inputs])  # equal to what `type_of` gives, and sooner
        else:
            values, attributes = arrange(signature, inputs, named)
            kinds = tuple(map(type_of, values))
        output_spec = _output_spec(outputs)
        key = (self.__name__, domain, opset, output_spec, device, kinds, _key(attributes))

        def compile_operator() -> CompiledOperator:
            exact = list(map(type_of, values))
            return CompiledOperator(signature, exact, output_spec, attributes, device, _options(values))

        return _cache.get(key, compile_operator).run(values)

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
        name: the operator's: "Conv".
        inputs: arrays, tensors, lists and dicts, whose numbers do not count; `TensorDesc`, which needs none; None for
            one that is left out.
        device: where it runs; the CPU by default.
        opset: the version of the operators; by default 23, or the first that has it.
        domain: "" is ONNX's own; by default it is looked for there, in `ai.onnx.ml`, and in `com.microsoft`.
        outputs: how many of its outputs, or their names; by default those that it always has.
        options: of the session.
        named: inputs and attributes by name.

    Raises:
        InvalidArgumentError: there is no such operator, input, attribute or output, or it does not take these types.
        WinMLError: it cannot be compiled; the message names the operator and the types.

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
    """Disposes of all operators that calls have compiled; the next calls compile theirs again."""
    _cache.clear()


def _output_spec(outputs: int | Sequence[str] | None) -> OutputSpec:
    if outputs is None or (isinstance(outputs, int) and not isinstance(outputs, bool)):
        return outputs
    names = tuple(outputs) if isinstance(outputs, Sequence) and not isinstance(outputs, str) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"outputs is {outputs!r}.", hint="Pass how many, or a list of their names.")
    return names


def _options(values: Sequence[object]) -> LearningModelSessionOptions:
    """Many operators are kept at once, so that no threads of theirs may spin, and small ones have none."""
    options = LearningModelSessionOptions()
    options.intra_op_thread_spinning = False
    if sum(value.nbytes for value in values if isinstance(value, np.ndarray)) < _SMALL:
        options.intra_op_num_threads = 1
    return options


def _key(value: object) -> Hashable:
    """Equal for equal attributes alone: 1 and 1.0 are different attributes, and so are 0.0 and -0.0."""
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

"""Operators as functions, and the same in steps; what is compiled of them is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType
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


class _Entry:
    """A compiled operator, how many calls use it, and whether the cache has dropped it."""

    __slots__ = ("compiling", "is_dropped", "operator", "users")

    def __init__(self) -> None:
        self.operator: CompiledOperator | None = None
        self.users = 0
        self.is_dropped = False
        self.compiling = threading.Lock()


class OperatorCache:
    """Compiled operators by key. What is dropped is disposed of when the last call that uses it returns.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._begin()
        child_process.watch_forks(self)

    def _begin(self) -> None:
        # Reentrant: the garbage collector may run a call's end inside a locked region.
        self._lock = threading.RLock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    in_child = _begin  # sessions do not survive a fork, and must not be closed in the child

    def __len__(self) -> int:
        return len(self._entries)

    def lent(self, key: Hashable, create: Callable[[], CompiledOperator]) -> Loan:
        """The operator under `key`, for the length of a `with` block; `create` makes it where there is none.

        Threads that ask for one key at once wait for one of them to compile; different keys are compiled at a time.

        Raises:
            WinMLError: what `create` raises, when the block is entered.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry()
            else:
                self._entries.move_to_end(key)
            entry.users += 1
        return Loan(self, key, entry, create)

    def release(self, key: Hashable, entry: _Entry) -> None:
        """Ends a call."""
        with self._lock:
            entry.users -= 1
            if entry.operator is None and self._entries.get(key) is entry:
                del self._entries[key]  # it could not be compiled
            dropped = [] if len(self._entries) <= self._size else [self._entries.popitem(last=False)[1]]
            for old in dropped:
                old.is_dropped = True
            closing = {each for each in (*dropped, entry) if each.is_dropped and not each.users}
        _dispose(closing)

    def clear(self) -> None:
        """Drops everything."""
        with self._lock:
            dropped = list(self._entries.values())
            self._entries.clear()
            for entry in dropped:
                entry.is_dropped = True
            closing = {entry for entry in dropped if not entry.users}
        _dispose(closing)


def _dispose(entries: set[_Entry]) -> None:
    """Without the lock: to free an engine takes time."""
    for entry in entries:
        operator, entry.operator = entry.operator, None
        if operator is not None:
            operator.dispose()


class Loan:
    """The use of a compiled operator in a `with` block."""

    __slots__ = ("_cache", "_create", "_entry", "_key")

    def __init__(self, cache: OperatorCache, key: Hashable, entry: _Entry, create: Callable[[], CompiledOperator]):
        self._cache, self._key, self._entry, self._create = cache, key, entry, create

    def __enter__(self) -> CompiledOperator:
        entry = self._entry
        if entry.operator is not None:
            return entry.operator
        try:
            with entry.compiling:
                if entry.operator is None:
                    entry.operator = self._create()
                return entry.operator
        except BaseException:
            self._cache.release(self._key, entry)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cache.release(self._key, self._entry)


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

        with _cache.lent(key, compile_operator) as operator:
            return operator.run(values)

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

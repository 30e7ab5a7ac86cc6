"""The values bound for a run, and the common parts of all engines' runs: stops, errors, copies, freeing memory."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

from ...errors import ClosedError, EvaluationError, SizeMismatchError, WinMLError
from ..base import child_process
from ..base.arrays import Array, DeviceArray
from ..base.cancellation import Stop
from ..base.messages import type_name

T = TypeVar("T")

Value = Array | list[Any] | dict[Any, Any]
"""An input or output of an engine: a tensor (strings as an array of objects), a sequence or a map."""

UNLOCKED = nullcontext()
"""For devices that need no lock."""


class StaysOnDevice:
    """Bound to an output that stays in the device's memory: a run returns it as a `DeviceArray`.

    If the output's shape is fixed, later runs overwrite the same memory, until another `StaysOnDevice` is bound.
    """


class Bound:
    """The values and memory for one evaluation. One thread at a time binds to it and runs it.

    Attributes:
        inputs: values by name. Each run reads the current contents of arrays.
        outputs: memory, or `StaysOnDevice`, by name. Each run allocates the other outputs, and the caller owns them.
        lock: the session's, which an engine holds while it uses a device.
        version: counts what is bound anew.
        natives: by engine, what it keeps for the next run, such as its I/O binding.
    """

    __slots__ = ("inputs", "lock", "natives", "outputs", "version")

    def __init__(
        self,
        inputs: Mapping[str, Value | DeviceArray] | None = None,
        outputs: Mapping[str, Array | DeviceArray | StaysOnDevice] | None = None,
        lock: AbstractContextManager[object] = UNLOCKED,
    ) -> None:
        self.inputs = {} if inputs is None else dict(inputs)
        self.outputs = {} if outputs is None else dict(outputs)
        self.lock = lock
        self.version = 0
        self.natives: dict[object, Any] = {}

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        """Binds an input to a value, which each run reads; engines notice the new version."""
        self.inputs[name] = value
        self.version += 1

    def set_output(self, name: str, memory: Array | DeviceArray | StaysOnDevice | None) -> None:
        """Binds an output; None lets the engine allocate it."""
        self.version += 1
        if memory is None:
            self.outputs.pop(name, None)
        else:
            self.outputs[name] = memory


def call(function: Callable[..., T], translate: Callable[[Exception], WinMLError], *arguments: object) -> T:
    """Calls into a runtime. Its errors become WinMLErrors, without the frames that raised them.

    Those frames hold native sessions, which a stored error would keep alive: they are freed here, while the caller
    holds the device's lock.
    """
    try:
        return function(*arguments)
    except Exception as error:  # the runtimes' classes have no common base
        failure = translate(error).with_traceback(None)
    failure.__context__ = None
    del function, arguments  # the traceback holds this frame, and the frame would hold them
    try:
        raise failure
    finally:
        del failure  # frame and error would refer to each other until garbage is collected


@contextmanager
def translate_errors(translate: Callable[[Exception], WinMLError]) -> Iterator[None]:
    """Within the block, errors of a runtime become WinMLErrors.

    They are raised after the `except`: the runtime's error, whose frames hold native sessions, is not their context.
    """
    try:
        yield
    except Exception as error:  # the runtimes' classes have no common base
        failure = translate(error)
    else:
        return
    raise failure


@contextmanager
def end_on_stop(stop: Stop, terminate: Callable[[], None]) -> Iterator[None]:
    """Within the block, `stop` calls `terminate`; raises CanceledError in place of the providers' different errors."""
    with stop.call_on_request(terminate):
        try:
            yield
        except Exception:
            stop.require_not_requested()
            raise


def require_open(native: T | None) -> T:
    """Returns an engine's object of the runtime, which is None once the engine is closed.

    Raises:
        ClosedError: the engine was closed before the call, or during it.
    """
    if native is None:
        raise ClosedError(
            "The session has been closed.",
            hint="Create another session from the model. You can still read the properties of this one.",
        )
    return native


def fill(outputs: Mapping[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """Copies the results of a run into the host's arrays that are bound to outputs.

    Args:
        outputs: the bound memory, by the outputs' names.
        fresh: the results; the copied ones are removed.

    Returns:
        The other results.

    Raises:
        EvaluationError: a function in the place of an engine gave no array, or one of another type.
        SizeMismatchError: an output does not fit its memory.
    """
    for name, array in outputs.items():
        if isinstance(array, np.ndarray):
            value = fresh.pop(name, None)
            if not isinstance(value, np.ndarray) or value.dtype != array.dtype:
                actual = getattr(value, "dtype", type_name(value))
                raise EvaluationError(
                    f"The output {name} is {actual}, but the model declares {array.dtype}.",
                    hint="Correct the type that the model declares or that your Python function returns.",
                )
            if value.shape != array.shape:
                raise make_output_shape_error(name, array.shape, value.shape)
            np.copyto(array, value)
    return fresh


def make_output_shape_error(name: str, bound: tuple[int, ...], computed: tuple[int, ...]) -> SizeMismatchError:
    """The error for an output that does not fit the memory it is bound to; its name is "" if unknown."""
    what = f"The model variable {name}" if name else "An output"
    return SizeMismatchError(
        f"{what} was bound to memory of shape {bound}, but has the shape {computed}.",
        hint="Bind an empty tensor such as TensorFloat.create(), which takes any shape.",
    )


class InputAddresses:
    """The arrays that a runtime reads by address: the inputs themselves, or copies of them.

    A runtime gets an address without strides, so arrays that are not C-contiguous are copied. It may write an output
    before it has read an input, so an input in the memory of an output is copied.

    Args:
        takes_read_only: whether the runtime accepts read-only memory; otherwise that is copied, too.

    Attributes:
        copies: pairs of a bound array, and the copy that is read.
    """

    def __init__(self, takes_read_only: bool = True) -> None:
        self._takes_read_only = takes_read_only
        self._read: dict[str, tuple[Array, Array]] = {}  # by input: the bound array, and the one that the engine reads
        self.copies: list[tuple[Array, Array]] = []

    def renew(self, values: Mapping[str, Any], outputs: Collection[Array], bind: Callable[[str, Array], None]) -> None:
        """Calls `bind` for each input whose address has changed."""
        for name, value in values.items():
            before, read = self._read.get(name, (None, None))
            flags = value.flags
            needs_copy = not flags.c_contiguous or not (self._takes_read_only or flags.writeable)
            needs_copy = needs_copy or any(np.may_share_memory(value, output) for output in outputs)
            has_copy = read is not value
            if before is not value or needs_copy != has_copy:
                read = value.copy() if needs_copy else value
                bind(name, read)
                self._read[name] = value, read  # frees the previous arrays, which the runtime no longer reads
        self.copies = [pair for pair in self._read.values() if pair[0] is not pair[1]]

    def refresh(self) -> None:
        """Updates the copies from their arrays, before a run."""
        for value, copy in self.copies:
            np.copyto(copy, value)


def trim_heap() -> None:
    """Makes the C library return freed memory to the system; only glibc keeps enough to need this.

    Without it, hundreds of megabytes of a closed session can stay resident for the life of the process.
    """
    if sys.platform == "linux" and not sys.is_finalizing():
        import ctypes

        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):  # musl has no such function
            library.malloc_trim(0)


class NativeModel:
    """A runtime's compiled model. Closing it closes its bindings: each drops the compiled model, a run in flight holds
    the last reference, and the memory is freed when that run returns.
    """

    def __init__(self, native: Any, device_lock: AbstractContextManager[object] = UNLOCKED) -> None:
        self._native: Any = native
        self._bindings: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()  # guards the set of bindings; runs do not take this lock
        self._device_lock = device_lock
        child_process.watch_forks(self)

    def _close_with_this(self, binding: Any) -> None:
        with self._lock:
            self._bindings.add(binding)
        if self._native is None:  # closed by another thread meanwhile
            binding.close()

    def close(self) -> None:
        """Drops the compiled model: it is freed here, or when the last run in flight returns."""
        native, self._native = self._native, None
        with self._lock:  # not within the device's lock: a binding that is garbage-collected here takes that
            bindings = list(self._bindings)
        with self._device_lock:
            for binding in bindings:
                binding.close()
            del bindings, native
        trim_heap()

    def handle_fork(self) -> None:
        """After a fork, keeps everything: freeing would wait for the runtime's threads, which are the parent's."""
        for thing in (self, *self._bindings):
            child_process.keep_forever(thing)

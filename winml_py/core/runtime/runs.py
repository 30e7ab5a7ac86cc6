"""What a run is made of, and what the runs of every engine share: stops, errors, copies, memory that is freed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

from ...errors import ClosedError, SizeMismatchError, WinMLError
from ..base.arrays import Array, DeviceArray
from ..base.cancellation import Stop

T = TypeVar("T")

Value = Array | list[Any] | dict[Any, Any]
"""A tensor (strings as an array of objects), a sequence or a map, as it goes into and comes out of an engine."""

UNLOCKED = nullcontext()
"""The lock of a device that needs none."""


class Kept:
    """What is bound to an output that stays in the device's memory: a run gives it as a `DeviceArray`.

    Where the output's shape is fixed, later runs write the same memory again, until another `Kept` is bound.
    """


class Bound:
    """What one evaluation is made of. One thread at a time binds to it and runs it.

    Attributes:
        inputs: values by name. Arrays are read in place, also what is written to them before a later run.
        outputs: memory, or `Kept`, by name. The engine allocates the other outputs in each run, and the caller owns
            them.
        lock: the session's, which an engine holds while it talks to a device.
        version: counts what is bound anew.
        natives: by engine, what it keeps for the next run, such as its I/O binding.
    """

    __slots__ = ("inputs", "lock", "natives", "outputs", "version")

    def __init__(
        self,
        inputs: Mapping[str, Value | DeviceArray] | None = None,
        outputs: Mapping[str, Array | DeviceArray | Kept] | None = None,
        lock: AbstractContextManager[object] = UNLOCKED,
    ) -> None:
        self.inputs = {} if inputs is None else dict(inputs)
        self.outputs = {} if outputs is None else dict(outputs)
        self.lock, self.version = lock, 0
        self.natives: dict[object, Any] = {}

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        """Binds an input."""
        self.inputs[name] = value
        self.version += 1

    def set_output(self, name: str, memory: Array | DeviceArray | Kept | None) -> None:
        """Binds an output; None leaves it to the engine."""
        self.version += 1
        if memory is None:
            self.outputs.pop(name, None)
        else:
            self.outputs[name] = memory


def call(function: Callable[..., T], translate: Callable[[Exception], WinMLError], *arguments: object) -> T:
    """Calls into a runtime. Errors become ours, without the frames that raised them.

    Those hold native sessions, which an error that somebody keeps would keep, too: they are freed here, where the
    caller holds the lock of the device.
    """
    try:
        return function(*arguments)
    except Exception as error:  # the runtimes raise classes that have no common base
        failure = translate(error).with_traceback(None)
    failure.__context__ = None
    del function, arguments  # this frame is one of its frames
    try:
        raise failure
    finally:
        del failure  # a frame and an error that hold each other would wait for the garbage collector


@contextmanager
def translated_by(translate: Callable[[Exception], WinMLError]) -> Iterator[None]:
    """Within the block, what a runtime raises becomes one of our errors.

    It is raised behind the `except`: then the runtime's error, whose frames hold native sessions, is not its context.
    """
    try:
        yield
    except Exception as error:  # the runtimes raise classes that have no common base
        failure = translate(error)
    else:
        return
    raise failure


@contextmanager
def ended_by(stop: Stop, terminate: Callable[[], None]) -> Iterator[None]:
    """Within the block, `stop` calls `terminate`; the error is ours, because each provider has another one for that."""
    with stop.on_request(terminate):
        try:
            yield
        except Exception:
            stop.require_not_requested()
            raise


def require_open(native: T | None) -> T:
    """What an engine has of the runtime until it is closed.

    Raises:
        ClosedError: if the engine was closed before the call, or during it.
    """
    if native is None:
        raise ClosedError(
            "The session has been closed.", hint="Create another from the model; its properties can still be read."
        )
    return native


def fill(outputs: Mapping[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """Moves what a run gave into the host's arrays that outputs are bound to.

    Args:
        outputs: what is bound, by the outputs' names.
        fresh: what the run gave; loses those outputs.

    Returns:
        The rest.

    Raises:
        SizeMismatchError: an output does not fit its memory.
    """
    for name, array in outputs.items():
        if isinstance(array, np.ndarray):
            value = fresh.pop(name)
            if value.shape != array.shape:
                raise wrong_output_shape(name, array.shape, value.shape)
            np.copyto(array, value)
    return fresh


def wrong_output_shape(name: str, bound: tuple[int, ...], computed: tuple[int, ...]) -> SizeMismatchError:
    """The error for an output that does not fit the memory it is bound to; its name is "" where nobody says it."""
    what = f"The model variable {name}" if name else "An output"
    return SizeMismatchError(
        f"{what} was bound to memory of shape {bound}, and the model gave {computed}.",
        hint="Bind an empty tensor (TensorFloat.create(), say), which takes the shape that comes.",
    )


class InputAddresses:
    """The arrays that a runtime reads by address: the inputs themselves, or copies of them.

    A runtime is told an address and no strides: an array that is not C-contiguous is copied. A runtime may write an
    output before it has read an input: an input in the memory of an output is copied.

    Args:
        takes_read_only: whether the runtime reads memory that cannot be written; otherwise that is copied, too.

    Attributes:
        copies: pairs of what is bound, and the copy that is read.
    """

    def __init__(self, takes_read_only: bool = True) -> None:
        self._takes_read_only = takes_read_only
        self._read: dict[str, tuple[Array, Array]] = {}  # what is bound, and what is read
        self.copies: list[tuple[Array, Array]] = []

    def renew(self, values: Mapping[str, Any], outputs: Collection[Array], bind: Callable[[str, Array], None]) -> None:
        """Calls `bind` for each input that is read at another address than before."""
        for name, value in values.items():
            before, read = self._read.get(name, (None, None))
            flags = value.flags
            is_copied = not flags.c_contiguous or not (self._takes_read_only or flags.writeable)
            is_copied = is_copied or any(np.may_share_memory(value, output) for output in outputs)
            if before is not value or is_copied is (read is value):
                read = value.copy() if is_copied else value
                bind(name, read)
                self._read[name] = value, read  # lets go of those before, which the runtime reads no more
        self.copies = [pair for pair in self._read.values() if pair[0] is not pair[1]]

    def refresh(self) -> None:
        """Before a run: the copies get what their arrays hold now."""
        for value, copy in self.copies:
            np.copyto(copy, value)


def trim_heap() -> None:
    """Asks the C library to return freed memory to the system; only glibc keeps so much that this is needed.

    Without it a closed session of hundreds of megabytes can stay resident for the life of the process.
    """
    if sys.platform == "linux" and not sys.is_finalizing():
        import ctypes

        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):  # musl has no such function
            library.malloc_trim(0)

"""What runs of every engine share: they can be stopped, and come too late; they copy outputs, and free memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from ...errors import ClosedError, SizeMismatchError
from ..base.arrays import Array
from ..base.cancellation import Stop
from .engine import Engine, EngineBinding, Value

T = TypeVar("T")


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
    """What an engine or a binding has of the runtime until it is closed.

    Raises:
        ClosedError: if the engine or the binding was closed before the call, or during it.
    """
    if native is None:
        raise ClosedError(
            "The session has been closed.", hint="Create another from the model; its properties can still be read."
        )
    return native


def bind_engine(
    engine: Engine,
    lock: AbstractContextManager[object],
    inputs: Mapping[str, Value],
    outputs: Mapping[str, Array | None] = MappingProxyType({}),
) -> EngineBinding:
    """A binding of an engine with these values; outputs of None are left to the engine."""
    binding = engine.bind(lock)
    for name, value in inputs.items():
        binding.set_input(name, value)
    for name, array in outputs.items():
        if array is not None:
            binding.set_output(name, array)
    return binding


def fill(outputs: Mapping[str, Array | None], fresh: dict[str, Any]) -> dict[str, Any]:
    """Moves what a run gave into the memory that outputs are bound to.

    Args:
        outputs: the memory, by the outputs' names; None is bound to no memory.
        fresh: what the run gave; loses those outputs.

    Returns:
        The rest.

    Raises:
        SizeMismatchError: an output does not fit its memory.
    """
    for name, array in outputs.items():
        if array is None:
            continue
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


class BoundInputs:
    """The inputs of one binding, which a runtime reads in place; or copies of them, where it must not.

    A runtime is told the address of an array and no strides: an array that is not C-contiguous is copied. A runtime may
    write an output before it has read an input: an input in the memory of an output is copied. Which those are is asked
    at the run, and not at the bind, where an input and an output may just be swapping their arrays.

    Args:
        takes_read_only: whether the runtime reads memory that cannot be written; otherwise that is copied, too.

    Attributes:
        values: what is bound, by name.
    """

    def __init__(self, takes_read_only: bool = True) -> None:
        self._takes_read_only = takes_read_only
        self.values: dict[str, Array] = {}
        self._copies: dict[str, Array] = {}

    def set(self, name: str, value: Array, bind: Callable[[str, Array], None]) -> None:
        """Keeps an input alive, and calls `bind` with the array that the runtime is to read."""
        self._set(name, value, bind, self._is_unreadable(value))

    def _is_unreadable(self, value: Array) -> bool:
        """Whether the runtime cannot read an array in place."""
        return not value.flags.c_contiguous or not (self._takes_read_only or value.flags.writeable)

    def _set(self, name: str, value: Array, bind: Callable[[str, Array], None], is_copied: bool) -> None:
        read = value.copy() if is_copied else value
        bind(name, read)
        self.values[name] = value  # lets go of the one before, now that the runtime reads it no more
        self._copies.pop(name, None)
        if is_copied:
            self._copies[name] = read

    def prevent_overlap(self, outputs: Collection[Array], bind: Callable[[str, Array], None]) -> None:
        """Binds copies of the inputs that outputs are written over, and the other inputs themselves."""
        for name, value in list(self.values.items()):
            is_copied = self._is_unreadable(value) or any(np.may_share_memory(value, output) for output in outputs)
            if is_copied is not (name in self._copies):
                self._set(name, value, bind, is_copied)

    def refresh(self) -> None:
        """Before a run: the copies get what their arrays hold now, for inputs are bound by reference."""
        for name, copy in self._copies.items():
            np.copyto(copy, self.values[name])


def trim_heap() -> None:
    """Asks the C library to return freed memory to the system; only glibc keeps so much that this is needed.

    Without it a closed session of hundreds of megabytes can stay resident for the life of the process.
    """
    trim = None if sys.is_finalizing() else _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    import ctypes

    # musl has no such function
    return getattr(ctypes.CDLL(None), "malloc_trim", None)

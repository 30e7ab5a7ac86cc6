"""What runs of every engine share: they can be stopped, and come too late; they copy outputs, and free memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ...errors import ClosedError, SizeMismatchError
from ..base.arrays import Array
from ..base.cancellation import Stop

T = TypeVar("T")


@contextmanager
def ended_by(stop: Stop, terminate: Callable[[], None]) -> Iterator[None]:
    """Within the block, `stop` calls `terminate`; the error is ours, because each provider has another one for that."""
    with stop.reaching(terminate):
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


def shares_memory(array: Array, others: Iterable[Array]) -> bool:
    """Whether an array's memory is, in part, that of another."""
    return any(np.may_share_memory(array, other) for other in others)


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

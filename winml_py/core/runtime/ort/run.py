"""What every kind of run shares: it can be stopped, come too late or fail; it copies outputs and frees memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ....errors import ClosedError
from ...base.arrays import Array
from ...base.cancellation import Stop
from .errors import translate, wrong_output_shape

if TYPE_CHECKING:
    import onnxruntime

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


@contextmanager
def stoppable(stop: Stop, shrinks: bool = False) -> Iterator[onnxruntime.RunOptions]:
    """Options for a run that `stop` can end."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    if shrinks:
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def terminate() -> None:
        options.terminate = True

    with ended_by(stop, terminate):
        yield options


@contextmanager
def translated() -> Iterator[None]:
    """Within the block, what the runtime raises becomes one of our errors."""
    try:
        yield
    except Exception as error:  # the runtime raises classes that have no common base
        failure = translate(error)
    else:
        return
    raise failure


def opened(native: T | None) -> T:
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

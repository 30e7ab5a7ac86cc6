"""What every kind of run shares: being stopped, and being too late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...base.cancellation import Stop
from ...errors import ClosedError
from .errors import translate

if TYPE_CHECKING:
    import onnxruntime


@contextmanager
def stoppable(stop: Stop, shrinks: bool = False) -> Iterator[onnxruntime.RunOptions]:
    """Options for a run that `stop` can end; its error is ours, because each provider has another one for that."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    if shrinks:
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def terminate() -> None:
        options.terminate = True

    with stop.reaching(terminate):
        try:
            yield options
        except Exception:
            stop.require_not_requested()
            raise


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


def closed() -> ClosedError:
    """The error for a session that was closed before the call, or during it."""
    return ClosedError(
        "The session has been closed.", hint="Create another from the model; its properties can still be read."
    )

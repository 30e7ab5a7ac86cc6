"""LearningModelSessionOptions: how a session is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from .cores import usable_cores
from .errors import InvalidArgumentError
from .runtime.engine import EngineOptions

MAX_THREADS = 1024
"""More than any machine this runs on has cores; a mistyped number must not start a million threads."""


class LearningModelSessionOptions:
    """How a session is compiled. A session copies what it needs: later changes do not reach it.

    Passing a default options object is not the same as passing none: as in Windows ML,
    `batch_size_override` is 1 then, so dimensions denoted `DATA_BATCH` become 1.
    Without options they stay free.

    Attributes:
        close_model_on_session_creation: dispose of the model once the session is made, so that
            only the session holds what it needs.

    Example:
        >>> from winml_py import LearningModelSessionOptions
        >>> options = LearningModelSessionOptions()
        >>> options.override_named_dimension("batch", 4)
        >>> options.set_intra_op_num_threads_override(1)
    """

    def __init__(self) -> None:
        self.close_model_on_session_creation = False
        self._batch_size = 1
        self._dimensions: dict[str, int] = {}
        self._threads = usable_cores()
        self._spinning = True

    @property
    def batch_size_override(self) -> int:
        """What every dimension denoted `DATA_BATCH` becomes; 0 leaves the model as it is. Default 1.

        The *denotation* decides, not the position: a batch dimension that is only named is overridden
        with `override_named_dimension`.
        """
        return self._batch_size

    @batch_size_override.setter
    def batch_size_override(self, size: int) -> None:
        self._batch_size = _uint32(size, "batch_size_override")

    def override_named_dimension(self, name: str, dimension: int, /) -> None:
        """Fixes a named free dimension, which lets the engine plan ahead; 0 leaves it free.

        Names are case-sensitive. A name the model does not have is accepted and has no effect.
        Setting a name again replaces its size.
        """
        if not isinstance(name, str):
            raise InvalidArgumentError(f"A dimension's name is text, not {name!r}.", hint="See `winml-py info`.")
        self._dimensions[name] = _uint32(dimension, f"the dimension {name!r}")

    @property
    def named_dimension_overrides(self) -> Mapping[str, int]:
        """The overrides that were set, by name."""
        return dict(self._dimensions)

    @property
    def intra_op_num_threads(self) -> int:
        """Threads that work together on one operator; by default the cores this process may use.

        Use 1 when many sessions run side by side, or for models so small that threads cost more than they do.
        """
        return self._threads

    @intra_op_num_threads.setter
    def intra_op_num_threads(self, threads: int) -> None:
        if not 1 <= _uint32(threads, "intra_op_num_threads") <= MAX_THREADS:
            raise InvalidArgumentError(f"intra_op_num_threads is {threads}.", hint=f"Use 1 to {MAX_THREADS}.")
        self._threads = threads

    def set_intra_op_num_threads_override(self, threads: int, /) -> None:
        """Windows ML's native name for setting `intra_op_num_threads`."""
        self.intra_op_num_threads = threads

    @property
    def intra_op_thread_spinning(self) -> bool:
        """Whether threads spin while they wait. Default True: lower latency, and a busy core between evaluations.

        Switch it off when the process has other work to do on its cores.
        """
        return self._spinning

    @intra_op_thread_spinning.setter
    def intra_op_thread_spinning(self, allow: bool) -> None:
        self._spinning = bool(allow)

    def set_intra_op_thread_spinning(self, allow: bool, /) -> None:
        """Windows ML's native name for setting `intra_op_thread_spinning`."""
        self.intra_op_thread_spinning = allow

    def __repr__(self) -> str:
        return (
            f"LearningModelSessionOptions(batch_size_override={self._batch_size}, "
            f"dimensions={self._dimensions}, intra_op_num_threads={self._threads}, spinning={self._spinning})"
        )


def engine_options(options: LearningModelSessionOptions | None) -> EngineOptions:
    """What the engine needs of the options: none at all leaves the batch free, as in Windows ML."""
    if options is None:
        return EngineOptions(intra_op_num_threads=usable_cores())
    return EngineOptions(
        intra_op_num_threads=options.intra_op_num_threads,
        intra_op_thread_spinning=options.intra_op_thread_spinning,
        batch_size=options.batch_size_override or None,
        dimensions=tuple(sorted((name, size) for name, size in options.named_dimension_overrides.items() if size)),
    )


def _uint32(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise InvalidArgumentError(f"{what} is {value!r}.", hint="Use a whole number from 0 to 4294967295.")
    return value

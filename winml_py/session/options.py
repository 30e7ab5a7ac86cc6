"""LearningModelSessionOptions: how a session is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..base.cpu_cores import is_confined, usable_cores
from ..enums import Precision, Weights
from ..errors import InvalidArgumentError
from ..runtime.engine import ONNXRUNTIME, EngineOptions
from ..runtime.tuning import MAX_THREADS, Tuning
from . import options_file as settings


class LearningModelSessionOptions:
    """How a session is compiled. A session copies what it needs: later changes do not reach it.

    Passing a default options object is not the same as passing none: as in Windows ML,
    `batch_size_override` is 1 then, so dimensions denoted `DATA_BATCH` become 1.
    Without options they stay free.

    Attributes:
        close_model_on_session_creation: dispose of the model once the session is made, so that
            only the session holds what it needs.
        allow_cpu_fallback: whether nodes that a GPU's provider does not take may run on the CPU. Default True, and
            `session.placement` lists them; False makes them an error.

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
        self._spinning = not is_confined()
        self._engine = ONNXRUNTIME
        self._precision = Precision.AUTO
        self._provider_options: dict[str, str] = {}
        self._graph_capture: bool | None = None
        self._tuning = Tuning()
        self._weights = Weights.SHARED
        self._profiling = False
        self.allow_cpu_fallback = True

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
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidArgumentError(f"{name!r} is the name of no dimension.", hint="See `winml-py info`.") from None
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
        """Whether threads spin while they wait: lower latency, and a busy core between evaluations.

        Default True, and False where the process is confined to some of the cores, or to a share of their time.
        Switch it off when the process has other work to do on its cores.
        """
        return self._spinning

    @intra_op_thread_spinning.setter
    def intra_op_thread_spinning(self, allow: bool) -> None:
        self._spinning = bool(allow)

    def set_intra_op_thread_spinning(self, allow: bool, /) -> None:
        """Windows ML's native name for setting `intra_op_thread_spinning`."""
        self.intra_op_thread_spinning = allow

    @property
    def engine(self) -> str:
        """What runs the model: "onnxruntime" (default), the name of an installed provider, or "auto".

        "auto" measures the installed engines on the model once for each machine, model, options and shapes, and takes
        the fastest of those whose results agree to 1e-3; ties go to ONNX Runtime. The verdict is kept on disk
        (`winml-py cache`). It takes some seconds the first time: use it for models that run often. Where the model
        leaves sizes free, the first evaluation decides, on its inputs.
        """
        return self._engine

    @engine.setter
    def engine(self, engine: str) -> None:
        if not isinstance(engine, str) or not engine:
            raise InvalidArgumentError(
                f"The engine is {engine!r}.", hint='Use "onnxruntime", "auto", or a provider: "openvino", say.'
            )
        self._engine = engine

    @property
    def precision(self) -> Precision:
        """The arithmetic: `AUTO` (default), `FLOAT32` or `HALF`.

        On a CPU, `AUTO` tries float16 models in half precision where an installed plugin (`winml-py[intel]`) offers
        that, and keeps to it if the result agrees with float32 to 2e-2 and comes sooner; `HALF` does so for float32
        models too. On a GPU, `AUTO` runs float16 models in half precision if it has that. `FLOAT32` is never less than
        float32: use it where the last digits count.
        """
        return self._precision

    @precision.setter
    def precision(self, precision: Precision) -> None:
        try:
            self._precision = Precision(precision)
        except ValueError:
            raise InvalidArgumentError(
                f"The precision is {precision!r}.", hint="Use Precision.AUTO, FLOAT32 or HALF."
            ) from None

    @property
    def provider_options(self) -> Mapping[str, str]:
        """Options of the provider that runs the model, by its own keys: `cudnn_conv_use_max_workspace`, say.

        A key that the provider does not have is refused when the session is made. Values become text, as the runtime
        takes them; True and False become 1 and 0.
        """
        return dict(self._provider_options)

    @provider_options.setter
    def provider_options(self, options: Mapping[str, Any]) -> None:
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise InvalidArgumentError(f"Provider options are {options!r}.", hint="Write {key: value}.")
        self._provider_options = {
            key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in options.items()
        }

    @property
    def graph_capture(self) -> bool | None:
        """Whether a GPU records the work of an evaluation once and repeats it, which saves the time to submit it.

        None (default) records with WebGPU where that is possible: fixed shapes, tensors only, no node on the CPU, no
        control flow. True makes what stands against it an error, and is how CUDA graphs are switched on; False never
        records, and lets equal sessions share one engine on the GPU.
        """
        return self._graph_capture

    @graph_capture.setter
    def graph_capture(self, capture: bool | None) -> None:
        self._graph_capture = None if capture is None else bool(capture)

    @property
    def tuning(self) -> Tuning:
        """Settings that seldom need changing: see `Tuning`."""
        return self._tuning

    @tuning.setter
    def tuning(self, tuning: Tuning) -> None:
        if not isinstance(tuning, Tuning):
            raise InvalidArgumentError(f"The tuning is {tuning!r}.", hint="Write Tuning(memory_arena=False), say.")
        self._tuning = tuning

    @property
    def weights(self) -> Weights:
        """Where the weights of a large model are: `SHARED` (default) or `PRIVATE`.

        `SHARED`: the first session on the CPU over a model file of 16 MB of weights and more writes them, optimised,
        to the cache folder; it and all later ones map that file. They start in a fraction of the time and hold one copy
        together, whatever their threads and arenas are. It takes up to twice the weights on disk (`winml-py cache`).
        Replace model files by renaming: to change a mapped file in place is undefined.

        `PRIVATE`: nothing is mapped or written. Use it where files may be changed in place, where the disk is
        slower than the work, or for a model that is run once.
        """
        return self._weights

    @weights.setter
    def weights(self, weights: Weights) -> None:
        try:
            self._weights = Weights(weights)
        except ValueError:
            raise InvalidArgumentError(
                f"The weights are {weights!r}.", hint="Use Weights.SHARED or Weights.PRIVATE."
            ) from None

    @property
    def profiling(self) -> bool:
        """Whether the time of each node is recorded, for `session.end_profiling(path)`. Default False.

        Costs some microseconds a node, and memory for each evaluation: for measuring, not for work.
        """
        return self._profiling

    @profiling.setter
    def profiling(self, profiling: bool) -> None:
        self._profiling = bool(profiling)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearningModelSessionOptions:
        """The options in a file that `save`, or `winml-py tune --output`, wrote.

        Raises:
            StorageNotFoundError: there is no such file.
            InvalidArgumentError: it holds something else, or a setting that is not known here.
        """
        return settings.load(cls(), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all options to a file, as JSON, whole or not at all.

        Raises:
            StorageNotFoundError: there is no such folder.
            StorageAccessError: the file cannot be written.
        """
        settings.save(self, path)

    def __repr__(self) -> str:
        return (
            f"LearningModelSessionOptions(batch_size_override={self._batch_size}, "
            f"dimensions={self._dimensions}, intra_op_num_threads={self._threads}, spinning={self._spinning}, "
            f"engine={self._engine!r}, precision={self._precision.name})"
        )


def engine_options(options: LearningModelSessionOptions | None) -> EngineOptions:
    """What the engine needs of the options: none at all leaves the batch free, as in Windows ML."""
    if options is None:
        return EngineOptions(intra_op_num_threads=usable_cores(), intra_op_thread_spinning=not is_confined())
    return EngineOptions(
        intra_op_num_threads=options.intra_op_num_threads,
        intra_op_thread_spinning=options.intra_op_thread_spinning,
        batch_size=options.batch_size_override or None,
        dimensions=tuple(sorted((name, size) for name, size in options.named_dimension_overrides.items() if size)),
        engine=options.engine,
        precision=options.precision,
        provider_options=tuple(sorted(options.provider_options.items())),
        allow_cpu_fallback=bool(options.allow_cpu_fallback),
        graph_capture=options.graph_capture,
        tuning=options.tuning,
        weights=options.weights,
        is_profiled=options.profiling,
    )


def _uint32(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise InvalidArgumentError(f"{what} is {value!r}.", hint="Use a whole number from 0 to 4294967295.")
    return value

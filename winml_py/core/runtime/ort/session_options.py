"""Converts engine options to ONNX Runtime's session options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ...base.cancellation import Stop
from ...onnx_file.source import Skeleton
from ..engine import LOG_SEVERITIES, EngineOptions, Tuning
from ..runs import end_on_stop

if TYPE_CHECKING:
    import onnxruntime

GRAPH, WEIGHTS = "graph.onnx", "weights.bin"
"""The files of a saved graph."""

RunConfig = Sequence[tuple[str, str]]
"""Entries of the run configuration."""


def is_flushing_denormals() -> bool:
    """Whether numbers below 1e-38 count as 0 in this thread, by a flag of the processor that also affects NumPy."""
    import numpy as np

    return not (np.full(1, 1e-40, np.float32) * np.float32(2)).any()


class Saving(NamedTuple):
    """Where to write the optimised graph and its weights, and whether to write weights in the kernels' layout, too."""

    folder: str
    prepacked: bool = True


def make_session_options(
    options: EngineOptions, saving: Saving | None = None, is_optimized: bool = False
) -> onnxruntime.SessionOptions:
    """The runtime's options.

    Args:
        options: the engine's.
        saving: whether to write the optimised graph, and where.
        is_optimized: whether the model is such a graph, which is not optimised again.
    """
    import onnxruntime

    native = onnxruntime.SessionOptions()
    native.log_severity_level = LOG_SEVERITIES.index(options.log_severity)
    # A saved graph is already optimised, and its weights are stored for exactly these nodes.
    _tune(native, options.tuning, "none" if is_optimized else options.tuning.graph_optimization)
    native.intra_op_num_threads = options.intra_op_num_threads
    # Always stated, because the default depends on the build: Microsoft's onnxruntime-windowsml does not spin.
    for threads in ("intra_op", "inter_op"):  # threads for branches spin, too, and take 90 % of a core
        native.add_session_config_entry(f"session.{threads}.allow_spinning", str(int(options.intra_op_thread_spinning)))
    if options.batch_size is not None:
        native.add_free_dimension_override_by_denotation("DATA_BATCH", options.batch_size)
    for name, size in options.dimensions:
        native.add_free_dimension_override_by_name(name, size)
    if saving is not None:
        native.optimized_model_filepath = os.path.join(saving.folder, GRAPH)
        for key, value in (
            ("session.optimized_model_external_initializers_file_name", WEIGHTS),
            ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
            ("session.save_external_prepacked_constant_initializers", str(int(saving.prepacked))),
        ):
            native.add_session_config_entry(key, value)
    for key, value in options.session_config:
        native.add_session_config_entry(key, value)
    return native


def _tune(native: onnxruntime.SessionOptions, tuning: Tuning, level: str) -> None:
    import onnxruntime

    level = "ORT_DISABLE_ALL" if level == "none" else f"ORT_ENABLE_{level.upper()}"
    native.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    native.execution_mode = getattr(onnxruntime.ExecutionMode, f"ORT_{tuning.execution_mode.upper()}")
    native.inter_op_num_threads = tuning.inter_op_num_threads
    native.enable_cpu_mem_arena = tuning.memory_arena
    native.enable_mem_pattern = tuning.memory_pattern


def register_libraries(native: onnxruntime.SessionOptions, libraries: Sequence[str]) -> None:
    """Registers shared libraries with operators; the runtime's errors are not translated here."""
    for path in libraries:
        native.register_custom_ops_library(path)


def place_weights(native: onnxruntime.SessionOptions, model: Skeleton) -> None:
    """Tells the runtime where the weights of a skeleton are.

    The engine maps a file itself, one weight at a time while it rearranges them, and unmaps it at its end. So the peak
    is one copy of the weights, not the file and the rearranged copy; other weights stay in the system's file cache; and
    this package cannot close a map that the engine still reads.

    For models loaded from bytes, bytes in memory replace the file. The engine copies the parts that it needs. It could
    read aligned weights that it does not rearrange in place; but for these few, all of the bytes would stay in memory
    as long as the session.
    """
    if model.folder:
        native.add_session_config_entry("session.model_external_initializers_file_folder_path", model.folder)
    if model.files:
        sizes = [len(data) for data in model.files.values()]
        native.add_external_initializers_from_files_in_memory([*model.files], [*model.files.values()], sizes)


@contextmanager
def make_run_options(stop: Stop, config: RunConfig = ()) -> Iterator[onnxruntime.RunOptions]:
    """Options for a run that `stop` can end."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    for key, value in config:
        options.add_run_config_entry(key, value)

    def terminate() -> None:
        options.terminate = True

    with end_on_stop(stop, terminate):
        yield options

"""Saved graphs of large models for ONNX Runtime: optimised once, then mapped by every session of every process.

Weights that the optimiser changed are no longer in the model's file, so sessions could not share them; and changing
them costs time and peak memory at every start. So the runtime saves its optimised graph, its weights, and those of
matrix products in the kernels' layout; each session opens the saved graph with optimisation off, and maps it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ....enums import Precision
from ...base import machine
from ...onnx_file.nodes import walk_messages
from ...onnx_file.source import MAPPED_FROM, Skeleton
from ..request import CompileRequest
from ..runs import trim_heap
from .compile import compile_with_ort
from .ort_engine import OrtEngine
from .session_options import GRAPH, Saving, is_flushing_denormals

if TYPE_CHECKING:
    from pathlib import Path


def open_or_compile_with_ort(request: CompileRequest) -> OrtEngine:
    """Opens or makes a saved graph if the model's weights are large enough; else compiles for the CPU provider.

    If a saved graph is damaged or cannot be written, the session is made without one.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    size = request.origin.mappable_weights
    folder = None
    # Not if denormals count as 0: that also applies to constant folding, permanently in the whole process, and other
    # processes must not get such constants. Nor if the program sets entries of the configuration, which may change the
    # graph.
    if size >= MAPPED_FROM and not request.options.session_config and not is_flushing_denormals():
        from ... import cache  # small models need none

        folder = cache.choose_folder(_make_cache_key(request), size)
    if folder is None:
        engine = compile_with_ort(request)
        # The runtime has freed the parsed model. For a small model, the call is not worth its time.
        if request.origin.size >= MAPPED_FROM or isinstance(request.model, Skeleton):  # `size` excludes data files
            trim_heap()
        return engine
    saved = cache.open_or_make(folder, request.origin.path, partial(_open, request), partial(_save, request))
    return saved or compile_with_ort(request)


def _make_cache_key(request: CompileRequest) -> str:
    """Everything that the optimised graph may depend on: all options but those set to a constant here."""
    from ...cache import make_key
    from ..providers.plugins import read_runtime_version

    graph = request.options._replace(
        intra_op_num_threads=1,
        intra_op_thread_spinning=True,
        engine=None,  # the caller has chosen ONNX Runtime's CPU provider, which computes in float32
        precision=Precision.AUTO,
        tuning=replace(
            request.options.tuning,
            execution_mode="sequential",
            inter_op_num_threads=0,
            memory_arena=True,
            memory_pattern=True,
        ),
        run_config=(),
        log_severity="fatal",
        is_profiled=False,
        isolation=None,
    )
    return make_key("saved graph", request.compute_digest(), graph, read_runtime_version(), machine.read_processor_id())


def _open(request: CompileRequest, folder: Path) -> OrtEngine:
    engine = compile_with_ort(request._replace(model=str(folder / GRAPH)), is_optimized=True)
    trim_heap()  # while it opens the weights, the runtime frees as much as one of them
    return engine


def _save(request: CompileRequest, folder: Path) -> None:
    # The profile must be that of the program's session, and this one is closed at once.
    saved = request._replace(options=request.options._replace(is_profiled=False))
    # Closed before the next session maps the weights that this one rearranged in private memory.
    compile_with_ort(saved, saving=Saving(str(folder))).close()
    if not _are_readable(folder / GRAPH):
        compile_with_ort(saved, saving=Saving(str(folder), prepacked=False)).close()


KERNELS = ("MatMul", "FusedMatMul", "Gemm")
"""The kernels whose rearranged weights ONNX Runtime reads back correctly."""

ALIGNMENT = 64
"""Bytes. Kernel instructions fault on other addresses; before 1.32 the runtime aligns only weights of 1 MB and more."""


def _are_readable(path: Path) -> bool:
    """Whether the runtime can read back all weights that it saved in its kernels' layout.

    Each has an entry such as `MatMul+179|3346304;122880;0`: its kernel and a hash, then offset, length and checksum.
    """
    import onnx

    for message in walk_messages(onnx.load(path, load_external_data=False)):
        for entry in message.external_data if isinstance(message, onnx.TensorProto) else ():
            if entry.key.startswith("prepacked_"):
                kernel, *places = entry.value.split("|")
                if kernel.partition("+")[0] not in KERNELS:
                    return False
                if any(int(place.partition(";")[0]) % ALIGNMENT for place in places):
                    return False
    return True

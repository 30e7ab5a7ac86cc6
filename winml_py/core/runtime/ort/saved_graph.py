"""Saved graphs of large models for ONNX Runtime: optimised once, then mapped by every session of every process.

Weights that the optimiser changed are no longer in the model's file, so sessions could not share them; and changing
them costs time and peak memory at every start. So the runtime saves its optimised graph, its weights, and those of
matrix products in the kernels' layout; each session opens the saved graph with optimisation off, and maps it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...base import machine
from ...base.atomic_files import written_whole
from ...cache import answers, folders
from ...onnx_file.source import MAPPED_FROM, Skeleton
from ..providers.plugins import runtime_version
from ..request import CompileRequest
from ..runs import trim_heap
from .compile import compile_model
from .engine import OrtEngine
from .session_options import GRAPH, Saving, flushes_denormals

if TYPE_CHECKING:
    import onnx


def compile_cached(request: CompileRequest) -> OrtEngine:
    """Compiles for ONNX Runtime's CPU provider, with a saved graph if the model's weights are large enough.

    If a saved graph is damaged or cannot be written, the session is made without one.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    size, folder = request.origin.mappable_weights, None
    # Not if denormals count as 0: that also applies to constant folding, permanently in the whole process, and other
    # processes must not get such constants. Nor if the program sets entries of the configuration, which may change the
    # graph.
    if size >= MAPPED_FROM and not request.options.session_config and not flushes_denormals():
        folder = folders.folder_for(_cache_key(request), size)
    if folder is None:
        engine = compile_model(request)
        # The runtime has freed the parsed model. For a small model, the call is not worth its time.
        if request.origin.size >= MAPPED_FROM or isinstance(request.model, Skeleton):  # `size` excludes data files
            trim_heap()
        return engine
    saved = folders.opened_or_made(
        folder,
        request.origin.path,
        partial(_open, request),
        partial(_save, request),
        request.require_not_stopped,
    )
    return saved or compile_model(request)


def _cache_key(request: CompileRequest) -> str:
    """Everything that the optimised graph depends on; not threads and arenas."""
    options = request.options
    graph = [options.batch_size, options.dimensions, options.tuning.graph_optimization, options.tuning.prepacking]
    return answers.key_of("saved graph", request.digest(), graph, runtime_version(), machine.processor_fingerprint())


def _open(request: CompileRequest, folder: Path) -> OrtEngine:
    engine = compile_model(replace(request, model=str(folder / GRAPH)), is_optimized=True)
    trim_heap()  # while it opens the weights, the runtime frees as much as one of them
    return engine


def _save(request: CompileRequest, folder: Path) -> None:
    # The profile must be that of the program's session, and this one is closed at once.
    saved = replace(request, options=request.options._replace(is_profiled=False))
    # Closed before the next session maps the weights that this one rearranged in private memory.
    compile_model(saved, saving=Saving(str(folder))).close()
    if not _drop_unreadable_weights(folder / GRAPH):
        compile_model(saved, saving=Saving(str(folder), prepacked=False)).close()


# Weights that ONNX Runtime saved in its kernels' layout, and which of them it can read back.


ALIGNMENT = 64
"""The alignment in bytes. Kernel instructions fault on other addresses; the runtime (1.31) aligns only from 1 MB on."""

KERNELS = ("MatMul", "FusedMatMul", "Gemm")
"""The kernels whose weights are worth sharing and are read back correctly. Others rearrange theirs in each session."""


def _drop_unreadable_weights(path: Path) -> bool:
    """Rewrites a saved graph without the rearranged weights that could not be read back.

    Returns False if such weights remain in a subgraph of an If or a Loop, from which they cannot be removed singly.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    left_count = 0
    for tensor in model.graph.initializer:
        entries = [entry for entry in tensor.external_data if not _is_prepacked(entry) or _is_readable(entry.value)]
        left_count += sum(map(_is_prepacked, entries))
        # By value: the entries are part of the list to be emptied.
        pairs = [(entry.key, entry.value) for entry in entries]
        del tensor.external_data[:]
        for key, value in pairs:
            tensor.external_data.add(key=key, value=value)
    changed = model.SerializeToString()
    if changed.count(b"prepacked_") != left_count:
        return False
    with written_whole(str(path)) as file:
        file.write(changed)
    return True


def _is_prepacked(entry: onnx.StringStringEntryProto) -> bool:
    return entry.key.startswith("prepacked_")


def _is_readable(value: str) -> bool:
    """Whether a value such as `MatMul+179|3346304;122880;0` (kernel, hash, offset, length, checksum) is safe."""
    kernel, *blobs = value.split("|")
    offsets = [blob.partition(";")[0] for blob in blobs]
    return kernel.partition("+")[0] in KERNELS and all(
        offset.isdigit() and int(offset) % ALIGNMENT == 0 for offset in offsets
    )

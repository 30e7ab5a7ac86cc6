"""A large model as ONNX Runtime wants it, on disk: optimised once, then mapped by every session of every process.

Weights that the optimiser changed are no longer the file's, so sessions could not share them; and to change them takes
the time and the peak memory of every start. So the runtime saves its optimised graph, its weights, and those of matrix
products as the kernels want them; each session opens that with optimisation off, and maps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ....errors import CanceledError, WinMLError
from ...base import machine
from ...base.atomic_files import written_whole
from ...base.messages import logger
from ...cache import answers, folders
from ...onnx_file.protobuf import BYTES, Field, ModelBytes, encode_field, fields
from ...onnx_file.source import MAPPED_FROM, Skeleton
from ..providers.plugins import runtime_version
from ..request import CompileRequest
from ..runs import trim_heap
from .compile import compile_model
from .engine import OrtEngine
from .session_options import GRAPH, Saving, flushes_denormals


def compile_cached(request: CompileRequest) -> OrtEngine:
    """Compiles for ONNX Runtime's own provider, over a saved graph where the model's weights are large enough for one.

    Where a saved graph is damaged or cannot be written, the session is made without one.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    folder = folders.folder_for(_cache_key(request), request.origin.mappable_weights) if _is_wanted(request) else None
    if folder is None:
        engine = compile_model(request)
        # The runtime has freed what it parsed the model into. For a small model, that is not worth the call.
        if request.origin.size >= MAPPED_FROM or isinstance(request.model, Skeleton):  # data files are not in the size
            trim_heap()
        return engine
    opened = _open_cached(request, folder)
    if opened is not None:
        return opened
    with answers.asking(folder.name, request.require_not_stopped) as is_alone:
        # Looked for again: while this process waited for its turn, another one may have written it.
        return _open_cached(request, folder) or (
            _compile_and_save(request, folder) if is_alone else compile_model(request)
        )


def _is_wanted(request: CompileRequest) -> bool:
    """Whether the weights are large enough.

    Not where denormals count as 0: they do so also while constants are folded, in the whole process and for good, and
    other processes must not get such constants. Nor where the program has entries of its own in the configuration,
    which may change the graph.
    """
    options = request.options
    is_own = options.tuning.denormals_as_zero or flushes_denormals() or bool(options.session_config)
    return request.origin.mappable_weights >= MAPPED_FROM and not is_own


def _cache_key(request: CompileRequest) -> str:
    """All that the optimised graph depends on; threads and arenas are not among it."""
    options = request.options
    graph = [options.batch_size, options.dimensions, options.tuning.graph_optimization, options.tuning.prepacking]
    return answers.key_of("saved graph", request.digest(), graph, runtime_version(), machine.processor_fingerprint())


def _open_cached(request: CompileRequest, folder: Path) -> OrtEngine | None:
    if not folders.is_intact(folder):
        return None
    try:
        engine = compile_model(replace(request, model=str(folder / GRAPH)), is_optimized=True)
        trim_heap()  # the runtime frees as much as one of the weights while it opens them
        return engine
    except CanceledError:
        raise
    except WinMLError as error:
        logger.warning("the saved graph %s cannot be used and is made again: %s", folder, error)
        return None


def _save(request: CompileRequest, folder: str) -> None:
    path = Path(folder, GRAPH)
    # The profile is to be of the session that the program gets, and this one is closed at once.
    request = replace(request, options=request.options._replace(is_profiled=False))
    # The session goes before the next one maps from disk what this one rearranged in memory of its own.
    compile_model(request, saving=Saving(folder)).close()
    graph = drop_unreadable_weights(path.read_bytes())
    # Such weights of nodes inside an If or a Loop cannot be left out one by one. Without any, the file is right for all
    # nodes, and each session rearranges them for itself.
    if graph is None:
        compile_model(request, saving=Saving(folder, prepacked=False)).close()
    else:
        with written_whole(str(path)) as file:
            file.write(graph)


def _compile_and_save(request: CompileRequest, folder: Path) -> OrtEngine:
    try:
        with folders.written(folder, request.origin.path) as unfinished:
            _save(request, unfinished)
        engine = _open_cached(request, folder)
    except CanceledError:
        raise
    except (OSError, WinMLError) as error:  # a full disk, say; an error of the model is raised again below
        logger.info("no saved graph %s: %s", folder, error)
        engine = None
    return engine or compile_model(request)


# Weights that ONNX Runtime saved as its kernels want them, and which of them it can read back.


ALIGNMENT = 64
"""Bytes. The kernels read with instructions that fault on other addresses; the runtime (1.31) aligns from 1 MB on."""

KERNELS = ("MatMul", "FusedMatMul", "Gemm")
"""The kernels whose weights are worth sharing, and are read back correctly. Others rearrange theirs in each session."""

_GRAPH, _INITIALIZER, _EXTERNAL_DATA = 7, 5, 13  # of ModelProto, GraphProto and TensorProto


def drop_unreadable_weights(model: bytes) -> bytes | None:
    """The saved model without the rearranged weights that could not be read back.

    Args:
        model: a ModelProto, as the runtime saved it.

    Returns:
        A ModelProto, or None where such weights are left in a graph inside a node.
    """
    graph = next(item for item in fields(model, 0, len(model)) if item.number == _GRAPH)
    pieces, prepacked_count = [], 0
    for item in fields(model, graph.value, graph.end):
        if item.number == _INITIALIZER and item.wire_type == BYTES:
            entries = list(_readable_entries(model, item))
            prepacked_count += sum(_is_prepacked(model, entry) for entry in entries)
            pieces.append(encode_field(_INITIALIZER, b"".join(model[entry.tag : entry.end] for entry in entries)))
        else:
            pieces.append(model[item.tag : item.end])
    changed = b"".join(pieces)
    # The walk looks at the weights of the main graph alone. More of these words than it kept are in graphs inside
    # nodes.
    if changed.count(b"prepacked_") != prepacked_count:
        return None
    return b"".join((model[: graph.tag], encode_field(_GRAPH, changed), model[graph.end :]))


def _readable_entries(model: ModelBytes, tensor: Field) -> Iterator[Field]:
    for item in fields(model, tensor.value, tensor.end):
        if not _is_prepacked(model, item) or _is_readable(_key_and_value(model, item)[1]):
            yield item


def _is_prepacked(model: ModelBytes, item: Field) -> bool:
    return item.number == _EXTERNAL_DATA and _key_and_value(model, item)[0].startswith("prepacked_")


def _key_and_value(model: ModelBytes, entry: Field) -> tuple[str, str]:
    """The key and the value of a StringStringEntryProto."""
    words = {item.number: item.text(model) for item in fields(model, entry.value, entry.end)}
    return words.get(1, ""), words.get(2, "")


def _is_readable(value: str) -> bool:
    """Whether a value such as `MatMul+179|3346304;122880;0` (kernel, hash, offset, length, checksum) is safe."""
    kernel, *blobs = value.split("|")
    offsets = [blob.partition(";")[0] for blob in blobs]
    return kernel.partition("+")[0] in KERNELS and all(
        offset.isdigit() and int(offset) % ALIGNMENT == 0 for offset in offsets
    )

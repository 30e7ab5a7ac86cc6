"""Weights that ONNX Runtime saved as its kernels want them, and which of them it can read back."""

from __future__ import annotations

from collections.abc import Iterator

from ...onnx_file.protobuf import BYTES, Buffer, Field, encode_field, fields

ALIGNMENT = 64
"""Bytes. The kernels read with instructions that fault on other addresses; the runtime (1.31) aligns from 1 MB on."""

KERNELS = ("MatMul", "FusedMatMul", "Gemm")
"""The kernels whose weights are worth sharing, and are read back correctly. Others rearrange theirs in each session."""

_GRAPH, _INITIALIZER, _EXTERNAL_DATA = 7, 5, 13  # of ModelProto, GraphProto and TensorProto


def readable(model: bytes) -> bytes | None:
    """The saved model without the rearranged weights that could not be read back.

    Args:
        model: a ModelProto, as the runtime saved it.

    Returns:
        A ModelProto, or None where such weights are left in a graph inside a node.
    """
    graph = next(item for item in fields(model, 0, len(model)) if item.number == _GRAPH)
    pieces, kept = [], 0
    for item in fields(model, graph.value, graph.end):
        if item.number == _INITIALIZER and item.wire_type == BYTES:
            entries = list(_kept(model, item))
            kept += sum(_is_prepacked(model, entry) for entry in entries)
            pieces.append(encode_field(_INITIALIZER, b"".join(model[entry.tag : entry.end] for entry in entries)))
        else:
            pieces.append(model[item.tag : item.end])
    changed = b"".join(pieces)
    if changed.count(b"prepacked_") != kept:
        return None
    return b"".join((model[: graph.tag], encode_field(_GRAPH, changed), model[graph.end :]))


def _kept(model: Buffer, tensor: Field) -> Iterator[Field]:
    for item in fields(model, tensor.value, tensor.end):
        if not _is_prepacked(model, item) or _is_readable(_words(model, item)[1]):
            yield item


def _is_prepacked(model: Buffer, item: Field) -> bool:
    return item.number == _EXTERNAL_DATA and _words(model, item)[0].startswith("prepacked_")


def _words(model: Buffer, entry: Field) -> tuple[str, str]:
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

"""TIFF files written byte by byte, so that no decoder's own writer decides what they hold."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, CMYK, YCBCR, LAB = 0, 1, 2, 5, 6, 8
UNCOMPRESSED, LZW, DEFLATE, PACKBITS = 1, 5, 8, 32773


def pack_codes(codes: list[int], bits: int) -> bytes:
    """Numbers of some bits each, the highest bit first."""
    text = "".join(f"{code:0{bits}b}" for code in codes)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def compress(data: bytes, compression: int) -> bytes:
    """The data, compressed in the plainest way that the format allows."""
    if compression == LZW:  # the table is cleared before its codes need ten bits
        codes = [code for start in range(0, len(data), 200) for code in (256, *data[start : start + 200])]
        return pack_codes([*codes, 257], 9)
    if compression == PACKBITS:
        parts = [data[start : start + 128] for start in range(0, len(data), 128)]
        return b"".join(bytes([len(part) - 1]) + part for part in parts)
    return zlib.compress(data) if compression == DEFLATE else data


def encode_samples(samples: Array, bits: int, order: str) -> bytes:
    """Rows of samples, each row beginning at a byte; 32 bits are floats if the samples are."""
    if bits in (8, 16, 32):
        return samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    return b"".join(pack_codes(row.tolist(), bits) for row in samples.reshape(len(samples), -1))


def write_tiff(
    samples: Array,
    photometric: int,
    *,
    bits: int,
    order: str = "<",
    is_planar: bool = False,
    compression: int = UNCOMPRESSED,
    rows_per_strip: int = 0,
    tile: int = 0,
    predictor: int = 1,
    claims: tuple[int, int, int] | None = None,
    tags: dict[int, tuple[int, ...]] | None = None,
) -> bytes:
    """A TIFF file.

    Args:
        samples: what is stored, height x width x channels; differences if there is a predictor.
        photometric: what the samples mean.
        bits: the bits of a sample.
        order: "<" for little endian, ">" for big endian.
        is_planar: whether each channel has strips of its own.
        compression: TIFF's number.
        rows_per_strip: the rows in a strip; all by default.
        tile: the side of tiles; 0 for strips.
        predictor: TIFF's number.
        claims: the width, height and channels that the file states; by default those of the samples.
        tags: further tags of 16-bit numbers.
    """
    height, width, channels = samples.shape
    stated = claims or (width, height, channels)
    rows = rows_per_strip or height
    planes = [samples[..., [index]] for index in range(channels)] if is_planar else [samples]
    parts = []
    for plane in planes:
        if tile:
            padded = np.pad(plane, ((0, -height % tile), (0, -width % tile), (0, 0)))
            blocks = [
                padded[top : top + tile, left : left + tile]
                for top in range(0, height, tile)
                for left in range(0, width, tile)
            ]
        else:
            blocks = [plane[top : top + rows] for top in range(0, height, rows)]
        parts += [compress(encode_samples(block, bits, order), compression) for block in blocks]
    entries: dict[int, tuple[str, tuple[int, ...]]] = {
        256: ("H", (stated[0],)),
        257: ("H", (stated[1],)),
        258: ("H", (bits,) * stated[2]),
        259: ("H", (compression,)),
        262: ("H", (photometric,)),
        277: ("H", (stated[2],)),
        284: ("H", (2 if is_planar else 1,)),
        317: ("H", (predictor,)),
        **{tag: ("H", numbers) for tag, numbers in (tags or {}).items()},
    }
    offsets, counts = (324, 325) if tile else (273, 279)
    if tile:
        entries |= {322: ("H", (tile,)), 323: ("H", (tile,))}
    else:
        entries[278] = ("H", (rows if claims is None else stated[1],))
    entries |= {offsets: ("I", (0,) * len(parts)), counts: ("I", tuple(map(len, parts)))}
    if predictor == 1:
        del entries[317]
    start = 8 + 2 + 12 * len(entries) + 4  # of what does not fit into an entry
    sizes = {tag: len(numbers) * struct.calcsize(kind) for tag, (kind, numbers) in entries.items()}
    extra = sum(size + size % 2 for size in sizes.values() if size > 4)
    positions = np.cumsum([start + extra, *map(len, parts)])[:-1].tolist()
    entries[offsets] = ("I", tuple(positions))
    table, outside = b"", b""
    for tag, (kind, numbers) in sorted(entries.items()):
        value = struct.pack(f"{order}{len(numbers)}{kind}", *numbers)
        table += struct.pack(f"{order}HHI", tag, {"H": 3, "I": 4}[kind], len(numbers))
        if len(value) > 4:
            table += struct.pack(f"{order}I", start + len(outside))
            outside += value + bytes(len(value) % 2)
        else:
            table += value.ljust(4, b"\0")
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
    return head + struct.pack(f"{order}H", len(entries)) + table + bytes(4) + outside + b"".join(parts)

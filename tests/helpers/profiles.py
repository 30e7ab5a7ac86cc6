"""Colour profiles, made by the tables of ICC's specification."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WHITE = struct.pack(">3i", 0xF6D6, 0x10000, 0xD32D)  # D50, in 1/65536


def make_profile(space: bytes, name: str, tags: dict[bytes, bytes]) -> bytes:
    """An ICC profile of version 2, by the specification's tables."""
    text = name.encode() + b"\0"
    tags = {
        b"desc": b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(78),
        b"wtpt": b"XYZ " + bytes(4) + WHITE,
        b"cprt": b"text" + bytes(4) + b"none\0",
        **tags,
    }
    table, body, start = struct.pack(">I", len(tags)), b"", 132 + 12 * len(tags)
    for tag, data in tags.items():
        table += tag + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    head = struct.pack(">I4xI4s4s4s12x4s28x", start + len(body), 0x02400000, b"mntr", space, b"XYZ ", b"acsp")
    return (head + WHITE).ljust(128, b"\0") + table + body


def gray_profile(curve: bytes) -> bytes:
    return make_profile(b"GRAY", "gray", {b"kTRC": b"curv" + bytes(4) + curve})


def gamma(exponent: float) -> bytes:
    return gray_profile(struct.pack(">IH", 1, round(exponent * 256)))


SRGB = ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
"""The XYZ of sRGB's red, green and blue, for D50 as profiles state them."""

DISPLAY_P3 = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))


def power(exponent: float) -> Callable[[Array], Array]:
    return lambda x: x**exponent


def standard(x: Array) -> Array:
    """sRGB's own curve: IEC 61966-2-1."""
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def colour_profile(name: str, primaries: tuple[tuple[float, ...], ...], curve: Callable[[Array], Array]) -> bytes:
    points = np.rint(curve(np.linspace(0, 1, 4096)) * 65535).astype(">u2").tobytes()
    tags = {}
    for letter, primary in zip("rgb", primaries, strict=True):
        fixed = struct.pack(">3i", *(round(number * 65536) for number in primary))
        tags[f"{letter}XYZ".encode()] = b"XYZ " + bytes(4) + fixed
        tags[f"{letter}TRC".encode()] = b"curv" + bytes(4) + struct.pack(">I", 4096) + points
    return make_profile(b"RGB ", name, tags)

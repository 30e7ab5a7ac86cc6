"""Damaged files: pictures that claim what they are not, small pictures of many kinds, and random changes of a file."""

from __future__ import annotations

import io
import random
import struct
import zlib

import numpy as np
from PIL import Image, ImageCms

from helpers.paths import PICTURES


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, interlace: int, data: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")


def make_interlaced_png(pixels: np.ndarray) -> bytes:
    """A gray picture in Adam7's seven passes."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = (pixels[top::down, left::across] for top, left, down, across in passes)
    rows = b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)
    return _png(pixels.shape[1], pixels.shape[0], 1, rows)


def make_png_claiming(width: int, height: int) -> bytes:
    """A PNG whose head claims so many pixels, and that has next to none."""
    return _png(width, height, 0, b"\0" * 1000)


def make_linear_profile() -> bytes:
    """sRGB's profile with its tone curves made straight: pixels hold light, not levels."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    count = struct.unpack(">I", profile[128:132])[0]
    for index in range(count):
        tag, offset, size = struct.unpack(">4sII", profile[132 + 12 * index : 144 + 12 * index])
        if tag in (b"rTRC", b"gTRC", b"bTRC"):  # a curve of no entries is the identity
            profile[offset : offset + size] = (b"curv" + bytes(8)).ljust(size, b"\0")
        if tag == b"desc":  # a name without the letters that mark sRGB
            profile[offset : offset + size] = profile[offset : offset + size].replace(b"s\0R\0G\0B", b"l\0i\0n\0e")
    return bytes(profile)


def make_pictures() -> list[bytes]:
    """Small pictures of many kinds."""
    with Image.open(PICTURES / "cat.jpg") as image:
        picture = image.convert("RGB").resize((64, 48))
    exif = Image.Exif()
    exif[0x0112] = 6
    profile = make_linear_profile()
    made = []
    for kind, mode, options in (
        ("JPEG", "RGB", {"subsampling": 0}),
        ("JPEG", "RGB", {"progressive": True, "exif": exif}),
        ("JPEG", "CMYK", {}),
        ("JPEG", "L", {"icc_profile": profile}),
        ("PNG", "RGB", {"icc_profile": profile}),
        ("PNG", "P", {"transparency": 0}),
        ("PNG", "RGBA", {}),
        ("PNG", "I;16", {}),
        ("WEBP", "RGB", {}),
        ("WEBP", "RGBA", {"lossless": True, "exif": exif}),
        ("BMP", "RGB", {}),
        ("BMP", "P", {}),
        ("TIFF", "RGB", {"compression": "tiff_lzw"}),
        ("TIFF", "CMYK", {}),
        ("TIFF", "F", {}),
        ("GIF", "P", {}),
        ("PPM", "RGB", {}),
        ("TGA", "RGBA", {}),
        ("ICO", "RGBA", {}),
    ):
        converted = picture.convert("L").convert("I;16") if mode == "I;16" else picture.convert(mode)
        file = io.BytesIO()
        converted.save(file, kind, **options)
        made.append(file.getvalue())
    return [*made, make_interlaced_png(np.asarray(picture.convert("L")))]


def damage(data: bytes, rng: random.Random) -> bytes:
    """Cuts, flips, overwrites, doubles or inserts; the heads, where sizes stand, more often than the rest."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        head = min(len(changed), 200)
        place = rng.randrange(head if rng.random() < 0.5 else max(1, len(changed))) if changed else 0
        match rng.randrange(6):
            case 0:
                del changed[place:]
            case 1:
                changed[place : place + 1] = bytes([rng.randrange(256)])
            case 2 if place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            case 3:
                changed[place : place + 4] = rng.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\0\0\xea\x60"))
            case 4:
                changed[place:place] = changed[place : place + rng.randrange(1, 64)]
            case _:
                del changed[place : place + rng.randrange(1, 64)]
    return bytes(changed)

"""Picture files of more than 8 bits, and TIFF files of every layout: right, or refused by name."""

from __future__ import annotations

import io
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.tiffs import (
    BLACK_IS_ZERO,
    CMYK,
    DEFLATE,
    LAB,
    LZW,
    PACKBITS,
    RGB,
    UNCOMPRESSED,
    WHITE_IS_ZERO,
    YCBCR,
    write_tiff,
)
from winml_py import BitmapPixelFormat, ImageFeatureValue, InvalidArgumentError, PictureError, SoftwareBitmap

Array = np.ndarray[Any, Any]

CHANNELS = {WHITE_IS_ZERO: 1, BLACK_IS_ZERO: 1, RGB: 3, CMYK: 4}

READ = {  # photometric interpretation: the bits that are read
    WHITE_IS_ZERO: {"<": (1, 2, 4, 8, 16), ">": (1, 2, 4, 8)},
    BLACK_IS_ZERO: {"<": (1, 2, 4, 8, 12, 16), ">": (1, 2, 4, 8, 16)},
    RGB: {"<": (8, 16), ">": (8, 16)},
    CMYK: {"<": (8, 16), ">": (8, 16)},
}


def to_bytes(levels: Array, bits: int) -> Array:
    return np.rint(levels * (255 / ((1 << bits) - 1))).astype(np.uint8)


def shown(bitmap: SoftwareBitmap) -> Array:
    return SoftwareBitmap.convert(bitmap, BitmapPixelFormat.RGB8).to_numpy().astype(int)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("photometric", CHANNELS)
def test_every_tiff_is_right_or_refused(photometric: int, bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(bits)
    path = tmp_path / "picture.tiff"
    layouts = product("<>", (False, True), (UNCOMPRESSED, LZW, DEFLATE, PACKBITS), (0, 4, 16), (1, 2), (1, 6))
    for order, is_planar, compression, block, predictor, orientation in layouts:
        if predictor == 2 and (compression not in (LZW, DEFLATE) or bits not in (8, 16) or block == 16):
            continue
        channels = CHANNELS[photometric]
        levels = rng.integers(0, 1 << bits, (6, 13, channels))
        stored = (levels ^ ((1 << bits) - 1) if photometric == WHITE_IS_ZERO else levels).astype(np.uint16)
        stored = stored.astype(np.uint8) if bits <= 8 else stored
        if predictor == 2:
            stored = np.diff(stored, axis=1, prepend=stored.dtype.type(0))
        options = {"tile": 16} if block == 16 else {"rows_per_strip": block}
        path.write_bytes(
            write_tiff(
                stored,
                photometric,
                bits=bits,
                order=order,
                is_planar=is_planar,
                compression=compression,
                predictor=predictor,
                tags={274: (orientation,)},
                **options,
            )
        )
        if bits not in READ[photometric][order]:
            with pytest.raises(PictureError, match=r"picture\.tiff is not a picture that can be decoded"):
                SoftwareBitmap.load(path)
            continue
        expected = to_bytes(levels, bits)
        if photometric == CMYK:
            expected = np.asarray(Image.frombytes("CMYK", (13, 6), expected.tobytes()).convert("RGB"))
        expected = np.rot90(expected, -1) if orientation == 6 else expected
        for made in (SoftwareBitmap.load(path), SoftwareBitmap.from_pil(Image.open(path))):
            error = np.abs(shown(made) - expected).max()
            assert error <= (2 if photometric == CMYK else 1), (order, is_planar, compression, options, predictor)


@pytest.mark.parametrize("is_planar", [False, True])
@pytest.mark.parametrize("compression", [UNCOMPRESSED, LZW])
@pytest.mark.parametrize("bits", [8, 16])
def test_alpha_in_tiff(bits: int, compression: int, is_planar: bool) -> None:
    """Beside colours, and beside gray, where Pillow reads 8 bits without planes alone."""
    rng = np.random.default_rng(bits)
    for photometric, order in product((RGB, BLACK_IS_ZERO), "<>"):
        levels = rng.integers(0, 1 << bits, (6, 13, CHANNELS[photometric] + 1)).astype(f"u{bits // 8}")
        data = write_tiff(
            levels,
            photometric,
            bits=bits,
            order=order,
            is_planar=is_planar,
            compression=compression,
            tags={338: (2,)},
        )
        if photometric == BLACK_IS_ZERO and (is_planar or bits == 16):
            with pytest.raises(PictureError, match="not a picture that can be decoded"):
                SoftwareBitmap.load(data)
            continue
        made = SoftwareBitmap.load(data).to_numpy().astype(int)
        expected = to_bytes(levels, bits)
        colours = np.broadcast_to(expected[..., :-1], (6, 13, 3))
        assert np.abs(made - np.dstack([colours, expected[..., -1:]])).max() <= 1


@pytest.mark.parametrize("is_planar", [False, True])
def test_tiff_with_the_colours_of_jpeg_at_half_resolution(is_planar: bool) -> None:
    """Uncompressed, with one colour for four pixels: blocks of four lights, then Cb and Cr."""
    light = np.random.default_rng(0).integers(64, 192, (8, 16), np.uint8)
    blocks = light.reshape(4, 2, 8, 2).transpose(0, 2, 1, 3).reshape(4, 8, 4)
    data = np.dstack([blocks, np.full((4, 8, 1), 100, np.uint8), np.full((4, 8, 1), 140, np.uint8)])
    if is_planar:
        file = write_tiff(light[..., None].repeat(3, 2), YCBCR, bits=8, is_planar=True, tags={530: (1, 1)})
        expected = Image.merge("YCbCr", [Image.fromarray(light)] * 3)
    else:
        file = write_tiff(data.reshape(4, 48, 1), YCBCR, bits=8, claims=(16, 8, 3), tags={530: (2, 2)})
        planes = [light, np.full_like(light, 100), np.full_like(light, 140)]
        expected = Image.merge("YCbCr", [Image.fromarray(plane) for plane in planes])
    assert np.abs(shown(SoftwareBitmap.load(file)) - np.asarray(expected.convert("RGB"), int)).max() <= 2


def test_planes_of_lab_are_refused(tmp_path: Path) -> None:
    gray = np.full((4, 5, 3), (128, 0, 0), np.uint8)
    assert shown(SoftwareBitmap.load(write_tiff(gray, LAB, bits=8)))[0, 0].tolist() == [119, 119, 119]
    (tmp_path / "lab.tiff").write_bytes(write_tiff(gray, LAB, bits=8, is_planar=True))
    with pytest.raises(PictureError, match=r"lab\.tiff is not .*: Lab colour planes"):
        SoftwareBitmap.load(tmp_path / "lab.tiff")


@pytest.mark.parametrize(
    ("dtype", "sample_format"), [(np.int8, 2), (np.int16, 2), (np.int32, 2), (np.uint32, 1), (np.float32, 3)]
)
def test_numbers_without_a_range_are_refused_by_name(dtype: type, sample_format: int, tmp_path: Path) -> None:
    numbers = np.arange(20).reshape(4, 5, 1).astype(dtype)
    path = tmp_path / "levels.tiff"
    path.write_bytes(write_tiff(numbers, 1, bits=numbers.itemsize * 8, tags={339: (sample_format,)}))
    for use in (SoftwareBitmap.load, lambda path: ImageFeatureValue.load(path, fast_decode=True).video_frame):
        with pytest.raises(InvalidArgumentError, match=r"levels\.tiff of mode . has no defined range.*Image.open"):
            use(path)


# PGM and PPM, whose header states white


@pytest.mark.parametrize("white", [1, 15, 255, 256, 1023, 4095, 40_000, 65535])
@pytest.mark.parametrize("is_text", [False, True])
def test_pgm_and_ppm_of_any_white(white: int, is_text: bool, tmp_path: Path) -> None:
    for channels, number in ((1, 2 if is_text else 5), (3, 3 if is_text else 6)):
        levels = np.random.default_rng(white).integers(0, white + 1, (6, 7, channels)).astype(">u2")
        levels[0, :2] = [[0], [white]]
        content = levels if white > 255 else levels.astype(np.uint8)
        data = " ".join(map(str, levels.reshape(-1))).encode() if is_text else content.tobytes()
        path = tmp_path / f"levels{channels}.pnm"  # Pillow maps it, and Windows does not write over it then
        path.write_bytes(b"P%d # a comment\n7 6\n%d\n" % (number, white) + data)
        expected = np.rint(levels / white * 255)
        with Image.open(path) as image:
            for made in (SoftwareBitmap.load(path), SoftwareBitmap.from_pil(image)):
                assert made.bitmap_pixel_format.name == ("GRAY8" if channels == 1 else "RGB8")
                assert np.abs(shown(made) - expected).max() <= 1


def test_a_float_map_has_no_white(tmp_path: Path) -> None:
    (tmp_path / "depth.pfm").write_bytes(b"Pf\n2 1\n-1.0\n" + np.float32([0.5, 7]).tobytes())
    with pytest.raises(InvalidArgumentError, match=r"depth\.pfm of mode F has no defined range"):
        SoftwareBitmap.load(tmp_path / "depth.pfm")


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG2000", "PPM"])
def test_gray_of_16_bits_in_every_format(kind: str) -> None:
    levels = np.linspace(0, 65535, 30 * 40).astype(np.uint16).reshape(30, 40)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, kind)
    assert np.abs(SoftwareBitmap.load(file.getvalue()).to_numpy() - levels / 257).max() <= 0.51

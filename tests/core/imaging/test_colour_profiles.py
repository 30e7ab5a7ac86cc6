"""Colour profiles, made by the tables of ICC's specification, against the formulas of their curves and LittleCMS."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from helpers.pictures import encode
from helpers.profiles import DISPLAY_P3, SRGB, colour_profile, gamma, gray_profile, power, standard
from winml_py import BitmapPixelFormat, InvalidArgumentError, SoftwareBitmap

Array = np.ndarray[Any, Any]


def cubic() -> bytes:
    """A curve of a thousand points."""
    points = np.rint(np.linspace(0, 1, 1000) ** 3 * 65535).astype(">u2")
    return gray_profile(struct.pack(">I", 1000) + points.tobytes())


def levels(light: Array) -> Array:
    """Linear light in sRGB's levels: IEC 61966-2-1."""
    return 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055)


def loaded(pixels: Array, profile: bytes, kind: str) -> Array:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, icc_profile=profile)
    bitmap = SoftwareBitmap.load(file.getvalue())
    assert bitmap.bitmap_pixel_format is BitmapPixelFormat.GRAY8
    np.testing.assert_array_equal(SoftwareBitmap.from_pil(Image.open(file)).to_numpy(), bitmap.to_numpy())
    return bitmap.to_numpy().astype(float)


CURVES: list[tuple[bytes, Callable[[Array], Array]]] = [
    (gamma(1), lambda x: x),
    (gamma(1.8), lambda x: x ** (461 / 256)),
    (gamma(2.2), lambda x: x ** (563 / 256)),
    (cubic(), lambda x: x**3),
]


@pytest.mark.parametrize(("profile", "curve"), CURVES)
def test_a_gray_profile_holds_for_16_and_8_bits(profile: bytes, curve: Callable[[Array], Array]) -> None:
    wide = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    expected = levels(curve(wide / 65535))
    for kind in ("PNG", "TIFF"):
        assert np.abs(loaded(wide, profile, kind) - expected).max() <= 0.6
    narrow = np.arange(256, dtype=np.uint8).reshape(16, 16)
    expected = levels(curve(narrow / 255))
    for kind in ("PNG", "TIFF"):
        assert np.abs(loaded(narrow, profile, kind) - expected).max() <= 0.6


@pytest.mark.parametrize(("profile", "_curve"), CURVES)
def test_16_bits_are_as_littlecms_has_8(profile: bytes, _curve: object) -> None:
    narrow = np.arange(256, dtype=np.uint8).reshape(16, 16)
    read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    exact = ImageCms.buildTransform(read, srgb, "L", "RGB", flags=ImageCms.Flags.NOOPTIMIZE)
    expected = np.asarray(exact.apply(Image.fromarray(narrow))).astype(float)
    wide = loaded(narrow.astype(np.uint16) * 257, profile, "PNG")
    assert np.abs(wide[..., None] - expected).max() <= 1


@pytest.mark.parametrize(("profile", "curve"), CURVES)
def test_the_alpha_channel_of_a_gray_picture_stays(profile: bytes, curve: Callable[[Array], Array]) -> None:
    gray, alpha = np.arange(256, dtype=np.uint8).reshape(16, 16), np.full((16, 16), 77, np.uint8)
    file = io.BytesIO()
    Image.merge("LA", [Image.fromarray(gray), Image.fromarray(alpha)]).save(file, "PNG", icc_profile=profile)
    made = SoftwareBitmap.from_pil(Image.open(file)).to_numpy()
    np.testing.assert_array_equal(made, SoftwareBitmap.load(file.getvalue()).to_numpy())
    assert np.abs(made[..., :3] - levels(curve(gray / 255))[..., None]).max() <= 0.6
    assert (made[..., 3] == 77).all()


@pytest.mark.parametrize(("dtype", "mode"), [(np.int32, "I"), (np.float32, "F")])
def test_numbers_without_a_range_are_refused_with_a_profile_too(dtype: type, mode: str) -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4), 70_000, dtype)).save(file, "TIFF", icc_profile=gamma(1))
    with pytest.raises(InvalidArgumentError, match=f"mode {mode} has no defined range"):
        SoftwareBitmap.load(file.getvalue())


# Profiles of colours


PROFILES = {
    "sRGB IEC61966-2.1": (SRGB, standard, True),
    "a camera's own": (SRGB, standard, True),
    "GIMP built-in Linear sRGB": (SRGB, power(1), False),
    "sRGB-elle-V2-g10.icc": (SRGB, power(1), False),
    "sRGB gamma 2.2": (SRGB, power(2.2), False),
    "Display P3": (DISPLAY_P3, standard, False),
    "sRGB, it says": (DISPLAY_P3, standard, False),
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("name", PROFILES)
def test_curves_and_primaries_decide_not_names(name: str, kind: str) -> None:
    primaries, curve, is_srgb = PROFILES[name]
    profile = colour_profile(name, primaries, curve)
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    pixels[0, :, :] = np.arange(0, 256, 4)[:, None]
    file = encode(Image.fromarray(pixels), kind, icc_profile=profile, **({"lossless": True} if kind == "WEBP" else {}))
    stored = Image.open(io.BytesIO(file)).convert("RGB")
    read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    theirs = np.asarray(ImageCms.profileToProfile(stored, read, srgb)).astype(int)
    light = curve(np.asarray(stored) / 255) @ np.array(primaries) @ np.linalg.inv(np.array(SRGB))
    by_formula = levels(np.clip(light, 0, 1))
    for bitmap in (SoftwareBitmap.load(file), SoftwareBitmap.from_pil(Image.open(io.BytesIO(file)))):
        ours = SoftwareBitmap.convert(bitmap, BitmapPixelFormat.RGB8).to_numpy().astype(int)
        assert np.abs(ours - theirs).max() <= 1
        assert np.abs(ours - by_formula).max() <= 2
        assert np.array_equal(ours, np.asarray(stored)) is is_srgb


def test_a_gray_profile_with_the_curve_of_srgb_changes_nothing() -> None:
    points = np.rint(standard(np.linspace(0, 1, 4096)) * 65535).astype(">u2").tobytes()
    narrow = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(loaded(narrow, gray_profile(struct.pack(">I", 4096) + points), "PNG"), narrow)

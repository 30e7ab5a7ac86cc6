"""Pillow images that carry an EXIF turn or a colour profile, and HEIC pictures: they become what their files become."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from helpers import damaged_files
from helpers.models import unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    PictureError,
    SoftwareBitmap,
)

ORIENTATION = 0x0112
CONTRACT = {"ImageContract": ImageContract(BitmapPixelFormat.RGB8)}


def picture(size: tuple[int, int] = (48, 32)) -> Image.Image:
    """Every corner has a colour of its own, so that each of the eight turns gives another picture."""
    image = Image.new("RGB", size)
    for corner, colour in zip(((0, 0), (1, 0), (0, 1), (1, 1)), ("red", "lime", "blue", "white"), strict=True):
        image.paste(colour, tuple(side * at // 2 for side, at in zip(size * 2, (*corner, 2, 2), strict=True)))
    return image


def file_of(orientation: int, kind: str = "JPEG", image: Image.Image | None = None) -> bytes:
    exif, file = Image.Exif(), io.BytesIO()
    exif[ORIENTATION] = orientation
    (image or picture()).save(file, kind, exif=exif)
    return file.getvalue()


def tensor_of(value: Any) -> np.ndarray[Any, Any]:
    binding = LearningModelBinding(LearningModelSession(LearningModel.load(unary(shape=(1, 3, "h", "w")))))
    binding.bind("x", value, CONTRACT)
    return binding._session.evaluate(binding).outputs["y"].to_numpy()


def as_tensor(image: Image.Image) -> np.ndarray[Any, Any]:
    return np.asarray(image.convert("RGB"), np.float32).transpose(2, 0, 1)[None]


@pytest.mark.parametrize("orientation", [*range(1, 9), 0, 9, 300])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_an_image_gives_the_tensor_of_its_file(orientation: int, kind: str) -> None:
    data = file_of(orientation, kind)
    image = Image.open(io.BytesIO(data))
    tensor = tensor_of(image)
    assert tensor.shape[2:] == ((48, 32) if orientation in range(5, 9) else (32, 48))
    np.testing.assert_array_equal(tensor, tensor_of(ImageFeatureValue.load(data)))
    np.testing.assert_array_equal(tensor, as_tensor(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))))


@pytest.mark.parametrize(
    "name",
    ["JPEG RGB", "JPEG CMYK", "JPEG L", "PNG RGB", "PNG RGBA", "PNG P", "TIFF RGB", "TIFF CMYK", "WEBP RGBA"],
)
def test_an_image_with_a_profile_gives_the_tensor_of_its_file(name: str) -> None:
    kind, mode = name.split()
    file, profile, exif = io.BytesIO(), damaged_files.make_linear_profile(), Image.Exif()
    exif[ORIENTATION] = 6
    shaded = Image.merge("RGB", [Image.linear_gradient("L").rotate(turn).resize((48, 32)) for turn in (0, 90, 180)])
    shaded.convert(mode).save(file, kind, icc_profile=profile, exif=exif)
    tensor = tensor_of(Image.open(file))
    for value in (ImageFeatureValue.load(file.getvalue()), ImageFeatureValue.load(file.getvalue(), fast_decode=True)):
        np.testing.assert_array_equal(tensor, tensor_of(value))
    with Image.open(file) as image:
        without = image.copy()
    del without.info["icc_profile"]
    if mode in ("CMYK", "L"):  # the profile is one for three channels: it is left out
        np.testing.assert_array_equal(tensor, tensor_of(without))
        return
    profiles = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    expected = ImageCms.profileToProfile(ImageOps.exif_transpose(without).convert("RGB"), *profiles)
    assert expected is not None
    np.testing.assert_array_equal(tensor, as_tensor(expected))
    assert np.abs(tensor - tensor_of(without)).mean() > 20


def test_colours_that_were_converted_already_are_not_converted_again() -> None:
    file, profile = io.BytesIO(), damaged_files.make_linear_profile()
    picture().save(file, "PNG", icc_profile=profile)
    profiles = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    converted = ImageCms.profileToProfile(Image.open(file), *profiles)
    assert converted is not None
    np.testing.assert_array_equal(tensor_of(converted), as_tensor(converted))


def test_a_copy_that_carries_the_turn_is_turned() -> None:
    image = Image.open(io.BytesIO(file_of(6, "PNG")))
    expected = as_tensor(ImageOps.exif_transpose(image))
    for copy in (image.copy(), image.convert("RGBA"), image.convert("P")):
        np.testing.assert_array_equal(tensor_of(copy), expected)
    smaller = image.resize((24, 16), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(tensor_of(smaller), as_tensor(ImageOps.exif_transpose(smaller)))
    smaller.getexif()[ORIENTATION] = "6"  # text means nothing
    np.testing.assert_array_equal(tensor_of(smaller), as_tensor(smaller))
    picture().save(file := io.BytesIO(), "PNG", exif=b"Exif\0\0garbage")
    np.testing.assert_array_equal(tensor_of(ImageFeatureValue.load(file.getvalue())), as_tensor(picture()))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG"])
def test_an_image_that_was_turned_already_is_not_turned_again(kind: str) -> None:
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file_of(6, kind))))
    assert upright.size == (32, 48)
    np.testing.assert_array_equal(tensor_of(upright), as_tensor(upright))


def test_gray_and_transparent_images_are_turned() -> None:
    for mode in ("L", "RGBA", "I;16", "1"):
        image = Image.open(io.BytesIO(file_of(8, "PNG", picture().convert("L").convert(mode))))
        assert image.mode == mode
        np.testing.assert_array_equal(
            SoftwareBitmap.from_pil(image).to_numpy(), SoftwareBitmap.load(file_of(8, "PNG", image)).to_numpy()
        )
        assert SoftwareBitmap.from_pil(image).pixel_width == 32


# HEIC

HEADER = b"\0\0\0\x1cftypheic\0\0\0\0mif1heicmiaf" + bytes(64)


@pytest.mark.parametrize("brand", [b"heic", b"heix", b"mif1", b"msf1", b"hevc"])
def test_heic_is_named_where_its_reader_is_missing(
    brand: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if brand in (b"mif1", b"msf1"):
        from PIL import features

        if features.check("avif"):
            pytest.skip("Pillow's reader of AVIF takes these, and says what is wrong with them")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    data, path = HEADER.replace(b"heic", brand, 1), tmp_path / "photo.jpg"  # its contents count, not its name
    path.write_bytes(data)
    size = f"Data of {len(data)} bytes"
    for source, name in ((path, str(path)), (data, size), (io.BytesIO(data), size)):
        with pytest.raises(PictureError) as info:
            SoftwareBitmap.load(source)
        assert str(info.value) == (
            f"{name} is a HEIC picture and requires pillow-heif, which is not installed. Run pip install pillow-heif."
        )


def heic(orientation: int = 1, size: tuple[int, int] = (64, 48)) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif")
    exif, file = Image.Exif(), io.BytesIO()
    exif[ORIENTATION] = orientation
    pillow_heif.from_pillow(picture(size)).save(file, quality=-1, exif=exif.tobytes())
    data: bytes = file.getvalue()
    return data


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_heic_is_read_where_its_reader_is_there(orientation: int, tmp_path: Path) -> None:
    data = heic(orientation)
    image = picture((64, 48))
    image.getexif()[ORIENTATION] = orientation
    expected = as_tensor(ImageOps.exif_transpose(image))
    path = tmp_path / "photo.heic"
    path.write_bytes(data)
    for source in (path, data, io.BytesIO(data)):
        tensor = tensor_of(ImageFeatureValue.load(source))
        np.testing.assert_allclose(tensor, expected, atol=3)  # the colours are stored as brightness and two differences
    np.testing.assert_array_equal(tensor_of(ImageFeatureValue.load(data, fast_decode=True)), tensor)
    assert "HEIF" not in Image.OPEN  # Pillow itself has not changed


def test_heic_has_the_limit_of_pixels() -> None:
    with pytest.raises(PictureError, match="more than the limit of 100"):
        SoftwareBitmap.load(heic(), max_pixels=100)


def test_damaged_heic() -> None:
    data = heic()
    for damaged in (data[:200], data[: len(data) // 2], HEADER):
        with pytest.raises(PictureError, match="is not a picture that can be decoded"):
            SoftwareBitmap.load(damaged)

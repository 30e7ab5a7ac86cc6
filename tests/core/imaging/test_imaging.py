"""Pictures: formats, decoding, geometry, tensorizing and back, each against a slow reference."""

from __future__ import annotations

import io
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers import reference
from helpers.tensorizing import detensorize, tensorize
from winml_py import (
    BitmapBounds,
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModelFeatureKind,
    LearningModelPixelRange,
    PictureError,
    SoftwareBitmap,
    VideoFrame,
)
from winml_py.errors import IllegalCallError, PictureNotFoundError

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

FORMATS = ["GRAY8", "RGB8", "BGR8", "RGBA8", "BGRA8"]
TARGETS = ["GRAY8", "RGBA8", "BGRA8"]
RANGES = [member.name for member in LearningModelPixelRange]
RNG = np.random.default_rng(0)


def bitmap(pixel_format: str, width: int, height: int) -> SoftwareBitmap:
    made = SoftwareBitmap(BitmapPixelFormat[pixel_format], width, height)
    made.to_numpy()[:] = RNG.integers(0, 256, made.to_numpy().shape, np.uint8)
    return made


def gray(*colours: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    pixels = np.stack(colours, -1)
    picture = SoftwareBitmap.from_array(pixels.reshape(1, -1, 3), BitmapPixelFormat.RGB8)
    out = np.empty((1, 1, colours[0].size), np.float32)
    tensorize(picture, image("GRAY8"), out)
    return out.astype(np.uint8).reshape(colours[0].shape)


def image(target: str, pixel_range: str = "ZERO_TO255") -> ImageContract:
    return ImageContract(BitmapPixelFormat[target], LearningModelPixelRange[pixel_range])


# Tensorize and detensorize


def test_bounds_are_stretched() -> None:
    picture = bitmap("RGB8", 20, 10)
    out = np.empty((3, 8, 8), np.float32)
    tensorize(picture, image("RGBA8"), out, BitmapBounds(3, 2, 15, 4))
    expected = reference.scale(picture.to_numpy()[2:6, 3:18], 8, 8)
    np.testing.assert_array_equal(out, expected.transpose(2, 0, 1))


def test_gray_is_truncated_for_every_colour_on_a_grid() -> None:
    levels = np.arange(0, 256, 15, dtype=np.uint8)
    red, green, blue = (plane.reshape(-1) for plane in np.meshgrid(levels, levels, levels))
    expected = [reference.gray(*map(int, colour)) for colour in zip(red, green, blue, strict=True)]
    assert gray(red, green, blue).tolist() == expected


@pytest.mark.parametrize(("source", "target", "pixel_range"), list(product(TARGETS, FORMATS, RANGES)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_detensorizing(source: str, target: str, pixel_range: str, dtype: Any) -> None:
    scale, shift = reference.SCALES[pixel_range]
    exact = RNG.integers(-20, 280, (1 if source == "GRAY8" else 3, 6, 7)).astype(np.float32)
    exact += RNG.choice([0, 0.5, 0.25, -0.3], exact.shape).astype(np.float32)  # halves: the rounding shows
    tensor = (exact / np.float32(scale) - np.float32(shift)).astype(dtype)
    tensor[0, 0, :3] = np.nan, np.inf, -np.inf
    picture = SoftwareBitmap(BitmapPixelFormat[target], 7, 6)
    detensorize(tensor, image(source, pixel_range), picture)
    np.testing.assert_array_equal(picture.to_numpy(), reference.detensorize(tensor, source, target, pixel_range))


@pytest.mark.parametrize("target", [*FORMATS, "GRAY16", "RGBA16"])
def test_detensorizing_stretches(target: str) -> None:
    tensor = RNG.integers(0, 256, (3, 6, 8)).astype(np.float32)
    picture = SoftwareBitmap(BitmapPixelFormat[target], 5, 9)
    detensorize(tensor, image("RGBA8"), picture)
    scaled = reference.scale(tensor.astype(np.uint8).transpose(1, 2, 0), 5, 9)
    eight = SoftwareBitmap.convert(picture, BitmapPixelFormat.RGB8)
    if "GRAY" in target:
        scaled = np.stack([gray(*scaled.transpose(2, 0, 1))] * 3, axis=-1)
    np.testing.assert_array_equal(eight.to_numpy(), scaled)


@pytest.mark.parametrize("pixel_range", RANGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_byte_survives_there_and_back(pixel_range: str, dtype: Any) -> None:
    picture = SoftwareBitmap(BitmapPixelFormat.RGB8, 16, 16)
    picture.to_numpy()[..., 0] = picture.to_numpy()[..., 1] = np.arange(256, dtype=np.uint8).reshape(16, 16)
    tensor = np.empty((3, 16, 16), dtype)
    tensorize(picture, image("BGRA8", pixel_range), tensor)
    back = SoftwareBitmap(BitmapPixelFormat.RGB8, 16, 16)
    detensorize(tensor, image("BGRA8", pixel_range), back)
    np.testing.assert_array_equal(back.to_numpy(), picture.to_numpy())


# Bitmaps


def converted_to_gray(colours: np.ndarray[Any, Any]) -> list[int]:
    """The grays of colours, by `SoftwareBitmap.convert`."""
    picture = SoftwareBitmap.from_array(colours.reshape(-1, 1, 3), BitmapPixelFormat.RGB8)
    return SoftwareBitmap.convert(picture, BitmapPixelFormat.GRAY8).to_numpy().reshape(-1).tolist()


def test_colours_become_gray_in_linear_light() -> None:
    levels = np.arange(256, dtype=np.uint8)
    assert converted_to_gray(np.stack([levels] * 3, axis=-1)) == levels.tolist()
    assert converted_to_gray(255 * np.eye(3, dtype=np.uint8)) == [127, 220, 76]
    colours = RNG.integers(0, 256, (100_000, 3), np.uint8)
    assert converted_to_gray(colours) == [reference.linear_gray(*colour) for colour in colours.tolist()]


@pytest.mark.parametrize(("source", "target"), list(product([*FORMATS, "GRAY16", "RGBA16"], repeat=2)))
def test_conversion_goes_by_colour(source: str, target: str) -> None:
    base = bitmap("GRAY8" if "GRAY" in source else "RGBA8", 5, 4)
    base.to_numpy()[..., -1:] = 255
    start = SoftwareBitmap.convert(base, BitmapPixelFormat[source])
    end = SoftwareBitmap.convert(SoftwareBitmap.convert(start, BitmapPixelFormat[target]), BitmapPixelFormat.RGB8)
    expected = SoftwareBitmap.convert(start, BitmapPixelFormat.RGB8).to_numpy()
    if "GRAY" in target and "GRAY" not in source:
        grays = [[reference.linear_gray(*map(int, colour)) for colour in row] for row in expected]
        expected = np.stack([np.array(grays, np.uint8)] * 3, axis=-1)
    np.testing.assert_array_equal(end.to_numpy(), expected)


def test_a_bitmap_is_a_view() -> None:
    array = np.zeros((4, 6, 3), np.uint8)
    made = SoftwareBitmap.from_array(array[:, ::-1], BitmapPixelFormat.BGR8)
    made.to_numpy()[0, 0] = 9
    assert array[0, 5].tolist() == [9, 9, 9]
    assert (made.pixel_width, made.pixel_height) == (6, 4)
    copy = SoftwareBitmap.copy(made)
    assert not np.shares_memory(copy.to_numpy(), array)
    np.testing.assert_array_equal(np.asarray(copy), np.asarray(made))
    assert np.shares_memory(np.asarray(made), array)


@pytest.mark.parametrize(
    ("array", "pixel_format", "words"),
    [
        (np.zeros((4, 6), np.uint8), "RGB8", "uint8 array of height x width x 3, got 4x6 of uint8"),
        (np.zeros((4, 6, 4), np.uint8), "RGB8", "got 4x6x4"),
        (np.zeros((4, 6, 3), np.float32), "RGB8", "of float32"),
        (np.zeros((3, 4, 6), np.uint8), "RGB8", "For RGB8, expected a uint8 array of height x width x 3, got 3x4x6"),
        (np.zeros((4, 6, 3), np.uint8), "GRAY8", "uint8 array of height x width, got"),
        (np.zeros((0, 6, 3), np.uint8), "RGB8", "has no pixels"),
        (np.zeros((4, 6), np.uint8), "NV12", "must be a multiple of 3, got 4"),
        (np.zeros((6, 5), np.uint8), "NV12", "NV12 pictures cannot have the size 5x4"),
        (np.zeros((6, 5), np.uint16), "P010", "both sides even"),
        (np.zeros((4, 5, 2), np.uint8), "YUY2", "YUY2 pictures cannot have the size 5x4"),
        (np.zeros((6, 4, 3), np.uint8), "NV12", "uint8 array of 3/2 height x width"),
        (np.zeros((4, 6), np.uint8), "GRAY16", "a uint16 array"),
    ],
)
def test_arrays_that_are_no_such_picture(array: Any, pixel_format: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        SoftwareBitmap.from_array(array, BitmapPixelFormat[pixel_format])


def test_empty_bitmaps_and_closed_ones() -> None:
    for width, height in ((0, 1), (1, 0), (-1, 5), (2.5, 3)):
        with pytest.raises(InvalidArgumentError, match="Pass a whole number of 1 or more"):
            SoftwareBitmap(BitmapPixelFormat.BGRA8, width, height)
    with VideoFrame(BitmapPixelFormat.BGRA8, 2, 3) as frame, frame.software_bitmap as inner:
        kept = inner.to_numpy()
    frame.close()
    with pytest.raises(IllegalCallError, match="closed"):
        inner.to_numpy()
    assert kept.shape == (3, 2, 4)
    with pytest.raises(InvalidArgumentError, match="Expected at least one picture"):
        ImageFeatureValue([])
    assert ImageFeatureValue([frame]).kind is LearningModelFeatureKind.IMAGE


# Files and Pillow images


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_pillow_modes(mode: str) -> None:
    with Image.open(Path(__file__).parents[3] / "samples" / "pictures" / "cat.jpg") as photo:
        small = photo.resize((20, 12))
    if mode == "I;16":
        picture = Image.fromarray((np.asarray(small.convert("L")).astype(np.uint16)) * 257)
        expected = np.asarray(small.convert("L"))
    else:
        picture = small.convert("L" if mode == "LA" else "P" if mode == "PA" else "RGB").convert(mode)
        expected = np.asarray(picture.convert({"1": "L", "L": "L"}.get(mode, "RGB")))
    assert picture.mode == mode
    made = SoftwareBitmap.from_pil(picture)
    np.testing.assert_array_equal(made.to_numpy()[..., :3] if made.to_numpy().ndim == 3 else made.to_numpy(), expected)
    assert made.bitmap_pixel_format.name == {"1": "GRAY8", "L": "GRAY8", "I;16": "GRAY8"}.get(
        mode, "RGBA8" if "A" in mode else "RGB8"
    )
    assert np.asarray(made.to_pil()).shape[:2] == (12, 20)


@pytest.mark.parametrize(("mode", "white"), [("I", 4000), ("F", 1.0)])
def test_pillow_modes_without_a_range(mode: str, white: float, tmp_path: Path) -> None:
    image = Image.fromarray((np.linspace(0, 1, 256) * white).reshape(16, 16).astype({"I": np.int32, "F": "f4"}[mode]))
    assert image.mode == mode
    image.save(tmp_path / "levels.tiff")
    for use in (lambda: SoftwareBitmap.from_pil(image), lambda: SoftwareBitmap.load(tmp_path / "levels.tiff")):
        with pytest.raises(InvalidArgumentError, match=rf"mode {mode} has no defined range, .* \* 255 / white"):
            use()
    made = SoftwareBitmap.from_pil(image.point(lambda level: level * 255 / white).convert("L"))
    assert np.abs(made.to_numpy().reshape(-1) - np.arange(256.0)).max() <= 1


def test_pillow_images_are_copies() -> None:
    for pixel_format in FORMATS:
        picture = bitmap(pixel_format, 4, 3)
        image = picture.to_pil()
        before = np.array(image)
        picture.to_numpy()[:] = 255 - picture.to_numpy()
        np.testing.assert_array_equal(np.array(image), before)


def test_files_that_are_no_pictures(tmp_path: Path, cat: Path) -> None:
    with pytest.raises(PictureNotFoundError, match=r"nope.*: There is no such picture"):
        SoftwareBitmap.load(tmp_path / "nope.png")
    path = tmp_path / "text.png"
    path.write_text("not a picture")
    for source, words in (
        (path, r"text\.png is not a picture that can be decoded"),
        (tmp_path, "Expected a picture, got the folder"),
        (b"", "Expected a picture, got 0 bytes"),
        (b"not a picture", "is not a picture that can be decoded"),
        (cat.read_bytes()[:2000], "is not a picture that can be decoded"),
    ):
        with pytest.raises(PictureError, match=words):
            SoftwareBitmap.load(source)


def test_saving_and_loading(tmp_path: Path) -> None:
    for pixel_format in FORMATS:
        picture = bitmap(pixel_format, 9, 7)
        path = tmp_path / f"{pixel_format}.png"
        picture.save(path)
        again = SoftwareBitmap.convert(SoftwareBitmap.load(path), BitmapPixelFormat.RGBA8)
        expected = SoftwareBitmap.convert(picture, BitmapPixelFormat.RGBA8)
        np.testing.assert_array_equal(again.to_numpy(), expected.to_numpy())
    opaque = SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 4)
    opaque.to_numpy()[:] = 255
    opaque.save(tmp_path / "opaque.jpg")
    assert SoftwareBitmap.load(tmp_path / "opaque.jpg").to_numpy().min() == 255
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".jpg", *[".png"] * 5]  # and no temporary files


def test_a_failed_save_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = bitmap("RGB8", 4, 4)
    path = tmp_path / "kept.png"
    path.write_bytes(b"kept")

    def break_off(self: Image.Image, file: io.BufferedWriter, *_: Any) -> None:
        file.write(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(Image.Image, "save", break_off)
    with pytest.raises(PictureError, match="the disk is full"):
        picture.save(path)
    assert path.read_bytes() == b"kept"
    assert os.listdir(tmp_path) == ["kept.png"]
    with pytest.raises(PictureError, match="Pictures cannot be saved with this file extension"):
        picture.save(tmp_path / "picture.txt")


# Copies and buffers


def test_bitmaps_copy_from_and_to_buffers() -> None:
    source = bitmap("BGRA8", 5, 3)
    whole = bytearray(source.to_numpy().nbytes + 4)
    source.copy_to_buffer(whole)
    again = SoftwareBitmap.create_copy_from_buffer(whole, BitmapPixelFormat.BGRA8, 5, 3)
    np.testing.assert_array_equal(again.to_numpy(), source.to_numpy())
    gray = SoftwareBitmap(BitmapPixelFormat.GRAY8, 5, 3)
    source.copy_to(gray)
    np.testing.assert_array_equal(gray.to_numpy(), SoftwareBitmap.convert(source, gray.bitmap_pixel_format).to_numpy())
    view = source.get_read_only_view()
    assert view.is_read_only
    assert np.shares_memory(view.to_numpy(), source.to_numpy())
    assert not source.is_read_only
    for use in (
        lambda: source.copy_to_buffer(bytearray(10)),
        lambda: source.copy_from_buffer(bytes(10)),
        lambda: source.copy_to(SoftwareBitmap(BitmapPixelFormat.BGRA8, 3, 5)),
    ):
        with pytest.raises(InvalidArgumentError):
            use()


@pytest.mark.parametrize(("source", "target"), list(product([*FORMATS, "RGBA16"], ["RGB8", "BGRA8"])))
def test_frames_copy_to_frames(source: str, target: str) -> None:
    made = VideoFrame.create_with_software_bitmap(bitmap(source, 20, 10))
    frame = VideoFrame(BitmapPixelFormat[target], 8, 8)
    made.copy_to_async(frame).get()
    rgb = SoftwareBitmap.convert(made.software_bitmap, BitmapPixelFormat.RGB8).to_numpy()
    got = SoftwareBitmap.convert(frame.software_bitmap, BitmapPixelFormat.RGB8).to_numpy()
    np.testing.assert_array_equal(got, reference.scale(rgb[:, 5:15], 8, 8))
    frame.software_bitmap.to_numpy()[:] = 0
    made.copy_to(frame, BitmapBounds(1, 2, 4, 3), BitmapBounds(2, 1, 4, 3))
    got = SoftwareBitmap.convert(frame.software_bitmap, BitmapPixelFormat.RGB8).to_numpy()
    np.testing.assert_array_equal(got[1:4, 2:6], rgb[2:5, 1:5])
    assert not got[4:].any()
    assert made.direct3d_surface is None
    with pytest.raises(InvalidArgumentError, match="read-only"):
        made.copy_to(VideoFrame.create_with_software_bitmap(frame.software_bitmap.get_read_only_view()))


def one_pixel_views(channels: int) -> list[np.ndarray[Any, Any]]:
    """One pixel of a picture: numpy calls it contiguous whatever its strides are."""
    picture = np.zeros((8, 8, channels), np.uint8)
    planes = np.zeros((channels, 1, 1), np.uint8)
    return [picture[:1, :1], picture[:1, ::-1][:, :1], picture[::2, ::2][:1, :1], planes.transpose(1, 2, 0)]


@pytest.mark.parametrize("view", range(4))
@pytest.mark.parametrize("pixel_format", [BitmapPixelFormat.BGR8, BitmapPixelFormat.BGRA8])
def test_a_picture_of_one_pixel_is_written(pixel_format: BitmapPixelFormat, view: int) -> None:
    pixels = one_pixel_views(4 if pixel_format == BitmapPixelFormat.BGRA8 else 3)[view]
    numbers = np.array([10, 20, 30], np.float32).reshape(3, 1, 1)
    detensorize(numbers, ImageContract(), SoftwareBitmap.from_array(pixels, pixel_format))
    assert pixels[0, 0].tolist() == [10, 20, 30, 255][: pixels.shape[2]]

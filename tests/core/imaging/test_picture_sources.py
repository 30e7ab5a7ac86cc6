"""Where pictures come from: every kind of file, colour profiles, limits, reduced decoding, videos."""

from __future__ import annotations

import io
import logging
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageCms

from helpers import damaged_files
from helpers.models import unary
from helpers.pictures import encode, write_video
from helpers.profiles import DISPLAY_P3, colour_profile, gamma, standard
from helpers.sessions import open_binding
from winml_py import (
    BitmapAlphaMode,
    BitmapBounds,
    BitmapPixelFormat,
    ClosedError,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    PictureError,
    SoftwareBitmap,
    VideoReader,
)
from winml_py.errors import PictureNotFoundError, WinMLError
from winml_py.scaling import Stretch

RGB8, GRAY8, RGBA8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.GRAY8, BitmapPixelFormat.RGBA8


def photograph(size: tuple[int, int] = (451, 300)) -> Image.Image:
    with Image.open(Path(__file__).parents[3] / "samples" / "pictures" / "cat.jpg") as image:
        return image.convert("RGB").resize(size, Image.Resampling.BICUBIC)


def rgb(bitmap: SoftwareBitmap) -> np.ndarray:
    return SoftwareBitmap.convert(bitmap, RGB8).to_numpy()


# Files


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {"subsampling": 0}),
        ("JPEG", {"subsampling": 1}),
        ("JPEG", {"subsampling": 2}),
        ("JPEG", {"progressive": True}),
        ("JPEG", {"optimize": True, "quality": 30}),
        ("JPEG", {"restart_marker_blocks": 4}),
        ("PNG", {}),
        ("PNG", {"optimize": True}),
        ("WEBP", {"quality": 80}),
        ("WEBP", {"lossless": True}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("TIFF", {"compression": "tiff_adobe_deflate"}),
        ("TIFF", {"compression": "jpeg"}),
        ("PPM", {}),
        ("TGA", {}),
    ],
)
@pytest.mark.parametrize("size", [(451, 300), (33, 17), (1, 1)])
def test_files_decode_as_pillow_does(kind: str, options: dict[str, Any], size: tuple[int, int]) -> None:
    data = encode(photograph(size), kind, **options)
    with Image.open(io.BytesIO(data)) as image:
        expected = np.asarray(image.convert("RGB"))
    np.testing.assert_array_equal(rgb(SoftwareBitmap.load(data)), expected)


@pytest.mark.parametrize("mode", ["1", "L", "P", "PA", "LA", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_files_of_every_mode(mode: str) -> None:
    picture = photograph((40, 30)).convert("L" if mode == "I;16" else mode.replace("PA", "P"))
    kinds = {"CMYK": "JPEG", "YCbCr": "JPEG", "PA": "PNG", "1": "PNG"}
    options: dict[str, Any] = {}
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture).astype(np.uint16) * 257)
    elif mode == "PA":
        options = {"transparency": 3}
    data = encode(picture, kinds.get(mode, "PNG"), **options)
    made = SoftwareBitmap.load(data)
    with Image.open(io.BytesIO(data)) as image:
        if mode == "I;16":
            expected = np.asarray(photograph((40, 30)).convert("L"))
            assert made.bitmap_pixel_format is GRAY8
            np.testing.assert_array_equal(made.to_numpy(), expected)
            return
        has_alpha = image.has_transparency_data
        expected = np.asarray(image.convert("RGBA" if has_alpha else "RGB"))
    np.testing.assert_array_equal(SoftwareBitmap.convert(made, RGBA8 if has_alpha else RGB8).to_numpy(), expected)


def test_an_interlaced_png_and_the_first_frame() -> None:
    # Pillow writes no interlaced files: this one, of 8x8, was made by hand, seven passes one after the other.
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    np.testing.assert_array_equal(SoftwareBitmap.load(damaged_files.make_interlaced_png(pixels)).to_numpy(), pixels)
    frames = [Image.new("RGB", (6, 5), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "TIFF", "WEBP"):
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:])
        assert tuple(rgb(SoftwareBitmap.load(data))[0, 0].astype(int) // 200) == (1, 0, 0)


# Colour profiles


def foreign_profile() -> bytes:
    """A profile whose red and blue are exchanged, so that nobody can overlook it."""
    made = ImageCms.createProfile("LAB")
    return bytes(ImageCms.ImageCmsProfile(made).tobytes())


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_an_srgb_profile_changes_nothing(kind: str) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain, marked = encode(photograph((40, 30)), kind), encode(photograph((40, 30)), kind, icc_profile=profile)
    np.testing.assert_array_equal(rgb(SoftwareBitmap.load(plain)), rgb(SoftwareBitmap.load(marked)))


def test_a_broken_profile_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    plain = SoftwareBitmap.load(encode(photograph((40, 30)), "PNG"))
    with caplog.at_level(logging.WARNING, "winml_py"):
        broken = SoftwareBitmap.load(encode(photograph((40, 30)), "PNG", icc_profile=b"no profile" * 20))
        misfit = SoftwareBitmap.load(encode(photograph((40, 30)), "PNG", icc_profile=foreign_profile()))
    np.testing.assert_array_equal(broken.to_numpy(), plain.to_numpy())
    np.testing.assert_array_equal(misfit.to_numpy(), plain.to_numpy())
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "Ignoring a picture's unreadable colour profile",
        "Ignoring a colour profile that does not fit its picture",
    ]


@pytest.mark.parametrize("kind", ["JPEG", "MPO"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("has_profile", [False, True])
def test_jpegs_of_phones_are_decoded_smaller(
    kind: str, mode: str, has_profile: bool, decoded: list[tuple[int, ...]]
) -> None:
    """A file with several pictures, and one with a colour profile, decode as Pillow does, and smaller where asked."""
    profile = colour_profile("Display P3", DISPLAY_P3, standard) if mode == "RGB" else gamma(1.8)
    options: dict[str, Any] = {"icc_profile": profile} if has_profile else {}
    if kind == "MPO":
        options |= {"save_all": True, "append_images": [Image.new(mode, (900, 600))]}
    data = encode(photograph((900, 600)).convert(mode), kind, quality=95, **options)
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == kind
        expected = rgb(SoftwareBitmap.from_pil(image)).astype(int)
        plain = np.asarray(image.convert("RGB"), int)
    assert bool(np.abs(expected - plain).max() > 10) is has_profile
    np.testing.assert_array_equal(rgb(SoftwareBitmap.load(data)), expected)
    for size, width in (((900, 600), 900), ((225, 150), 450), ((56, 37), 113)):
        small = shrunk(data, *size)
        assert decoded[-1][1] == width
        scaled = Image.fromarray(expected.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
        assert np.abs(small - np.asarray(scaled, int)).mean() < 3


@pytest.mark.parametrize("fast_decode", [False, True])
def test_errors_of_every_decoder_name_the_file(fast_decode: bool, tmp_path: Path) -> None:
    def decode(path: Path) -> None:
        assert ImageFeatureValue.load(path, fast_decode=fast_decode).video_frame

    for ending in ("jpg", "mpo", "png", "webp", "tif", "bmp", "gif", "jp2", "ppm", "tga", "avif", "ico", "qoi"):
        path = tmp_path / f"cut.{ending}"
        extra: dict[str, Any] = {"save_all": True, "append_images": [photograph()]} if ending == "mpo" else {}
        noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (99, 99, 3), np.uint8))
        noise.save(path, **extra)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 4])
        with pytest.raises(PictureError, match=rf"cut\.{ending} is not a picture that can be decoded"):
            decode(path)


# Limits


def test_a_picture_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    lying = damaged_files.make_png_claiming(60_000, 60_000)
    (tmp_path / "huge.png").write_bytes(lying)
    for source in (lying, tmp_path / "huge.png"):
        with pytest.raises(PictureError, match=r"more than the limit of 268,435,456"):
            SoftwareBitmap.load(source)
        with pytest.raises(PictureError, match="more than the limit of"):
            ImageFeatureValue.load(source, fast_decode=True)
    small = encode(photograph((40, 30)), "PNG")
    with pytest.raises(PictureError, match="more than the limit of 1,000"):
        ImageFeatureValue.load(small, max_pixels=1000)
    assert ImageFeatureValue.load(small, max_pixels=1200).sizes == ((40, 30),)
    with pytest.raises(InvalidArgumentError, match="max_pixels cannot be 'x'"):
        SoftwareBitmap.load(small, max_pixels="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "ICO"])
def test_the_limit_is_the_callers_and_not_pillows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.new("L", (40, 30))
    image.putpixel((39, 28), 255)
    options = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}, "ICO": {"sizes": [(40, 30)]}}
    data = encode(image, kind, **options.get(kind, {}))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow refuses twice as many
    pixels = SoftwareBitmap.load(data, max_pixels=1200).to_numpy()
    assert pixels.shape[:2] == (30, 40)
    assert np.ravel(pixels[-2, -1])[0] > 240
    with pytest.raises(PictureError, match="more than the limit of 1,199"):
        SoftwareBitmap.load(data, max_pixels=1199)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_pillows_limit_comes_back_when_the_last_picture_has_been_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    files = [encode(Image.new("L", (30 * count, 40)), "PNG") for count in (1, 2, 3)]  # all of which Pillow refuses
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda number: SoftwareBitmap.load(files[number % 3], max_pixels=4000), range(300)))
    assert [bitmap.pixel_width for bitmap in loaded] == [30, 60, 90] * 100
    assert Image.MAX_IMAGE_PIXELS == 100
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    SoftwareBitmap.load(files[0])
    assert Image.MAX_IMAGE_PIXELS is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "TIFF", "GIF"])
def test_a_picture_of_256_megapixels_is_read(kind: str, tmp_path: Path) -> None:
    side, path = 16384, tmp_path / "large"
    image = Image.new("L", (side, side))
    image.paste(255, (side - 8, side - 8, side, side))
    image.save(path, kind)
    del image
    pixels = SoftwareBitmap.load(path).to_numpy()
    assert pixels.shape[:2] == (side, side)
    assert np.ravel(pixels[-1, -1])[0] > 250
    assert np.ravel(pixels[-9, -9])[0] < 5


@pytest.mark.filterwarnings("ignore")  # Pillow's, about what it could not read of EXIF and the like
def test_damaged_files_are_pictures_or_errors() -> None:
    rng, files, counts, max_pixels = random.Random(1), damaged_files.make_pictures(), Counter[str](), 16 << 20
    binding = open_binding(unary(shape=(1, 3, 8, 8), denotation="IMAGE"))
    for index in range(600):
        file = damaged_files.damage(files[index % len(files)], rng)
        try:
            bitmap = SoftwareBitmap.load(file, max_pixels=max_pixels)
            assert bitmap.pixel_width * bitmap.pixel_height <= max_pixels
            binding.bind("x", ImageFeatureValue.load(file, fast_decode=True, max_pixels=max_pixels))
            counts["pictures"] += 1
        except WinMLError:
            counts["errors"] += 1
    assert min(counts["pictures"], counts["errors"]) > 50


# Reduced decoding


@pytest.fixture
def identity() -> LearningModelBinding:
    whole = unary(shape=(1, 3, 100, 150), denotation="IMAGE", metadata=ImageContract(RGB8).to_metadata())
    return LearningModelBinding(LearningModelSession(LearningModel.load(whole)))


def bound(binding: LearningModelBinding, value: Any, properties: Any = None) -> np.ndarray:
    output = np.zeros((1, 3, 100, 150), np.float32)
    binding.bind("x", value, properties)
    binding.bind("y", output)
    binding._session.evaluate(binding)
    return output[0]


@pytest.mark.parametrize("factor", [2, 4, 8, 12, 20])
@pytest.mark.parametrize("turned", [1, 6])
def test_fast_decode_is_near_the_exact_way(identity: LearningModelBinding, factor: int, turned: int) -> None:
    size = (150 * factor, 100 * factor)
    exif = Image.Exif()
    exif[0x0112] = turned
    data = encode(photograph(size if turned == 1 else size[::-1]), "JPEG", quality=90, exif=exif)
    value = ImageFeatureValue.load(data, fast_decode=True)
    assert value.sizes == (size,)
    assert repr(value) == f"<ImageFeatureValue file {size[0]}x{size[1]}>"
    exact = bound(identity, ImageFeatureValue.load(data))
    fast = bound(identity, value)
    assert np.abs(exact - fast).mean() < 2
    assert bool(np.abs(exact - fast).max() == 0) is (factor < 4)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes that JPEG files were decoded to."""
    shapes, decode = list[tuple[int, ...]](), simplejpeg.decode_jpeg

    def note(*arguments: Any, **options: Any) -> np.ndarray:
        pixels = decode(*arguments, **options)
        shapes.append(pixels.shape)
        return pixels

    monkeypatch.setattr(simplejpeg, "decode_jpeg", note)
    return shapes


def shrunk(data: bytes, width: int, height: int) -> np.ndarray:
    """The pixels of a picture that is decoded fast for a tensor of this size."""
    contract = ImageContract(RGB8, scaling=Stretch())
    binding = open_binding(unary(shape=(1, 3, height, width)))
    binding.bind("x", ImageFeatureValue.load(data, fast_decode=True), {"ImageContract": contract})
    return binding._session.evaluate(binding).outputs["y"].to_numpy()[0].transpose(1, 2, 0)


def test_fast_decode_never_goes_below_twice_the_model(decoded: list[tuple[int, ...]]) -> None:
    data = encode(photograph((1600, 1200)), "JPEG")
    for size in ((1600, 1200), (411, 308), (400, 300), (203, 152), (200, 150), (101, 76), (100, 75), (16, 12)):
        shrunk(data, *size)
    assert [shape[1] for shape in decoded] == [1600, 1600, 800, 800, 400, 400, 200, 200]
    shrunk(encode(photograph((1001, 999)), "JPEG"), 125, 124)
    assert decoded[-1] == (250, 251, 3)


def test_fast_decode_of_other_files_and_bounds_is_exact(identity: LearningModelBinding) -> None:
    picture = photograph((1500, 1000))
    png = encode(picture, "PNG")
    exact = bound(identity, ImageFeatureValue.load(png))
    np.testing.assert_array_equal(bound(identity, ImageFeatureValue.load(png, fast_decode=True)), exact)
    jpeg = encode(picture, "JPEG")
    properties = {"BitmapBounds": BitmapBounds(100, 100, 1200, 800)}
    exact = bound(identity, ImageFeatureValue.load(jpeg), properties)
    value = ImageFeatureValue.load(jpeg, fast_decode=True)
    np.testing.assert_array_equal(bound(identity, value, properties), exact)
    np.testing.assert_array_equal(value.to_numpy(), SoftwareBitmap.load(jpeg).to_numpy())
    value = ImageFeatureValue.load(encode(Image.new("RGBA", (2, 1), (100, 50, 25, 128)), "PNG"), fast_decode=True)
    straight = SoftwareBitmap.convert(value.video_frame.software_bitmap, RGBA8, BitmapAlphaMode.STRAIGHT)
    assert straight.to_numpy()[0, 0].tolist() == [100, 50, 25, 128]


def test_fast_decode_of_what_is_no_picture(tmp_path: Path, identity: LearningModelBinding) -> None:
    with pytest.raises(PictureNotFoundError):
        ImageFeatureValue.load(tmp_path / "none.jpg", fast_decode=True)
    with pytest.raises(PictureError):
        ImageFeatureValue.load(b"none", fast_decode=True)
    damaged = encode(photograph((1500, 1000)), "JPEG")[:20_000]
    value = ImageFeatureValue.load(damaged, fast_decode=True)
    good = bound(identity, photograph((150, 100)))
    with pytest.raises(PictureError, match="truncated"):
        identity.bind("x", value)
    expected = good.copy()
    good[:] = 0
    identity._session.evaluate(identity)  # into the same array
    np.testing.assert_array_equal(good, expected)


def test_one_value_bound_by_many_threads_at_once() -> None:
    data = encode(photograph((1500, 1000)), "JPEG")
    value = ImageFeatureValue.load(data, fast_decode=True)
    results: list[np.ndarray] = []

    def work() -> None:
        whole = unary(shape=(1, 3, 100, 150), denotation="IMAGE")
        results.append(bound(LearningModelBinding(LearningModelSession(LearningModel.load(whole))), value))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, results[0])


# Videos


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.avi", (0, 100, 200))


def test_a_video_gives_its_frames_and_their_times(video: Path) -> None:
    with VideoReader(video) as reader:
        assert (reader.pixel_width, reader.pixel_height, reader.frame_rate, reader.frame_count) == (64, 48, 25, 3)
        frames = list(reader)
    levels = [int(frame.software_bitmap.to_numpy().mean()) for frame in frames]
    np.testing.assert_allclose(levels, [0, 100, 200], atol=2)
    assert [frame.relative_time for frame in frames] == [timedelta(milliseconds=40 * index) for index in range(3)]
    assert {frame.duration for frame in frames} == {timedelta(milliseconds=40)}
    assert frames[0].software_bitmap.bitmap_pixel_format is BitmapPixelFormat.BGR8
    with pytest.raises(ClosedError, match="Open the video again"):
        reader.read()
    reader.close()


def test_a_frame_of_a_video_binds(video: Path, identity: LearningModelBinding) -> None:
    reader = VideoReader(video)
    assert reader.read() is not None
    frame = reader.read()
    reader.close()
    np.testing.assert_allclose(bound(identity, frame), 100, atol=2)


def test_what_is_no_source(tmp_path: Path) -> None:
    data = encode(photograph((40, 30)), "JPEG")
    for source in (bytearray(data), memoryview(data)):
        assert ImageFeatureValue.load(source).sizes == ((40, 30),)
        assert ImageFeatureValue.load(source, fast_decode=True).sizes == ((40, 30),)
    for wrong in (None, 5, np.zeros((3, 3))):
        with pytest.raises(InvalidArgumentError, match="Expected a path, bytes or a binary stream"):
            ImageFeatureValue.load(wrong)
    for wrong in (-1, -5, None, True, 1.5):
        with pytest.raises(InvalidArgumentError, match=r"Camera -[15] does not exist|path or a camera"):
            VideoReader(wrong)


def test_what_is_no_video(tmp_path: Path, capfd: Any) -> None:
    with pytest.raises(PictureNotFoundError, match="video does not exist"):
        VideoReader(tmp_path / "none.mp4")
    (tmp_path / "text.mp4").write_text("no video" * 100)
    with pytest.raises(PictureError, match="cannot be opened as a video: its first bytes are not those of a video"):
        VideoReader(tmp_path / "text.mp4")
    (tmp_path / "noise.mp4").write_bytes(b"\0\0\0\x18ftyp" + bytes(16))
    with pytest.raises(PictureError, match=r"cannot be opened as a video\. Convert it to a format that OpenCV can"):
        VideoReader(tmp_path / "noise.mp4")

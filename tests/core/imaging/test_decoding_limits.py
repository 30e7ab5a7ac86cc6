"""What decoding and scaling a picture may cost: a file of more pixels, scans, parts or texts is refused before that."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from helpers.models import unary
from helpers.pictures import encode
from helpers.tiffs import BLACK_IS_ZERO, DEFLATE, write_tiff
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    PictureError,
    SoftwareBitmap,
)
from winml_py.scaling import ShortestSide
from winml_py.winrt.windows.graphics.imaging import BitmapDecoder
from winml_py.winrt.windows.storage.streams import DataWriter, InMemoryRandomAccessStream

SIZE = (40, 30)
HUGE = 20_000
"""A side of a picture that is larger than any default allows."""


def draw(size: tuple[int, int] = SIZE, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


def open_decoder(data: bytes) -> BitmapDecoder:
    stream = InMemoryRandomAccessStream()
    writer = DataWriter(stream)
    writer.write_bytes(data)
    writer.store_async().get()
    return BitmapDecoder.create_async(stream).get()


# Pixels


def make_rle(data: bytes, size: tuple[int, int] = SIZE) -> bytes:
    """A BMP of 256 colours, compressed by run lengths."""
    head = struct.pack("<IiiHHIIiiII", 40, *size, 1, 8, 1, len(data), 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 1078 + len(data), 0, 0, 1078) + head + bytes(1024) + data


COSTS = {
    **{kind: (encode(draw(), kind), 1) for kind in ("JPEG", "PNG", "BMP", "DIB", "GIF", "TIFF", "WEBP", "TGA", "PPM")},
    "MPO": (encode(draw(), "MPO", save_all=True, append_images=[draw()]), 1),
    "APNG": (encode(draw(), "PNG", save_all=True, append_images=[draw().rotate(180)]), 1),
    "AVIF": (encode(draw(), "AVIF"), 1),
    "ICO": (encode(draw(), "ICO", sizes=[SIZE]), 1),
    "TIFF, JPEG": (encode(draw(), "TIFF", compression="jpeg"), 1),
    "PGM of 16 bits": (b"P5 40 30 65535\n" + bytes(2400), 1),
    "JPEG 2000": (encode(draw(), "JPEG2000"), 4),
    "JPEG 2000, no container": (encode(draw(), "JPEG2000", no_jp2=True), 4),
    "QOI": (encode(draw(), "QOI"), 16),
    "PPM of 201 levels": (b"P6 40 30 200\n" + bytes(3600), 16),
    "PGM as text": (b"P2 40 30 255\n" + b"7 " * 1200, 16),
    "BMP, compressed": (make_rle((b"\x28\x07\0\0") * 30 + b"\0\1"), 16),
}
"""Files of 40x30 pixels, and how many pixels each of theirs counts for."""


@pytest.mark.parametrize("kind", COSTS)
def test_pixels_count_for_what_they_cost(kind: str) -> None:
    data, cost = COSTS[kind]
    bitmap = SoftwareBitmap.load(data, max_pixels=1200 * cost)
    assert (bitmap.pixel_width, bitmap.pixel_height) == SIZE
    assert ImageFeatureValue.load(data, max_pixels=1200 * cost, fast_decode=True).sizes == (SIZE,)
    for fast_decode in (False, True):
        with pytest.raises(PictureError, match=r"has no pixels, or more than the limit of 1,199\.") as caught:
            ImageFeatureValue.load(data, max_pixels=1200 * cost - 1, fast_decode=fast_decode)
        assert (f"Each pixel counts as {cost}, because " in str(caught.value)) == (cost > 1)


def make_ico(picture: bytes) -> bytes:
    """An icon that states 16x16 pixels."""
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(picture), 22) + picture


def replace(data: bytes, before: bytes, after: bytes) -> bytes:
    assert data.count(before) == 1
    return data.replace(before, after)


TILE = write_tiff(np.zeros((16, 16, 1), np.uint8), BLACK_IS_ZERO, bits=8, compression=DEFLATE, tile=16)
LARGER_INSIDE = {
    "an ICO with a large PNG": make_ico(encode(draw(), "PNG")),
    "an ICO with a large bitmap": make_ico(encode(draw(), "DIB")),
    "a TIFF of a large tile": replace(TILE, struct.pack("<HHII", 322, 3, 1, 16), struct.pack("<HHII", 322, 4, 1, 99)),
    "a GIF with a frame beyond its screen": replace(
        encode(draw(), "GIF"), b"GIF87a" + struct.pack("<HH", *SIZE), b"GIF87a" + struct.pack("<HH", 16, 16)
    ),
}
"""Files that state 16x16 pixels, and hold more."""


@pytest.mark.parametrize("kind", LARGER_INSIDE)
def test_what_is_decoded_counts_and_not_what_is_stated(kind: str) -> None:
    with pytest.raises(PictureError, match=r"more than the limit of 1,000\."):
        SoftwareBitmap.load(LARGER_INSIDE[kind], max_pixels=1000)


def test_containers_that_contradict_their_pictures_are_refused() -> None:
    jp2 = encode(draw(), "JPEG2000")
    webp = encode(draw(), "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0")
    for data in (
        replace(jp2, b"ihdr" + struct.pack(">II", *SIZE[::-1]), b"ihdr" + struct.pack(">II", 16, 16)),
        webp[:24] + bytes([15, 0, 0, 15, 0, 0]) + webp[30:],
    ):
        with pytest.raises(PictureError, match="is not a picture that can be decoded"):
            SoftwareBitmap.load(data)


def test_a_later_frame_that_is_too_large() -> None:
    tiff = encode(draw(), "TIFF", save_all=True, append_images=[draw((41, 30))])
    tiff = replace(tiff, struct.pack("<HHII", 256, 4, 1, 41), struct.pack("<HHII", 256, 4, 1, HUGE * HUGE))
    mpo = encode(draw(), "MPO", save_all=True, append_images=[draw((41, 30))])
    mpo = replace(mpo, struct.pack(">HH", 30, 41), struct.pack(">HH", HUGE, HUGE))
    for data in (tiff, mpo):
        decoder = open_decoder(data)
        assert (decoder.pixel_width, decoder.frame_count) == (40, 2)
        with pytest.raises(PictureError, match="more than the limit of 268,435,456"):
            decoder.get_frame_async(1).get()


# Scans


def segment(kind: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, kind, len(data) + 2) + data


DC_SCAN = segment(0xDA, bytes([1, 1, 0, 0, 0, 0])) + bytes(3)
AC_SCAN = segment(0xDA, bytes([1, 1, 0, 1, 63, 0])) + b"\x01"
"""Scans of a progressive JPEG: differences of 0 for all 24 blocks, and a run of 16 that ends early, as such bombs have.
"""


def make_jpeg(scans: int, before: bytes = b"", between: bytes = b"", after: bytes = b"") -> bytes:
    """A progressive JPEG of one level of gray, and bytes before the frame, between all scans, and after its end."""
    tables = segment(0xC4, bytes([0x00, 1, *[0] * 15, 0])) + segment(0xC4, bytes([0x10, 1, *[0] * 15, 0x00]))
    frame = segment(0xC2, struct.pack(">BHHB", 8, 30, 40, 1) + bytes([1, 0x11, 0]))
    head = b"\xff\xd8" + before + segment(0xDB, bytes([0, *[1] * 64])) + frame + tables
    return head + between.join([DC_SCAN, *[AC_SCAN] * (scans - 1)]) + b"\xff\xd9" + after


@pytest.mark.parametrize("between", [b"", b"\xff\xff\xff", segment(0xE1, b"\xff\xda" * 9)])
def test_a_hundred_scans_are_read_and_no_more(between: bytes) -> None:
    assert np.unique(SoftwareBitmap.load(make_jpeg(100, between=between)).to_numpy()) == [128]
    for load in (SoftwareBitmap.load, ImageFeatureValue.load, open_decoder):
        with pytest.raises(PictureError, match="is a JPEG file with 101 scans, but the limit is 100"):
            load(make_jpeg(101, between=between))


def test_scans_that_are_not_the_pictures_do_not_count() -> None:
    thumbnail = segment(0xE1, make_jpeg(500)[:60_000])
    for data in (
        make_jpeg(3, before=thumbnail),
        make_jpeg(3, after=make_jpeg(500)),
        make_jpeg(3, after=bytes(5) + AC_SCAN * 500),
    ):
        assert np.unique(SoftwareBitmap.load(data).to_numpy()) == [128]


def test_no_scan_hides() -> None:
    # libjpeg finds no length after such markers, so that the segments that would be skipped are scans.
    for marker in (b"\xff\x01\xff\xff", b"\xff\x02\xff\xff", b"\xff\xd0\xff\xff", b"\xff\x00\xff\xff"):
        data = make_jpeg(101)
        place = data.index(AC_SCAN) + len(AC_SCAN)
        with pytest.raises(PictureError, match="101 scans"):
            SoftwareBitmap.load(data[:place] + marker + data[place:])
    sequential = make_jpeg(101).replace(b"\xff\xc2", b"\xff\xc0")
    with pytest.raises(PictureError, match="101 scans"):
        SoftwareBitmap.load(sequential)


def test_the_scans_of_each_picture_of_a_file_count() -> None:
    mpo = encode(draw(), "MPO", save_all=True, append_images=[draw((41, 30))])
    second = mpo.rindex(b"\xff\xd8")
    data = mpo[:second] + make_jpeg(101)
    assert SoftwareBitmap.load(data).pixel_width == 40
    decoder = open_decoder(data)
    with pytest.raises(PictureError, match="101 scans"):
        decoder.get_frame_async(1).get()


# Parts and texts


def make_png(before: bytes = b"", after: bytes = b"") -> bytes:
    """A PNG, and chunks before and after its pixels."""
    data = encode(draw())
    start, end = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
    return data[:start] + before + data[start:end] + after + data[end:]


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


JPEG, GIF = encode(draw(), "JPEG"), encode(draw(), "GIF")
GIF_FRAME = GIF.index(b",")
PARTS = {
    "bytes that fill a JPEG": lambda: JPEG[:2] + b"\xff" * 550_000 + JPEG[2:],
    "ends of lines of a BMP": lambda: make_rle(bytes(600_000)),
    "comments of a JPEG": lambda: JPEG[:2] + segment(0xFE, b"") * 300_000 + JPEG[2:],
    "blocks of a GIF": lambda: GIF[:GIF_FRAME] + b"!\xfe" + b"\1a" * 300_000 + b"\0" + GIF[GIF_FRAME:],
    "chunks of a PNG": lambda: make_png(before=chunk(b"tEXt") * 300_000),
    "chunks of a PNG in an ICO, which is too large": lambda: make_ico(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", HUGE, HUGE, 8, 0, 0, 0, 0))
        + chunk(b"tEXt") * 300_000
        + chunk(b"IDAT")
    ),
    "chunks at the end of a PNG": lambda: make_png(after=chunk(b"teSt") * 300_000),
}


@pytest.mark.parametrize(
    "kind", [*list(PARTS)[:2], *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in list(PARTS)[2:])]
)
def test_files_of_too_many_parts_are_refused(kind: str) -> None:
    with pytest.raises(PictureError, match="has too many parts, most of them tiny"):
        SoftwareBitmap.load(PARTS[kind]())


def test_a_few_thousand_parts_are_read() -> None:
    data = make_png(before=chunk(b"tEXt") * 5000, after=chunk(b"teSt") * 5000)
    assert (SoftwareBitmap.load(data).to_numpy() == np.asarray(draw())).all()


def test_pillow_may_read_each_pixel_of_what_it_decodes_in_python() -> None:
    pixels = SoftwareBitmap.load(b"P5 1000 600 200\n" + bytes([0, 200]) * 300_000).to_numpy()
    assert (pixels == np.array([0, 255] * 500)).all()


@pytest.mark.parametrize("wrap", [bytes, make_ico])
@pytest.mark.parametrize(
    "text", [chunk(b"zTXt", b"a\0\0" + zlib.compress(b"b")), chunk(b"iTXt", b"a\0\1\0\0\0" + zlib.compress(b"b"))]
)
def test_texts_that_may_be_inflated_are_few(text: bytes, wrap: type[bytes]) -> None:
    assert SoftwareBitmap.load(make_png(before=text * 200, after=text * 56)).pixel_width == 40
    with pytest.raises(PictureError, match="has more than 256 texts and colour profiles"):
        SoftwareBitmap.load(wrap(make_png(before=text * 200, after=text * 57)))


# Scaling


def bind(data: bytes, max_pixels: int, fast_decode: bool, shape: tuple[int | str, ...]) -> None:
    binding = LearningModelBinding(LearningModelSession(LearningModel.load(unary(shape=shape))))
    contract = ImageContract(BitmapPixelFormat.RGB8, scaling=ShortestSide(32))
    value = ImageFeatureValue.load(data, max_pixels=max_pixels, fast_decode=fast_decode)
    frames = value if fast_decode else ImageFeatureValue(value.video_frames)  # as a service makes batches
    binding.bind("x", frames, {"ImageContract": contract})


@pytest.mark.parametrize("fast_decode", [False, True])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_what_a_picture_is_scaled_to_counts(kind: str, fast_decode: bool) -> None:
    thin = encode(draw((4, 1000)), kind)
    for shape in ((1, 3, 32, 32), (1, 3, "h", "w")):
        bind(thin, 256_000, fast_decode, shape)
        with pytest.raises(InvalidBindingError, match="would be scaled to 32x8000, but the limit is 255,999"):
            bind(thin, 255_999, fast_decode, shape)


def test_a_picture_may_be_scaled_to_the_size_of_the_tensor() -> None:
    bind(encode(draw()), 1200, False, (1, 3, 320, 430))  # scaled to 43 x 32, and padded
    bind(encode(draw((40, 40))), 1600, False, (1, 3, 32, 32))


def test_a_model_that_takes_any_size_does_not_get_gigabytes() -> None:
    with pytest.raises(InvalidBindingError, match="would be scaled to 32x32000000, but the limit is 268,435,456"):
        bind(encode(Image.new("L", (1, 1_000_000))), 1 << 28, False, (1, 3, "h", "w"))

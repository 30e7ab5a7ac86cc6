"""evaluate_many: where items come from, what results carry, and how far a stream has come."""

from __future__ import annotations

import asyncio
import io
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from PIL import Image

from helpers.models import unary
from helpers.paths import MODELS, PICTURES
from helpers.pictures import write_video
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelPixelRange,
    LearningModelSession,
    PictureError,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
    VideoReader,
)
from winml_py.errors import PictureNotFoundError

LEVELS = (10, 60, 110, 160, 210)


@pytest.fixture(scope="module")
def invert() -> LearningModelSession:
    return LearningModelSession(LearningModel.load(MODELS / "invert.onnx"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of one level each, whose names sort otherwise as words than as numbers."""
    for position, level in enumerate(LEVELS):
        name = f"picture{position * 3 + 1}.png" if position % 2 else f"Picture{position * 3 + 1}.PNG"
        Image.new("L", (6, 4), level).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden.png").write_bytes(b"no picture")
    return tmp_path


def levels(results: Any) -> list[int]:
    """What was inverted."""
    return [255 - int(result.outputs["result"].to_numpy()[1, 1, 0]) for result in results]


# What items are


def test_a_folder_gives_its_pictures_in_natural_order(invert: LearningModelSession, folder: Path) -> None:
    for source, kind in ((folder, Path), (str(folder), str)):
        results = list(invert.evaluate_many(source))
        assert levels(results) == list(LEVELS)
        assert [Path(result.source).name.lower() for result in results] == [
            f"picture{n}.png" for n in (1, 4, 7, 10, 13)
        ]
        assert all(type(result.source) in (kind, type(Path())) for result in results)
        assert [result.index for result in results] == list(range(5))


def save_as(path: Path, kind: str) -> None:
    """A gray picture in one of Pillow's formats."""
    if path.suffix == ".pfm":
        Image.new("F", (16, 16), 0.5).save(path, kind)
    elif kind == "MPO":
        Image.new("RGB", (16, 16), (90,) * 3).save(
            path, kind, save_all=True, append_images=[Image.new("RGB", (16, 16))]
        )
    else:
        Image.new("RGB", (16, 16), (90,) * 3).save(path, kind)


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
@pytest.mark.parametrize("ending", sorted(Image.registered_extensions()))
def test_a_folder_gives_the_pictures_of_every_ending_that_pillow_knows(
    invert: LearningModelSession, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"picture{ending.upper() if len(ending) % 2 else ending}"
    try:
        save_as(path.with_suffix(ending), Image.registered_extensions()[ending])
        path.with_suffix(ending).rename(path)
    except (OSError, ValueError, KeyError):
        pytest.skip("Pillow does not write it")
    try:
        SoftwareBitmap.load(path)
    except PictureError:  # a format that is not read
        with pytest.raises(InvalidArgumentError, match="The folder contains no picture"):
            invert.evaluate_many(tmp_path)
        return
    except InvalidArgumentError:
        assert ending == ".pfm"  # numbers without a white
    (result,) = invert.evaluate_many(tmp_path)
    assert result.source == path
    if ending == ".pfm":
        assert re.search(r"picture\.(pfm|PFM) of mode F has no defined range", str(result.error))
    else:
        assert abs(levels([result])[0] - 90) <= 2


@pytest.mark.parametrize("ending", [".heic", ".heics", ".heif", ".heifs", ".hif"])
def test_a_folder_gives_heic_files(invert: LearningModelSession, tmp_path: Path, ending: str) -> None:
    (tmp_path / f"picture{ending}").write_bytes(b"\0\0\0\x18ftypheic")
    (result,) = invert.evaluate_many(tmp_path)
    assert f"picture{ending} is" in str(result.error)


def test_patterns_folders_and_files_mix(invert: LearningModelSession, folder: Path) -> None:
    first = folder / "Picture1.PNG"
    results = list(invert.evaluate_many([str(folder / "picture*[04].png"), first, folder]))
    assert levels(results) == [60, 160, 10, *LEVELS]
    assert results[2].source is first
    assert levels(invert.evaluate_many(str(folder / "**" / "[Pp]icture*"))) == list(LEVELS)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(invert: LearningModelSession, tmp_path: Path) -> None:
    Image.new("L", (6, 4), 77).save(tmp_path / "a[1].png")
    Image.new("L", (6, 4), 88).save(tmp_path / "a1.png")
    assert levels(invert.evaluate_many(tmp_path / "a[1].png")) == [77]


def test_every_kind_of_picture(invert: LearningModelSession, folder: Path) -> None:
    path = folder / "Picture7.PNG"
    data = path.read_bytes()
    bitmap = SoftwareBitmap.load(path)
    with path.open("rb") as opened:
        items: list[Any] = [
            path,
            str(path),
            data,
            bytearray(data),
            opened,
            io.BytesIO(data),
            Image.open(path),
            np.full((1, 3, 4, 6), 110, np.float32),
            bitmap,
            VideoFrame.create_with_software_bitmap(bitmap),
            ImageFeatureValue.load(path),
            {"image": path},
            {"IMAGE": data},
            TensorFloat.from_numpy(np.full((1, 3, 4, 6), 110, np.float32)),
        ]
        results = list(invert.evaluate_many(items, concurrency=2))
    assert levels(results) == [110] * len(items)
    assert all(result.source is item for result, item in zip(results, items, strict=True))
    for item in items[:6] + items[8:]:
        if not hasattr(item, "read"):
            assert levels(invert.evaluate_many(item)) == [110]


def test_an_open_file_is_read_while_it_is_open(invert: LearningModelSession, folder: Path) -> None:
    def opened() -> Iterator[Any]:
        for name in ("picture10.png", "picture4.png"):
            with (folder / name).open("rb") as file:
                yield file

    assert levels(invert.evaluate_many(opened())) == [160, 60]


def test_a_video_gives_its_frames(invert: LearningModelSession, tmp_path: Path) -> None:
    path = write_video(tmp_path / "levels.avi", LEVELS)
    renamed = path.rename(tmp_path / "levels.of.something")  # it is known by its content
    expected = [int(frame.software_bitmap.to_numpy()[1, 1, 0]) for frame in VideoReader(renamed)]
    assert np.abs(np.subtract(expected, LEVELS)).max() <= 2
    reader = VideoReader(renamed)
    for source in (renamed, [renamed], reader, [str(renamed), PICTURES / "cat.jpg"]):
        results = list(invert.evaluate_many(source))
        assert levels(results[:5]) == expected
        times = [result.source.relative_time.total_seconds() for result in results[:5]]
        assert times == pytest.approx([0, 0.04, 0.08, 0.12, 0.16])
    assert results[5].source == PICTURES / "cat.jpg"
    assert results[5].index == 5


def test_files_of_arrays(tmp_path: Path) -> None:
    opened = LearningModelSession(LearningModel.load(unary("Neg", [1, 3])))
    np.save(tmp_path / "a.npy", np.float32([[1, 2, 3]]))
    (tmp_path / "b.csv").write_text("4, 5, 6")
    results = opened.evaluate_many([tmp_path / "a.npy", {"X": str(tmp_path / "b.csv")}])
    assert [result.outputs["y"].to_numpy().tolist() for result in results] == [[[-1, -2, -3]], [[-4, -5, -6]]]


def test_errors_stay_with_their_items(invert: LearningModelSession, folder: Path, tmp_path: Path) -> None:
    write_video(tmp_path / "levels.avi", LEVELS)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    (tmp_path / "empty").mkdir()
    closed = io.BytesIO(b"")
    closed.close()
    items: list[tuple[Any, type[Exception], str]] = [
        (tmp_path / "none.png", PictureNotFoundError, "There is no such picture"),
        (tmp_path / "none.mp4", PictureNotFoundError, "The video does not exist"),
        (broken, PictureError, "cannot be opened as a video"),
        (tmp_path / "empty", InvalidArgumentError, "The folder contains no picture"),
        (str(tmp_path / "none*.png"), InvalidArgumentError, "No file matches"),
        (b"no picture", PictureError, "not a picture"),
        ({"image": tmp_path / "levels.avi"}, PictureError, "not a picture"),
        (closed, InvalidArgumentError, "cannot be read"),
        (io.StringIO("text"), InvalidArgumentError, "mode 'rb'"),
    ]
    results = list(invert.evaluate_many([PICTURES / "cat.jpg", *(item for item, _, _ in items), PICTURES / "cat.jpg"]))
    assert [result.succeeded for result in results] == [True, *[False] * len(items), True]
    for result, (item, kind, words) in zip(results[1:], items, strict=False):
        assert type(result.error) is kind
        assert words in str(result.error)
        assert result.source is item


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://example.org/a.jpg", "Download the file, and pass its path or its bytes"),
        ("https://example.org/a.jpg?width=3", "Download the file"),
        ("https://example.org/a.mp4", "Download the file"),
        ("HTTP://example.org/a.npy", "Download the file"),
        ("s3://bucket/table.csv", "Download the file"),
        ("file:///tmp/picture.png", "Download the file"),
        (
            "rtsp://camera/1",
            r"Read its frames with cv2\.VideoCapture\(address\), and pass each as ImageFeatureValue.from_array",
        ),
        ("rtsp://user:word@camera/1.mp4?channel=[2]", r"Read its frames with cv2\.VideoCapture"),
    ],
)
def test_addresses_are_no_files(invert: LearningModelSession, address: str, words: str) -> None:
    numbers = LearningModelSession(LearningModel.load(unary("Neg", ["n", 3])))
    pattern = rf"{re.escape(address)}: This is a network address, but only files can be read. {words}"
    for session in (invert, numbers):
        for source in (address, [address], [{session.model.input_features[0].name: address}]):
            (result,) = session.evaluate_many(source)
            assert re.match(pattern, str(result.error)), result.error
    for use in (ImageFeatureValue.load, SoftwareBitmap.load, VideoReader):
        with pytest.raises(PictureNotFoundError, match=pattern):
            use(address)
    (result,) = invert.evaluate_many(Path(address))
    assert "This is a network address" in str(result.error)


def test_texts_may_be_addresses() -> None:
    texts = LearningModelSession(LearningModel.load(unary("Identity", ["n"], TensorProto.STRING)))
    for address in ("https://example.org/a.mp4", "https://example.org/a?b=[1]"):
        (result,) = texts.evaluate_many(address)
        assert result.outputs["y"].to_numpy().tolist() == [address]


def test_a_missing_path_for_numbers_is_named(tmp_path: Path) -> None:
    numbers = LearningModelSession(LearningModel.load(unary("Neg", ["n", 3])))
    there = tmp_path / "notes.txt"
    there.write_text("text")
    for path, words in ((tmp_path / "none", "No such file or folder exists, and x takes Float"), (there, "x takes")):
        for source in (path, str(path), {"x": path}):
            (result,) = numbers.evaluate_many(source)
            assert isinstance(result.error, InvalidArgumentError)
            assert str(result.error).startswith(f"{path}: {words}")
            assert result.error.hint == "Pass an array, or the path to a .npy or .csv file."
    (missing,) = LearningModelSession(LearningModel.load(MODELS / "invert.onnx")).evaluate_many(tmp_path / "none")
    assert str(missing.error).startswith(f"{tmp_path / 'none'}: There is no such picture or folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["cat.jpg", "cat", "rows.npy", "rows.csv"])
def test_pipes_are_read_once(invert: LearningModelSession, tmp_path: Path, name: str) -> None:
    """A named pipe; in a shell, <(program) is one, too."""
    rows = np.float32([[1, 2, 3]])
    contents = {"rows.npy": io.BytesIO(), "rows.csv": io.BytesIO(b"1,2,3")}
    np.save(contents["rows.npy"], rows)
    data = contents[name].getvalue() if name in contents else (PICTURES / "cat.jpg").read_bytes()
    session = LearningModelSession(LearningModel.load(unary("Neg", ["n", 3]))) if name in contents else invert
    path = tmp_path / name
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,), daemon=True)
    writer.start()
    (result,) = session.evaluate_many(path)
    writer.join()
    if name in contents:
        np.testing.assert_array_equal(result.outputs["y"].to_numpy(), -rows)
    else:
        (expected,) = invert.evaluate_many(PICTURES / "cat.jpg")
        np.testing.assert_array_equal(result.outputs["result"].to_numpy(), expected.outputs["result"].to_numpy())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_no_video(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(PictureError, match=r"pipe\.mp4 cannot be opened as a video: it is not a file"):
        VideoReader(tmp_path / "pipe.mp4")


def test_a_single_source_without_files_is_refused_at_once(invert: LearningModelSession, tmp_path: Path) -> None:
    for source, kind in (
        (tmp_path, InvalidArgumentError),
        (str(tmp_path / "*.png"), InvalidArgumentError),
        (tmp_path / "none.mp4", PictureNotFoundError),
    ):
        with pytest.raises(kind):
            invert.evaluate_many(source)
    (missing,) = invert.evaluate_many("missing.png")
    assert isinstance(missing.error, PictureNotFoundError)


def test_single_evaluations_have_no_source(invert: LearningModelSession) -> None:
    result = invert.evaluate_features({"image": ImageFeatureValue.load(PICTURES / "cat.jpg")})
    assert (result.source, result.index) == (None, None)


@pytest.mark.parametrize("batch", [None, 4])
def test_results_of_batches_carry_their_own_source(batch: int | None) -> None:
    opened = LearningModelSession(LearningModel.load(unary("Neg", ["n", 2])))
    items: list[Any] = [np.full((1, 2), number, np.float32) for number in range(10)]
    items[4] = "none.npy"
    results = list(opened.evaluate_many(items, batch=batch))
    assert all(result.source is item for result, item in zip(results, items, strict=True))
    assert [result.index for result in results] == list(range(10))
    assert [result.succeeded for result in results] == [number != 4 for number in range(10)]


# How items are read


def test_a_contract_for_one_stream() -> None:
    """A tensor of floats, which states nothing, gets what the contract says; another stream does not."""
    model = LearningModel.load(unary("Identity", [1, 3, 4, 5]))
    opened = LearningModelSession(model)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    unit = LearningModelPixelRange.ZERO_TO_ONE
    contract = ImageContract(BitmapPixelFormat.RGB8, unit, mean=mean, std=std)
    expected = ((pixels / 255 - mean) / std).transpose(2, 0, 1)[None]
    for item in (Image.fromarray(pixels), {"X": ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)}):
        # A tensor beside it is bound as it is.
        for result in opened.evaluate_many([item, expected.astype(np.float32)], contract=contract):
            np.testing.assert_allclose(result.outputs["y"].to_numpy(), expected, atol=1e-6)
    plain = ImageContract(BitmapPixelFormat.RGB8)
    (result,) = opened.evaluate_many([Image.fromarray(pixels)], contract=plain)
    np.testing.assert_array_equal(result.outputs["y"].to_numpy(), pixels.transpose(2, 0, 1)[None])
    assert not model.contracts


def test_a_contract_that_fits_nothing_is_refused() -> None:
    opened = LearningModelSession(LearningModel.load(unary("Neg", ["n", 2])))
    with pytest.raises(InvalidArgumentError, match=r"No input is a tensor .*: x is Float\[-1,2,\]"):
        opened.evaluate_many([], contract=ImageContract.imagenet())
    with pytest.raises(InvalidArgumentError, match=r"Pass ImageContract.imagenet\(\)"):
        opened.evaluate_many([], contract="imagenet")  # type: ignore[arg-type]


def test_fast_decode_reads_large_jpegs_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import simplejpeg

    factors: list[int] = []
    decode = simplejpeg.decode_jpeg

    def decode_jpeg(*arguments: Any, **options: Any) -> Any:
        factors.append(options["min_factor"])
        return decode(*arguments, **options)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", decode_jpeg)
    Image.linear_gradient("L").resize((896, 896)).save(tmp_path / "large.jpg", quality=95)
    opened = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    for fast_decode, factor in ((False, 1), (True, 8)):
        (result,) = opened.evaluate_many(tmp_path / "large.jpg", fast_decode=fast_decode)
        assert result.succeeded
        assert factors.pop() == factor
    with pytest.raises(InvalidArgumentError, match="Pass True or False"):
        opened.evaluate_many([], fast_decode=1)  # type: ignore[arg-type]


# How far a stream has come


def reported(opened: LearningModelSession, inputs: Any, **options: Any) -> list[tuple[int, int | None]]:
    calls: list[tuple[int, int | None]] = []
    here = threading.get_ident()

    def progress(done: int, total: int | None) -> None:
        assert threading.get_ident() == here
        calls.append((done, total))

    for position, result in enumerate(opened.evaluate_many(inputs, progress=progress, **options)):
        assert result.index == position
        assert calls[-1][0] == position + 1
    return calls


def test_progress_counts_results_and_knows_how_many_there_will_be(
    invert: LearningModelSession, folder: Path, tmp_path: Path
) -> None:
    numbers = LearningModelSession(LearningModel.load(unary("Neg", ["n", 2])))
    items = [np.full((1, 2), number, np.float32) for number in range(9)]
    assert reported(numbers, items, batch=4) == [(done, 9) for done in range(1, 10)]
    assert reported(numbers, iter(items)) == [(done, None) for done in range(1, 10)]
    assert reported(invert, folder) == [(done, 5) for done in range(1, 6)]
    assert reported(invert, [folder, folder / "none.png"], concurrency=1)[-1] == (6, 6)
    video = write_video(tmp_path / "levels.avi", LEVELS)
    assert reported(invert, video) == [(done, 5) for done in range(1, 6)]
    assert reported(numbers, []) == []


def test_progress_of_async_for_is_told_in_the_loops_thread(invert: LearningModelSession, folder: Path) -> None:
    calls: list[tuple[int, int | None, int]] = []

    async def read() -> int:
        stream = invert.evaluate_many(
            folder, progress=lambda done, total: calls.append((done, total, threading.get_ident()))
        )
        return len([result async for result in stream])

    assert asyncio.run(read()) == 5
    assert calls == [(done, 5, threading.get_ident()) for done in range(1, 6)]


def test_what_progress_raises_reaches_the_program(invert: LearningModelSession, folder: Path) -> None:
    def progress(done: int, total: int | None) -> None:
        if done == 2:
            raise InterruptedError("enough")

    with invert.evaluate_many(folder, progress=progress) as stream, pytest.raises(InterruptedError, match="enough"):
        list(stream)
    with pytest.raises(InvalidArgumentError, match="a function of two numbers"):
        invert.evaluate_many(folder, progress=3)  # type: ignore[arg-type]


def test_a_stream_that_is_closed_lets_go_of_its_video(invert: LearningModelSession, tmp_path: Path) -> None:
    closed, close = list[VideoReader](), VideoReader.close
    path = write_video(tmp_path / "levels.avi", LEVELS * 6)
    own = VideoReader(path)
    for source, is_closed in ((path, True), (own, False)):
        closed.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(VideoReader, "close", lambda reader: closed.append(reader) or close(reader))
            stream = invert.evaluate_many([source], concurrency=1)
            next(stream)
            stream.close()
        assert bool(closed) is is_closed
    assert own.read() is not None
    own.close()

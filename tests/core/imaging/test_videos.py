"""Which files of videos are read, and what becomes of a camera's frames when nobody has time for them."""

from __future__ import annotations

import gc
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from helpers.paths import MODELS
from helpers.pictures import write_video
from winml_py import (
    ClosedError,
    FramePolicy,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    PictureError,
    VideoFrame,
    VideoReader,
)

SIZE = (48, 64)


def noise(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*SIZE, 3), np.uint8) for _ in range(count)]


def read_by_opencv(path: Path) -> list[np.ndarray]:
    capture, found = cv2.VideoCapture(str(path)), []
    while True:
        there, pixels = capture.read()
        if not there:
            return found
        found.append(pixels)


# Which files are read


def with_index_first(path: Path) -> bytes:
    """An MP4 or MOV of OpenCV's, rearranged as for the web: its index stands before its frames."""
    data = path.read_bytes()
    start = data.index(b"moov") - 4
    assert start + int.from_bytes(data[start : start + 4], "big") == len(data)
    index, frames = bytearray(data[start:]), data[data.index(b"ftyp") - 4 : start]
    table = index.index(b"stco") + 8
    for entry in range(int.from_bytes(index[table : table + 4], "big")):
        place = table + 4 + 4 * entry
        offset = int.from_bytes(index[place : place + 4], "big") + len(index)
        index[place : place + 4] = offset.to_bytes(4, "big")
    head = int.from_bytes(frames[:4], "big")
    return frames[:head] + bytes(index) + frames[head:]


@pytest.mark.parametrize("ending", ["avi", "mkv", "mov", "mp4", "webm"])
def test_a_video_that_is_cut_off_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    codec = {"avi": "MJPG", "webm": "VP80"}.get(ending, "mp4v")
    write_video(path, range(0, 240, 4), codec)
    data = with_index_first(path) if ending in ("mov", "mp4") else path.read_bytes()
    for whole in (data, data + bytes(100)):
        path.write_bytes(whole)
        assert sum(1 for _ in VideoReader(path)) == 60
    if ending == "avi":  # the size that a writer leaves which cannot go back in its file
        path.write_bytes(data[:4] + b"\xff" * 4 + data[8:])
        assert sum(1 for _ in VideoReader(path)) == 60
    for size in (len(data) * 2 // 5, len(data) - 1):
        path.write_bytes(data[:size])
        assert 0 < len(read_by_opencv(path)) <= 60  # it is silent about what is missing
        with pytest.raises(PictureError) as info:
            VideoReader(path)
        assert f"{path} is cut off: the video has {size:,} bytes, but declares {len(data):,}. " in str(info.value)
        with pytest.raises(PictureError, match="The stream is cut off"):
            VideoReader(io.BytesIO(data[:size]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.mp4", "ffconcat version 1.0\nfile secret.avi\n"),
        ("a.mp4", "ffconcat version 1.0\n# \xff\0\nfile secret.avi\n"),
        ("a.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.avi\n#EXT-X-ENDLIST\n"),
        ("a.mp4", "#EXTM3U\nsecret.avi\n"),
        ("a.mpd", "<?xml version='1.0'?><MPD><BaseURL>secret.avi</BaseURL></MPD>"),
        ("f%03d.png", ""),
        ("f%d.jpg", ""),
        pytest.param("f*.png", "", marks=pytest.mark.posix("Windows allows no such names")),
    ],
)
def test_lists_and_patterns_of_other_files_are_not_read(name: str, content: str, tmp_path: Path) -> None:
    write_video(tmp_path / "secret.avi", [30])
    for index in range(3):
        cv2.imwrite(str(tmp_path / f"f{index:03d}.png"), noise(1)[0])
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1") or (tmp_path / "secret.avi").read_bytes())
    for source in (path, str(path), *([io.BytesIO(path.read_bytes())] if content else [])):
        with pytest.raises(
            PictureError, match=r"cannot be opened as a video: .* patterns of other files are not supported"
        ):
            VideoReader(source)


@pytest.mark.posix("Windows allows no such names")
def test_a_name_that_is_a_protocol_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, level in (("a.avi", 30), ("b.avi", 200)):
        write_video(Path(name), [level])
    os.rename("b.avi", "concat:a.avi")
    (frame,) = VideoReader("concat:a.avi")
    assert abs(frame.software_bitmap.to_numpy().mean() - 200) < 4


@pytest.mark.parametrize(
    ("ending", "codec"),
    [
        *(("3gp", "mp4v"), ("flv", "FLV1"), ("ivf", "VP80"), ("m2ts", "mp4v"), ("mpg", "MPG1"), ("mts", "mp4v")),
        *(("ts", "mp4v"), ("wmv", "WMV2"), ("y4m", "I420")),
    ],
)
def test_other_containers_that_opencv_reads(ending: str, codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    native = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*codec), 25, SIZE[::-1])
    if not native.isOpened():
        pytest.skip(f"this OpenCV writes no {ending}")
    for pixels in noise(5):
        native.write(pixels)
    native.release()
    expected = read_by_opencv(path)
    assert len(expected) == 5
    found = [frame.software_bitmap.to_numpy() for frame in VideoReader(path)]
    np.testing.assert_array_equal(found, expected)


# Live sources


class Camera:
    """Stands in for OpenCV's: frame number n has level n, and comes when `advance` says so."""

    def __init__(self, *_: Any) -> None:
        self.come = threading.Semaphore(0)
        self.taken = threading.Semaphore(0)
        self.number = 0
        self.is_released = self.is_ended = False

    def isOpened(self) -> bool:  # noqa: N802 - OpenCV's name
        return True

    def get(self, _: int) -> float:
        return 0.0

    def read(self) -> tuple[bool, np.ndarray | None]:
        self.come.acquire()
        if self.is_ended:
            return False, None
        self.number += 1
        self.taken.release()
        return True, np.full((4, 4, 3), self.number - 1, np.uint8)

    def release(self) -> None:
        self.is_released = True

    def advance(self, count: int) -> None:
        """Lets frames come, and waits until they have been read."""
        for _ in range(count):
            self.come.release()
            assert self.taken.acquire(timeout=20)

    def end(self) -> None:
        self.is_ended = True
        self.come.release()


@pytest.fixture
def camera(monkeypatch: pytest.MonkeyPatch) -> Iterator[Camera]:
    substitute = Camera()
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: substitute)
    yield substitute
    substitute.end()


def level(found: VideoFrame | None) -> int:
    assert found is not None
    return int(found.software_bitmap.to_numpy()[0, 0, 0])


def began(reader: VideoReader, camera: Camera, count: int) -> None:
    """Has the thread read frames, of which nobody takes one."""
    assert not reader.is_ready
    camera.advance(count)
    while not reader.is_ready:
        pass


def settled(reader: VideoReader, count: int) -> None:
    """The thread has put its last frame where readers find it: it waits for the next."""
    deadline = threading.Event()
    for _ in range(2000):
        live = reader._live
        assert live is not None
        if len(live.frames) + live._dropped + live.dropped >= count:
            return
        deadline.wait(0.005)
    pytest.fail("the thread does not read")


def test_drop_the_oldest(camera: Camera) -> None:
    reader = VideoReader(0, policy=FramePolicy.DROP_OLDEST, kept=3)
    began(reader, camera, 10)
    settled(reader, 10)
    found = [reader.read() for _ in range(3)]
    assert [level(one) for one in found] == [7, 8, 9]
    assert [one.is_discontinuous for one in found if one is not None] == [True, False, False]
    assert reader.dropped == 7
    assert not reader.is_ready
    camera.advance(1)
    assert level(reader.read()) == 10
    assert reader.dropped == 7


def test_only_the_latest(camera: Camera) -> None:
    reader = VideoReader(0, policy=FramePolicy.LATEST)
    for last, count in ((4, 5), (5, 1), (25, 20)):
        if last == 4:
            began(reader, camera, count)
        else:
            camera.advance(count)
        settled(reader, count)
        found = reader.read()
        assert level(found) == last
        assert found is not None
        assert found.is_discontinuous is (count > 1)
    assert reader.dropped == 4 + 19


def test_wait_reads_every_frame_and_starts_no_thread(camera: Camera) -> None:
    reader = VideoReader(0)
    before = threading.active_count()
    for _ in range(5):
        camera.come.release()
    assert [level(reader.read()) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert reader.is_ready
    assert (reader.dropped, reader.policy) == (0, FramePolicy.WAIT)
    assert threading.active_count() == before


@pytest.mark.parametrize("policy", [FramePolicy.DROP_OLDEST, FramePolicy.LATEST])
def test_files_always_wait(policy: FramePolicy, tmp_path: Path) -> None:
    write_video(tmp_path / "a.avi", range(0, 200, 10), "MJPG")
    reader = VideoReader(tmp_path / "a.avi", policy=policy, kept=1)
    assert (reader.is_ready, reader.policy) == (True, FramePolicy.WAIT)
    assert (sum(1 for _ in reader), reader.dropped) == (20, 0)


@pytest.mark.parametrize("policy", [FramePolicy.DROP_OLDEST, FramePolicy.LATEST])
def test_the_end_of_a_source_comes_after_its_frames(camera: Camera, policy: FramePolicy) -> None:
    reader = VideoReader(0, policy=policy)
    began(reader, camera, 1)
    camera.end()
    assert [level(found) for found in reader] == [0]
    with pytest.raises(ClosedError):
        reader.read()


@pytest.mark.parametrize("policy", [FramePolicy.DROP_OLDEST, FramePolicy.LATEST])
def test_closing_ends_who_waits_and_the_thread(camera: Camera, policy: FramePolicy) -> None:
    reader = VideoReader(0, policy=policy)
    answers: list[VideoFrame | None] = []
    waiting = threading.Thread(target=lambda: answers.append(reader.read()))
    waiting.start()
    while reader._live is None:
        pass
    closing = threading.Thread(target=reader.close)  # it waits for the frame that OpenCV reads
    closing.start()
    waiting.join(20)
    assert answers == [None]
    camera.end()
    closing.join(20)
    assert camera.is_released
    assert not [thread for thread in threading.enumerate() if thread.name == "winml-py camera" and thread.is_alive()]


def test_a_reader_that_nobody_has_ends_its_thread(camera: Camera) -> None:
    reader = VideoReader(0, policy=FramePolicy.LATEST)
    began(reader, camera, 1)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "winml-py camera"]
    del reader
    gc.collect()
    camera.come.release()  # the frame that it is reading
    thread.join(20)
    assert not thread.is_alive()


def test_what_the_camera_raises_is_raised_by_read(camera: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise cv2.error("unplugged")

    monkeypatch.setattr(camera, "read", broken)
    reader = VideoReader(0, policy=FramePolicy.LATEST)
    with pytest.raises(cv2.error, match="unplugged"):
        reader.read()
    assert reader.read() is None


def test_wrong_policies_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Pass a member of FramePolicy: WAIT, DROP_OLDEST, LATEST"):
        VideoReader(0, policy="latest")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="whole number of 1 or more"):
        VideoReader(0, policy=FramePolicy.DROP_OLDEST, kept=0)


def test_a_stream_of_the_latest_frames_is_never_late(camera: Camera) -> None:
    """While the model works, frames come and go; the next result is of the newest one that was there."""
    opened = LearningModelSession(LearningModel.load(MODELS / "invert.onnx"))
    reader = VideoReader(0, policy=FramePolicy.LATEST)
    began(reader, camera, 4)
    settled(reader, 4)
    stream = opened.evaluate_many(reader, concurrency=1)
    seen = []
    for count in (5, 1, 7):
        result = next(stream)  # comes, though no further frame does
        seen.append(255 - int(result.outputs["result"].to_numpy()[0, 0, 0]))
        assert result.source.software_bitmap.to_numpy()[0, 0, 0] == seen[-1]
        camera.advance(count)
        settled(reader, 4 + sum((5, 1, 7)[: len(seen)]) - len(seen))
    assert seen == [3, 8, 9]
    stream.close()
    assert reader.read() is not None  # the program's own reader stays open


def test_a_camera_that_ends_ends_its_stream(camera: Camera) -> None:
    opened = LearningModelSession(LearningModel.load(MODELS / "invert.onnx"))
    reader = VideoReader(0, policy=FramePolicy.DROP_OLDEST)
    began(reader, camera, 3)
    settled(reader, 3)
    camera.end()  # nothing more comes
    assert len(list(opened.evaluate_many(reader, concurrency=2))) == 3

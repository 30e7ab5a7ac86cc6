"""`winml-py run` on videos: every frame through an effect, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest

from helpers.cli import call, require_failure
from helpers.paths import MODELS, PICTURES
from helpers.processes import interrupt, start_program

DIGITS, EDGES = MODELS / "digits.onnx", MODELS / "edges.onnx"


def moving(count: int) -> list[np.ndarray]:
    """A photograph that is scrolled."""
    photograph = cv2.imread(str(PICTURES / "cat.jpg"))
    return [np.ascontiguousarray(np.roll(photograph, 7 * step, axis=1)[:120, :160]) for step in range(count)]


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "in.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 12, (160, 120))
    for pixels in moving(9):
        writer.write(pixels)
    writer.release()
    return path


def frames(path: Path) -> list[np.ndarray]:
    capture, found = cv2.VideoCapture(str(path)), []
    while (answer := capture.read())[0]:
        found.append(answer[1])
    return found


def by_hand(video: Path, target: Path, codec: str) -> list[np.ndarray]:
    """The loop over OpenCV and raw ONNX Runtime."""
    raw = onnxruntime.InferenceSession(EDGES, providers=["CPUExecutionProvider"])
    writer = cv2.VideoWriter(str(target), cv2.VideoWriter.fourcc(*codec), 12, (160, 120))
    for pixels in frames(video):
        (planes,) = raw.run(None, {"image": pixels.transpose(2, 0, 1)[None].astype(np.float32)})
        writer.write(np.ascontiguousarray(np.rint(planes[0].clip(0, 255)).astype(np.uint8).transpose(1, 2, 0)))
    writer.release()
    return frames(target)


@pytest.mark.parametrize(("name", "codec"), [("out.avi", "MJPG"), ("out.mp4", "mp4v")])
def test_frames_are_those_of_the_loop_by_hand(video: Path, tmp_path: Path, name: str, codec: str) -> None:
    result = call("run", EDGES, video, "--output", tmp_path / name)
    assert result.exit_code == 0, result.output
    assert "a video of 160x120, 9 frames" in result.stdout
    expected = by_hand(video, tmp_path / f"expected_{name}", codec)
    assert len(expected) == 9
    np.testing.assert_array_equal(frames(tmp_path / name), expected)
    assert cv2.VideoCapture(str(tmp_path / name)).get(cv2.CAP_PROP_FPS) == 12


def test_a_video_that_is_cut_off_is_a_failure(video: Path, tmp_path: Path) -> None:
    data = video.read_bytes()
    video.write_bytes(data[: len(data) // 2])
    assert 0 < len(frames(video)) < 9
    message = require_failure(4, "run", EDGES, video, "--output", tmp_path / "out.mp4")
    assert f"{video} is cut off: the video has {len(data) // 2:,} bytes, but declares {len(data):,}." in message
    assert os.listdir(tmp_path) == ["in.avi"]


def test_videos_and_pictures_into_a_folder(video: Path, tmp_path: Path) -> None:
    unnamed = video.with_name("recording")  # its content says that it is a video
    shutil.copy(video, unnamed)
    folder = tmp_path / "out"
    result = call("run", EDGES, PICTURES / "cat.jpg", video, unnamed, "--output", f"{folder}/", "--json")
    facts = json.loads(result.stdout)["results"]
    assert [entry["written"] for entry in facts] == [[f"{folder}/{n}"] for n in ("cat.png", "in.mp4", "recording.mp4")]
    assert facts[1]["outputs"] == {"result": {"kind": "video", "width": 160, "height": 120, "frames": 9}}
    assert sorted(os.listdir(folder)) == ["cat.png", "in.mp4", "recording.mp4"]
    assert len(frames(folder / "recording.mp4")) == 9


def test_frames_that_are_larger_than_those_of_the_video(video: Path, tmp_path: Path) -> None:
    result = call("run", MODELS / "upscale.onnx", video, "--output", tmp_path / "out.avi")
    assert "a video of 320x240, 9 frames" in result.stdout
    written = frames(tmp_path / "out.avi")
    assert len(written) == 9
    for came, source in zip(written, frames(video), strict=True):
        assert np.abs(cv2.resize(source, (320, 240)).astype(int) - came).mean() < 3


def test_a_video_may_be_written_over_itself(video: Path) -> None:
    before = frames(video)
    refused = require_failure(2, "run", MODELS / "invert.onnx", f"image={video}", "--output", video)
    assert f"{video}: This is an input" in refused
    np.testing.assert_array_equal(frames(video), before)
    assert call("run", MODELS / "invert.onnx", f"image={video}", "--output", video, "--force").exit_code == 0
    assert np.abs(255 - np.int16(frames(video)) - before).mean() < 3


def test_what_cannot_be_done(video: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = {
        (
            5,
            DIGITS,
            video,
            "--output",
            tmp_path / "out.mp4",
        ): "the model has neither a picture output nor results that can",
        (
            5,
            EDGES,
            video,
            "--output",
            tmp_path / "out.png",
        ): "out.png is not an ordinary file with a video extension. Use .avi, .m4v, .mkv, .mov, .mp4, .webm.",
        (5, EDGES, video, "--output", tmp_path / "none" / "out.mp4"): "Create the folder first",
        (4, EDGES, "none.mp4", "--output", tmp_path / "out.mp4"): "none.mp4: The video does not exist.",
        (5, EDGES, PICTURES / "cat.jpg", "--output", tmp_path / "out.mp4"): "cannot be saved with this file",
    }
    for (code, *arguments), expected in words.items():
        message = require_failure(code, "run", *arguments)
        assert re.sub(r"\s", "", expected) in re.sub(r"\s", "", message)
        assert "not a picture" not in message
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    assert "cannot be opened as a video" in require_failure(
        4, "run", EDGES, tmp_path / "broken.mp4", "--output", tmp_path / "out.mp4"
    )
    assert sorted(os.listdir(tmp_path)) == ["broken.mp4", "in.avi"]
    capfd.readouterr()  # OpenCV's own words


@pytest.mark.parametrize("ending", ["avi", "m4v", "mkv", "mov", "mp4", "webm"])
@pytest.mark.parametrize("rate", [25, 24000 / 1001])
def test_every_ending_has_a_codec(ending: str, rate: float, tmp_path: Path) -> None:
    video, target = tmp_path / "in.avi", tmp_path / f"levels.{ending.upper()}"
    writer = cv2.VideoWriter(str(video), cv2.VideoWriter.fourcc(*"MJPG"), rate, (64, 48))
    for level in (30, 120, 210):
        writer.write(np.full((48, 64, 3), level, np.uint8))
    writer.release()
    assert call("run", MODELS / "invert.onnx", video, "--output", target).exit_code == 0
    assert np.abs(np.mean(frames(target), axis=(1, 2, 3)) - (225, 135, 45)).max() < 4
    assert cv2.VideoCapture(str(target)).get(cv2.CAP_PROP_FPS) == pytest.approx(rate, rel=1e-3)
    assert sorted(os.listdir(tmp_path)) == ["in.avi", target.name]


@pytest.mark.posix("Windows has no modes")
def test_a_link_and_the_mode_of_its_file_stay(video: Path, tmp_path: Path) -> None:
    path, link = tmp_path / "a.mp4", tmp_path / "link"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    assert call("run", EDGES, video, "--output", link, "--force").exit_code == 0
    assert link.is_symlink()
    assert len(frames(path)) == 9
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.mp4", "in.avi", "link"]


@pytest.mark.posix("Windows has no limit of a file's size")
@pytest.mark.skipif(sys.platform == "darwin", reason="a limit of the file size stands for a full disk")
@pytest.mark.parametrize("name", ["out.mp4", "out.avi"])
def test_a_full_disk_is_an_error(name: str, video: Path, tmp_path: Path) -> None:
    """OpenCV itself says nothing."""
    program = """
import resource, signal, sys
sys.dont_write_bytecode = True  # Python would keep modules that were written only in part
from winml_py.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
main()
"""
    command = [sys.executable, "-c", program, "run", EDGES, video, "--output", tmp_path / name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, done.stderr
    assert f"{name} could not be written completely. Check the free disk space." in " ".join(done.stderr.split())
    assert os.listdir(tmp_path) == ["in.avi"]


def test_a_video_that_cannot_be_begun_leaves_no_file(video: Path, tmp_path: Path) -> None:
    """A contract makes the pictures odd."""
    contract = tmp_path / "contract.json"
    contract.write_text('{"Image.BitmapPixelFormat": "Bgr8", "Image.Size": "31,31"}')
    message = require_failure(5, "run", EDGES, video, "--contract", contract, "--output", tmp_path / "out.mp4")
    assert "31x31" in message
    assert "both sides must be even" in message
    assert sorted(os.listdir(tmp_path)) == ["contract.json", "in.avi"]


def test_a_frame_that_fails_is_named(video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = onnxruntime.InferenceSession.run, iter(range(9))

    def failing(*arguments: Any) -> Any:
        if next(calls) == 4:
            raise RuntimeError("An operator failed.")
        return run(*arguments)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", failing)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)  # one thread: frames come in order
    message = require_failure(1, "run", EDGES, video, "--output", tmp_path / "out.mp4")
    assert "Frame 4: ONNX Runtime reported: An operator failed." in message
    assert os.listdir(tmp_path) == ["in.avi"]


def test_ctrl_c_leaves_no_half_written_file(tmp_path: Path) -> None:
    video, folder = tmp_path / "long.avi", tmp_path / "out"
    folder.mkdir()
    writer = cv2.VideoWriter(str(video), cv2.VideoWriter.fourcc(*"MJPG"), 25, (640, 480))
    for step in range(300):
        writer.write(np.full((480, 640, 3), step % 256, np.uint8))
    writer.release()
    program = "from winml_py.cli.main import main; main()"
    command = [sys.executable, "-c", program, "run", EDGES, video, "--output", folder / "out.mp4"]
    with start_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not os.listdir(folder) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [name for name in os.listdir(folder) if name.startswith(".out.")]
        interrupt(process)
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert os.listdir(folder) == []

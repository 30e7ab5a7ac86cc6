"""`winml-py run` on models that find things: listed, in JSON, and drawn on pictures, folders and videos."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from helpers import seeing_models as seeing
from helpers.cli import call, require_failure
from helpers.rectangles import LETTERBOX, PICTURES, make_file
from winml_py import ImageFeatureValue

DETECTOR = seeing.make_model(
    seeing.yolo(), {"output0": f"float[1, 7, {seeing.PLACES}]"}, seeing.ULTRALYTICS | {"task": "detect"}
)


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    path = tmp_path / "detector.onnx"
    path.write_bytes(DETECTOR)
    return path


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "contract.json"
    path.write_text(json.dumps(LETTERBOX.to_metadata()))
    return path


@pytest.mark.parametrize("name", PICTURES)
def test_a_stock_detector_needs_no_other_option(name: str, detector: Path, tmp_path: Path) -> None:
    picture, drawn = tmp_path / "picture.png", tmp_path / "drawn.png"
    picture.write_bytes(make_file(name))
    printed = call("run", detector, picture, "--output", drawn)
    assert printed.exit_code == 0, printed.stderr
    row = next(line.split() for line in printed.stdout.splitlines() if "dog" in line)
    assert row[:3] == ["1", "dog", "0.900"]
    assert np.abs(np.array(row[3:], int) - PICTURES[name][2]).max() <= 1
    image = Image.open(drawn)
    width, height, (left, top, _, bottom), _ = PICTURES[name]
    assert image.size == (width, height)
    pixels = np.asarray(image.convert("RGB")).astype(int)
    rim = pixels[(top + bottom) // 2, left : left + 3]
    assert (np.abs(rim - [250, 0, 0]).sum(axis=1) > 100).any()
    found = json.loads(call("run", detector, picture, "--json").stdout)["results"][0]["objects"]
    assert [(one["label"], one["index"]) for one in found] == [("dog", 1)]
    assert np.abs(np.array(found[0]["box"]) - PICTURES[name][2]).max() <= 1


def test_a_folder_is_drawn_file_by_file(detector: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("landscape", "portrait"):
        (tmp_path / "in" / f"{name}.png").write_bytes(make_file(name))
    assert call("run", detector, tmp_path / "in", "--output", f"{tmp_path}/out/").exit_code == 0
    sizes = {path.name: ImageFeatureValue.load(path).sizes[0] for path in (tmp_path / "out").iterdir()}
    assert sizes == {"landscape.png": (480, 300), "portrait.png": (300, 480)}


def test_a_video_is_drawn_frame_by_frame(detector: Path, tmp_path: Path) -> None:
    path, drawn = tmp_path / "in.avi", tmp_path / "out.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (320, 240))
    for step in range(4):
        frame = np.full((240, 320, 3), 60, np.uint8)
        frame[60:160, 40 + 30 * step : 140 + 30 * step] = (0, 0, 250)
        writer.write(frame)
    writer.release()
    assert call("run", detector, path, "--output", drawn).exit_code == 0
    capture = cv2.VideoCapture(str(drawn))
    for step in range(4):
        _, frame = capture.read()
        inside, rim = frame[110, 90 + 30 * step].astype(int), frame[110, 41 + 30 * step].astype(int)
        assert np.abs(inside - [0, 0, 250]).max() < 30
        assert np.abs(rim - [0, 0, 250]).max() > 60
    assert not capture.read()[0]


def test_a_threshold_above_every_score_leaves_no_objects(detector: Path, tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(make_file("square"))
    assert "no objects" in call("run", detector, tmp_path / "picture.png", "--threshold", 0.95).stdout
    outputs = call("run", detector, tmp_path / "picture.png", "--layout", "none").stdout
    assert "output0: float32 of 1x7x2100" in outputs


def test_a_segmentation_lists_shares(contract: Path, tmp_path: Path) -> None:
    model, picture, labels = tmp_path / "model.onnx", tmp_path / "picture.png", tmp_path / "labels.txt"
    model.write_bytes(seeing.make_model(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"}))
    picture.write_bytes(make_file("landscape"))
    labels.write_text("floor\nwall\nbox\n")
    command = ("run", model, picture, "--contract", contract, "--labels", labels)
    printed = call(*command, "--output", tmp_path / "drawn.png").stdout.splitlines()
    assert next(line.split() for line in printed if "%" in line)[:2] == ["0", "floor"]
    regions = json.loads(call(*command, "--json").stdout)["results"][0]["regions"]
    assert [one["label"] for one in regions] == ["floor", "box"]
    assert regions[1]["share"] == pytest.approx(183 * 180 / 480 / 300, rel=0.03)
    drawn = np.asarray(Image.open(tmp_path / "drawn.png").convert("RGB")).astype(int)
    assert drawn[0, 0].tolist() == [60, 60, 60]
    assert np.abs(drawn[130, 150] - [250, 0, 0]).max() > 40


def test_a_doubt_is_told_and_a_layout_settles_it(contract: Path, tmp_path: Path) -> None:
    model, picture = tmp_path / "model.onnx", tmp_path / "picture.png"
    model.write_bytes(seeing.make_model(seeing.end_to_end(), {"output0": "float[1, 300, 6]"}))
    picture.write_bytes(make_file("square"))
    doubt = call("run", model, picture, "--contract", contract)
    assert doubt.exit_code == 0
    assert "YOLO_END_TO_END or RT_DETR_ULTRALYTICS" in " ".join(doubt.stderr.split())
    named = call("run", model, picture, "--contract", contract, "--layout", "yolo-end-to-end", "--json")
    assert len(json.loads(named.stdout)["results"][0]["objects"]) == 1
    wrong = require_failure(4, "run", model, picture, "--contract", contract, "--layout", "torchvision")
    assert "do not match the layout TORCHVISION" in wrong

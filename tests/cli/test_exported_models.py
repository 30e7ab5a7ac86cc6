"""Models of strangers, as exporters write them, from the command line: no model is rewritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

from helpers.cli import require_exit
from helpers.models import model, tensor

ULTRALYTICS = {
    "author": "Ultralytics",
    "task": "detect",
    "stride": "32",
    "imgsz": "[64, 96]",
    "names": "{0: 'box', 1: 'disc'}",
    "channels": "3",
}


def detector(metadata: dict[str, str]) -> onnx.ModelProto:
    """Free sides, and two paths that only agree on multiples of 32: one is made smaller and larger again."""
    nodes = [
        helper.make_node("AveragePool", ["images"], ["small"], kernel_shape=[32, 32], strides=[32, 32]),
        helper.make_node("Resize", ["small", "", "scales"], ["large"], mode="nearest"),
        helper.make_node("Concat", ["images", "large"], ["output0"], axis=1),
    ]
    ends = [tensor("images", ("batch", 3, "height", "width"))], [tensor("output0", ("batch", 6, "height", "width"))]
    return model(nodes, *ends, {"scales": np.float32([1, 1, 32, 32])}, metadata=metadata)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    y, x = np.mgrid[0:75, 0:101]
    Image.fromarray(np.stack([x, y, x + y], -1).astype(np.uint8)).save(path)
    return path


def written(path: Path) -> list[np.ndarray[Any, Any]]:
    with np.load(path) as outputs:
        return list(outputs.values())


def test_a_detector_with_free_sides_runs_as_it_was_exported(tmp_path: Path, photo: Path) -> None:
    onnx.save(detector(ULTRALYTICS), tmp_path / "detector.onnx")
    require_exit("run", tmp_path / "detector.onnx", photo, "--output", tmp_path / "out.npz")
    (came,) = written(tmp_path / "out.npz")
    assert came.shape == (1, 6, 64, 96)
    # Ultralytics' letterbox: 101 x 75 in 96 x 64 is 86 x 64, five columns of gray on each side
    assert (came[0, :3, :, [0, 4, 91, 95]] == np.float32(114 / 255)).all()
    inner = np.asarray(Image.open(photo).resize((86, 64), Image.Resampling.BILINEAR)).transpose(2, 0, 1) / 255
    assert np.abs(came[0, :3, :, 5:91] - inner).max() < 3 / 255


def test_the_same_without_metadata_says_what_is_missing(tmp_path: Path, photo: Path) -> None:
    onnx.save(detector({}), tmp_path / "detector.onnx")
    result = require_exit("run", tmp_path / "detector.onnx", photo, code=1)
    assert "the picture for images kept its own size, 101x75" in " ".join(result.output.split())
    assert "No image contract is specified for the input 'images'." in " ".join(result.output.split())
    words = {"Image.BitmapPixelFormat": "Rgb8", "Image.Size": "64,96"}
    (tmp_path / "contract.json").write_text(json.dumps(words))
    require_exit(
        "run",
        tmp_path / "detector.onnx",
        photo,
        "--contract",
        tmp_path / "contract.json",
        "--output",
        tmp_path / "out.npz",
    )
    assert [value.shape for value in written(tmp_path / "out.npz")] == [(1, 6, 64, 96)]

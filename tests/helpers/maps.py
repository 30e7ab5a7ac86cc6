"""Jobs for `winml-py map`: a model, pictures of which some are broken, and what must come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from PIL import Image

from helpers.models import data, tensor

SIDE, CLASSES = 28, 10
WEIGHTS = np.random.default_rng(0).random((3 * SIDE * SIDE, CLASSES), np.float32)


def linear(path: Path) -> Path:
    """A model that takes pictures, red first, from 0 to 1, and gives ten sums of their weighted pixels."""
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    metadata = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "Normalized_0_1"}
    image = tensor("image", [1, 3, SIDE, SIDE], denotation="IMAGE")
    scores = tensor("scores", [1, CLASSES])
    path.write_bytes(data(nodes, [image], [scores], {"weights": WEIGHTS}, metadata=metadata))
    return path


def pixels(number: int) -> np.ndarray[Any, Any]:
    """Noise, always the same for a number."""
    return np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


def pictures(folder: Path, count: int, broken: set[int]) -> Path:
    """Pictures of noise; the broken ones are text."""
    folder.mkdir()
    for number in range(count):
        path = folder / f"{number}.png"
        if number in broken:
            path.write_text("no picture")
        else:
            Image.fromarray(pixels(number)).save(path)
    return folder


def answer(number: int) -> np.ndarray[Any, Any]:
    """What numpy makes of a picture."""
    return pixels(number).transpose(2, 0, 1).reshape(-1).astype(np.float32) / 255 @ WEIGHTS


def require_right(table: Any, folder: Path, count: int, broken: set[int]) -> None:
    """All rows are there once, in natural order, with numpy's answers; those of broken pictures have an error alone."""
    assert table.column("path").to_pylist() == [str(folder / f"{number}.png") for number in range(count)]
    errors = table.column("error").to_pylist()
    assert {number for number, error in enumerate(errors) if error is not None} == broken
    for number in broken:
        assert errors[number].startswith("PictureError: ")
        assert f"{number}.png" in errors[number]
    answers = table.column("scores").to_pylist()
    assert {number for number, answer in enumerate(answers) if answer is None} == broken
    for number in set(range(count)) - broken:
        np.testing.assert_allclose(answers[number], answer(number), rtol=1e-5)

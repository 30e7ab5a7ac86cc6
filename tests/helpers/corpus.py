"""Every model at hand: our own, and those that public packages ship in their wheels."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from helpers.paths import MODELS


def find_package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None, f"{name} is part of the extra [test]"
    assert spec.origin is not None
    return Path(spec.origin).parent


OURS = sorted(MODELS.glob("*.onnx"))
LIGHT = sorted((find_package("onnx") / "backend" / "test" / "data" / "light").glob("*.onnx"))
SHIPPED = [
    *sorted((find_package("rapidocr") / "models").glob("*.onnx")),
    *sorted((find_package("magika") / "models").glob("*/model.onnx")),
    *sorted((find_package("onnxruntime") / "datasets").glob("*.onnx")),
]
CORPUS = [*OURS, *LIGHT, *SHIPPED]

"""Every model at hand: our own, and those that public packages ship in their wheels."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from helpers.paths import MODELS


def package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None, f"{name} is part of the extra [test]"
    assert spec.origin is not None
    return Path(spec.origin).parent


OURS = sorted(MODELS.glob("*.onnx"))
LIGHT = sorted((package("onnx") / "backend" / "test" / "data" / "light").glob("*.onnx"))
SHIPPED = [
    *sorted((package("rapidocr") / "models").glob("*.onnx")),
    *sorted((package("magika") / "models").glob("*/model.onnx")),
    *sorted((package("onnxruntime") / "datasets").glob("*.onnx")),
]
CORPUS = [*OURS, *LIGHT, *SHIPPED]

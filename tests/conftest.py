from __future__ import annotations

from pathlib import Path

import pytest

from winml_py import LearningModel, LearningModelSession

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "models"
PICTURES = ROOT / "samples" / "pictures"


@pytest.fixture(scope="session")
def digits() -> LearningModelSession:
    """A session of the digit classifier; tests that close sessions make their own."""
    return LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))


@pytest.fixture(scope="session")
def seven() -> Path:
    return PICTURES / "seven.png"


@pytest.fixture(scope="session")
def cat() -> Path:
    return PICTURES / "cat.jpg"

"""Closing a session while its first evaluation decides on the engine; the runtime's session is a stand-in."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from build import unary
from helpers_providers import Runtime, device, runtime

from winml_py import ClosedError, LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.runtime.cpu import choice, measure
from winml_py.runtime.providers import catalogue
from winml_py.runtime.providers.provider import ProviderDevice

__all__ = ["runtime"]  # a fixture


@pytest.fixture
def undecided(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> LearningModelSession:
    """A session whose first evaluation compares two engines."""
    rival: Any = device(catalogue.OPENVINO, "lib.so", "cpu")
    found: ProviderDevice = rival._device
    monkeypatch.setattr(choice, "_plugin_devices", lambda: [found])
    monkeypatch.setattr(measure, "ROUNDS", (1, 1))
    options = LearningModelSessionOptions()
    options.engine = "auto"
    made = LearningModelSession(LearningModel.load(unary("Neg", ["n"])), None, options)
    assert made.engine == "undecided"
    return made


def open_sessions(runtime: Runtime) -> weakref.WeakSet[Any]:
    alive = weakref.WeakSet(runtime.sessions)
    runtime.sessions.clear()
    gc.collect()
    return alive


def test_closing_in_the_first_decision_leaves_no_engine_open(runtime: Runtime, undecided: LearningModelSession) -> None:
    deciding, closed = threading.Event(), threading.Event()

    def inside() -> None:
        deciding.set()
        assert closed.wait(10)

    runtime.inside = inside
    with ThreadPoolExecutor(1) as pool:
        evaluation = pool.submit(undecided.evaluate_features, {"x": np.float32([1, 2])})
        assert deciding.wait(10)
        undecided.close()
        closed.set()
        with pytest.raises(ClosedError):
            evaluation.result(60)
    del evaluation
    assert len(runtime.sessions) == 2  # both were compared
    assert list(open_sessions(runtime)) == []


def test_the_winner_alone_stays_open_until_the_session_is_closed(
    runtime: Runtime, undecided: LearningModelSession
) -> None:
    result = undecided.evaluate_features({"x": np.float32([1, 2])})
    assert result.outputs["y"].to_numpy().tolist() == [-1, -2]
    alive = open_sessions(runtime)
    assert len(alive) == 1
    undecided.close()
    gc.collect()
    assert list(alive) == []

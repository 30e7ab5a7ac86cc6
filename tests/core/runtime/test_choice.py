"""How the engines of a model are timed: in turns."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from winml_py.core.base.cancellation import Stop
from winml_py.core.runtime.cpu import choice
from winml_py.errors import CanceledError


class Machine:
    """Stands for the clock: engines of known speed, on a machine whose speed changes from round to round."""

    def __init__(self, milliseconds: dict[str, float], slowness: Iterator[float]) -> None:
        self.milliseconds = milliseconds
        self.slowness = slowness
        self.now, self.calls = 1.0, 0

    def block(self, binding: str) -> float:
        if self.calls % len(self.milliseconds) == 0:
            self.now = next(self.slowness)
        self.calls += 1
        return self.milliseconds[binding] * self.now / 1e3


def timed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, require_not_stopped: Callable[[], None] = lambda: None
) -> dict[str, float]:
    monkeypatch.setattr(choice, "time_block", machine.block)
    runs: Any = {name: name for name in machine.milliseconds}
    found: Any = choice._measure_times(runs, require_not_stopped)
    return dict(found)


def uneven() -> Iterator[float]:
    """1 to 2 times as slow, and every seventh round 10 times."""
    number = 0
    while True:
        number += 1
        yield 10.0 if number % 7 == 0 else 1.5 + math.sin(number) / 2


def test_what_slows_a_round_down_does_not_change_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({"onnxruntime": 20, "openvino": 19}, uneven())
    found = timed(machine, monkeypatch)
    assert found["openvino"] / found["onnxruntime"] == pytest.approx(0.95)
    assert 20 <= found["onnxruntime"] <= 40
    assert machine.calls == 2 * choice.ROUNDS[1]


def test_the_rounds_end_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ROUND_SECONDS", -1.0)
    machine = Machine({"onnxruntime": 20, "openvino": 10}, uneven())
    assert timed(machine, monkeypatch)["openvino"] > 0
    assert machine.calls == 2 * choice.ROUNDS[0]


def test_a_request_to_stop_is_seen_between_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stop()
    machine = Machine({"onnxruntime": 20, "openvino": 20}, uneven())
    real = machine.block

    def block(binding: str) -> float:
        if machine.calls == 3:
            stop.request()
        return real(binding)

    machine.block = block  # type: ignore[method-assign]
    with pytest.raises(CanceledError):
        timed(machine, monkeypatch, stop.require_not_requested)
    assert machine.calls == 4

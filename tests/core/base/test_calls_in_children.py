"""What may end the process is tried in one of its own: float16 conversion."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.models import data, tensor
from helpers.processes import describe_signal, is_alive, send_signal
from helpers.reference import run_raw
from winml_py import InvalidArgumentError
from winml_py.core.base import child_process
from winml_py.errors import ConversionError
from winml_py.float16 import convert, model_file, search

pytestmark = pytest.mark.one_python


def double(number: int) -> int:
    return number * 2


def process() -> int:
    return os.getpid()


def refuse() -> None:
    raise InvalidArgumentError("It is refused.", hint="Ask for something else.")


def die(word: str) -> None:
    send_signal(os.getpid(), word)


def shout() -> str:
    os.write(1, b"what a library prints\n" * 10000)
    return os.environ["WINML_PY_CACHE"]


def test_a_call_in_a_process_of_its_own() -> None:
    assert child_process.call_in_child(double, 21) == 42
    assert child_process.call_in_child(process) != os.getpid()
    assert child_process.call_in_child(process) == child_process.call_in_child(process)  # which waits for the next one
    assert child_process.call_in_child(shout) == ""  # nothing is kept, and what is printed does no harm
    with pytest.raises(InvalidArgumentError, match=r"It is refused\. Ask for something else") as info:
        child_process.call_in_child(refuse)
    assert info.value.hint == "Ask for something else."
    array = np.arange(1 << 20)
    np.testing.assert_array_equal(child_process.call_in_child(np.negative, array), -array)


@pytest.mark.parametrize("word", ["SIGSEGV", "SIGFPE", "SIGABRT", "SIGKILL"])
def test_a_process_that_ends_is_told_and_the_next_call_works(word: str) -> None:
    before = child_process.call_in_child(process)
    with pytest.raises(child_process.ProcessEndedError, match=describe_signal(word)):
        child_process.call_in_child(die, word)
    assert child_process.call_in_child(process) != before


def test_threads_have_a_process_each() -> None:
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda number: child_process.call_in_child(double, number), range(30))) == list(
            range(0, 60, 2)
        )


def test_a_process_that_is_about_to_end_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    before = child_process.call_in_child(process)
    monkeypatch.setattr(child_process, "IDLE_SECONDS", 0.0)
    assert child_process.call_in_child(process) != before
    assert not is_alive(before)


def test_an_application_without_a_python_calls_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "is_available", lambda: False)
    assert child_process.call_in_child(process) == os.getpid()


# Float16


def chain(count: int = 9) -> bytes:
    names = ["x", *(f"v{number}" for number in range(1, count)), "y"]
    operators = ["Relu", "Neg", "Abs"]
    nodes = [
        helper.make_node(operators[number % 3], [names[number]], [names[number + 1]], name=f"node{number}")
        for number in range(count)
    ]
    return data(nodes, [tensor("x", [2, 3])], [tensor("y", [2, 3])])


def test_a_process_that_ends_whatever_is_kept_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = search.evaluate
    first: list[int] = []

    def evaluate(*arguments: Any) -> Any:
        if first:
            raise child_process.ProcessEndedError("SIGABRT")
        first.append(1)
        return real(*arguments)

    monkeypatch.setattr(search, "evaluate", evaluate)
    source = tmp_path / "m.onnx"
    source.write_bytes(chain())
    words = r"crashes while it compiles the float16 model \(SIGABRT\).* Keep nodes in float32"
    with pytest.raises(ConversionError, match=words):
        convert(source, tmp_path / "half.onnx")
    assert not (tmp_path / "half.onnx").exists()


def test_candidates_are_compiled_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends the process ends no program of ours; here, one that would end itself."""
    monkeypatch.setattr(model_file, "_evaluate_source", die_as_asked)
    source = tmp_path / "m.onnx"
    source.write_bytes(chain())
    with pytest.raises(child_process.ProcessEndedError, match=describe_signal("SIGSEGV")):
        convert(source, tmp_path / "half.onnx")


def die_as_asked(*_: object) -> None:
    die("SIGSEGV")


@pytest.mark.parametrize(
    ("given", "gives"),
    [
        (["x", "w", "r"], ["y"]),
        (["x", "w", "r", "", "l"], ["y", "", "c"]),
        (["x", "w", "r", "b", "", "h"], ["", "h_n"]),
        (["x", "w", "r", "", "", "", "c_0", "p"], ["y", "h_n"]),
    ],
)
def test_optional_inputs_and_outputs_that_are_left_out_stay_out(
    given: list[str], gives: list[str], tmp_path: Path
) -> None:
    """Of an LSTM, which has the most of them: every node's own outputs are compared in the search."""
    sizes = {"w": (1, 12, 4), "r": (1, 12, 3), "b": (1, 24), "h": (1, 2, 3), "c_0": (1, 2, 3), "p": (1, 9)}
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {name: rng.normal(0, 0.5, sizes[name]) for name in given if name in sizes}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    if "l" in given:
        weights["l"] = np.array([5, 4], np.int32)
    node = helper.make_node("LSTM", given, gives, hidden_size=3)
    ends = [tensor(name, None) for name in gives if name]
    source, target = tmp_path / "m.onnx", tmp_path / "half.onnx"
    source.write_bytes(data([node], [tensor("x", [5, 2, 4])], ends, weights))
    x = rng.normal(0, 0.5, (5, 2, 4)).astype(np.float32)
    convert(source, target, inputs={"x": x})
    half = run_raw(target, {"x": x.astype(np.float16)})
    for name, expected in run_raw(source, {"x": x}).items():
        np.testing.assert_allclose(half[name], expected, atol=1e-2)

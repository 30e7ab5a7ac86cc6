"""`winml-py tune` and options in files: what is kept is right, faster twice, and faster than the default at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.models import data, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    Precision,
    StorageNotFoundError,
    Tuning,
    Weights,
)
from winml_py.core.base.agreement import compare_outputs
from winml_py.core.cache import folders
from winml_py.core.runtime.ort import saved_graph
from winml_py.perf import tune as tuning
from winml_py.perf.tune import THROUGHPUT, tune

DIGITS = str(MODELS / "digits.onnx")


def timed(monkeypatch: pytest.MonkeyPatch, milliseconds: Any) -> list[str]:
    """Makes the clock say what a function of settings and batch says; everything else is real. Gives what was tried."""
    tried: list[str] = []

    def seconds(self: Any) -> float:
        tried.append(json.dumps(self.values))
        return float(milliseconds(self.values, self.batch)) / 1e3

    monkeypatch.setattr(tuning._Contender, "seconds", seconds)
    return tried


def test_what_is_faster_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def milliseconds(values: dict[str, Any], batch: int) -> float:
        faster = 4 if values["intra_op_thread_spinning"] else 3
        return faster - (values["tuning"]["graph_optimization"] == "basic")

    timed(monkeypatch, milliseconds)
    tuned = tune(DIGITS)
    assert [trial.change for trial in tuned.trials if trial.kept] == ["no spinning", "graph optimisation basic"]
    assert tuned.gain == 2
    assert (tuned.default_ms, tuned.tuned_ms, tuned.batch) == (4, 2, 1)
    assert not tuned.options.intra_op_thread_spinning
    assert tuned.options.tuning == Tuning(graph_optimization="basic")


def test_nothing_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda values, batch: 5)
    tuned = tune(DIGITS)
    assert (tuned.gain, tuned.default_ms, tuned.tuned_ms) == (1, 5, 5)
    assert not any(trial.kept for trial in tuned.trials)
    default = LearningModelSessionOptions()
    default.batch_size_override = 0
    assert tuned.options.to_dict() == default.to_dict()


def test_a_win_that_does_not_last_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise favours the candidates, and at the end the default."""
    ends = []

    def milliseconds(values: dict[str, Any], batch: int) -> float:
        return 1.0 if ends or values["intra_op_thread_spinning"] else 0.5

    compared = tuning._compare_contenders

    def last(one: Any, other: Any, rounds: int) -> Any:
        if rounds > tuning.ROUNDS:
            ends.append(1)
        return compared(one, other, rounds)

    timed(monkeypatch, milliseconds)
    monkeypatch.setattr(tuning, "_compare_contenders", last)
    tuned = tune(DIGITS)
    assert tuned.gain == 1
    assert tuned.options.intra_op_thread_spinning
    assert tuned.trials[-1].problem == "no gain is left"


def test_a_candidate_must_win_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: Iterator[float] = iter([2.0, 1.01])

    def compare(*_: object) -> tuning.Comparison:
        gain = next(turns)
        return tuning.Comparison(gain, (gain, gain), (1.0, 1.0))

    monkeypatch.setattr(tuning._Search, "_changes", lambda self: iter([tuning._Change("luck", {"engine": "auto"})]))
    monkeypatch.setattr(tuning, "_compare_contenders", compare)
    (trial,) = tune(DIGITS).trials
    assert (trial.kept, trial.problem, trial.gain) == (False, "no faster", 1.01)


def test_what_is_faster_in_half_of_the_turns_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median of seven turns says 1.5, and the machine was busy."""
    turns = iter([3.0, 0.7, 3.0, 0.7, 3.0, 0.7, 1.5] * 8)
    monkeypatch.setattr(tuning._Search, "_changes", lambda self: iter([tuning._Change("luck", {"engine": "auto"})]))
    timed(monkeypatch, lambda values, batch: 1 / next(turns) if values["engine"] == "auto" else 1)
    tuned = tune(DIGITS)
    (trial,) = tuned.trials
    assert (trial.kept, trial.problem) == (False, "unsteady: 0.70 to 3.00 times as fast")
    assert trial.gain == pytest.approx(1.5)
    assert tuned.gain == 1


def test_wrong_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tuning._Contender._arrays

    def arrays(self: Any) -> Any:
        found = original(self)
        if not self.values["intra_op_thread_spinning"]:
            found["probabilities"] = found["probabilities"] + 0.01
        return found

    monkeypatch.setattr(tuning._Contender, "_arrays", arrays)
    timed(monkeypatch, lambda values, batch: 1 if values["intra_op_thread_spinning"] else 0.1)
    trials = {trial.change: trial for trial in tune(DIGITS).trials}
    assert "the results differ by 1" in trials["no spinning"].problem
    assert trials["no spinning"].milliseconds is None


def test_batches_for_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda values, batch: 10 / batch)
    tuned = tune(str(MODELS / "digits_batch.onnx"), goal=THROUGHPUT)
    assert (tuned.batch, tuned.gain) == (16, 16)
    assert tune(DIGITS, goal=THROUGHPUT).batch == 1  # its batch is 1


def test_maps_and_sequences_must_be_the_same() -> None:
    one = [{1: 0.5, 2: 0.25}, np.ones(2, np.float32)]
    assert compare_outputs({"y": one}, {"y": [{1: 0.5, 2: 0.25}, np.ones(2, np.float32)]}, 1e-3).error == 0
    assert compare_outputs({"y": one}, {"y": [{1: 0.5, 2: 0.5}, np.ones(2, np.float32)]}, 1e-3).error == 0.5
    assert compare_outputs({"y": one}, {"y": one[:1]}, 1e-3).error == float("inf")


@pytest.mark.kept
def test_nothing_of_the_search_stays_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda values, batch: 5)
    monkeypatch.setattr(saved_graph, "MAPPED_FROM", 0)
    before = os.environ["WINML_PY_CACHE"]
    tune(DIGITS)
    assert os.environ["WINML_PY_CACHE"] == before
    assert folders.entries() == []


def test_whole_numbers_must_be_the_same() -> None:
    one, two = np.array([1, 2]), np.array([1, 3])
    assert compare_outputs({"y": one}, {"y": one}, 1e-3).error == 0
    assert compare_outputs({"y": one}, {"y": two}, 1e-3).error == float("inf")


def test_the_command_really_tunes(tmp_path: Path, seven: Path) -> None:
    target = tmp_path / "options.json"
    monkeypatched = pytest.MonkeyPatch()
    monkeypatched.setattr(tuning, "BLOCK_SECONDS", 0.002)
    monkeypatched.setattr(tuning, "ROUNDS", 1)
    try:
        result = call("tune", DIGITS, seven, "--output", target, "--json")
    finally:
        monkeypatched.undo()
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    tried = [trial["change"] for trial in facts["trials"]]
    assert {"no spinning", "parallel execution", "no memory arena", "graph optimisation basic"} <= set(tried)
    assert facts["options"] == LearningModelSessionOptions.load(target).to_dict()
    assert json.loads(target.read_text())["notes"]["model"] == "digits.onnx"
    measured = call("perf", DIGITS, "--settings", target, "-n", 2, "--json")
    assert measured.exit_code == 0, measured.output


def test_the_table_is_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed(monkeypatch, lambda values, batch: 2 if values["intra_op_thread_spinning"] else 1)
    text = call("tune", DIGITS, "--output", tmp_path / "o.json").stdout
    assert "2.00 (2.00 to 2.00) times as fast as the default: no spinning" in text
    assert f"written to {tmp_path / 'o.json'}" in text
    timed(monkeypatch, lambda values, batch: 2)
    assert "Nothing helped: the default, 2.000 ms, is the fastest." in call("tune", DIGITS).stdout


def test_mistakes(tmp_path: Path) -> None:
    assert "not found" in require_failure(3, "tune", "missing.onnx")
    assert "no folder" in require_failure(5, "tune", DIGITS, "--output", tmp_path / "missing" / "o.json")
    two = tmp_path / "two.onnx"
    ends = [tensor(name, [2]) for name in ("a", "b", "sum")]
    two.write_bytes(data([helper.make_node("Add", ["a", "b"], ["sum"])], ends[:2], ends[2:]))
    assert "a=FILE b=FILE" in require_failure(2, "tune", two, "one.npy")


def test_options_come_back_from_a_file(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.batch_size_override = 3
    options.override_named_dimension("rows", 7)
    options.intra_op_num_threads = 2
    options.intra_op_thread_spinning = False
    options.engine, options.precision = "auto", Precision.HALF
    options.provider_options = {"device_id": 1}
    options.graph_capture, options.allow_cpu_fallback = False, False
    options.close_model_on_session_creation, options.profiling = True, True
    options.weights, options.tuning = Weights.PRIVATE, Tuning(memory_arena=False, dynamic_block_base=4)
    options.save(tmp_path / "options.json")
    back = LearningModelSessionOptions.load(tmp_path / "options.json")
    assert back.to_dict() == options.to_dict()
    known = {name for name in vars(LearningModelSessionOptions) if isinstance(getattr(type(options), name), property)}
    known -= {"named_dimension_overrides"}  # which are set one by one
    assert known <= set(options.to_dict())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"kind": "session-options"}',
        '{"schema_version": 1, "kind": "perf", "options": {}}',
        '{"schema_version": 2, "kind": "session-options", "options": {}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"colour": 1}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"precision": "quarter"}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"precision": 3}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"tuning": {"speed": 9}}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"profiling": "no"}}',
        '{"schema_version": 1, "kind": "session-options", "options": {"named_dimensions": {"\\ud800": 3}}}',
        "[" * 100_000,
        '{"schema_version": 1, "kind": "session-options", "options": {"intra_op_num_threads": -1}}',
    ],
)
def test_files_that_hold_no_options(tmp_path: Path, text: str) -> None:
    (tmp_path / "options.json").write_text(text)
    with pytest.raises(InvalidArgumentError):
        LearningModelSessionOptions.load(tmp_path / "options.json")


def test_options_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError):
        LearningModelSessionOptions.load(tmp_path / "missing.json")
    with pytest.raises(StorageNotFoundError):
        LearningModelSessionOptions().save(tmp_path / "missing" / "options.json")


def test_a_session_takes_loaded_options(tmp_path: Path) -> None:
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    options.save(tmp_path / "options.json")
    loaded = LearningModelSessionOptions.load(tmp_path / "options.json")
    session = LearningModelSession(LearningModel.load(unary("Neg", [2])), None, loaded)
    assert session.get_intra_op_num_threads() == 1

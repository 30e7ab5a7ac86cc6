"""`winml-py tune` and options in files: what is kept is right, and surely faster than the default."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.cuda import FakeCudaDevice
from helpers.models import data, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    Precision,
    Tuning,
    Weights,
)
from winml_py._inputs import trial
from winml_py._inputs.model import Case
from winml_py.core.base.agreement import compare_outputs
from winml_py.core.cache import folders
from winml_py.core.runtime.ort import saved_graph
from winml_py.core.runtime.providers.catalogue import PROVIDERS
from winml_py.errors import StorageNotFoundError
from winml_py.perf import tune as tuning
from winml_py.perf.tune import CHECKS, PAIRS, ROUNDS, Candidate, Gain, Trial, Tuned, tune

pytestmark = pytest.mark.usefixtures("all_cores")  # with one there is less to try

DIGITS = str(MODELS / "digits.onnx")


def timed(monkeypatch: pytest.MonkeyPatch, milliseconds: Callable[[Candidate], float]) -> None:
    """Makes the clock say what a function of the candidate says; all else is real."""
    monkeypatch.setattr(Candidate, "seconds", lambda self: milliseconds(self) / 1e3)


def spins(candidate: Candidate) -> bool:
    return bool(candidate.options["intra_op_thread_spinning"])


def in_turns(*milliseconds: float) -> Callable[[], float]:
    """Says one after the other, and begins anew."""
    turns = itertools.cycle(milliseconds)
    return lambda: next(turns)


@pytest.fixture
def only_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves a single change to try."""
    change = "no spinning", {"intra_op_thread_spinning": False}
    monkeypatch.setattr(tuning, "list_changes", lambda device: [change])


def tried(tuned: Tuned) -> dict[str, Trial]:
    return {trial.change: trial for trial in tuned.trials}


def test_what_is_faster_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(
        monkeypatch,
        lambda one: (4 if spins(one) else 3) - (one.options["tuning"]["graph_optimization"] == "basic"),
    )
    tuned = tune(Case(DIGITS))
    assert [trial.change for trial in tuned.trials if trial.kept] == ["no spinning", "graph optimisation basic"]
    assert tuned.gain == Gain(2, (2, 2), (4, 2), PAIRS * ROUNDS)
    assert not tuned.options.intra_op_thread_spinning
    assert tuned.options.tuning == Tuning(graph_optimization="basic")


def test_nothing_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda one: 5)
    tuned = tune(Case(DIGITS))
    assert (tuned.gain.ratio, tuned.gain.milliseconds) == (1, (5, 5))
    assert not any(trial.kept for trial in tuned.trials)
    assert {trial.problem for trial in tuned.trials} == {"not clearly faster"}
    default = LearningModelSessionOptions()
    default.batch_size_override = 0
    assert tuned.options.to_dict() == default.to_dict()


@pytest.mark.usefixtures("only_spinning")
def test_what_is_as_fast_is_declared_equal_after_all_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coin decides each turn: no number of turns sets the two apart."""
    turn, turns = in_turns(0.9, 1.12), []
    timed(monkeypatch, lambda one: 1 if spins(one) else turns.append(turn()) or turns[-1])
    tuned = tune(Case(DIGITS))
    trial = tried(tuned)["no spinning"]
    assert (trial.problem, trial.kept, len(turns)) == ("not clearly faster", False, CHECKS * ROUNDS)
    assert trial.gain.interval == pytest.approx((1 / 1.12, 1 / 0.9))
    assert tuned.options.intra_op_thread_spinning


@pytest.mark.usefixtures("only_spinning")
def test_what_is_faster_in_more_than_half_of_the_turns_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median turn says 1.5, and two of five say 0.7: the machine was busy."""
    turn = in_turns(1 / 3, 1 / 0.7, 1 / 1.5, 1 / 0.7, 1 / 3)
    timed(monkeypatch, lambda one: 1 if spins(one) else turn())
    tuned = tune(Case(DIGITS))
    trial = tried(tuned)["no spinning"]
    assert trial.gain.ratio == pytest.approx(1.5)
    assert (trial.kept, tuned.gain.ratio) == (False, 1)


@pytest.mark.usefixtures("only_spinning")
def test_what_is_two_percent_faster_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda one: 1.02 if spins(one) else 1)
    tuned = tune(Case(DIGITS))
    assert (tried(tuned)["no spinning"].problem, tuned.gain.ratio) == ("not clearly faster", 1)


@pytest.mark.usefixtures("only_spinning")
def test_a_gain_that_does_not_last_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise favours the candidate, until the sessions are made anew."""
    sessions: list[Candidate] = []
    make = Candidate.__init__

    def counted(self: Candidate, *arguments: Any) -> None:
        sessions.append(self)
        make(self, *arguments)

    monkeypatch.setattr(Candidate, "__init__", counted)
    timed(monkeypatch, lambda one: 1.0 if spins(one) else 2.0 if one not in sessions[:2] else 0.5)
    tuned = tune(Case(DIGITS))
    assert (tried(tuned)["no spinning"].kept, tuned.gain.ratio, tuned.gain.milliseconds) == (True, 1, (1, 1))
    assert tuned.options.intra_op_thread_spinning
    assert (tried(tuned)["all of it"].gain.ratio, tried(tuned)["all of it"].problem) == (0.5, "no gain remains: slower")


def test_wrong_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Candidate.__init__

    def damaged(self: Candidate, *arguments: Any) -> None:
        make(self, *arguments)
        if not spins(self):
            self.outputs["probabilities"] = self.outputs["probabilities"] + 0.01

    monkeypatch.setattr(Candidate, "__init__", damaged)
    timed(monkeypatch, lambda one: 1 if spins(one) else 0.1)
    trial = tried(tune(Case(DIGITS)))["no spinning"]
    assert "the results differ by 1" in trial.problem
    assert trial.gain is None


def test_on_a_cpu_memory_and_graphs_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda one: 5)
    changes = tried(tune(Case(DIGITS)))
    settings = {"graph optimisation basic", "no memory arena", "no memory pattern", "no spinning", "parallel execution"}
    assert settings <= set(changes)
    assert not any("cudnn" in change or "capture" in change for change in changes)


@pytest.mark.usefixtures("openvino")
def test_an_engine_without_settings_of_onnx_runtime_is_not_tried_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda one: 1 if one.options["engine"] == "openvino" else 2)
    tuned = tune(Case(DIGITS))
    assert not {"parallel execution", "graph optimisation basic", "no memory arena"} & set(tried(tuned))
    assert tuned.options.engine == "openvino"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeCudaDevice:
    """A substitute for a CUDA card, which is found by that name."""
    device = FakeCudaDevice()
    monkeypatch.setattr(LearningModelDevice, "find", lambda name: {"cuda": device}[name])
    monkeypatch.setattr(trial, "call", lambda function, *arguments: function(*arguments))  # another has no such device
    return device


@pytest.mark.usefixtures("card")
def test_on_cuda_its_own_options_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is faster, and one that is faster still; the workspace makes it slower."""
    faster = {"EXHAUSTIVE": 4.0, "HEURISTIC": 2.0, "DEFAULT": 1.0}

    def milliseconds(one: Candidate) -> float:
        chosen = one.options["provider_options"]
        search = faster.get(chosen.get("cudnn_conv_algo_search", ""), 4.0)
        return float(search + (chosen.get("cudnn_conv_use_max_workspace") == "0"))

    timed(monkeypatch, milliseconds)
    tuned = tune(Case(DIGITS, device="cuda"))
    assert (tuned.device, tuned.gain.ratio) == ("NVIDIA H200", 4)
    kept = {change: one.kept for change, one in tried(tuned).items()}
    assert kept == {
        "cudnn_conv_algo_search EXHAUSTIVE": False,
        "cudnn_conv_algo_search HEURISTIC": True,
        "cudnn_conv_algo_search DEFAULT": True,
        "cudnn_conv_use_max_workspace 0": False,
        "cudnn_conv_use_max_workspace 1": False,
        "prefer_nhwc 1": False,
        "graph capture": False,
        "graph optimisation basic": False,
    }
    assert tuned.options.provider_options == {"cudnn_conv_algo_search": "DEFAULT"}


def test_every_option_that_is_tried_is_one_of_the_provider() -> None:
    for provider in PROVIDERS.values():
        if provider.option_keys is not None:
            assert {key for key, _ in provider.worth_trying} <= set(provider.option_keys.split())
    assert all("tf32" not in key for key, _ in PROVIDERS["CUDAExecutionProvider"].worth_trying)


def test_on_webgpu_its_layouts_are_tried(gpu: LearningModelDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda one: 2 if one.options["provider_options"].get("preferredLayout") == "NCHW" else 3)
    tuned = tune(Case(DIGITS, device="gpu"))
    assert tried(tuned)["preferredLayout NCHW"].kept
    assert tried(tuned)["preferredLayout NHWC"].gain.ratio == pytest.approx(2 / 3)
    assert "graph optimisation basic" in tried(tuned)
    assert not any("thread" in change or "arena" in change for change in tried(tuned))
    assert (tuned.device, tuned.options.provider_options) == (gpu.name, {"preferredLayout": "NCHW"})


def test_a_device_that_is_not_there() -> None:
    assert "There is no device named 'abacus'" in require_failure(6, "tune", DIGITS, "--device", "abacus")


def test_maps_and_sequences_must_be_the_same() -> None:
    one = [{1: 0.5, 2: 0.25}, np.ones(2, np.float32)]
    assert compare_outputs({"y": one}, {"y": [{1: 0.5, 2: 0.25}, np.ones(2, np.float32)]}, 1e-3).error == 0
    assert compare_outputs({"y": one}, {"y": [{1: 0.5, 2: 0.5}, np.ones(2, np.float32)]}, 1e-3).error == 0.5
    assert compare_outputs({"y": one}, {"y": one[:1]}, 1e-3).error == float("inf")


def test_nothing_of_the_search_stays_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, lambda one: 5)
    monkeypatch.setattr(saved_graph, "MAPPED_FROM", 0)
    before = os.environ["WINML_PY_CACHE"]
    tune(Case(DIGITS))
    assert os.environ["WINML_PY_CACHE"] == before
    assert folders.entries() == []


def test_whole_numbers_must_be_the_same() -> None:
    one, two = np.array([1, 2]), np.array([1, 3])
    assert compare_outputs({"y": one}, {"y": one}, 1e-3).error == 0
    assert compare_outputs({"y": one}, {"y": two}, 1e-3).error == float("inf")


@pytest.mark.usefixtures("short_tune")
def test_the_command_really_tunes(tmp_path: Path, seven: Path) -> None:
    target = tmp_path / "options.json"
    result = call("tune", DIGITS, seven, "--output", target, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    changes = [trial["change"] for trial in facts["trials"]]
    assert {"no spinning", "parallel execution", "no memory arena", "graph optimisation basic"} <= set(changes)
    assert facts["options"] == LearningModelSessionOptions.load(target).to_dict()
    assert json.loads(target.read_text())["notes"]["model"] == "digits.onnx"
    measured = call("perf", DIGITS, "--settings", target, "-n", 2, "--json")
    assert measured.exit_code == 0, measured.output


def test_the_table_is_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    timed(monkeypatch, lambda one: 2 if spins(one) else 1)
    text = call("tune", DIGITS, "--output", tmp_path / "o.json").stdout
    (row,) = [line.split() for line in text.splitlines() if line.startswith("no spinning")]
    assert row == ["no", "spinning", "kept", "1.000", "2.00", "2.00", "to", "2.00"]
    assert "2.00 (2.00 to 2.00) times as fast as the default: no spinning" in text
    assert "2.000 ms by default, 1.000 ms tuned; 95 % confidence" in text
    assert f"written to {tmp_path / 'o.json'}" in text
    timed(monkeypatch, lambda one: 2)
    assert "No change helped: the default, 2.000 ms, is the fastest." in call("tune", DIGITS).stdout


def test_mistakes(tmp_path: Path) -> None:
    assert "not found" in require_failure(3, "tune", "missing.onnx")
    assert "no folder" in require_failure(5, "tune", DIGITS, "--output", tmp_path / "missing" / "o.json")
    assert "This is an input" in require_failure(2, "tune", DIGITS, "--output", DIGITS)
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
    options.weights, options.tuning = Weights.PRIVATE, Tuning(memory_arena=False, memory_pattern=False)
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

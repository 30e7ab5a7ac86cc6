"""`winml-py tune`: what is kept is right, and clearly faster than the default. The clock is a substitute."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.cuda import FakeCudaDevice
from helpers.models import data, tensor
from helpers.paths import MODELS
from winml_py import LearningModelDevice, LearningModelSession, LearningModelSessionOptions, Precision, Tuning
from winml_py._cases.case import Case
from winml_py.core.cache import folders
from winml_py.core.runtime.ort import saved_graph
from winml_py.core.runtime.providers.catalogue import PROVIDERS
from winml_py.perf import tune as tuning
from winml_py.perf.tune import Candidate, Gain, Trial, Tuned, compute_gain, tune

pytestmark = pytest.mark.usefixtures("all_cores")  # with one there is less to try

DIGITS = str(MODELS / "digits.onnx")


def set_clock(monkeypatch: pytest.MonkeyPatch, measure: Callable[[Candidate], float]) -> None:
    """Makes the measured milliseconds those that a function of the candidate returns; all else is real."""
    monkeypatch.setattr(Candidate, "measure_seconds", lambda candidate: measure(candidate) / 1e3)


def spins(candidate: Candidate) -> bool:
    return bool(candidate.options["intra_op_thread_spinning"])


@pytest.fixture
def only_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves a single change to try."""
    change = "no spinning", {"intra_op_thread_spinning": False}
    monkeypatch.setattr(tuning, "list_changes", lambda device: [change])


def trials_by_change(tuned: Tuned) -> dict[str, Trial]:
    return {trial.change: trial for trial in tuned.trials}


@pytest.mark.parametrize(
    ("ratios", "ratio", "is_clear"),
    [
        ([1.2, 1.3, 1.1, 1.25, 1.15, 1.22, 1.18], 1.2, True),
        ([1.2, 1.3, 0.9, 1.25, 1.15, 1.22, 1.18], 1.2, True),  # one round may be disturbed
        ([1.2, 1.3, 0.9, 1.25, 1.15, 1.22, 1.0], 1.2, False),
        ([1.01, 1.02, 1.01, 1.02, 1.01, 1.02, 1.02], 1.02, False),
        ([0.9] * 7, 0.9, False),
    ],
)
def test_what_is_clearly_faster(ratios: list[float], ratio: float, is_clear: bool) -> None:
    gain = compute_gain(ratios, [1.0] * len(ratios))
    assert (gain.ratio, gain.milliseconds, gain.is_clear) == (ratio, (1e3 * ratio, 1e3), is_clear)


def test_what_is_faster_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(candidate: Candidate) -> float:
        is_basic: bool = candidate.options["tuning"]["graph_optimization"] == "basic"
        return (4 if spins(candidate) else 3) - is_basic

    set_clock(monkeypatch, measure)
    tuned = tune(Case(DIGITS))
    assert [trial.change for trial in tuned.trials if trial.kept] == ["no spinning", "graph optimisation basic"]
    assert tuned.gain == Gain(2, (4, 2), 0)
    assert not tuned.options.intra_op_thread_spinning
    assert tuned.options.tuning == Tuning(graph_optimization="basic")


def test_nothing_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 5)
    tuned = tune(Case(DIGITS))
    assert tuned.gain is None
    assert {trial.problem for trial in tuned.trials} == {"not clearly faster"}
    default = LearningModelSessionOptions()
    default.batch_size_override = 0
    assert tuned.options.to_dict() == default.to_dict()
    settings = {"graph optimisation basic", "no memory arena", "no memory pattern", "no spinning", "parallel execution"}
    assert settings <= set(trials_by_change(tuned))


@pytest.mark.usefixtures("only_spinning")
def test_what_is_faster_in_more_than_half_of_the_rounds_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median round says 1.5, and two of five say 0.7: the machine was busy."""
    times = itertools.cycle([1 / 3, 1 / 0.7, 1 / 1.5, 1 / 0.7, 1 / 3])
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else next(times))
    tuned = tune(Case(DIGITS))
    (trial,) = tuned.trials
    assert trial.gain is not None
    assert trial.gain.ratio == pytest.approx(1.5)
    assert (trial.kept, tuned.gain) == (False, None)


@pytest.mark.usefixtures("only_spinning")
def test_a_gain_that_does_not_last_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise favours the candidate, until it is compared with the default once more."""
    times = [0.5] * tuning.ROUNDS
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else times.pop() if times else 2)
    tuned = tune(Case(DIGITS))
    assert (tuned.trials[0].kept, tuned.gain) == (True, None)
    assert tuned.options.intra_op_thread_spinning


@pytest.mark.usefixtures("only_spinning")
def test_wrong_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = Candidate.evaluate

    def evaluate_wrongly(candidate: Candidate) -> dict[str, Any]:
        error = 0 if spins(candidate) else 0.01
        return {name: value + error for name, value in evaluate(candidate).items()}

    monkeypatch.setattr(Candidate, "evaluate", evaluate_wrongly)
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else 0.1)
    (trial,) = tune(Case(DIGITS)).trials
    assert "the results differ by 1" in trial.problem
    assert trial.gain is None


@pytest.mark.usefixtures("only_spinning")
def test_half_precision_has_a_tolerance_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of a session, and so its precision, may be chosen in its first evaluation."""
    evaluate = Candidate.evaluate
    sessions: list[LearningModelSession] = []

    def evaluate_roughly(candidate: Candidate) -> dict[str, Any]:
        sessions.append(candidate.session)
        error = 0 if spins(candidate) else 0.01
        return {name: value + error for name, value in evaluate(candidate).items()}

    half_once_evaluated = property(lambda session: Precision.HALF if session in sessions else Precision.AUTO)
    monkeypatch.setattr(Candidate, "evaluate", evaluate_roughly)
    monkeypatch.setattr(LearningModelSession, "precision", half_once_evaluated)
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else 0.1)
    assert tune(Case(DIGITS)).trials[0].kept


@pytest.mark.usefixtures("openvino")
def test_settings_that_an_engine_refuses_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 1 if candidate.options["engine"] == "openvino" else 2)
    tuned = tune(Case(DIGITS))
    assert "does not support" in trials_by_change(tuned)["parallel execution"].problem
    assert (tuned.options.engine, tuned.options.tuning) == ("openvino", Tuning())


def test_on_cuda_its_own_options_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is faster, and one that is faster still; the workspace makes it slower."""
    device = FakeCudaDevice()
    monkeypatch.setattr(LearningModelDevice, "find", lambda name: {"cuda": device}[name])
    faster = {"EXHAUSTIVE": 4.0, "HEURISTIC": 2.0, "DEFAULT": 1.0}

    def measure(candidate: Candidate) -> float:
        options = candidate.options["provider_options"]
        search = faster.get(options.get("cudnn_conv_algo_search", ""), 4.0)
        return float(search + (options.get("cudnn_conv_use_max_workspace") == "0"))

    set_clock(monkeypatch, measure)
    tuned = tune(Case(DIGITS, device="cuda"))
    assert tuned.gain is not None
    assert (tuned.device, tuned.gain.ratio) == ("NVIDIA H200", 4)
    assert {trial.change: trial.kept for trial in tuned.trials} == {
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
    set_clock(monkeypatch, lambda one: 2 if one.options["provider_options"].get("preferredLayout") == "NCHW" else 3)
    tuned = tune(Case(DIGITS, device="gpu"))
    kept = {trial.change: trial.kept for trial in tuned.trials}
    assert kept == {"preferredLayout NCHW": True, "preferredLayout NHWC": False, "graph optimisation basic": False}
    assert (tuned.device, tuned.options.provider_options) == (gpu.name, {"preferredLayout": "NCHW"})


def test_nothing_of_the_search_stays_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 5)
    monkeypatch.setattr(saved_graph, "MAPPED_FROM", 0)
    before = os.environ["WINML_PY_CACHE"]
    tune(Case(DIGITS))
    assert os.environ["WINML_PY_CACHE"] == before
    assert folders.list_saved_models() == []


@pytest.mark.usefixtures("short_tune")
def test_the_command_really_tunes(tmp_path: Path, seven: Path) -> None:
    target = tmp_path / "options.json"
    result = call("tune", DIGITS, seven, "--output", target, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["options"] == LearningModelSessionOptions.load(target).to_dict()
    assert json.loads(target.read_text())["notes"]["model"] == "digits.onnx"
    measured = call("perf", DIGITS, "--settings", target, "-n", 2, "--json")
    assert measured.exit_code == 0, measured.output


@pytest.mark.usefixtures("only_spinning")
def test_the_table_is_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_clock(monkeypatch, lambda candidate: 2 if spins(candidate) else 1)
    text = call("tune", DIGITS, "--output", tmp_path / "o.json").stdout
    (row,) = [line.split() for line in text.splitlines() if line.startswith("no spinning")]
    assert row == ["no", "spinning", "kept", "1.000", "2.00"]
    assert "2.00 times as fast as the default, 1.000 ms instead of 2.000 ms: no spinning" in text
    assert f"written to {tmp_path / 'o.json'}" in text
    set_clock(monkeypatch, lambda candidate: 2)
    assert "The default is the result: no change is clearly faster." in call("tune", DIGITS).stdout
    times = [1] * tuning.ROUNDS
    set_clock(monkeypatch, lambda candidate: 2 if spins(candidate) or not times else times.pop())
    assert "measured once more, it is not clearly slower than with no spinning" in call("tune", DIGITS).stdout


def test_mistakes(tmp_path: Path) -> None:
    assert "not found" in require_failure(3, "tune", "missing.onnx")
    assert "no folder" in require_failure(5, "tune", DIGITS, "--output", tmp_path / "missing" / "o.json")
    assert "This is an input" in require_failure(2, "tune", DIGITS, "--output", DIGITS)
    assert "There is no device named 'abacus'" in require_failure(6, "tune", DIGITS, "--device", "abacus")
    two = tmp_path / "two.onnx"
    ends = [tensor(name, [2]) for name in ("a", "b", "sum")]
    two.write_bytes(data([helper.make_node("Add", ["a", "b"], ["sum"])], ends[:2], ends[2:]))
    assert "a=FILE b=FILE" in require_failure(2, "tune", two, "one.npy")

"""`winml-py tune`: what is kept is right, and clearly faster than the default. The clock is a substitute."""

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
from helpers.engines import HECTOPASCAL, KELVIN, as_asked_for, conv, far, needs_bfloat16, noise
from helpers.models import INT64, STRING, data, tensor, unary
from helpers.paths import MODELS
from helpers.sessions import make_options
from winml_py import (
    CustomOperator,
    EvaluationError,
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    Precision,
    Tuning,
)
from winml_py.core import cache
from winml_py.core.runtime.openvino import compile as openvino_compile
from winml_py.core.runtime.ort import saved_graph
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.catalogue import PROVIDERS
from winml_py.core.runtime.providers.provider import ProviderDevice
from winml_py.errors import EngineWarning
from winml_py.perf import tune, tuning
from winml_py.perf.tuning import Candidate, Gain, Trial, Tuned, compute_gain, search

pytestmark = pytest.mark.usefixtures("all_cores")  # with one there is less to try

DIGITS = str(MODELS / "digits.onnx")
ZEROS = np.zeros((1, 1, 28, 28), np.float32)


def set_clock(monkeypatch: pytest.MonkeyPatch, measure: Callable[[Candidate], float]) -> None:
    """Makes the measured milliseconds those that a function of the candidate returns; all else is real."""
    monkeypatch.setattr(Candidate, "measure_seconds", lambda candidate: measure(candidate) / 1e3)


def search_digits(device: LearningModelDevice | None = None) -> Tuned:
    return search(LearningModel.load(DIGITS), [{"image": ZEROS}], {}, device)


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
    tuned = search_digits()
    assert [trial.change for trial in tuned.trials if trial.kept] == ["no spinning", "graph optimisation basic"]
    assert tuned.gain == Gain(2, (4, 2), 0)
    assert not tuned.options.intra_op_thread_spinning
    assert tuned.options.tuning == Tuning(graph_optimization="basic")


def test_nothing_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 5)
    tuned = search_digits()
    assert tuned.gain is None
    assert {trial.problem for trial in tuned.trials} == {"not clearly faster"}
    default = LearningModelSessionOptions()
    default.batch_size_override = 0
    assert tuned.options.to_dict() == default.to_dict() | {"tuned_for": tuned.options.to_dict()["tuned_for"]}
    settings = {"graph optimisation basic", "no memory arena", "no memory pattern", "no spinning", "parallel execution"}
    assert settings <= set(trials_by_change(tuned))


@pytest.mark.usefixtures("only_spinning")
def test_what_is_faster_in_more_than_half_of_the_rounds_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median round says 1.5, and two of five say 0.7: the machine was busy."""
    times = itertools.cycle([1 / 3, 1 / 0.7, 1 / 1.5, 1 / 0.7, 1 / 3])
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else next(times))
    tuned = search_digits()
    (trial,) = tuned.trials
    assert trial.gain is not None
    assert trial.gain.ratio == pytest.approx(1.5)
    assert (trial.kept, tuned.gain) == (False, None)


@pytest.mark.usefixtures("only_spinning")
def test_a_gain_that_does_not_last_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise favours the candidate, until it is compared with the default once more."""
    times = [0.5] * tuning.ROUNDS
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else times.pop() if times else 2)
    tuned = search_digits()
    assert (tuned.trials[0].kept, tuned.gain) == (True, None)
    assert tuned.options.intra_op_thread_spinning


@pytest.mark.usefixtures("only_spinning")
def test_wrong_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate = Candidate.evaluate

    def evaluate_wrongly(candidate: Candidate, values: Any) -> dict[str, Any]:
        error = 0 if spins(candidate) else 0.01
        return {name: value + error for name, value in evaluate(candidate, values).items()}

    monkeypatch.setattr(Candidate, "evaluate", evaluate_wrongly)
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else 0.1)
    (trial,) = search_digits().trials
    assert "the results differ by 5.0e-02" in trial.problem
    assert trial.gain is None


@pytest.mark.usefixtures("openvino")
def test_settings_that_an_engine_refuses_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 1 if candidate.options["engine"] == "openvino" else 2)
    tuned = search_digits()
    assert "does not support" in trials_by_change(tuned)["parallel execution"].problem
    assert (tuned.options.engine, tuned.options.tuning) == ("openvino", Tuning())


# Other engines and number types: which may run a model, and on what they are compared.


@pytest.fixture
def others_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other engine is faster than ONNX Runtime, and a 16-bit type is the fastest; nothing else helps."""

    def measure(candidate: Candidate) -> float:
        options = candidate.options
        return 3 - (options["engine"] is not None) - (options["precision"] != "auto")

    set_clock(monkeypatch, measure)


def nothing() -> bytes:
    """A model whose output is empty, as that of a detector that finds nothing."""
    node = helper.make_node("Slice", ["x", "none", "none"], ["y"])
    ends = [tensor("x", [1, 3, 16, 16])], [tensor("y", [0, 3, 16, 16])]
    return data([node], *ends, {"none": np.int64([0])})


def tune_on(content: bytes, *inputs: np.ndarray, **settings: Any) -> tuple[Tuned, str]:
    """Tunes a model, and the problem of its first trial of another engine."""
    options = make_options(batch_size_override=0, **settings)
    tuned = search(LearningModel.load(content), [{"x": x} for x in inputs], {"x": noise()}, None, options)
    return tuned, next((trial.problem for trial in tuned.trials if trial.change.startswith("engine openvino")), "none")


@pytest.mark.usefixtures("others_are_faster")
def test_the_fastest_engine_and_type_that_agree_are_taken(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino_compile, "make_engine", as_asked_for)
    for types, expected in (("", Precision.AUTO), ("bfloat16", Precision.BFLOAT16), ("float16", Precision.FLOAT16)):
        device = openvino._replace(float16=bool(types), half_types=types)
        monkeypatch.setattr(plugins, "find_devices", lambda _, device=device: [device])
        options = tune(LearningModel.load(conv()), {"x": noise()})
        assert (options.engine, options.precision) == ("openvino", expected)
        session = LearningModelSession(LearningModel.load(conv()), None, options)
        assert (session.engine, session.precision.is_half) == ("openvino", bool(types))


@pytest.mark.usefixtures("openvino", "others_are_faster")
def test_an_engine_or_a_type_of_the_caller_stays() -> None:
    tuned, problem = tune_on(conv(), noise(), engine="onnxruntime")
    assert (tuned.options.engine, problem) == ("onnxruntime", "none")
    tuned, _ = tune_on(conv(), noise(), precision=Precision.FLOAT32)
    assert (tuned.options.engine, tuned.options.precision) == ("openvino", Precision.FLOAT32)


@pytest.mark.usefixtures("openvino", "others_are_faster")
@pytest.mark.parametrize(
    ("content", "inputs", "words"),
    [
        (conv(), [], "it is only tried with inputs that you pass"),
        (conv(batch="n"), [noise(), noise(batch=0)], "an empty input can crash this engine"),
        (unary("Sqrt", [2]), [np.float32([1, np.nan])], ""),
        (unary("Relu", [2]), [np.float32([1, 2]), np.float32([1, np.nan])], "the places of NaN or infinity"),
        (unary("Max", [2]), [np.float32([1, 2])], "the operator Max is not known to be exact on this engine"),
        (unary("Neg", [2], INT64), [np.int64([1, 2])], "x is not a tensor of float32, float16 or bool"),
        (nothing(), [noise()], "the outputs are empty for all inputs that you pass"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_which_models_and_inputs_another_engine_gets(content: bytes, inputs: list[np.ndarray], words: str) -> None:
    tuned, problem = tune_on(content, *inputs)
    assert words in problem
    assert (tuned.options.engine == "openvino") is (words == "")


@pytest.mark.usefixtures("openvino", "others_are_faster")
def test_all_inputs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of twenty is the one that differs."""
    evaluate = Candidate.evaluate

    def evaluate_wrongly(candidate: Candidate, values: Any) -> dict[str, Any]:
        error = candidate.options["engine"] is not None and len(values["x"]) == 3
        return {name: value + error for name, value in evaluate(candidate, values).items()}

    monkeypatch.setattr(Candidate, "evaluate", evaluate_wrongly)
    many = [noise(batch=2)] * 19
    assert tune_on(conv(batch="n"), *many)[0].options.engine == "openvino"
    tuned, problem = tune_on(conv(batch="n"), *many, noise(batch=3))
    assert tuned.options.engine is None
    assert "the tolerance is 0.001" in problem


@needs_bfloat16
@pytest.mark.usefixtures("others_are_faster")
@pytest.mark.parametrize("mean", [KELVIN, HECTOPASCAL])
def test_bfloat16_that_loses_a_mean_is_found_on_the_programs_own_inputs(openvino: ProviderDevice, mean: float) -> None:
    """On numbers around 0 it is right, as a check on made-up ones would find."""
    content, x = far(mean)
    model = LearningModel.load(content)
    assert tune(model, {"x": np.zeros_like(x)}).precision is Precision.BFLOAT16
    tuned = search(model, [{"x": x}], {})
    assert "differ" in trials_by_change(tuned)["engine openvino in bfloat16"].problem
    assert tuned.options.precision is Precision.AUTO


@pytest.mark.usefixtures("others_are_faster")
def test_what_onnxruntime_refuses_reaches_no_other_engine(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO checks less, and may read or write memory that is not its own."""
    monkeypatch.setattr(openvino_compile, "compile_with_openvino", None)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    ends = [tensor("x", [1, 3, "h", "w"])], [tensor("y", [1, 5])]
    with pytest.raises(EvaluationError, match="Reshape"):
        tune_on(data([node], *ends, {"shape": np.array([1, 5], np.int64)}), np.zeros((1, 3, 2, 2), np.float32))


@pytest.mark.usefixtures("openvino", "others_are_faster")
def test_custom_operators_and_texts_stay_with_onnxruntime() -> None:
    node = helper.make_node("Own", ["x"], ["y"], domain="my")
    content = data([node], [tensor("x", [2])], [tensor("y", [2])], domains={"my": 1})
    operator = CustomOperator(np.negative, "Own", "my", outputs=[(np.float32, 1)])
    options = tune(LearningModel.load(content, operators=[operator]), {"x": np.float32([1, 2])})
    assert options.engine is None
    tuned, problem = tune_on(unary("Identity", [2], STRING), np.array(["a", "b"]))
    assert tuned.options.engine is None
    assert "x is not a tensor" in problem


# What the options were tuned for.


@pytest.mark.usefixtures("only_spinning")
def test_the_options_are_for_one_model_wherever_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    set_clock(monkeypatch, lambda candidate: 2 if spins(candidate) else 1)
    tune(LearningModel.load(DIGITS), {"image": ZEROS}).save(tmp_path / "options.json")
    options = LearningModelSessionOptions.load(tmp_path / "options.json")
    assert not options.intra_op_thread_spinning
    moved = tmp_path / "moved.onnx"
    moved.write_bytes(Path(DIGITS).read_bytes())
    for source in (DIGITS, moved, moved.read_bytes()):
        LearningModelSession(LearningModel.load(source), None, options)
    assert not recwarn.list
    other = LearningModel.load(MODELS / "edges.onnx")
    with pytest.raises(InvalidArgumentError, match=r"a different model than edges\. Tune options for this model with"):
        LearningModelSession(other, None, options)
    options.tuned_for = {}
    options.batch_size_override = 0
    LearningModelSession(other, None, options)


@pytest.mark.usefixtures("only_spinning")
def test_another_processor_and_other_versions_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 1)
    model = LearningModel.load(DIGITS)
    options = tune(model)
    options.tuned_for = {**options.tuned_for, "processor": "Z80", "onnxruntime": "0.1", "abacus": "7"}
    words = r"abacus 7, but here it is none; onnxruntime 0\.1, but here it is .*; processor Z80, but here"
    with pytest.warns(EngineWarning, match=words):
        LearningModelSession(model, None, options)


def test_on_cuda_its_own_options_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is faster, and one that is faster still; the workspace makes it slower."""
    device = FakeCudaDevice()
    faster = {"EXHAUSTIVE": 4.0, "HEURISTIC": 2.0, "DEFAULT": 1.0}

    def measure(candidate: Candidate) -> float:
        options = candidate.options["provider_options"]
        search = faster.get(options.get("cudnn_conv_algo_search", ""), 4.0)
        return float(search + (options.get("cudnn_conv_use_max_workspace") == "0"))

    set_clock(monkeypatch, measure)
    tuned = search_digits(device)
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
    tuned = search_digits(gpu)
    kept = {trial.change: trial.kept for trial in tuned.trials}
    assert kept == {"preferredLayout NCHW": True, "preferredLayout NHWC": False, "graph optimisation basic": False}
    assert (tuned.device, tuned.options.provider_options) == (gpu.name, {"preferredLayout": "NCHW"})


def test_nothing_of_the_search_stays_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, lambda candidate: 5)
    monkeypatch.setattr(saved_graph, "MAPPED_FROM", 0)
    before = os.environ["WINML_PY_CACHE"]
    search_digits()
    assert os.environ["WINML_PY_CACHE"] == before
    assert cache.list_saved_models() == []


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
    assert "The default remains the best: no change is clearly faster." in call("tune", DIGITS).stdout
    times = [1] * tuning.ROUNDS
    set_clock(monkeypatch, lambda candidate: 2 if spins(candidate) or not times else times.pop())
    assert "measured again, it is not clearly slower than no spinning" in call("tune", DIGITS).stdout


@pytest.mark.usefixtures("only_spinning")
def test_an_open_file_is_read_once_for_all_candidates(monkeypatch: pytest.MonkeyPatch, seven: Path) -> None:
    set_clock(monkeypatch, lambda candidate: 1 if spins(candidate) else 0.5)
    with open(seven, "rb") as file:
        assert tune(LearningModel.load(DIGITS), {"image": file}).intra_op_thread_spinning is False


def test_mistakes(tmp_path: Path) -> None:
    assert "not found" in require_failure(3, "tune", "missing.onnx")
    assert "Create the folder first" in require_failure(5, "tune", DIGITS, "--output", tmp_path / "missing" / "o.json")
    assert "This is an input" in require_failure(2, "tune", DIGITS, "--output", DIGITS)
    assert "There is no device named 'abacus'" in require_failure(6, "tune", DIGITS, "--device", "abacus")
    two = tmp_path / "two.onnx"
    ends = [tensor(name, [2]) for name in ("a", "b", "sum")]
    two.write_bytes(data([helper.make_node("Add", ["a", "b"], ["sum"])], ends[:2], ends[2:]))
    assert "a=FILE b=FILE" in require_failure(2, "tune", two, "one.npy")

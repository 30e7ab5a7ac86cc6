"""Every option on every engine: it reaches the runtime, or has its effect, or is refused or told by name.

The providers are substitutes (`helpers/providers.py`): what the package gives to the runtime is looked at.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from openvino import Core

from helpers.cuda import CUDA
from helpers.models import data, tensor
from helpers.providers import PROVIDERS, Runtime, Session, make_device, runtime
from helpers.sessions import make_options
from winml_py import (
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    Precision,
    Tuning,
    Weights,
    WinMLError,
)

__all__ = ["runtime"]  # a fixture

CPU = "the CPU"
ENGINES: dict[str, Any] = {CPU: None} | {
    provider.name: provider
    for provider in PROVIDERS
    if not provider.package and provider.name != "AzureExecutionProvider"
}


class Made(NamedTuple):
    """A session over a substitute for the runtime's, which has evaluated the model once."""

    session: LearningModelSession
    model: LearningModel
    native: Session

    def entry(self, key: str) -> str:
        return str(self.native.native.get_session_config_entry(key))

    @property
    def is_on_device(self) -> bool:
        return self.session.device.hardware != "cpu"

    @property
    def provider_options(self) -> dict[str, str]:
        first = self.native.providers[0]
        return {} if isinstance(first, str) else first[1]

    @property
    def run_entries(self) -> dict[str, str]:
        given = self.native.run_options[-1]
        return {} if given is None else given.entries


class Row(NamedTuple):
    """An option, a value that is not its default, and how one sees that it is applied."""

    option: str
    value: Any
    is_applied: Callable[[Made], bool]


def tuned(name: str, value: object, is_applied: Callable[[Made], bool]) -> Row:
    return Row(f"tuning.{name}", Tuning(**{name: value}), is_applied)  # type: ignore[arg-type]


MODES, LEVELS = onnxruntime.ExecutionMode, onnxruntime.GraphOptimizationLevel

ROWS = [
    Row("close_model_on_session_creation", True, lambda made: is_closed(made.model)),
    Row(
        "allow_cpu_fallback",
        False,
        # On the CPU nothing falls back to it.
        lambda made: not made.is_on_device or made.entry("session.disable_cpu_ep_fallback") == "1",
    ),
    Row("batch_size_override", 3, lambda made: ("DATA_BATCH", 3) in made.native.native.sizes),
    Row("named_dimension_overrides", {"wide": 5}, lambda made: ("wide", 5) in made.native.native.sizes),
    Row("input_shape_overrides", {"x": (3, 5)}, lambda made: takes_only(made, (3, 5))),
    Row("intra_op_num_threads", 7, lambda made: made.native.native.intra_op_num_threads == 7),
    Row("intra_op_thread_spinning", False, lambda made: made.entry("session.intra_op.allow_spinning") == "0"),
    Row("engine", "onnxruntime", lambda made: True),
    Row("precision", Precision.FLOAT16, lambda made: made.session.precision is Precision.FLOAT16),
    Row(
        "precision",
        Precision.FLOAT32,
        lambda made: (
            made.session.precision is Precision.FLOAT32
            and made.provider_options.get("use_tf32", "0") == "0"
            and (("use_tf32" in made.provider_options) is (made.native.names[0] == CUDA))
        ),
    ),
    # Behind TensorRT, CUDA gets it.
    Row("provider_options", {"no_such_option": "1"}, lambda made: "no_such_option" in str(made.native.providers)),
    Row("graph_capture", True, lambda made: "cuda_graph" in str(made.provider_options)),
    tuned("execution_mode", "parallel", lambda made: made.native.native.execution_mode == MODES.ORT_PARALLEL),
    tuned("inter_op_num_threads", 3, lambda made: made.native.native.inter_op_num_threads == 3),
    tuned(
        "graph_optimization",
        "basic",
        lambda made: made.native.native.graph_optimization_level == LEVELS.ORT_ENABLE_BASIC,
    ),
    tuned("memory_arena", False, lambda made: not made.native.native.enable_cpu_mem_arena),
    tuned("memory_pattern", False, lambda made: not made.native.native.enable_mem_pattern),
    Row("session_config", {"ep.any": 1}, lambda made: made.entry("ep.any") == "1"),
    Row("run_config", {"ep.any": 1}, lambda made: made.run_entries.get("ep.any") == "1"),
    Row("log_severity", "info", lambda made: made.native.native.log_severity_level == 1),
    Row("weights", Weights.PRIVATE, lambda made: not list_saved_graphs()),
    Row("profiling", True, lambda made: bool(made.native.native.enable_profiling)),
]


def list_saved_graphs() -> list[Path]:
    return list(Path(os.environ["WINML_PY_CACHE"]).rglob("graph.onnx"))


ELSEWHERE = {"isolation", "tuned_for"}
"""A substitute does not reach another process: tests/core/runtime/test_isolation.py, on all engines that are there; and
tests/perf/test_tune.py.
"""


def name_of(row: Row) -> str:
    return row.option if isinstance(row.value, Tuning) else f"{row.option}-{row.value}"


def attribute_of(row: Row) -> str:
    """The attribute of the options that a row sets."""
    return row.option.partition(".")[0]


def is_closed(model: LearningModel) -> bool:
    try:
        LearningModelSession(model)
    except WinMLError as error:
        return "closed" in str(error) or "disposed" in str(error)
    return False


def takes_only(made: Made, shape: tuple[int, ...]) -> bool:
    try:
        made.session.evaluate_features({"x": np.zeros((2, 5), np.float32)})
    except WinMLError:
        return made.session.evaluate_features({"x": np.zeros(shape, np.float32)}).succeeded
    return False


MODEL = data([helper.make_node("Neg", ["x"], ["y"])], [tensor("x", ["rows", "wide"])], [tensor("y", ["rows", "wide"])])


def denoted() -> bytes:
    """The model with a batch that is denoted, as `batch_size_override` asks."""
    import onnx

    proto = onnx.load_model_from_string(MODEL)
    for end in (*proto.graph.input, *proto.graph.output):
        end.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return proto.SerializeToString()


def make(runtime: Runtime, engine: str, settings: dict[str, Any]) -> Made:
    """Makes a session with these options and evaluates it; sizes that they fix are kept."""
    model = LearningModel.load(denoted())
    provider = ENGINES[engine]
    options = make_options(**{"batch_size_override": 0} | settings)
    session = LearningModelSession(model, make_device(provider) if provider else None, options)
    rows = options.batch_size_override or 3
    result = session.evaluate_features({"x": np.ones((rows, 5), np.float32)})
    np.testing.assert_array_equal(result.outputs["y"].to_numpy(), -np.ones((rows, 5), np.float32))
    return Made(session, model, runtime.sessions[-1])


def test_every_option_has_a_row() -> None:
    names, options = {row.option for row in ROWS}, LearningModelSessionOptions()
    settings = {name for name in dir(options) if not name.startswith("_") and not callable(getattr(options, name))}
    assert {name for row in ROWS for name in (attribute_of(row), row.option) if "." not in name} | ELSEWHERE == settings
    assert {name.removeprefix("tuning.") for name in names if "." in name} == {
        field.name for field in dataclasses.fields(Tuning)
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_it_is_applied_or_refused_or_told(runtime: Runtime, engine: str, row: Row) -> None:
    attribute, _, name = row.option.partition(".")
    try:
        made = make(runtime, engine, {attribute_of(row): row.value})
    except WinMLError as error:
        refusal = str(error)
    else:
        assert row.is_applied(made), f"{row.option} on {engine}: {made.session.explain()}"
        return
    words = [name or attribute, *(row.value if isinstance(row.value, dict) else [])]
    assert any(word in refusal for word in words) or SPELLED[row.option] in refusal, refusal


SPELLED = {"precision": "float16"}
"""The words of a refusal that does not spell the option."""

OPENVINO: dict[str, Callable[[LearningModelSession, dict[str, str]], bool]] = {
    "close_model_on_session_creation": lambda session, config: is_closed(session.model),
    "allow_cpu_fallback": lambda session, config: True,  # it computes on the CPU
    "batch_size_override": lambda session, config: config["shape"] == "[3,?]",
    "named_dimension_overrides": lambda session, config: config["shape"] == "[?,5]",
    "input_shape_overrides": lambda session, config: config["shape"] == "[3,5]",
    "intra_op_num_threads": lambda session, config: (
        config["INFERENCE_NUM_THREADS"] == "7" or "but 7 were requested" in str(session.explain())
    ),
    "intra_op_thread_spinning": lambda session, config: True,  # its threads never spin
    "precision": lambda session, config: config["INFERENCE_PRECISION_HINT"] == "<Type: 'float32'>",
    "weights": lambda session, config: not list_saved_graphs(),
}
"""How an option is seen in what OpenVINO's own package compiled; the others are refused."""


@pytest.mark.parametrize("row", [row for row in ROWS if row.option != "engine"], ids=name_of)
def test_openvinos_package_applies_or_refuses_it(openvino: object, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    made, compile_model = [], Core.compile_model
    monkeypatch.setattr(Core, "compile_model", lambda *arguments: made.append(compile_model(*arguments)) or made[-1])
    attribute, _, name = row.option.partition(".")
    value = {"threads": "1"} if attribute == "provider_options" else row.value
    options = make_options(**{"batch_size_override": 0, "engine": "openvino"} | {attribute_of(row): value})
    if row.value is Precision.FLOAT16:
        options.precision = Precision.FLOAT32  # which of them the processor has is another test's
    model = LearningModel.load(denoted())
    if row.option not in OPENVINO:
        with pytest.raises(WinMLError, match=rf"{name or attribute}|options\.{attribute}|no option 'threads'"):
            LearningModelSession(model, None, options)
        return
    session = LearningModelSession(model, None, options)
    (compiled,) = made
    names = ("INFERENCE_NUM_THREADS", "INFERENCE_PRECISION_HINT")
    config = {name: str(compiled.get_property(name)) for name in names}
    assert OPENVINO[row.option](session, config | {"shape": str(compiled.inputs[0].partial_shape)})


@pytest.mark.usefixtures("all_cores")
def test_the_options_of_this_test_are_options() -> None:
    assert all(getattr(LearningModelSessionOptions(), attribute_of(row)) != row.value for row in ROWS)

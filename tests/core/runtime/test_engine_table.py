"""Which engine runs a model, and in which arithmetic: the table of docs/engines.md, by substitutes for the hardware."""

from __future__ import annotations

import itertools
import os
import warnings

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from helpers.engines import as_asked_for, conv, noise
from helpers.models import FLOAT, FLOAT16, data, tensor
from helpers.paths import ROOT
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, NotSupportedError, Precision
from winml_py.core.base import machine
from winml_py.core.cache import records
from winml_py.core.runtime.cpu import choice
from winml_py.core.runtime.openvino import compile as openvino_compile
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.provider import ProviderDevice
from winml_py.errors import EngineWarning

pytestmark = pytest.mark.one_python

HARDWARE = ("", "bfloat16", "float16", "bfloat16 float16")
"""The columns of the table: the types of half precision that the processor has."""


def table() -> dict[tuple[str, str, str], list[str]]:
    """The cells of the table in docs/engines.md, by engine, precision and model."""
    lines = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| `engine` | `precision` |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    found = {}
    for row in rows:
        engine, precision, model, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        for one_engine, one_precision in itertools.product(engine.split(" or "), precision.split(" or ")):
            for kind in ("float32", "float16") if model == "any" else (model,):
                found[one_engine.strip('`"'), one_precision.strip("`"), kind] = cells
    return found


TABLE = table()
ENGINES = {"None": None, "onnxruntime": "onnxruntime", "openvino": "openvino", "auto": "auto"}
ELEMENTS = {"float32": FLOAT, "float16": FLOAT16}


def test_the_table_has_every_case() -> None:
    assert set(TABLE) == set(itertools.product(ENGINES, [kind.name for kind in Precision], ELEMENTS))
    assert {len(cells) for cells in TABLE.values()} == {len(HARDWARE)}


def options(engine: str | None, precision: Precision) -> LearningModelSessionOptions:
    made = LearningModelSessionOptions()
    made.engine, made.precision = engine, precision
    return made


@pytest.mark.exhaustive
@pytest.mark.parametrize("hardware", range(len(HARDWARE)), ids=[name.replace(" ", "+") or "none" for name in HARDWARE])
@pytest.mark.parametrize(("engine", "precision", "kind"), TABLE)
def test_every_cell(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch, engine: str, precision: str, kind: str, hardware: int
) -> None:
    """What may run is what the cell lists; of several, each is taken where it is the fastest."""
    types, cell = HARDWARE[hardware], TABLE[engine, precision, kind][hardware]
    device = openvino._replace(float16=bool(types), half_types=types)
    monkeypatch.setattr(plugins, "find_devices", lambda _: [device])
    monkeypatch.setattr(openvino_compile, "make_engine", as_asked_for)
    content, wanted = conv(ELEMENTS[kind]), options(ENGINES[engine], Precision[precision])
    if cell == "refused":
        with pytest.raises(NotSupportedError, match="float32 on the CPU, but the options request half precision"):
            LearningModelSession(LearningModel.load(content), None, wanted)
        return
    names, is_told = cell.removesuffix(", with a warning").split(", "), cell.endswith(", with a warning")
    raw = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    x = noise(np.float16 if kind == "float16" else np.float32)
    (expected,) = raw.run(None, {"x": x})
    for place, name in enumerate(names):
        monkeypatch.setenv("WINML_PY_CACHE", "")
        monkeypatch.setattr(
            choice,
            "_measure_times",
            lambda targets, _, place=place: {target: 0.1 if n == place else 1.0 for n, target in enumerate(targets)},
        )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            session = LearningModelSession(LearningModel.load(content), None, wanted)
        assert [each.category for each in told] == [EngineWarning] * is_told
        assert session.engine == ("undecided" if len(names) > 1 else name)
        for _ in range(2):
            (came,) = session.evaluate_features({"x": x}).outputs.values()
            assert np.abs(came.to_numpy() - expected).max() <= 2e-2 * np.abs(expected).max()
        explained = session.explain()
        came_type = explained.number_type or explained.precision.name.lower()
        assert f"{explained.engine} in {came_type}".removesuffix(" in float32") == name
        if len(names) == 1:
            assert session.placement[0].provider == {"onnxruntime": "CPUExecutionProvider"}.get(name, name)


# Float16 models whose numbers are far from 0


def far(mean: float) -> tuple[bytes, np.ndarray]:
    """A float16 model whose convolution takes a mean off, as a BatchNormalization folded into it does, and inputs."""
    rng, half = np.random.default_rng(3), np.float16
    kernel = rng.normal(0, 0.2, (8, 3, 3, 3))
    weights = {"w": (kernel / (0.02 * mean)).astype(half), "b": (-kernel.sum((1, 2, 3)) / 0.02).astype(half)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]
    ends = tensor("x", [1, 3, 16, 16], FLOAT16), tensor("y", [1, 8, 1, 1], FLOAT16)
    return data(nodes, ends[:1], ends[1:], weights), (rng.normal(1, 0.02, (1, 3, 16, 16)) * mean).astype(half)


KELVIN, HECTOPASCAL = 288.0, 1013.0


@pytest.mark.parametrize("types", HARDWARE, ids=[name.replace(" ", "+") or "none" for name in HARDWARE])
@pytest.mark.parametrize("mean", [KELVIN, HECTOPASCAL])
def test_the_default_is_raw_onnxruntime_on_every_machine(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch, mean: float, types: str
) -> None:
    device = openvino._replace(float16=bool(types), half_types=types)
    monkeypatch.setattr(plugins, "find_devices", lambda _: [device])
    content, x = far(mean)
    (expected,) = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for given in (None, LearningModelSessionOptions()):
        session = LearningModelSession(LearningModel.load(content), None, given)
        for _ in range(3):
            (came,) = session.evaluate_features({"x": x}).outputs.values()
            steps = np.spacing(np.abs(expected)).astype(np.float32)
            assert (np.abs(came.to_numpy().astype(np.float32) - expected) <= steps).all()
        assert session.engine == "onnxruntime"


def has_bfloat16() -> bool:
    """Whether this processor computes in bfloat16, and no substitute says otherwise."""
    flags = machine.read_processor_facts().get("flags", "").split()
    return not os.environ.get("WINML_PY_TEST_HALF_TYPES") and bool({"avx512_bf16", "amx_bf16"} & set(flags))


needs_bfloat16 = pytest.mark.skipif(
    not has_bfloat16(),
    reason="this processor has no bfloat16 (avx512_bf16 or amx_bf16), or a substitute took its place",
)


@needs_bfloat16
@pytest.mark.parametrize("mean", [KELVIN, HECTOPASCAL])
def test_bfloat16_that_loses_a_mean_is_found_on_the_programs_own_inputs(
    openvino: ProviderDevice, monkeypatch: pytest.MonkeyPatch, mean: float
) -> None:
    """On numbers around 0 it is right, as a check on made-up ones would find."""
    monkeypatch.setattr(plugins, "find_devices", lambda _: [openvino._replace(half_types="bfloat16")])
    monkeypatch.setattr(choice, "_measure_times", lambda targets, _: {each: 10.0**-n for n, each in enumerate(targets)})
    content, x = far(mean)
    raw = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    session = LearningModelSession(LearningModel.load(content), None, options(None, Precision.HALF))
    (came,) = session.evaluate_features({"x": x}).outputs.values()
    np.testing.assert_array_equal(came.to_numpy(), raw.run(None, {"x": x})[0])
    assert "differ" in next(c.problem for c in session.explain().candidates if c.number_type == "bfloat16")
    assert session.explain().number_type != "bfloat16"
    made_up = LearningModelSession(LearningModel.load(content), None, options(None, Precision.HALF))
    with records.use_temporary_cache():
        made_up.evaluate_features({"x": np.zeros_like(x)})
    assert made_up.explain().number_type == "bfloat16"
    again = LearningModelSession(LearningModel.load(content), None, options(None, Precision.HALF))
    again.evaluate_features({"x": x})
    assert again.explain() == session.explain()._replace(is_remembered=True)


@needs_bfloat16
def test_a_hint_of_float16_on_a_processor_with_bfloat16_alone_is_called_bfloat16(openvino: ProviderDevice) -> None:
    made = options("openvino", Precision.AUTO)
    made.provider_options = {"INFERENCE_PRECISION_HINT": "f16"}
    session = LearningModelSession(LearningModel.load(conv(FLOAT16)), None, made)
    expected = "float16" if "float16" in openvino.half_types.split() else "bfloat16"
    assert (session.precision, session.explain().number_type) == (Precision.HALF, expected)

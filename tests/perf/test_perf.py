"""`winml-py perf`: the right phases, counts, files and ratios. No time is asserted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from helpers.cli import call, require_failure
from helpers.models import INT64, STRING, unary
from helpers.paths import MODELS, PICTURES
from winml_py import ImageFeatureValue, InvalidArgumentError, LearningModel, LearningModelSession
from winml_py._examples import make_examples
from winml_py.cli.files import assign_files, read_inputs
from winml_py.perf import Time, measure
from winml_py.perf.measure import CPU_STEP, summarize_phase

DIGITS = str(MODELS / "digits.onnx")
PHASES = ["load", "session", "decode", "bind", "evaluate"]


def run_perf(*arguments: object) -> dict[str, Any]:
    result = call("perf", *arguments, "--json")
    assert result.exit_code == 0, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_a_picture_goes_through_all_phases(seven: Path) -> None:
    (measured,) = run_perf(DIGITS, seven, "-n", 7)["models"]
    assert list(measured["phases"]) == PHASES
    assert (measured["iterations"], measured["inputs"]) == (7, [str(seven)])
    assert set(measured["first_ms"]) == set(PHASES)
    assert all(
        0 < figures["p50_ms"] <= figures["p90_ms"] <= figures["p99_ms"] for figures in measured["phases"].values()
    )
    assert measured["memory_mb"]["before"] > 1
    assert (measured["engine"], measured["precision"]) == ("onnxruntime", "float32")


def test_made_up_values_need_no_decoding() -> None:
    (measured,) = run_perf(DIGITS, "-n", 3)["models"]
    assert set(measured["phases"]) == {"load", "session", "bind", "evaluate"}
    assert measured["inputs"] == ["example inputs"]


def test_percentiles_are_of_all_iterations() -> None:
    seconds = list(np.random.default_rng(0).random(101))
    figures = summarize_phase([Time(wall, 2 * wall) for wall in seconds])
    ordered = sorted(seconds)
    expected = {"p50_ms": ordered[50], "p90_ms": ordered[90], "p99_ms": ordered[99], "cpu_p50_ms": 2 * ordered[50]}
    assert figures == pytest.approx({name: 1e3 * second for name, second in expected.items()})


def test_processor_time_below_a_step_of_the_system_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Time.__module__], "CPU_STEP", 0.016)
    known, unknown = (summarize_phase([Time(1, cpu)] * 3)["cpu_p50_ms"] for cpu in (0.031, 0.015))
    assert (known, unknown) == (pytest.approx(31), None)


def test_models_and_folders_of_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(unary("Neg", [2]))
    facts = run_perf(tmp_path, DIGITS, "-n", 2)
    assert [Path(measured["model"]).name for measured in facts["models"]] == ["a.onnx", "b.onnx", "digits.onnx"]


def test_the_table_is_for_people(seven: Path) -> None:
    lines = call("perf", DIGITS, seven, "-n", 3).stdout.splitlines()
    assert lines[0].startswith(f"{DIGITS} on ")
    columns = lines[1].split()
    assert columns[:5] == ["ms", "first", "p50", "p90", "p99"]
    assert columns[5:] == ["cpu"] or CPU_STEP > 0  # on Windows, the column may be empty
    assert [line.split()[0] for line in lines[2:7]] == PHASES
    assert lines[7].startswith("3 evaluations, ")


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (2, [], "Missing argument"),
        (2, [DIGITS, "--settings", "s.json", "--engine", "openvino"], "Omit --engine and"),
        (2, [DIGITS, "--settings", "s.json", "--precision", "float16"], "and --precision."),
    ],
)
def test_mistakes(
    code: int, arguments: list[object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert words in require_failure(code, "perf", *arguments)


def test_the_function_refuses_nonsense() -> None:
    with pytest.raises(InvalidArgumentError, match="iterations"):
        measure(LearningModel.load(DIGITS), iterations=0)


def test_a_function_gives_the_values_of_each_evaluation() -> None:
    pictures = [ImageFeatureValue.load(PICTURES / "seven.png"), np.zeros((1, 1, 28, 28), np.float32)]
    session = LearningModelSession(LearningModel.load(DIGITS))
    measured = measure(session, lambda: {"image": pictures.pop(0)}, iterations=1)
    assert (pictures, measured.iterations, list(measured.times)) == ([], 1, ["decode", "bind", "evaluate"])
    assert list(measure(session, {"image": np.zeros((1, 1, 28, 28), np.float32)}, iterations=1).times) == PHASES[3:]


def test_tables_of_numbers_are_inputs(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random(28 * 28).astype(np.float32)
    path = tmp_path / "digit.csv"
    path.write_text(",".join(map(str, numbers)))
    loaded = LearningModel.load(DIGITS)
    ((label, files),) = assign_files(loaded, [str(path)])
    value = read_inputs(loaded, files)["image"]
    assert label == str(path)
    np.testing.assert_array_equal(value, numbers.reshape(1, 1, 28, 28))
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    best = int(session.run(None, {"image": value})[0].argmax())
    assert call("run", DIGITS, path, "--top-k", 1).stdout.split()[2] == str(best)


def test_values_are_made_up_for_measuring_alone() -> None:
    assert not make_examples(LearningModel.load(unary("Neg", [2, "n"], INT64)).input_features)["x"].any()
    assert make_examples(LearningModel.load(unary("Identity", [2], STRING)).input_features)["x"].tolist() == ["0", "0"]


@pytest.mark.parametrize("content", [b"PK\3\4", b"\x93NUMPY\x01\x00", b"", b"archive", b"huge"])
def test_files_that_hold_no_array(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    if content == b"archive":
        with open(path, "wb") as file:
            np.savez(file, x=np.zeros(3))
    if content == b"huge":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (35184372088832,), }"
        header += b" " * (117 - len(header)) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert f"{path}: Expected one array in NumPy's .npy format" in require_failure(4, "run", DIGITS, path)


def test_fractions_are_no_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(unary("Neg", [2], INT64))
    table = tmp_path / "x.csv"
    table.write_text("1, 2")
    assert call("run", tmp_path / "m.onnx", table).exit_code == 0
    for text in ("1.5, 2", "nan, 2"):
        table.write_text(text)
        assert "expected integers from" in require_failure(4, "run", tmp_path / "m.onnx", table)


def test_more_numbers_than_memory_holds(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(unary("Neg", [1 << 20, 1 << 23], INT64))
    assert "an example has at most 134,217,728" in require_failure(4, "perf", tmp_path / "m.onnx")

"""`winml-py perf`: the right phases, counts, files and ratios. No time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from helpers.cli import call, require_failure
from helpers.models import INT64, STRING, unary
from helpers.paths import MODELS
from winml_py import InvalidArgumentError, LearningModel
from winml_py._inputs.files import generated, jobs, read
from winml_py.perf import PHASES, Case, measure, measurement
from winml_py.perf import measure as measure_function
from winml_py.perf.measurement import median_interval

DIGITS = str(MODELS / "digits.onnx")


def measured(*arguments: object) -> dict[str, Any]:
    result = call("perf", *arguments, "--json")
    assert result.exit_code == 0, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_a_picture_goes_through_all_phases(seven: Path) -> None:
    (case,) = measured(DIGITS, seven, "-n", 7)["cases"]
    assert tuple(case["phases"]) == PHASES
    assert (case["iterations"], case["inputs"], case["threads"]) == (7, [str(seven)], 1)
    assert set(case["first_ms"]) == set(PHASES)
    assert all(figures["min_ms"] <= figures["p50_ms"] <= figures["p99_ms"] for figures in case["phases"].values())
    assert case["memory_mb"]["before"] > 1
    assert (case["engine"], case["precision"], case["device_memory_mb"]) == ("onnxruntime", "float32", None)


def test_made_up_values_need_no_decoding() -> None:
    (case,) = measured(DIGITS, "-n", 3)["cases"]
    assert set(case["phases"]) == {"load", "session", "bind", "evaluate"}
    assert case["inputs"] == ["example inputs"]


def test_percentiles_are_numpys() -> None:
    milliseconds = list(np.random.default_rng(0).random(101))
    figures = measurement.spread(milliseconds)
    ordered = sorted(milliseconds)
    assert (figures["p50"], figures["p90"], figures["p99"]) == (ordered[50], ordered[90], ordered[99])
    assert (figures["min"], figures["max"]) == (ordered[0], ordered[100])
    assert figures["stdev"] == pytest.approx(np.std(milliseconds))


def test_seconds_instead_of_iterations() -> None:
    (case,) = measured(DIGITS, "--seconds", 0.05)["cases"]
    assert case["iterations"] >= 1
    assert case["evaluations_per_second"] > 0


def test_threads_share_the_iterations() -> None:
    (case,) = measured(DIGITS, "-n", 40, "--threads", 4)["cases"]
    assert (case["iterations"], case["threads"]) == (40, 4)
    assert case["phases"]["evaluate"]["cpu_p50_ms"] is None


def test_models_and_folders_of_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(unary("Neg", [2]))
    facts = measured(tmp_path, DIGITS, "-n", 2)
    assert [Path(case["model"]).name for case in facts["cases"]] == ["a.onnx", "b.onnx", "digits.onnx"]


def test_the_table_is_for_people(seven: Path) -> None:
    lines = call("perf", DIGITS, seven, "-n", 3).stdout.splitlines()
    assert lines[0].startswith(f"{DIGITS} on ")
    assert lines[1].split() == ["ms", "first", "p50", "p90", "p99", "cpu"]
    assert [line.split()[0] for line in lines[2:7]] == list(PHASES)
    assert lines[7].startswith("3 evaluations, ")


def saved(path: Path, *cases: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"schema": 1, "kind": "perf", "cases": cases}))
    return path


def case(model: str, middle: float, low: float | None = None, high: float | None = None, **more: Any) -> dict[str, Any]:
    """A case of a saved run, whose evaluation takes so many milliseconds."""
    ends = {"low_ms": middle if low is None else low, "high_ms": middle if high is None else high}
    settings = {"device": "d", "engine": "e", "precision": "float32", "threads": 1} | more
    phases = {"evaluate": {"p50_ms": middle}, "bind": {"p50_ms": 0.0}}
    return {"model": model, **settings, "evaluation": {"p50_ms": middle, **ends}, "phases": phases}


def compared(old: Path, new: Path, code: int = 0) -> dict[str, Any]:
    result = call("perf", "--compare", old, new, "--json")
    assert result.exit_code == code, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_a_run_is_the_same_as_itself(tmp_path: Path) -> None:
    facts = measured(DIGITS, "-n", 30)
    figures = facts["cases"][0]["evaluation"]
    assert figures["low_ms"] <= figures["p50_ms"] <= figures["high_ms"]
    figures |= {"low_ms": figures["p50_ms"], "high_ms": figures["p50_ms"]}  # this machine may be busy
    (tmp_path / "run.json").write_text(json.dumps(facts))
    (pair,) = compared(tmp_path / "run.json", tmp_path / "run.json")["pairs"]
    assert (pair["ratio"], pair["verdict"]) == (1, "same")
    assert set(pair["phases"]) == {"load", "session", "bind", "evaluate"}


@pytest.mark.parametrize(
    ("old", "new", "verdict", "code"),
    [
        ((10, 9.9, 10.1), (20, 19.8, 20.2), "slower", 1),
        ((10, 9.9, 10.1), (5, 4.9, 5.1), "faster", 0),
        ((10, 9.9, 10.1), (10.2, 10.1, 10.3), "same", 0),
        ((10, 9.9, 10.1), (10.4, 10.3, 10.5), "unclear", 0),  # up to 1.054
        ((10, 5, 15), (14, 8, 20), "unclear", 0),
        ((10, 10, 10), (10.51, 10.51, 10.51), "slower", 1),
    ],
)
def test_a_verdict_needs_certainty(
    old: tuple[float, ...], new: tuple[float, ...], verdict: str, code: int, tmp_path: Path
) -> None:
    files = [saved(tmp_path / f"{name}.json", case("m.onnx", *run)) for name, run in (("a", old), ("b", new))]
    (pair,) = compared(files[0], files[1], code)["pairs"]
    assert (pair["verdict"], pair["ratio"]) == (verdict, pytest.approx(new[0] / old[0]))
    # the error of a quotient of independent figures, by Monte Carlo
    rng = np.random.default_rng(0)
    draws = [rng.normal(run[0], (run[2] - run[1]) / 2, 200_000) for run in (old, new)]
    if max(run[2] - run[1] for run in (old, new)) < 1:
        assert (pair["high"] - pair["low"]) / 2 == pytest.approx((draws[1] / draws[0]).std(), rel=0.02, abs=1e-9)
    result = call("perf", "--compare", *files)
    assert result.stdout.splitlines()[1].startswith(f"{verdict}: {new[0] / old[0]:.2f} times the time")
    assert ("vary too much" in result.stdout) is (verdict == "unclear")


def test_cases_are_paired_by_place_or_by_model_and_settings(tmp_path: Path) -> None:
    old = saved(tmp_path / "old.json", case("x/a.onnx", 1), case("a.onnx", 2, device="gpu"), case("b.onnx", 3))
    new = saved(tmp_path / "new.json", case("d.onnx", 4), case("a.onnx", 2, engine="other"), case("b.onnx", 3))
    facts = compared(old, new, 1)
    assert [(pair["new"].split()[0], pair["ratio"]) for pair in facts["pairs"]] == [
        ("d.onnx", 4),
        ("a.onnx", 1),
        ("b.onnx", 1),
    ]
    fewer = saved(tmp_path / "fewer.json", case("b.onnx", 3), case("e.onnx", 5))
    facts = compared(old, fewer)
    assert [pair["new"] for pair in facts["pairs"]] == ["b.onnx d e float32 x1"]
    assert facts["unpaired"] == ["a.onnx d e float32 x1", "a.onnx gpu e float32 x1", "e.onnx d e float32 x1"]
    assert "e.onnx d e float32 x1: in only one of the runs" in call("perf", "--compare", old, fewer).stdout
    one = saved(tmp_path / "one.json", case("e.onnx", 5))
    assert "Neither its models nor its number of cases match" in require_failure(2, "perf", "--compare", old, one)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_saved_runs_are_read_in_the_encodings_of_shells(encoding: str, tmp_path: Path) -> None:
    run = saved(tmp_path / "run.json", case("ä.onnx", 1))
    run.write_text(run.read_text(), encoding=encoding)
    (pair,) = compared(run, run)["pairs"]
    assert pair["new"] == "ä.onnx d e float32 x1"


def test_the_interval_of_a_median_holds_it() -> None:
    """Independent times, and times of a machine that is slower for a while."""
    rng, hits = np.random.default_rng(0), {"independent": 0, "in bursts": 0}
    for _ in range(400):
        times = rng.exponential(size=200)
        found = median_interval(list(times))
        assert found.middle == np.median(times)
        hits["independent"] += found.low <= np.log(2) <= found.high
        bursts = times + np.repeat(rng.random(20), 10)
        found = median_interval(list(bursts))
        hits["in bursts"] += found.low <= 1.2335 <= found.high  # the median of the sum, by 10 million draws
    assert 0.85 < hits["independent"] / 400 <= 1
    assert 0.85 < hits["in bursts"] / 400 <= 1
    assert median_interval([3.0, 1.0, 2.0] * 4)[0] == 2.0
    assert median_interval([5.0]) == (5.0, 5.0, 5.0)


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (2, [], "Name a MODEL"),
        (2, [DIGITS, "-n", 1, "--seconds", 1], "--iterations or --seconds"),
        (2, [DIGITS, "--settings", "s.json", "--engine", "auto"], "omit --engine and"),
        (2, [DIGITS, "--settings", "s.json", "--precision", "half"], "and --precision."),
        (3, ["missing.onnx"], "not found"),
        (4, [DIGITS, "missing.png"], "missing.png"),
        (6, [DIGITS, "--device", "abacus"], "no device named 'abacus'"),
        (4, ["--compare", "a.json", "b.json"], "a.json: There is no such file."),
    ],
)
def test_mistakes(code: int, arguments: list[object], words: str, tmp_path: Path) -> None:
    assert words in require_failure(code, "perf", *arguments)


def test_the_function_refuses_nonsense() -> None:
    for wrong in ({"iterations": 0}, {"seconds": 0.0}, {"threads": 0}, {"iterations": 1, "seconds": 1.0}):
        with pytest.raises(InvalidArgumentError):
            measure_function(Case(DIGITS), **wrong)  # type: ignore[arg-type]
    assert measure(Case(DIGITS), iterations=2).iterations == 2


def test_tables_of_numbers_are_inputs(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random(28 * 28).astype(np.float32)
    path = tmp_path / "digit.csv"
    path.write_text(",".join(map(str, numbers)))
    loaded = LearningModel.load(DIGITS)
    ((label, files),) = jobs(loaded, [str(path)])
    value = read(loaded, files)["image"]
    assert label == str(path)
    np.testing.assert_array_equal(value, numbers.reshape(1, 1, 28, 28))
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    best = int(session.run(None, {"image": value})[0].argmax())
    assert call("run", DIGITS, path, "--top-k", 1).stdout.split()[2] == str(best)
    path.write_text("1, 2, 3")
    assert "holds 3 numbers, but image takes 784" in require_failure(4, "run", DIGITS, path)
    path.write_text("one, two")
    assert "holds no numbers" in require_failure(4, "run", DIGITS, path)


def test_values_are_made_up_for_measuring_alone() -> None:
    assert not generated(LearningModel.load(unary("Neg", [2, "n"], INT64)))["x"].any()
    assert generated(LearningModel.load(unary("Identity", [2], STRING)))["x"].tolist() == ["0", "0"]


def test_a_folder_without_pictures(tmp_path: Path) -> None:
    assert "no picture in this folder" in require_failure(2, "run", DIGITS, tmp_path)


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
    assert f"{path}: It holds no array" in require_failure(4, "run", DIGITS, path)


def test_fractions_are_no_whole_numbers(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(unary("Neg", [2], INT64))
    table = tmp_path / "x.csv"
    table.write_text("1, 2")
    assert call("run", tmp_path / "m.onnx", table).exit_code == 0
    for text in ("1.5, 2", "nan, 2"):
        table.write_text(text)
        assert "holds fractions" in require_failure(4, "run", tmp_path / "m.onnx", table)


def test_more_numbers_than_memory_holds(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(unary("Neg", [1 << 20, 1 << 23], INT64))
    assert "an example has at most 134,217,728" in require_failure(4, "perf", tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"schema": 1, "kind": "perf", "cases": [{"phases": {"load": {"p50_ms": 1}}}]}',
        '{"schema": 1, "kind": "perf", "cases": 3}',
        '{"schema": 1, "kind": "perf", "cases": [{"model": "m", "device": "d", "engine": "e", '
        '"precision": "p", "threads": 1, "evaluation": {"p50_ms": 1, "low_ms": 1, "high_ms": "x"}, "phases": {}}]}',
    ],
)
def test_files_that_hold_no_measurement(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    assert "contains no measurement" in require_failure(4, "perf", "--compare", path, path)

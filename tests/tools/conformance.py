"""ONNX's conformance suite, through winml_py and through raw ONNX Runtime.

    python tests/tools/conformance.py

A case passes when every output of every data set equals the published one within the suite's tolerance.
Whatever passes raw has to pass through ours; cases with optional types are left out, which Windows ML refuses.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from winml_py import LearningModel, LearningModelSession
from winml_py._values import evaluate_to_arrays

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

Run = Callable[[bytes, dict[str, Any]], list[Any]]


class Case(NamedTuple):
    """A model of the suite and its data sets: inputs by name, and the outputs in order."""

    name: str
    model: bytes
    data: list[tuple[dict[str, Any], list[Any]]]
    rtol: float
    atol: float


def cases() -> Iterator[Case]:
    """The suite's cases for the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes its expectations with overflows and divisions by zero
        tests = [test for kind in KINDS for test in load_model_tests(kind=kind)]
    for test in tests:
        model = test.model or onnx.load(Path(test.model_dir) / "model.onnx")
        values = [*model.graph.input, *model.graph.output]
        if any(value.type.HasField("optional_type") for value in values):
            continue
        data = test.data_sets or [
            read_set(model, path) for path in sorted(Path(test.model_dir).glob("test_data_set_*"))
        ]
        constants = {initializer.name for initializer in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in constants]
        sets = [
            (dict(zip(names, map(to_value, inputs), strict=False)), [to_value(output) for output in outputs])
            for inputs, outputs in data
        ]
        yield Case(test.name, model.SerializeToString(), sets, test.rtol, test.atol)


def read_set(model: onnx.ModelProto, folder: Path) -> tuple[list[Any], list[Any]]:
    constants = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    ends = []
    for side, values in (("input", inputs), ("output", model.graph.output)):
        files = [folder / f"{side}_{index}.pb" for index in range(len(values))]
        ends.append([read_value(value.type, path) for value, path in zip(values, files, strict=True) if path.exists()])
    return ends[0], ends[1]


def to_value(value: Any) -> Any:
    """Scalars as arrays, which raw ONNX Runtime insists on; lists and arrays as they are."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    return [to_value(element) for element in value] if isinstance(value, list) else np.asarray(value)


def read_value(kind: onnx.TypeProto, path: Path) -> Any:
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    return np.asarray(numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())))


def run_ours(model: bytes, inputs: dict[str, Any]) -> list[Any]:
    with LearningModelSession(LearningModel.load(model)) as session:
        return list(evaluate_to_arrays(session, inputs).values())


def run_raw(model: bytes, inputs: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"], enable_fallback=0)
    return list(session.run(None, inputs))


def problem(case: Case, run: Run) -> str:
    """Why a case fails, or "" where it passes."""
    for inputs, expected in case.data:
        try:
            outputs = run(case.model, inputs)
            compare(expected, outputs, case)
        except Exception as error:  # any way to fail is a failure, and is told
            return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def compare(expected: Any, came: Any, case: Case) -> None:
    if isinstance(expected, list):
        assert len(expected) == len(came)
        for one, other in zip(expected, came, strict=True):
            compare(one, other, case)
    elif expected.dtype == object:
        np.testing.assert_array_equal(came, expected)
    else:
        assert came.dtype == expected.dtype
        np.testing.assert_allclose(came, expected, rtol=case.rtol, atol=case.atol)


def judge() -> tuple[int, list[str], dict[str, str]]:
    """How many cases there are, which pass raw, and what stops those that fail through ours."""
    total, raw, failures = 0, [], {}
    for case in cases():
        total += 1
        if not problem(case, run_raw):
            raw.append(case.name)
        reason = problem(case, run_ours)
        if reason:
            failures[case.name] = reason
    return total, raw, failures


def main() -> int:
    started = time.perf_counter()
    total, raw, failures = judge()
    lost = {name: failures[name] for name in raw if name in failures}
    print(f"{total} cases: {len(raw)} pass raw ONNX Runtime, {total - len(failures)} pass winml_py")
    for name, reason in lost.items():
        print(f"  passes raw only: {name}: {reason}")
    print(f"{time.perf_counter() - started:.0f} s")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())

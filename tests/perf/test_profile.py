"""`winml-py perf --profile`: sums that add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from helpers.cli import call, require_failure
from helpers.models import unary
from helpers.paths import MODELS
from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions
from winml_py.perf.profile import Profile, profile, read_profile

pytestmark = pytest.mark.one_python

DIGITS = str(MODELS / "digits.onnx")


def event(name: str, start: float, duration: float, operator: str = "", thread: int = 1) -> dict[str, Any]:
    kind = "Node" if operator else "Session"
    arguments = {"op_name": operator, "provider": "CPUExecutionProvider"} if operator else {}
    name = f"{name}_kernel_time" if operator else name
    return {"cat": kind, "name": name, "ts": start, "dur": duration, "tid": thread, "args": arguments}


def make_profile(*events: dict[str, Any]) -> Profile:
    return read_profile(json.dumps(events).encode())


def test_the_first_evaluation_is_left_out() -> None:
    profiled = make_profile(
        event("model_run", 0, 100),
        event("a", 10, 80, "Conv"),
        event("model_run", 200, 50),
        event("a", 205, 30, "Conv"),
        event("b", 240, 5, "Relu"),
        event("model_run", 300, 40),
        event("a", 305, 20, "Conv"),
        event("b", 330, 7, "Relu"),
    )
    assert profiled.evaluations == 2
    assert profiled.total == 45
    assert [(node.name, node.operator, node.time) for node in profiled.nodes] == [("a", "Conv", 25), ("b", "Relu", 6)]
    assert profiled.outside == 14


def test_nodes_inside_a_loop_are_not_counted_twice() -> None:
    profiled = make_profile(
        event("model_run", 0, 1),
        event("model_run", 10, 100),
        event("loop", 10, 90, "Loop"),
        event("body", 20, 30, "Add"),
        event("inner", 25, 10, "If"),
        event("body", 60, 20, "Add"),
        event("elsewhere", 15, 40, "Mul", thread=2),
    )
    assert {node.name: node.time for node in profiled.nodes} == {"loop": 40, "body": 40, "inner": 10, "elsewhere": 40}
    assert profiled.outside == -30  # nodes ran at the same time


def test_times_of_a_gpu_are_told_to_be_those_of_submitting() -> None:
    node = event("a", 3, 1, "Conv")
    runs = event("model_run", 0, 1), event("model_run", 2, 5)
    assert make_profile(*runs, node).caution == ""
    node["args"]["provider"] = "CUDAExecutionProvider"
    assert "The times of CUDAExecutionProvider cover only the submission of" in make_profile(*runs, node).caution


def test_the_nodes_of_a_model_on_a_gpu_are_seen(gpu: LearningModelDevice) -> None:
    options = LearningModelSessionOptions()
    options.profiling = True
    with LearningModelSession(LearningModel.load(MODELS / "edges.onnx"), gpu, options) as session:
        profiled = profile(session, evaluations=5)
    assert {"Conv", "Sqrt"} <= {node.operator for node in profiled.nodes}
    assert profiled.evaluations == 5


def test_sums_add_up_to_the_trace(tmp_path: Path, seven: Path) -> None:
    assert call("perf", DIGITS, seven, "--trace", tmp_path / "trace.json", "-n", 5).exit_code == 0
    profiled = read_profile((tmp_path / "trace.json").read_bytes())
    events = json.loads(profiled.trace)
    runs = sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])[1:]
    kernels = [e for e in events if e["name"].endswith("_kernel_time") and e["ts"] >= runs[0]["ts"]]
    assert (len(runs), profiled.evaluations) == (5, 5)
    assert profiled.total == sum(run["dur"] for run in runs) / 5
    assert sum(node.time for node in profiled.nodes) == pytest.approx(sum(e["dur"] for e in kernels) / 5)
    assert profiled.to_json()["providers_us"] == {
        "CPUExecutionProvider": pytest.approx(profiled.total - profiled.outside)
    }


def test_a_recording_of_onnx_runtimes_own_gives_the_same_table(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "raw")
    session = onnxruntime.InferenceSession(DIGITS, options, providers=["CPUExecutionProvider"])
    for _ in range(3):
        session.run(None, {"image": np.zeros((1, 1, 28, 28), np.float32)})
    trace = Path(session.end_profiling())
    runs = [entry["dur"] for entry in json.loads(trace.read_text()) if entry["name"] == "model_run"]
    profiled = read_profile(trace.read_bytes())
    assert (profiled.total, profiled.evaluations) == (np.mean(runs[1:]), 2)
    assert "Conv" in {node.operator for node in profiled.nodes}


def test_the_table_is_for_people(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(unary("Neg", [2]))
    lines = call("perf", "--profile", path, "-n", 2).stdout.splitlines()
    assert lines[1].split() == ["node", "operator", "provider", "us", "%"]
    assert lines[2].split()[1:3] == ["Neg", "CPU"]
    assert lines[3].startswith("outside the nodes")


def test_mistakes(tmp_path: Path) -> None:
    assert "Create the folder first" in require_failure(5, "perf", DIGITS, "--trace", tmp_path / "missing" / "t.json")
    assert "not found" in require_failure(3, "perf", "--profile", "missing.onnx")
    assert "accepts only one model" in require_failure(2, "perf", "--profile", DIGITS, DIGITS)
    assert list(tmp_path.iterdir()) == []

"""`winml-py perf --profile`: sums that add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.models import data, tensor, unary
from helpers.paths import MODELS
from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions
from winml_py.perf.profile import Profile, profile, read_profile, read_reasons

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
    assert "The times of CUDAExecutionProvider are those to submit the work" in make_profile(*runs, node).caution


def test_the_kernels_of_a_device_are_the_times_of_their_nodes() -> None:
    """As CUDA's provider records them, where the runtime was built so: kernels name the event of their node."""

    def kernel(name: str, node: str, start: float, duration: float) -> dict[str, Any]:
        arguments = {"op_name": "Conv", "stream": "7"} | ({"parent_name": f"{node}_kernel_time"} if node else {})
        return {"cat": "Kernel", "name": name, "ts": start, "dur": duration, "tid": -1, "args": arguments}

    events = []
    for start in (0, 100, 200):
        nodes = [
            event(name, start + 2 * place, 1, name.upper()) for place, name in enumerate(("conv", "relu", "shape"))
        ]
        for node in nodes:
            node["args"]["provider"] = "CUDAExecutionProvider"
        events += [event("model_run", start, 90), event("host", start + 80, 3, "Add"), *nodes]
        events += [kernel("gemm", "conv", start + 5, 30), kernel("bias", "conv", start + 36, start / 10)]
        events += [kernel("relu", "relu", start + 60, 5), kernel("winograd", "", start + 66, 4)]
    profiled = make_profile(*events)
    assert {node.name: (node.operator, node.time) for node in profiled.nodes} == {
        "conv": ("CONV", 45),
        "relu": ("RELU", 5),
        "winograd": ("Conv", 4),  # the runtime lost the name of its node
        "host": ("Add", 3),
        "shape": ("SHAPE", 1),
    }
    assert profiled.outside == 32
    assert "are those of their kernels on the device" in profiled.caution
    assert profiled.to_json()["providers_us"] == {"CUDAExecutionProvider": 55, "CPUExecutionProvider": 3}


LOG = """
2026-11-23 [I:ep.cc:91 Get] webgpu kernel not found in registries for Op type: Det node name: det
2026-11-23 [I:utils.h:103 GetCpuPreferredNodes] Candidate for fallback CPU execution: gather
2026-11-23 [I:utils.h:140 Get] ORT optimization- Force fallback to CPU execution for node: gather because it is faster
"""


def test_a_log_says_why_nodes_are_on_the_processor() -> None:
    assert read_reasons(LOG) == {"det": "webgpu kernel not found in registries", "gather": "it is faster"}


def test_nodes_that_a_gpu_leaves_are_listed_with_the_reason(gpu: LearningModelDevice, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Det", ["r"], ["y"], "det")]
    (tmp_path / "m.onnx").write_bytes(data(nodes, [tensor("x", [2, 3, 3])], [tensor("y", [2])]))
    facts = json.loads(call("perf", "--profile", tmp_path / "m.onnx", "--device", "gpu", "--json").stdout)
    (node,) = facts["on_cpu"]
    assert (node["node"], node["operator"]) == ("det", "Det")
    assert "kernel not found" in node["reason"]
    assert {"relu", "det"} <= {node["name"] for node in facts["nodes"]}
    text = call("perf", "--profile", tmp_path / "m.onnx", "--device", "gpu").stdout
    assert "1 node on the CPU:\n  Det det: webgpu kernel not found in registries" in text
    assert "WebGpuExecutionProvider are those to submit the work" in " ".join(text.split())


def test_the_nodes_of_a_model_on_a_gpu_are_seen(gpu: LearningModelDevice) -> None:
    options = LearningModelSessionOptions()
    options.profiling = True
    with LearningModelSession(LearningModel.load(MODELS / "edges.onnx"), gpu, options) as session:
        profiled = profile(session, evaluations=5)
    assert {"Conv", "Sqrt"} <= {node.operator for node in profiled.nodes}
    assert profiled.evaluations == 5
    assert profiled.on_cpu == ()


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
    assert "no folder" in require_failure(5, "perf", DIGITS, "--trace", tmp_path / "missing" / "t.json")
    assert "not found" in require_failure(3, "perf", "--profile", "missing.onnx")
    assert "takes one model" in require_failure(2, "perf", "--profile", DIGITS, DIGITS)
    assert list(tmp_path.iterdir()) == []

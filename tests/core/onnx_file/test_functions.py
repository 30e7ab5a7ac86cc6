"""A model's own functions that call each other: those that would not come to an end are refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.models import model, tensor
from winml_py import LearningModel, LearningModelSession, NotSupportedError
from winml_py.core.onnx_file.nodes import MAX_CALLS, MAX_NODES


def doubling(levels: int, times: int = 2, is_circle: bool = False) -> bytes:
    """A model of functions each of which calls the next one some times; the last one is a Relu, or calls the first."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    last = helper.make_node("f0", ["x"], ["y"], domain="own") if is_circle else helper.make_node("Relu", ["x"], ["y"])
    bodies = [[last]]
    for level in range(levels - 1, 0, -1):
        names = ["x", *(f"t{index}" for index in range(1, times)), "y"]
        bodies.insert(0, [helper.make_node(f"f{level}", [a], [b], domain="own") for a, b in pairwise(names)])
    node = helper.make_node("f0", ["x"], ["y"], domain="own")
    proto = model([node], [tensor("x", [2])], [tensor("y", [2])], ir_version=8, domains={"own": 1})
    for level, body in enumerate(bodies):
        proto.functions.append(helper.make_function("own", f"f{level}", ["x"], ["y"], body, opsets))
    return bytes(proto.SerializeToString())


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (doubling(41), rf"become 1\.1e\+12 nodes, and {MAX_NODES:,} are allowed"),
        (doubling(19), r"become 2\.6e\+05 nodes"),
        (doubling(MAX_CALLS + 1, 1), f"in rows of more than {MAX_CALLS}"),
        (doubling(20_000, 1), f"in rows of more than {MAX_CALLS}"),
        (doubling(3, 2, is_circle=True), "in a circle"),
    ],
)
def test_functions_without_end_are_refused(tmp_path: Path, data: bytes, complaint: str, is_file: bool) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    loaded = LearningModel.load(path if is_file else data)
    with pytest.raises(NotSupportedError, match=f"^The model's functions call each other .*{complaint}"):
        LearningModelSession(loaded)


@pytest.mark.parametrize(("levels", "times"), [(9, 2), (MAX_CALLS, 1), (1, 1)])
def test_functions_with_an_end_compute(levels: int, times: int) -> None:
    session = LearningModelSession(LearningModel.load(doubling(levels, times)))
    result = session.evaluate_features({"x": np.array([-1, 2], np.float32)}).outputs["y"]
    assert result.to_numpy().tolist() == [0, 2]


def test_calls_in_a_subgraph_count() -> None:
    proto = onnx.load_model_from_string(doubling(41))
    branch = helper.make_graph([helper.make_node("f0", ["x"], ["z"], domain="own")], "branch", [], [tensor("z", [2])])
    choice = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    proto.graph.node[0].CopyFrom(choice)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    with pytest.raises(NotSupportedError, match=r"become 2\.2e\+12 nodes"):
        LearningModelSession(LearningModel.load(proto.SerializeToString()))

"""Models that end ONNX Runtime's process are refused before it sees them, and models nearly like them are not."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from helpers.fault_models import PAIRS, Pair, build
from winml_py import LearningModel, LearningModelBinding, LearningModelSession, errors
from winml_py.core.base.child_process import environment
from winml_py.core.onnx_file.header import read_header
from winml_py.core.onnx_file.nodes import has_operator, operator_pattern, read_graph
from winml_py.core.runtime.ort import faults
from winml_py.core.runtime.ort.known_faults import KNOWN_FAULTS, LAST, Fault

FAULTS = {(fault.domain, operator, fault.words): fault for fault in KNOWN_FAULTS for operator in fault.operators}
RUN = """
import pickle, sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level, options.intra_op_num_threads = 4, 1
model, values = pickle.load(sys.stdin.buffer)
session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"], enable_fallback=0)
print("created", flush=True)
session.run(None, values)
print("evaluated", flush=True)
"""


def fault_of(pair: Pair) -> Fault:
    found = [
        fault
        for (domain, operator, words), fault in FAULTS.items()
        if (domain, operator) == (pair.domain, pair.operator) and pair.words in words
    ]
    assert len(found) == 1, pair
    return found[0]


def test_every_fault_has_a_model() -> None:
    shown = {fault_of(pair).words for pair in PAIRS}
    assert shown == {fault.words for fault in KNOWN_FAULTS}


def run_alone(model: bytes, values: dict[str, Any]) -> tuple[int, str]:
    """How a process ends that runs the model with ONNX Runtime alone, and what it says."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=pickle.dumps((model, values)), capture_output=True, env=environment()
    )
    return done.returncode, done.stdout.decode()


def is_here(fault: Fault) -> bool:
    return fault.is_in(faults.installed_version(), sys.platform == "linux")


@pytest.mark.one_python
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_runtime_itself_ends(pair: Pair) -> None:
    """Where this fails, the installed version no longer has the fault, and `until` says so."""
    fault = fault_of(pair)
    if not is_here(fault):
        pytest.skip("this version does not have it")
    # What is written over memory of others ends the process nearly always: it depends on what lies there.
    attempts = (run_alone(*build(pair, pair.fatal)) for _ in range(4))
    status, said = next((attempt for attempt in attempts if attempt[0] < 0), (0, "nothing ended it"))
    assert status < 0, f"{pair}: it does not end: {said}"
    if faults.installed_version() == LAST:  # older ones may end earlier
        assert (said == "") == (fault.stage == "at creation")


def compiled(model: bytes) -> None:
    with LearningModel.load(model) as loaded, LearningModelSession(loaded):
        pass


def find(model: bytes) -> str:
    found = faults.find_fault(read_graph(model, read_header(model)))
    return found.fault.words if found else ""


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if fault_of(pair).is_in_graph], ids=str)
def test_what_ends_it_is_refused(pair: Pair) -> None:
    if not is_here(fault_of(pair)):
        pytest.skip("this version does not have it")
    model, _ = build(pair, pair.fatal)
    with pytest.raises(errors.NotSupportedError) as caught:
        compiled(model)
    said = str(caught.value)
    assert f"it ({pair.operator}) ends the process with ONNX Runtime" in said
    assert pair.words in said
    assert 'options.isolation = "process"' in said


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not fault_of(pair).is_in_graph], ids=str)
@pytest.mark.parametrize("is_bound", [False, True], ids=["arrays", "bound"])
def test_inputs_that_end_it_are_refused(pair: Pair, is_bound: bool) -> None:
    if not is_here(fault_of(pair)):
        pytest.skip("this version does not have it")
    model, values = build(pair, pair.fatal)
    with LearningModel.load(model) as loaded, LearningModelSession(loaded) as session:
        binding = LearningModelBinding(session)
        for name, value in values.items():
            binding.bind(name, value)
        for _ in range(2):
            with pytest.raises(errors.NotSupportedError) as caught:
                session.evaluate(binding) if is_bound else session.evaluate_features(values)
            assert pair.words in str(caught.value)


def test_a_size_that_is_left_free_is_checked_once_it_is_known() -> None:
    """And what is harmless is computed."""
    pair = next(pair for pair in PAIRS if pair.operator == "LSTM")
    assert pair.harmless is not None
    proto, values = build(pair, pair.fatal)
    _, good = build(pair, pair.harmless)
    model = onnx.load_model_from_string(proto)
    for size in model.graph.input[0].type.tensor_type.shape.dim:
        size.dim_param = f"free{size.dim_value}"
    with LearningModel.load(model.SerializeToString()) as loaded, LearningModelSession(loaded) as session:
        for _ in range(2):
            assert session.evaluate_features(good).succeeded
        with pytest.raises(errors.NotSupportedError, match="its batch has the size 0"):
            session.evaluate_features(values)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_what_is_nearly_like_it_is_computed(pair: Pair) -> None:
    if pair.harmless is None or not is_here(fault_of(pair)):
        pytest.skip("there is none")
    model, values = build(pair, pair.harmless)
    assert find(model) == ""
    status, said = run_alone(model, values)
    assert (status, said) == (0, "created\nevaluated\n")


# Where a node stands, and what is known of its inputs there.


def model_of(nodes: list[onnx.NodeProto], weights: dict[str, Any], **parts: Any) -> bytes:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", [value], [result], tensors)
    opsets = [helper.make_opsetid(*item) for item in {"": 21, "com.microsoft": 1, "own": 1}.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **parts).SerializeToString()


MAX = helper.make_node("Max", ["x", "", "x"], ["y"], "max")


def test_in_a_subgraph() -> None:
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    body = helper.make_graph([MAX], "body", [], result)
    node = helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body)
    model = model_of([node], {"yes": np.array(True)})
    assert find(model) == "one of the inputs is left out"
    with pytest.raises(errors.NotSupportedError, match=r"The node max \(Max\) ends the process"):
        compiled(model)


def test_in_a_function() -> None:
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "Call", ["x"], ["y"], [MAX], opsets)
    model = model_of([helper.make_node("Call", ["x"], ["y"], domain="own")], {}, functions=[function])
    assert find(model) == "one of the inputs is left out"
    with pytest.raises(errors.NotSupportedError, match="ends the process"):
        compiled(model)


def test_what_a_function_is_called_with_is_not_known() -> None:
    node = helper.make_node("RandomNormalLike", ["x"], ["y"])
    node.attribute.append(onnx.AttributeProto(name="scale", type=onnx.AttributeProto.FLOAT, ref_attr_name="scale"))
    function = helper.make_function("own", "Call", ["x"], ["y"], [node], [helper.make_opsetid("", 21)], ["scale"])
    call = helper.make_node("Call", ["x"], ["y"], domain="own", scale=0.5)
    assert find(model_of([call], {}, functions=[function])) == ""


def test_constants_of_nodes_are_known() -> None:
    constant = helper.make_node("Constant", [], ["at"], value=numpy_helper.from_array(np.zeros(0, np.int64)))
    nodes = [helper.make_node("SequenceConstruct", ["x"], ["all"]), constant]
    model = model_of([*nodes, helper.make_node("SequenceAt", ["all", "at"], ["y"])], {})
    assert find(model) == "the position has no elements"


def test_the_sizes_of_large_weights_are_known() -> None:
    """Their numbers are not read, and they do not count as single numbers."""
    weights = {"w": np.ones((4, 1024), np.float32), "s": np.ones(1024, np.float32)}
    header = read_header(model := model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], weights))
    graph = read_graph(model, header)
    assert [list(graph.weights[name].dims) for name in "ws"] == [[4, 1024], [1024]]
    assert not graph.weights["w"].raw_data


def test_a_size_below_0_is_not_known() -> None:
    pair = next(pair for pair in PAIRS if pair.operator == "Unique")
    model = onnx.load_model_from_string(build(pair, pair.fatal)[0])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    assert find(model.SerializeToString()) == ""


def test_models_without_such_operators_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    from winml_py.core.runtime.ort import compile as compiling

    monkeypatch.setattr(compiling, "require_harmless", lambda graph: pytest.fail("the graph was read"))
    compiled(model_of([helper.make_node("Relu", ["x"], ["y"])], {}))


def test_operators_are_found_by_their_whole_name() -> None:
    names = operator_pattern({"Max"})
    for operator, is_found in (("Max", True), ("MaxPool", False), ("ReduceMax", False), ("ArgMax", False)):
        model = model_of([helper.make_node(operator, ["x"], ["y"])], {})
        assert has_operator(model, read_header(model), [names]) is is_found
    others = operator_pattern({"MaxPool"}, "com.microsoft.nchwc")  # as every picture model has one, of ONNX's
    for domain, is_found in (("", False), ("com.microsoft.nchwc", True)):
        model = model_of([helper.make_node("MaxPool", ["x"], ["y"], domain=domain)], {})
        assert has_operator(model, read_header(model), [others]) is is_found


def test_versions() -> None:
    fault = next(fault for fault in KNOWN_FAULTS if fault.operators == ("OneHot",))
    assert fault.is_in((1, 24, 4), True)
    assert not fault.is_in((1, 32, 0), True)
    checked = next(fault for fault in KNOWN_FAULTS if fault.is_checked_build)
    assert checked.is_in((1, 99, 0), True)
    assert not checked.is_in((1, 32, 0), False)


def test_numbers_that_are_nearly_refused() -> None:
    value = np.array([1, -2, 3, 0], np.float32)
    for node, expected in (
        (helper.make_node("Max", ["x", "x"], ["y"]), value),
        (helper.make_node("RandomUniformLike", ["x"], ["y"], low=2.0, high=2.0), np.full(4, 2, np.float32)),
    ):
        with LearningModel.load(model_of([node], {})) as model, LearningModelSession(model) as session:
            np.testing.assert_array_equal(session.evaluate_features({"x": value}).outputs["y"].to_numpy(), expected)

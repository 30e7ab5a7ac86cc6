"""LearningModelSession: raw ONNX Runtime's results, options, shared engines, and what a model cannot do."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.corpus import LIGHT, OURS, SHIPPED
from helpers.models import FLOAT, INT64, counting_loop, data, model, tensor, unary
from helpers.paths import MODELS
from helpers.raw_results import require_raw_results
from helpers.sessions import bind_all
from winml_py import (
    CorruptModelError,
    EvaluationError,
    EvaluationTimeoutError,
    InvalidArgumentError,
    InvalidDeviceError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
    SizeMismatchError,
    TensorKind,
    WinMLError,
)
from winml_py.errors import ModelVersionError

Natives = list[weakref.ref[Any]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [*OURS, *LIGHT, *SHIPPED], ids=lambda path: path.stem)
def test_results_equal_raw_onnx_runtimes(path: Path) -> None:
    require_raw_results(path)


def test_a_result_tells_its_id_and_its_success(digits: LearningModelSession) -> None:
    image = np.zeros((1, 1, 28, 28), np.float32)
    result = digits.evaluate_features({"image": image}, "my id")
    assert (result.correlation_id, result.succeeded, result.error_status) == ("my id", True, 0)
    assert repr(result) == "<LearningModelEvaluationResult {'probabilities': <TensorFloat (1, 10)>}>"
    assert digits.evaluate_features({"image": image}).correlation_id == ""


# Options


def batch_model() -> LearningModel:
    """y = x; the first dimension is named N and denoted DATA_BATCH, the second only named."""
    ends = [tensor(name, ["N", "M"]) for name in "xy"]
    for end in ends:
        end.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return LearningModel.load(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))


def runs(session: LearningModelSession, *shape: int) -> bool:
    try:
        result = session.evaluate_features({"x": np.ones(shape, np.float32)})
    except SizeMismatchError:
        return False
    np.testing.assert_array_equal(result.outputs["y"], -np.ones(shape))
    return True


def test_batch_size_override_is_windows_mls() -> None:
    loaded = batch_model()
    options = LearningModelSessionOptions()
    assert options.batch_size_override == 1
    assert runs(LearningModelSession(loaded), 3, 2)  # no options: free
    fixed = LearningModelSession(loaded, LearningModelDevice(), options)  # default options: 1
    with pytest.raises(SizeMismatchError, match=r"Dimension 0 is 3, not 1.*set options.batch_size_override = 0"):
        fixed.evaluate_features({"x": np.ones((3, 2), np.float32)})
    assert runs(LearningModelSession(loaded, LearningModelDevice(), options), 1, 2)
    options.batch_size_override = 3
    assert runs(LearningModelSession(loaded, None, options), 3, 2)
    assert not runs(LearningModelSession(loaded, None, options), 1, 2)
    options.batch_size_override = 0
    assert runs(LearningModelSession(loaded, None, options), 5, 2)
    assert loaded.input_features[0].shape == (-1, -1)


def test_named_dimension_override() -> None:
    options = LearningModelSessionOptions()
    options.batch_size_override = 0
    options.override_named_dimension("M", 5)
    options.override_named_dimension("M", 4)
    options.override_named_dimension("N", 0)
    assert options.named_dimension_overrides == {"M": 4, "N": 0}
    session = LearningModelSession(batch_model(), None, options)
    assert runs(session, 3, 4)
    assert not runs(session, 3, 5)


@pytest.mark.parametrize("value", [-1, 1.5, True, "3", 1 << 32])
def test_options_refuse_what_is_no_uint32(value: Any) -> None:
    options = LearningModelSessionOptions()
    with pytest.raises(InvalidArgumentError):
        options.batch_size_override = value
    with pytest.raises(InvalidArgumentError):
        options.override_named_dimension("N", value)
    with pytest.raises(InvalidArgumentError):
        options.intra_op_num_threads = value
    with pytest.raises(InvalidArgumentError):
        options.intra_op_num_threads = 0
    with pytest.raises(InvalidArgumentError, match="Expected a dimension name as text"):
        options.override_named_dimension(3, 1)  # type: ignore[arg-type]


# Devices


@pytest.mark.parametrize("kind", [kind for kind in LearningModelDeviceKind if "DIRECTX" in kind.name])
def test_a_gpu_is_an_error_with_a_hint(kind: LearningModelDeviceKind) -> None:
    with pytest.raises(InvalidDeviceError, match=r"No installed package can use a GPU.*pip install") as info:
        LearningModelDevice(kind)
    assert info.value.hresult == 0x88900001


def test_what_is_no_device_kind() -> None:
    with pytest.raises(InvalidDeviceError, match=r"device kind cannot be 99.*LearningModelDeviceKind: DEFAULT"):
        LearningModelDevice(99)  # type: ignore[arg-type]


# Shared engines


def test_sessions_with_equal_options_share_an_engine(natives: Natives) -> None:
    loaded, other = (LearningModel.load(MODELS / "digits.onnx") for _ in range(2))
    one = LearningModelSessionOptions()
    one.intra_op_num_threads = 1
    first, second = LearningModelSession(loaded), LearningModelSession(loaded, LearningModelDevice())
    assert len(natives) == 1
    kept = [
        LearningModelSession(loaded, LearningModelDevice(LearningModelDeviceKind.CPU)),
        LearningModelSession(loaded, None, one),
        LearningModelSession(other),
    ]
    assert len(natives) == len(kept)
    first.close()
    result = second.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
    assert result.outputs["probabilities"].shape == (1, 10)


def test_the_last_session_to_close_frees_the_engine_at_once(natives: Natives) -> None:
    gc.disable()  # reference counting alone must do it
    try:
        loaded = LearningModel.load(MODELS / "digits.onnx")
        first, second = LearningModelSession(loaded), LearningModelSession(loaded)
        (native,) = natives
        binding = LearningModelBinding(first)
        binding.bind("image", np.zeros((1, 1, 28, 28), np.float32))
        output = first.evaluate(binding).outputs["probabilities"]
        first.close()
        assert native() is not None
        second.close()
        assert native() is None  # although a binding and an output are still there
        assert output.to_numpy().sum() == pytest.approx(1)
    finally:
        gc.enable()


def test_a_session_nobody_holds_frees_its_engine(natives: Natives) -> None:
    LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    gc.collect()
    assert [native() for native in natives] == [None]


def test_an_error_that_is_kept_keeps_no_engine(natives: Natives) -> None:
    endless, endlessly = bind_all(counting_loop(), x=np.float32(1), count=np.int64(1 << 60))
    session, binding = bind_all(unary("Cos"), x=np.ones(2, np.float32), y=np.ones(3, np.float32))
    with pytest.raises(EvaluationTimeoutError) as stopped:
        endless.evaluate(endlessly, timeout=0.1)
    with pytest.raises(SizeMismatchError) as info:
        session.evaluate(binding)
    endless.close()
    session.close()
    assert [native() for native in natives] == [None, None]
    assert (info.value.__cause__, info.value.__context__, stopped.value.__cause__) == (None, None, None)


# What a model cannot do, in words that help


@pytest.mark.parametrize(
    ("whole", "kind", "words"),
    [
        (unary(ir_version=99), ModelVersionError, r"IR version is 99, but this .* reads versions up to \d+\. Update"),
        (unary(opset=99), ModelVersionError, r"opset 99 of ai\.onnx, but .* supports opsets up to \d+\. Update"),
        (unary("Frobnicate"), CorruptModelError, "operator Frobnicate, which opset 17 does not have"),
        (
            unary("Frob", operator_domain="com.acme", domains={"com.acme": 1}),
            NotSupportedError,
            r"operator Frob of the operator library com\.acme, which is not installed",
        ),
        (unary("Cos", element=INT64), CorruptModelError, r"Type 'tensor\(int64\)' of input parameter \(x\)"),
    ],
)
def test_models_nobody_can_compile(whole: bytes, kind: type[WinMLError], words: str, capfd: Any) -> None:
    loaded = LearningModel.load(whole)  # no check at load, as in Windows ML
    with pytest.raises(kind, match=words) as info:
        LearningModelSession(loaded)
    assert type(info.value) is kind
    assert kind is not ModelVersionError or info.value.hresult == 0x80004005  # Windows ML's
    assert info.value.__cause__ is None
    assert "onnxruntime_src" not in str(info.value)
    assert capfd.readouterr() == ("", "")  # the runtime prints nothing


def test_a_name_that_is_not_utf8() -> None:
    whole = unary().replace(b"\x0a\x01x", b"\x0a\x01\xff")
    with pytest.raises(CorruptModelError, match="not UTF-8"):
        LearningModelSession(LearningModel.load(whole))


def test_a_failing_operator_says_what_the_engine_says(capfd: Any) -> None:
    ends = [tensor("x", ["n"]), tensor("shape", [2], INT64), tensor("y", ["a", "b"])]
    whole = data([helper.make_node("Reshape", ["x", "shape"], ["y"])], ends[:2], ends[2:])
    session = LearningModelSession(LearningModel.load(whole))
    features = {"x": np.zeros(5, np.float32), "shape": np.array([2, 3])}
    with pytest.raises(EvaluationError, match=r"Reshape.*cannot be reshaped.*Input shape:\{5\}, requested") as info:
        session.evaluate_features(features)
    assert info.value.hresult == 0x80004005
    assert "onnxruntime_src" not in str(info.value)
    assert capfd.readouterr() == ("", "")
    features["shape"] = np.array([5, 1])
    assert session.evaluate_features(features).outputs["y"].shape == (5, 1)


# Odd models


def test_initializers_listed_as_inputs_need_not_be_bound() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    ends = [tensor("x", [2]), tensor("w", [2]), tensor("y", [2])]
    whole = data([node], ends[:2], ends[2:], {"w": np.array([1, 2], np.float32)}, ir_version=3, opset=7)
    result = LearningModelSession(LearningModel.load(whole)).evaluate_features({"x": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], [1, 2])


def test_scalars_and_empty_tensors() -> None:
    scalar = LearningModelSession(LearningModel.load(unary("Neg", shape=())))
    assert scalar.evaluate_features({"x": np.float32(3)}).outputs["y"].to_numpy() == -3
    empty = LearningModelSession(LearningModel.load(unary("Neg", shape=("n", 3))))
    output = np.zeros((0, 3), np.float32)
    assert empty.evaluate_features({"x": np.zeros((0, 3), np.float32)}).outputs["y"].shape == (0, 3)
    assert empty.evaluate_features({"x": output.copy(), "y": output}).outputs["y"] is output


def test_hundreds_of_inputs_and_outputs() -> None:
    count = 300
    inputs = [tensor(f"x{index}", [2]) for index in range(count)]
    outputs = [tensor(f"y{index}", [2]) for index in range(count)]
    nodes = [helper.make_node("Neg", [f"x{index}"], [f"y{index}"]) for index in range(count)]
    session = LearningModelSession(LearningModel.load(data(nodes, inputs, outputs)))
    features = {f"X{index}": np.full(2, index, np.float32) for index in range(count)}
    result = session.evaluate_features(features)
    for index in range(count):
        np.testing.assert_array_equal(result.outputs[f"y{index}"], [-index] * 2)


def test_control_flow() -> None:
    branches = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node(operator, ["x"], ["r"])], branch, [], [tensor("r", [2])]
        )
        for branch, operator in (("then", "Neg"), ("else", "Identity"))
    }
    node = helper.make_node("If", ["c"], ["y"], **branches)
    ends = [tensor("c", [], onnx.TensorProto.BOOL), tensor("x", [2]), tensor("y", [2])]
    session = LearningModelSession(LearningModel.load(data([node], ends[:2], ends[2:])))
    for condition, sign in ((True, -1), (False, 1)):
        result = session.evaluate_features({"c": np.bool_(condition), "x": np.ones(2, np.float32)})
        np.testing.assert_array_equal(result.outputs["y"], [sign, sign])


def test_inputs_and_weights_that_are_outputs_come_out_as_copies() -> None:
    ends = [tensor("x", [4]), tensor("y", [4]), tensor("w", [4]), tensor("c", [4])]
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"]),
        helper.make_node("Mul", ["w", "w"], ["c"]),  # which the engine works out beforehand
    ]
    weights = {"w": np.float32([1, 2, 3, 4])}
    whole = data(nodes, ends[:1], [ends[1], ends[0], ends[2], ends[3]], weights)
    session = LearningModelSession(LearningModel.load(whole))
    for _ in range(2):
        x = np.float32([1, -2, 3, -4])
        outputs = session.evaluate_features({"x": x}).outputs
        kept = {name: value.to_numpy() for name, value in outputs.items()}
        assert not np.shares_memory(kept["x"], x)
        x[:] = 99
        assert {name: value.tolist() for name, value in kept.items()} == {
            "y": [2, 0, 6, 0],
            "x": [1, -2, 3, -4],
            "w": [1, 2, 3, 4],
            "c": [1, 4, 9, 16],
        }
        for value in kept.values():
            value[:] = -1  # which is nobody else's business


def test_a_model_without_inputs() -> None:
    weights = {"w": np.array([1, 2], np.float32)}
    whole = model([helper.make_node("Neg", ["w"], ["y"])], [], [tensor("y", [2], FLOAT)], weights)
    session = LearningModelSession(LearningModel.load(whole.SerializeToString()))
    np.testing.assert_array_equal(session.evaluate_features({}).outputs["y"], [-1, -2])
    assert session.model.output_features[0].tensor_kind is TensorKind.FLOAT


def test_placement_names_every_node_on_the_cpu_too(digits: LearningModelSession) -> None:
    placed = digits.assigned_nodes
    assert {node.provider for node in placed} == {"CPUExecutionProvider"}
    assert {"Conv", "Softmax"} <= {node.operator for node in placed}


def test_two_overrides_of_one_dimension_say_what_to_do() -> None:
    loaded = LearningModel.load(MODELS / "digits_batch.onnx")
    options = LearningModelSessionOptions()
    options.override_named_dimension("batch", 4)
    with pytest.raises(InvalidArgumentError, match="Set batch_size_override to 0, or both to the same size"):
        LearningModelSession(loaded, None, options)
    for size in (0, 4):
        options.batch_size_override = size
        session = LearningModelSession(loaded, None, options)
        result = session.evaluate_features({"image": np.zeros((4, 1, 28, 28), np.float32)})
        assert result.outputs["probabilities"].shape == (4, 10)

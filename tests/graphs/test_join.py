"""Joined models: their values against the two models one after the other in raw ONNX Runtime, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, INT64, data, tensor, unary
from helpers.reference import run_raw
from helpers.sentences import require_sentence
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    CorruptModelError,
    ImageContract,
    ImageFeatureDescriptor,
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
)
from winml_py.errors import ModelDisposedError
from winml_py.experimental import (
    LearningModelDeviceExperimental,
    LearningModelExperimental,
    LearningModelJoinOptions,
    LearningModelSessionExperimental,
)
from winml_py.winrt.windows.ai.machinelearning import LearningModel as SilentModel


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def options(links: dict[str, str], **settings: Any) -> LearningModelJoinOptions:
    """Options with links from outputs to inputs."""
    made = LearningModelJoinOptions()
    for source, target in links.items():
        made.link(source, target)
    for name, value in settings.items():
        setattr(made, name, value)
    return made


def join(first: bytes, second: bytes, links: dict[str, str], **settings: Any) -> LearningModel:
    made = LearningModelExperimental(LearningModel.load(first))
    return made.join_model(LearningModel.load(second), options(links, **settings))


def evaluate(model: LearningModel, **inputs: Any) -> dict[str, Any]:
    outputs = LearningModelSession(model).evaluate_features(inputs).outputs
    return {name: value.to_numpy() for name, value in outputs.items()}


def names(model: LearningModel) -> tuple[list[str], list[str]]:
    return [f.name for f in model.input_features], [f.name for f in model.output_features]


X = np.random.default_rng(3).standard_normal((2, 4)).astype(np.float32)
WEIGHT = np.random.default_rng(4).standard_normal((4, 3)).astype(np.float32)

SCALE = data(
    [node("Mul", "x two", "y"), node("Neg", "x", "z")],
    [tensor("x", ["n", 4])],
    [tensor("y", ["n", 4]), tensor("z", ["n", 4])],
    {"two": np.float32(2)},
)
LINEAR = data(
    [node("MatMul", "x w", "h"), node("Add", "h b", "y")],
    [tensor("x", ["n", 4]), tensor("b", [3])],
    [tensor("y", ["n", 3])],
    {"w": WEIGHT},
)
BIAS = np.float32([1, 2, 3])


@pytest.mark.parametrize(("prefix", "begin"), [("", "joined1."), ("lin/", "lin/")])
def test_values_and_names(prefix: str, begin: str) -> None:
    inputs, first = {"x": X, f"{begin}b": BIAS}, run_raw(SCALE, {"x": X})
    expected = run_raw(LINEAR, {"x": first["y"], "b": BIAS})["y"]
    model = join(SCALE, LINEAR, {"y": "x"}, joined_node_prefix=prefix)
    assert names(model) == (["x", f"{begin}b"], ["z", f"{begin}y"])
    values = evaluate(model, **inputs)
    np.testing.assert_array_equal(values["z"], first["z"])
    np.testing.assert_allclose(values[f"{begin}y"], expected, rtol=1e-6)
    dropped = {"promote_unlinked_outputs_to_fused_outputs": False}
    (value,) = evaluate(join(SCALE, LINEAR, {"y": "x"}, joined_node_prefix=prefix, **dropped), **inputs).values()
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_names_that_differ_stay() -> None:
    second = data([node("Abs", "a", "c")], [tensor("a", ["n", 4])], [tensor("c", ["n", 4])])
    model = join(SCALE, second, {"y": "a"})
    assert names(model) == (["x"], ["z", "c"])
    assert model.output_features[1].dimension_names == ("joined1.n", "")  # may be another number than the first's
    np.testing.assert_array_equal(evaluate(model, x=X)["c"], np.abs(2 * X))


def test_a_model_joins_itself_again_and_again() -> None:
    model = LearningModel.load(SCALE)
    for _ in range(2):
        last = names(model)[1][-2] if names(model)[1][-1].endswith("z") else names(model)[1][-1]
        model = LearningModelExperimental(model).join_model(LearningModel.load(SCALE), options({last: "x"}))
    came = evaluate(model, x=X)
    assert list(came) == ["z", "joined1.z", "joined2.y", "joined2.z"]
    np.testing.assert_array_equal(came["joined2.y"], 8 * X)


def test_weights_that_inner_graphs_read_get_the_prefix() -> None:
    kinds = ("Add", "Sub")
    branches = [helper.make_graph([node(kind, "x w", "out")], kind, [], [tensor("out", [4])]) for kind in kinds]
    chooses = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [tensor("x", [4]), tensor("c", [], TensorProto.BOOL)]
    second = data([chooses], inputs, [tensor("y", [4])], {"w": X[1]})
    first = data([node("Neg", "w", "y")], [tensor("w", [4])], [tensor("y", [4])])
    model = join(first, second, {"y": "x"})
    for truth in (True, False):
        came = evaluate(model, **{"w": X[0], "joined1.c": np.array(truth)})["joined1.y"]
        np.testing.assert_array_equal(came, -X[0] + X[1] * (1 if truth else -1))


def test_models_of_one_operator_set_are_joined() -> None:
    tree = node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml")
    ends = [tensor("x", [1, 4]), tensor("y", [1, 4])]
    first, newer = (data([tree], ends[:1], ends[1:], domains={"ai.onnx.ml": version}) for version in (1, 3))
    with pytest.raises(NotSupportedError, match=r"operator sets 1 and 3 of ai\.onnx\.ml") as refused:
        join(first, newer, {"y": "x"})
    require_sentence(str(refused.value))


def test_weights_that_old_files_list_as_inputs_stay_weights() -> None:
    ends = [tensor("a", [4]), tensor("w", [4])]
    old = data([node("Mul", "a w", "b")], ends, [tensor("b", [4])], {"w": X[1]}, opset=8, ir_version=3)
    model = join(old, data([node("Neg", "p", "c")], [tensor("p", [4])], [tensor("c", [4])], opset=8), {"b": "p"})
    assert names(model) == (["a"], ["c"])
    np.testing.assert_array_equal(evaluate(model, a=X[0])["c"], -X[0] * X[1])


def test_functions_of_one_name() -> None:
    models = []
    for operator, source, target in (("Add", "a", "b"), ("Mul", "c", "d")):
        ends = [tensor(source, [4])], [tensor(target, [4])]
        model = onnx.load_from_string(data([node("Twice", source, target, domain="own")], *ends, domains={"own": 1}))
        body, opsets = [node(operator, "p p", "q")], [helper.make_opsetid("", 17)]
        model.functions.append(helper.make_function("own", "Twice", ["p"], ["q"], body, opsets))
        models.append(model.SerializeToString())
    np.testing.assert_allclose(evaluate(join(*models, {"b": "c"}), a=X[0])["d"], (2 * X[0]) ** 2, rtol=1e-6)


def picture_model(kind: str, given: str, made: str, **metadata: str) -> bytes:
    """A model from an image to an image, or to numbers where `made` begins with n."""
    ends = [tensor(name, [1, 3, 2, 2], denotation="" if name[0] == "n" else "IMAGE") for name in (given, made)]
    return data([node(kind, given, made)], ends[:1], ends[1:], metadata=metadata)


BGR, RGB = "Bgr8", "Rgb8"


def test_contracts_go_with_the_features_that_are_left() -> None:
    key = "Image.BitmapPixelFormat"
    effect = picture_model("Neg", "i", "o", **{key: RGB, "license": "MIT"})
    scores = picture_model("Abs", "p", "n", **{key: BGR, "license": "BSD", "stride": "32"})
    model = join(effect, scores, {"o": "p"})
    assert dict(model.metadata) == {key: RGB, "license": "MIT", "stride": "32"}
    assert isinstance(model.input_features[0], ImageFeatureDescriptor)
    numbers = data([node("Neg", "raw", "t")], [tensor("raw", [1, 3, 2, 2])], [tensor("t", [1, 3, 2, 2])])
    bare = join(numbers, scores, {"t": "p"})
    assert dict(bare.metadata) == {"license": "BSD", "stride": "32"}
    assert not isinstance(bare.input_features[0], ImageFeatureDescriptor)
    with pytest.raises(NotSupportedError, match="The models specify different image contracts"):
        join(effect, picture_model("Abs", "p", "q", **{key: BGR}), {"o": "p"})


def test_an_exporters_contract_goes_with_its_picture() -> None:
    metadata = {"author": "Ultralytics", "task": "detect", "imgsz": "[32, 32]", "names": "{0: 'cat', 1: 'dog'}"}
    detector = unary(shape=(1, 3, 32, 32), metadata=metadata)
    assert isinstance(LearningModel.load(detector).input_features[0], ImageFeatureDescriptor)
    scale = data([node("Neg", "raw", "t")], [tensor("raw", [1, 3, 32, 32])], [tensor("t", [1, 3, 32, 32])])
    model = join(scale, detector, {"t": LearningModel.load(detector).input_features[0].name})
    assert not isinstance(model.input_features[0], ImageFeatureDescriptor)
    assert model.labels == ("cat", "dog")
    # A detector sees the whole picture, a classifier of the same size its middle.
    classifier = unary(shape=(1, 3, 32, 32), metadata=metadata | {"task": "classify"})
    with pytest.raises(NotSupportedError, match="The models specify different image contracts"):
        join(detector, classifier, {}, joined_node_prefix="second.")


def test_attached_contracts_are_attached_again() -> None:
    contract = ImageContract(BitmapPixelFormat.RGB8, mean=(1.0, 2.0, 3.0))
    first = LearningModel.load(data([node("Neg", "i", "o")], [tensor("i", [1, 3, 2, 2])], [tensor("o", [1, 3, 2, 2])]))
    ends = [tensor(name, [1, 3, 2, 2]) for name in ("p", "mask", "r")]
    second = LearningModel.load(data([node("Mul", "p mask", "r")], ends[:2], ends[2:]))
    first.contracts["i"] = contract
    second.contracts["mask"] = ImageContract()
    model = LearningModelExperimental(first).join_model(second, options({"o": "p"}))
    assert dict(model.contracts) == {"i": contract, "mask": ImageContract()}


def test_both_are_closed_on_request() -> None:
    first, second = SilentModel.load(SCALE), SilentModel.load(LINEAR)
    session = LearningModelSession(first)
    model = LearningModelExperimental(first).join_model(second, options({"y": "x"}))
    assert (first.is_disposed, type(model)) == (False, SilentModel)
    model = LearningModelExperimental(first).join_model(second, options({"y": "x"}, close_model_on_join=True))
    assert (first.is_disposed, second.is_disposed, model.is_disposed) == (True, True, False)
    np.testing.assert_array_equal(session.evaluate_features({"x": X}).outputs["z"], -X)
    with pytest.raises(ModelDisposedError):
        LearningModelExperimental(first).join_model(second, options({"y": "x"}))


def test_links_that_do_not_fit() -> None:
    wrong = data([node("Neg", "w", "v")], [tensor("w", [2, 5])], [tensor("v", [2, 5])])
    whole = data([node("Neg", "w", "v")], [tensor("w", ["n", 4], INT64)], [tensor("v", ["n", 4], INT64)])
    ends = [tensor(name, ["n", 4]) for name in "wv"]
    passing = data([node("Neg", "w", "v")], ends[:1], ends)
    for second, source, target, message in (
        (LINEAR, "yy", "x", "The first model has no output 'yy' to link. Did you mean 'y'?"),
        (LINEAR, "y", "bb", "The second model has no input 'bb' to link. Did you mean 'b'?"),
        (LINEAR, "y", "b", "The output 'y' is Float n x 4, but the input 'b' takes Float 3."),
        (wrong, "y", "w", "The output 'y' is Float n x 4, but the input 'w' takes Float 2 x 5."),
        (whole, "y", "w", "The output 'y' is Float n x 4, but the input 'w' takes Int64 n x 4."),
        (passing, "y", "w", "The input 'w' is also an output of the second model, so it cannot be linked."),
    ):
        with pytest.raises(InvalidArgumentError, match=re.escape(message)) as refused:
            join(SCALE, second, {source: target})
        require_sentence(str(refused.value))


def test_mistakes() -> None:
    made = options({"y": "x"})
    model = LearningModel.load(SCALE)
    for mistake in (
        lambda: made.link("z", "x"),
        lambda: made.link("", "x"),
        lambda: setattr(made, "joined_node_prefix", None),
        lambda: setattr(made, "close_model_on_join", 1),
        lambda: LearningModelExperimental("model.onnx"),
        lambda: LearningModelExperimental(model).join_model("model.onnx", made),
        lambda: LearningModelExperimental(model).join_model(model, {"y": "x"}),
        lambda: LearningModelExperimental(model).set_name(""),
        lambda: LearningModelSessionExperimental(model),
    ):
        with pytest.raises(InvalidArgumentError) as refused:
            mistake()
        require_sentence(str(refused.value))


def test_saving_keeps_external_data_and_the_name(tmp_path: Path) -> None:
    proto = onnx.load_from_string(LINEAR)
    onnx.save(proto, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    model = LearningModel.load(tmp_path / "model.onnx")
    experimental = LearningModelExperimental(model)
    experimental.set_name("renamed")
    (tmp_path / "elsewhere").mkdir()
    experimental.save(tmp_path / "elsewhere" / "one.onnx")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["one.onnx"]
    saved = LearningModel.load(tmp_path / "elsewhere" / "one.onnx")
    assert (model.name, saved.name, onnx.load(tmp_path / "model.onnx").graph.name) == (
        "renamed",
        "renamed",
        "test graph",
    )
    np.testing.assert_allclose(evaluate(saved, x=X, b=BIAS)["y"], X @ WEIGHT + BIAS, rtol=1e-5)


def test_what_can_be_linked() -> None:
    """An output to several inputs, sequences, and tensors of unknown rank."""
    product = data([node("Mul", "p q", "r")], [tensor(name, ["n", 4]) for name in "pq"], [tensor("r", ["n", 4])])
    both = options({"y": "p"})
    both.link("y", "q")
    model = LearningModelExperimental(LearningModel.load(SCALE)).join_model(LearningModel.load(product), both)
    np.testing.assert_array_equal(evaluate(model, x=X)["r"], (2 * X) ** 2)

    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["n", 4]))
    sequences = [helper.make_value_info(name, kind) for name in "st"]
    pair = data([node("SequenceConstruct", "x x", "s")], [tensor("x", ["n", 4])], sequences[:1])
    glue = data([node("ConcatFromSequence", "t", "y", axis=1)], sequences[1:], [tensor("y", ["n", 8])])
    np.testing.assert_array_equal(evaluate(join(pair, glue, {"s": "t"}), x=X)["y"], np.hstack([X, X]))
    with pytest.raises(InvalidArgumentError, match=r"The output 's' is list of Float n x 4, but the input"):
        join(pair, SCALE, {"s": "x"})

    unknown = data([node("Neg", "x", "r")], [tensor("x", None)], [tensor("r", None)])
    np.testing.assert_array_equal(evaluate(join(unknown, SCALE, {"r": "x"}), x=X)["y"], -2 * X)


def test_a_file_that_has_changed_is_not_joined(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(SCALE)
    model = LearningModel.load(tmp_path / "model.onnx")
    (tmp_path / "model.onnx").write_bytes(LINEAR)
    with pytest.raises(CorruptModelError, match="has changed since"):
        LearningModelExperimental(model).save(tmp_path / "out.onnx")


def test_devices_are_found_by_their_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LearningModelDevice, "find", lambda name: name)
    found = LearningModelDeviceExperimental
    made = [found.create_cuda_device(), found.create_tensor_rt_device(), found.create_open_vino_device()]
    assert made == ["cuda", "tensorrt", "openvino"]


def test_sessions_and_devices_tell(gpu: LearningModelDevice) -> None:
    chosen = LearningModelSessionOptions()
    chosen.override_named_dimension("n", 2)
    session = LearningModelSession(LearningModel.load(SCALE), LearningModelDevice(), chosen)
    told = LearningModelSessionExperimental(session)
    assert dict(told.options.get_named_dimension_overrides()) == {"n": 2}
    assert told.options.get_named_dimension_overrides().lookup("n") == 2
    session.close()
    with pytest.raises(ClosedError):
        _ = told.options
    assert LearningModelDeviceExperimental.create_dml_device().name == gpu.name

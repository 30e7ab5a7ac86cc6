"""Float16: converting, checking, binding; each rule named in its test."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from helpers import reference
from helpers.corpus import LIGHT
from helpers.corpus import OURS as ALL_OURS
from helpers.models import FLOAT, FLOAT16, INT64, model, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    SoftwareBitmap,
    TensorKind,
)
from winml_py.cli.main import main
from winml_py.errors import (
    ConversionError,
    EvaluationError,
    NotSupportedError,
    StorageAccessError,
    StorageNotFoundError,
)
from winml_py.float16 import ConversionReport, StatedSizes, convert, search
from winml_py.float16.report import report_outputs
from winml_py.scaling import CropRatio, Keep, LongestSide, Multiple, ShortestSide, Stretch

pytestmark = pytest.mark.one_python

OURS = [path for path in ALL_OURS if not path.stem.endswith("_float16")]
RNG = np.random.default_rng(0)


def write_model(folder: Path, proto: onnx.ModelProto | bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    return path


def convert_model(folder: Path, proto: onnx.ModelProto | bytes, **options: Any) -> tuple[Path, ConversionReport]:
    target = folder / "half.onnx"
    return target, convert(write_model(folder, proto), target, **options)


def evaluate_model(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = LearningModelSession(LearningModel.load(path))
    cast = {
        feature.name: inputs[feature.name].astype(np.float16)
        if feature.tensor_kind is TensorKind.FLOAT16
        else inputs[feature.name]
        for feature in session.model.input_features
    }
    return {name: value.to_numpy() for name, value in session.evaluate_features(cast).outputs.items()}


def make_model(middle: list[onnx.NodeProto], weights: dict[str, np.ndarray], shape: Any = (1, 8)) -> onnx.ModelProto:
    """x -> first -> ... -> y, all of one shape."""
    return model(middle, [tensor("x", shape)], [tensor("y", shape)], weights)


# Converting


@pytest.mark.exhaustive
@pytest.mark.parametrize("keep_io_types", [False, True])
@pytest.mark.parametrize(
    "path",
    [*OURS, *(path for path in LIGHT if path.stem.endswith(("squeezenet", "shufflenet", "zfnet512")))],
    ids=lambda path: path.stem,
)
def test_public_models_convert_and_stay_right(path: Path, keep_io_types: bool, tmp_path: Path) -> None:
    target = tmp_path / "half.onnx"
    report = convert(path, target, keep_io_types=keep_io_types)
    assert report.is_good
    assert all(output.error <= 1e-2 and output.top1 in (None, 1.0) for output in report.outputs)
    before, after = LearningModel.load(path), LearningModel.load(target)
    wanted = TensorKind.FLOAT if keep_io_types else TensorKind.FLOAT16
    assert {feature.tensor_kind for feature in (*after.input_features, *after.output_features)} == {wanted}
    assert dict(after.metadata) == dict(before.metadata)
    assert [type(feature) for feature in after.input_features] == [type(feature) for feature in before.input_features]
    assert (after.name, after.author, after.description) == (before.name, before.author, before.description)


def test_weights_take_half(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": RNG.standard_normal((256, 256)).astype(np.float32)}
    target, report = convert_model(tmp_path, make_model(nodes, weights, (1, 256)))
    assert report.size_after <= 0.51 * report.size_before
    assert report.kept_nodes == []
    assert LearningModel.load(target).precision == "float16"
    x = RNG.standard_normal((1, 256)).astype(np.float32)
    exact = x.astype(np.float16).astype(np.float64) @ weights["w"].astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(evaluate_model(target, {"x": x})["y"], exact, rtol=2e-3, atol=0.05)


def test_sums_beyond_the_largest_half_stay_in_float32(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "big"], ["large"], name="enlarge"),
        helper.make_node("ReduceSum", ["large"], ["sum"], name="sum", keepdims=1),
        helper.make_node("Div", ["large", "sum"], ["y"], name="normalise"),
        helper.make_node("Relu", ["y"], ["z"], name="after"),
    ]
    whole = model(nodes, [tensor("x", [1, 8])], [tensor("z", [1, 8])], {"big": np.float32(30_000)})
    x = np.linspace(1, 4, 8, dtype=np.float32)[None]
    target, report = convert_model(tmp_path, whole, inputs={"x": x})
    assert report.kept["overflow"] == ["enlarge", "sum", "normalise"]
    stay = "3 of 4 nodes stay in float32, as their numbers exceed the range of float16: enlarge, sum, normalise"
    assert stay in str(report)
    np.testing.assert_allclose(evaluate_model(target, {"x": x})["z"].astype(float), x / x.sum(), rtol=2e-3)
    without = {output.name: output for output in report.outputs}["z"]
    assert without.error < 1e-3


def test_instance_normalization_of_large_values_is_right(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "offset"], ["far"], name="lift"),
        helper.make_node("InstanceNormalization", ["far", "scale", "bias"], ["y"], name="normalise"),
    ]
    weights = {"offset": np.float32(20_000), "scale": np.ones(2, np.float32), "bias": np.zeros(2, np.float32)}
    target, report = convert_model(tmp_path, make_model(nodes, weights, (1, 2, 8, 8)))
    assert set(report.kept["precision"]) == {"lift", "normalise"}
    x = RNG.standard_normal((1, 2, 8, 8)).astype(np.float32)
    lifted = x.astype(np.float16).astype(np.float64) + 20_000
    expected = (lifted - lifted.mean((2, 3), keepdims=True)) / lifted.std((2, 3), keepdims=True)
    np.testing.assert_allclose(evaluate_model(target, {"x": x})["y"].astype(float), expected, atol=0.02)


def test_models_as_older_exporters_write_them(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Shape", ["w"], ["unused"])]
    whole = make_model(nodes, {"w": np.eye(8, dtype=np.float32), "nobody": np.ones(3, np.float32)})
    whole.ir_version = 3
    for name in ("w", "nobody"):
        whole.graph.input.append(tensor(name, [8, 8] if name == "w" else [3]))
    target, _ = convert_model(tmp_path, whole)
    assert [feature.name for feature in LearningModel.load(target).input_features] == ["x"]
    x = RNG.standard_normal((1, 8)).astype(np.float32)
    np.testing.assert_array_equal(evaluate_model(target, {"x": x})["y"], x.astype(np.float16))


@pytest.mark.parametrize("keep_io_types", [False, True])
def test_casts_constants_and_subgraphs(keep_io_types: bool, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("twice", "thrice")]
    branches = [
        helper.make_graph([helper.make_node("Mul", ["x", factor], [end.name])], end.name, [], [end])
        for factor, end in zip(("two", "three"), ends, strict=True)
    ]
    nodes = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2))),
        helper.make_node("Constant", [], ["three"], value_float=3.0),
        helper.make_node("Cast", ["n"], ["as_float"], to=FLOAT),
        helper.make_node("Cast", ["as_float"], ["flag"], to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["chosen"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Add", ["chosen", "zeros"], ["shifted"]),
        helper.make_node("Add", ["shifted", "as_float"], ["y"]),
    ]
    inputs = [tensor("x", [1, 4]), tensor("n", [1], INT64)]
    whole = model(nodes, inputs, [tensor("y", [1, 4])], {"shape": np.array([1, 4])})
    with pytest.raises(InvalidArgumentError, match=r"No example values can be generated for the input n ") as asked:
        convert_model(tmp_path, whole)
    assert "On the command line, add n=FILE.npy" in asked.value.hint
    target, report = convert_model(tmp_path, whole, inputs={"n": np.array([1])}, keep_io_types=keep_io_types)
    assert report.seeded == ["x"]
    for n, factor in ((1, 2), (0, 3)):
        outputs = evaluate_model(target, {"x": np.float32([[1, 2, 3, 4]]), "n": np.array([n])})["y"]
        np.testing.assert_array_equal(outputs, np.float32([[1, 2, 3, 4]]) * factor + n)


def test_operators_without_float16_stay(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("CumSum", ["x", "axis"], ["sums"], name="cumsum"),
        helper.make_node("Relu", ["sums"], ["y"], name="relu"),
    ]
    _, report = convert_model(tmp_path, make_model(nodes, {"axis": np.int64(1)}))
    assert report.kept == {
        "asked": [],
        "operators": ["cumsum"],
        "own": [],
        "overflow": [],
        "precision": [],
    }


def test_only_the_node_that_a_refusal_names_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, refusals = search.evaluate, ["Could not find an implementation for a node with name 'block/Neg_12'."]

    def refusing(model: Any, *arguments: Any) -> Any:
        if model.graph.inputs[0].dtype == FLOAT16 and refusals:
            raise NotSupportedError(refusals.pop())
        return evaluate(model, *arguments)

    monkeypatch.setattr(search, "evaluate", refusing)
    ends, names = "xaby", ["block/Neg_1", "Neg_12", "block/Neg_12"]
    nodes = [helper.make_node("Neg", [ends[i]], [ends[i + 1]], name=name) for i, name in enumerate(names)]
    assert convert_model(tmp_path, make_model(nodes, {}))[1].kept_nodes == ["block/Neg_12"]


def test_nodes_can_be_kept(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["n"], name="first"), helper.make_node("Relu", ["n"], ["y"], name="second")]
    whole = make_model(nodes, {})
    assert convert_model(tmp_path, whole, keep_float32=["second"])[1].kept["asked"] == ["second"]
    assert convert_model(tmp_path, whole, keep_float32=["Neg"])[1].kept["asked"] == ["first"]
    with pytest.raises(InvalidArgumentError, match="no node or operator third"):
        convert_model(tmp_path, whole, keep_float32=["third"])


def test_a_model_that_cannot_be_good_is_refused_and_no_file_left(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("Mul", ["h", "big"], ["y"]),
    ]
    path = write_model(tmp_path, make_model(nodes, {"big": np.float32(1e6)}))
    with pytest.raises(ConversionError, match="not accurate enough") as bad:
        convert(path, tmp_path / "half.onnx", inputs={"x": np.ones((1, 8), np.float32)})
    report = bad.value.report
    assert isinstance(report, ConversionReport)
    assert not report.is_good
    assert report.outputs[0].not_finite == 8
    assert sorted(tmp_path.iterdir()) == [path]
    assert convert(path, tmp_path / "half.onnx", keep_io_types=True).is_good


def test_contracts_and_denotations_stay(tmp_path: Path) -> None:
    contract = ImageContract(BitmapPixelFormat.RGB8, mean=(100,), std=(50,), tensor_kind=TensorKind.FLOAT)
    whole = unary("Neg", (1, 3, 8, 8), denotation="IMAGE", metadata=contract.to_metadata())
    target, _ = convert_model(tmp_path, whole)
    feature = LearningModel.load(target).input_features[0]
    assert isinstance(feature, ImageFeatureDescriptor)
    assert (feature.contract.mean, feature.contract.tensor_kind) == ((100.0,) * 3, TensorKind.FLOAT16)


def test_weights_in_files_beside_the_model(tmp_path: Path) -> None:
    weights = {"w": RNG.standard_normal((64, 64)).astype(np.float32)}
    whole = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], weights, (1, 64))
    source = tmp_path / "model.onnx"
    onnx.save(whole, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert convert(source, tmp_path / "half.onnx").is_good
    assert len(LearningModel.load(tmp_path / "half.onnx").input_features) == 1


def test_models_beyond_protobuf_go_to_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("float16", "_graphs"):
        monkeypatch.setattr(f"winml_py.{module}.model_file.MAX_PROTOBUF_BYTES", 4000)
    weights = {"w": RNG.standard_normal((64, 64)).astype(np.float32)}
    whole = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], weights, (1, 64))
    target, report = convert_model(tmp_path, whole)
    assert report.is_good
    assert sorted(path.name for path in tmp_path.iterdir()) == ["half.onnx", "half.onnx.data", "model.onnx"]
    x = RNG.standard_normal((1, 64)).astype(np.float32)
    assert np.isfinite(evaluate_model(target, {"x": x})["y"]).all()


@pytest.mark.parametrize("name", ["digits", "sharpen"])
def test_our_twins_give_what_the_originals_give(name: str, cat: Path, seven: Path) -> None:
    picture = SoftwareBitmap.load(seven if name == "digits" else cat)
    results = []
    for suffix in ("", "_float16"):
        loaded = LearningModel.load(MODELS / f"{name}{suffix}.onnx")
        assert loaded.precision == ("float16" if suffix else "float32")
        outputs = LearningModelSession(loaded).evaluate_features({"image": picture}).outputs
        results.append(next(iter(outputs.values())).to_numpy().astype(float))
    if name == "digits":
        assert results[0].argmax() == results[1].argmax() == 7
        np.testing.assert_allclose(*results, atol=2e-3)
    else:  # whole numbers up to 2,048 are exact in float16
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("large", [{"value": numpy_helper.from_array(np.float32(1e5))}, {"value_float": 1e5}])
def test_a_branch_with_a_constant_beyond_the_largest_half_stays_in_float32(large: Any, tmp_path: Path) -> None:
    end = helper.make_tensor_value_info("t", FLOAT, [1, 4])
    taken = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["r"])], "then", [], [helper.make_tensor_value_info("r", FLOAT, [1, 4])]
    )
    other = [helper.make_node("Constant", [], ["large"], **large), helper.make_node("Div", ["x", "large"], ["t"])]
    rest = helper.make_graph(other, "else", [], [end])
    nodes = [helper.make_node("If", ["flag"], ["y"], name="cond", then_branch=taken, else_branch=rest)]
    inputs = [tensor("x", [1, 4]), tensor("flag", [1], TensorProto.BOOL)]
    whole = model(nodes, inputs, [tensor("y", [1, 4])], {})
    x = np.float32([[1e4, 2e4, 3e4, 4e4]])
    # the branch is not taken
    target, report = convert_model(tmp_path, whole, inputs={"x": x, "flag": np.array([True])})
    assert report.kept["overflow"] == ["cond"]
    outputs = evaluate_model(target, {"x": x, "flag": np.array([False])})["y"]
    np.testing.assert_allclose(outputs.astype(float), x / 1e5, rtol=1e-3)


def test_what_is_written_is_valid_onnx(tmp_path: Path) -> None:
    branch = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("CumSum", ["r", "axis"], ["s"])]
    ends = [helper.make_tensor_value_info(name, FLOAT, [1, 4]) for name in "st"]
    weights = [numpy_helper.from_array(np.int64(1), "axis")]
    branches = [
        helper.make_graph(branch, "then", [], ends[:1], weights),
        helper.make_graph([helper.make_node("Mul", ["x", "w"], ["t"], name="inner")], "else", [], ends[1:]),
    ]
    nodes = [
        helper.make_node("If", ["flag"], ["c"], name="cond", then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Mul", ["c", "w"], ["y"], name="last"),
    ]
    inputs = [tensor("x", [1, 4]), tensor("flag", [1], TensorProto.BOOL)]
    whole = model(nodes, inputs, [tensor("y", [1, 4]), tensor("w", [1])], {"w": np.float32([2])})
    x = np.float32([[1, -2, 3, 4]])
    inputs_by_name = {"x": x, "flag": np.array([True])}
    for keep_io_types in (False, True):
        for names in ((), ("last",), ("inner",), ("cond", "last")):
            options: dict[str, Any] = {"keep_io_types": keep_io_types, "keep_float32": names}
            target, report = convert_model(tmp_path, whole, inputs=inputs_by_name, **options)
            onnx.checker.check_model(onnx.load(target), full_check=True)
            assert "cond" in report.kept_nodes  # CumSum, which it holds, has no float16
            for flag, expected in ((True, [[2, 2, 8, 16]]), (False, [[4, -8, 12, 16]])):
                outputs = evaluate_model(target, {"x": x, "flag": np.array([flag])})
                np.testing.assert_array_equal(outputs["y"], expected)
                np.testing.assert_array_equal(outputs["w"], [2])
    for path in OURS:
        convert(path, tmp_path / "half.onnx", keep_io_types=True)
        onnx.checker.check_model(onnx.load(tmp_path / "half.onnx"), full_check=True)


def test_odd_names_and_ends(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["a/exact"]),
        helper.make_node("Neg", ["a/exact"], ["y"]),
    ]
    whole = model(nodes, [tensor("x", [1, 4])], [tensor("y", [1, 4]), tensor("x", [1, 4])])
    assert convert_model(tmp_path, whole)[1].is_good


def test_nothing_is_called_good_that_was_not_compared(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["n"]),
        helper.make_node("Log", ["n"], ["y"]),
    ]
    with pytest.raises(ConversionError, match=r"cannot be checked with these inputs: .* y .* is NaN or infinite every"):
        convert_model(tmp_path, make_model(nodes, {}))
    infinite = {"y": np.float32([np.inf, 1])}
    assert report_outputs(infinite, infinite, 0.01)[0].is_good
    assert not report_outputs(infinite, {"y": np.float32([2, 1])}, 0.01)[0].is_good


NODE = helper.make_node
CODES = RNG.standard_normal((64, 5000)).astype(np.float32)
CLASSES = RNG.integers(2049, 5000, 200)
ROWS = np.float32([[1, 2, 3, 0.5], [9, 8, 7, 0.9], [4, 5, 6, 0.1]])
NUMBERED = [
    NODE("MatMul", ["x", "codes"], ["s"]),
    NODE("ArgMax", ["s"], ["i"], axis=1),
    NODE("Cast", ["i"], ["y"], to=1),
]
DETECTED = [
    NODE("Gather", ["x", "three"], ["s"], axis=1),
    NODE("Greater", ["s", "limit"], ["found"]),
    NODE("Compress", ["x", "found"], ["y"], axis=0),
]
INDEXED = [NODE("Greater", ["x", "limit"], ["found"]), NODE("NonZero", ["found"], ["y"])]
ROOTS = [NODE("Sqrt", ["x"], ["y"])]
CASES: dict[str, tuple[list[Any], dict[str, Any], Any, int, bool, bool]] = {
    "class number": (NUMBERED, {"codes": CODES}, CODES.T[CLASSES], FLOAT, True, True),
    "class number in float16": (NUMBERED, {"codes": CODES}, CODES.T[CLASSES], FLOAT, False, False),
    "small class number in float16": (NUMBERED, {"codes": CODES[:, :9]}, CODES.T[:9], FLOAT, False, True),
    "boxes": (DETECTED, {"three": np.int64(3), "limit": np.float32(0.25)}, ROWS, FLOAT, False, True),
    "no boxes": (DETECTED, {"three": np.int64(3), "limit": np.float32(2)}, ROWS, FLOAT, False, False),
    "indices": (INDEXED, {"limit": np.float32(2.5)}, ROWS, INT64, False, True),
    "no indices": (INDEXED, {"limit": np.float32(20)}, ROWS, INT64, False, False),
    "no rows": (ROOTS, {}, ROWS[:0], FLOAT, False, False),
    "NaN everywhere": (ROOTS, {}, -ROWS, FLOAT, True, False),
    "NaN in places": (ROOTS, {}, ROWS - 3, FLOAT, False, True),
}
"""Nodes, weights, the value of x, the type of y, `keep_io_types`, and whether the conversion is good."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_called_good_was_compared_and_is_equal(name: str, tmp_path: Path) -> None:
    nodes, weights, x, element, keep_io_types, is_good = CASES[name]
    proto = model(nodes, [tensor("x", ["n", x.shape[1]])], [tensor("y", None, element)], weights)
    if not is_good:
        with pytest.raises(ConversionError, match=r"cannot be checked with these inputs|different whole numbers"):
            convert_model(tmp_path, proto, inputs={"x": x}, keep_io_types=keep_io_types)
        assert not (tmp_path / "half.onnx").exists()
        return
    target, report = convert_model(tmp_path, proto, inputs={"x": x}, keep_io_types=keep_io_types)
    expected, came = (
        reference.run_raw(str(path), {"x": value})["y"]
        for path, value in ((tmp_path / "model.onnx", x), (target, x if keep_io_types else x.astype(np.float16)))
    )
    assert report.is_good
    assert expected.size
    np.testing.assert_allclose(came.astype(float), expected, rtol=1e-2)
    if "class" in name:
        np.testing.assert_array_equal(came.astype(float), expected)
        assert len(report.kept_nodes) < report.nodes


@pytest.mark.parametrize("keep_io_types", [False, True])
@pytest.mark.parametrize("labels", [["cat", "dog"], [3, 5]])
@pytest.mark.parametrize("is_lost", [False, True])
def test_classifiers_that_give_names_with_scores(
    keep_io_types: bool, labels: list[Any], is_lost: bool, tmp_path: Path
) -> None:
    """As Custom Vision's, for many rows, one of which is less sure than the others."""
    kind = helper.make_map_type_proto(
        INT64 if labels == [3, 5] else TensorProto.STRING, helper.make_tensor_type_proto(1, [])
    )
    names = {"classlabels_int64s" if labels == [3, 5] else "classlabels_strings": labels}
    nodes = [
        NODE("MatMul", ["x", "w"], ["z"]),
        NODE("Softmax", ["z"], ["p"]),
        NODE("ZipMap", ["p"], ["loss"], domain="ai.onnx.ml", **names),
    ]
    # In float16, 2049 is 2048.
    x = np.float32([[9, 0, 0], [0, 9, 0], [2048, 2049 if is_lost else 2050, 0]])
    output = helper.make_value_info("loss", helper.make_sequence_type_proto(kind))
    weights = {"w": np.eye(3, 2, dtype=np.float32)}
    proto = model(nodes, [tensor("x", ["n", 3])], [output], weights, domains={"ai.onnx.ml": 1})
    if is_lost:
        with pytest.raises(ConversionError, match="not accurate enough"):
            convert_model(tmp_path, proto, inputs={"x": x}, keep_io_types=keep_io_types)
        return
    target, _ = convert_model(tmp_path, proto, inputs={"x": x}, keep_io_types=keep_io_types)
    onnx.checker.check_model(onnx.load(target), full_check=True)
    expected, came = (
        reference.run_raw(str(path), {"x": value})["loss"]
        for path, value in ((tmp_path / "model.onnx", x), (target, x if keep_io_types else x.astype(np.float16)))
    )
    assert [list(row) for row in came] == [list(row) for row in expected] == [labels] * 3
    for row, expected_row in zip(came, expected, strict=True):
        assert list(row.values()) == pytest.approx(list(expected_row.values()), abs=1e-2)


def test_inputs_of_maps(tmp_path: Path) -> None:
    info = helper.make_value_info(
        "m", helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOAT, []))
    )
    nodes = [
        NODE("DictVectorizer", ["m"], ["v"], domain="ai.onnx.ml", string_vocabulary=["a", "b"]),
        NODE("MatMul", ["v", "w"], ["y"]),
    ]
    weights = {"w": np.float32([[1, 2], [3, 4]])}
    proto = model(nodes, [info], [tensor("y", [1, 2])], weights, domains={"ai.onnx.ml": 1})
    target, report = convert_model(tmp_path, proto, inputs={"m": {"a": 0.5, "b": 0.25}})
    assert report.is_good
    onnx.checker.check_model(onnx.load(target), full_check=True)
    result = LearningModelSession(LearningModel.load(target)).evaluate_features({"m": {"a": 2.0, "b": 1.0}})
    np.testing.assert_array_equal(result["y"].to_numpy(), [[5, 8]])


def test_misuse_of_convert(tmp_path: Path) -> None:
    path = write_model(tmp_path, unary("Relu", (1, 8)))
    for tolerance in (0, 1, float("nan")):
        with pytest.raises(InvalidArgumentError, match="Expected a tolerance between 0 and 1"):
            convert(path, tmp_path / "half.onnx", tolerance=tolerance)
    with pytest.raises(StorageNotFoundError, match=r"folder .* does not exist"):
        convert(path, tmp_path / "none" / "half.onnx")
    with pytest.raises(StorageAccessError, match="is a folder"):
        convert(path, tmp_path)
    assert convert(path, tmp_path / "half.onnx", keep_float32="Relu").kept["asked"] == ["Relu_0"]
    before = path.read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"also the source, so saving would overwrite it.*force=True"):
        convert(path, tmp_path / "." / path.name)
    assert path.read_bytes() == before
    convert(path, path, force=True)
    with pytest.raises(InvalidArgumentError, match="already a float16 model"):
        convert(path, path)


# Checking


def test_comparing() -> None:
    expected = {
        "y": np.float32([[1, 5, 2], [100, 0, 0]]),
        "n": np.array([1, 2]),
        "p": np.zeros((1, 3, 4, 4), np.float32),
    }
    outputs = {
        "y": np.float16([[5, 1, 2], [100, 0, np.inf]]),
        "n": np.array([1, 3]),
        "p": np.float16(expected["p"] + 0.5),
    }
    y, n, p = report_outputs(expected, outputs, 1e-2)
    assert (y.error, y.not_finite, y.top1, y.is_good) == (float("inf"), 1, 0.0, False)
    assert (n.error, n.top1, n.is_good) == (0.5, None, False)
    assert (p.error, p.top1, p.is_good) == (0.5, None, False)
    same = report_outputs(expected, expected, 1e-2)
    assert all(output.is_good and output.error == 0 for output in same)


def test_a_tolerance_that_nothing_meets_is_refused(tmp_path: Path) -> None:
    for keep_io_types in (False, True):
        with pytest.raises(ConversionError, match=r"9 of 9 nodes stay in float32.* Allow a larger tolerance"):
            convert("models/digits.onnx", tmp_path / "same.onnx", tolerance=1e-5, keep_io_types=keep_io_types)
        assert not (tmp_path / "same.onnx").exists()


def test_an_undecided_row_does_not_count_and_is_told() -> None:
    expected, outputs = np.float32([[1, 0.999, 0]]), np.float32([[0.999, 1, 0]])
    output = report_outputs({"y": expected}, {"y": outputs}, 1e-2)[0]
    assert (output.top1, output.near_ties, output.is_good) == (None, 1, True)
    told = str(ConversionReport(2, 1, 1, {}, [output], [], 1e-2))
    assert "top-1 changed in 1 near tie, whose lead is within the tolerance" in told
    told = str(ConversionReport(2, 1, 1, {}, [replace(output, top1=1.0)], [], 1e-2))
    assert "top-1 the same in 100 % of the rows with a clear winner, top-1 changed in 1 near tie" in told
    told = str(ConversionReport(2, 1, 1, {}, [replace(output, top1=0.0)], [], 1e-2))
    assert "top-1 changed in 100 % of the rows with a clear winner" in told


def make_classifier(scale: float, rows: int) -> tuple[bytes, np.ndarray]:
    """A random classifier and its input."""
    rng = np.random.default_rng(rows)
    weights = {
        "first": rng.normal(size=(24, 64)) / 24**0.5,
        "last": scale * rng.normal(size=(64, 100)) / 8,
        "bias": scale * rng.normal(size=100),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["h"]),
        helper.make_node("Gemm", ["h", "last", "bias"], ["y"]),
    ]
    floats = {name: weight.astype(np.float32) for name, weight in weights.items()}
    proto = model(nodes, [tensor("x", [rows, 24])], [tensor("y", [rows, 100])], floats)
    return proto.SerializeToString(), rng.normal(size=(rows, 24)).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("scale", [0.01, 1, 1000])
def test_a_converted_classifier_keeps_its_clear_winners_and_names_any_other(
    scale: float, rows: int, tmp_path: Path
) -> None:
    """From nearly equal classes to one that is sure."""
    whole, x = make_classifier(scale, rows)
    (tmp_path / "model.onnx").write_bytes(whole)
    report = convert(tmp_path / "model.onnx", tmp_path / "half.onnx", inputs={"x": x})
    expected, outputs = (
        reference.run_raw(str(tmp_path / name), {"x": value})["y"].astype(float)
        for name, value in (("model.onnx", x), ("half.onnx", x.astype(np.float16)))
    )
    allowed = 1e-2 * np.abs(expected).max()
    assert np.abs(outputs - expected).max() <= 1.5 * allowed
    ordered = np.sort(expected, axis=1)
    is_clear, is_changed = ordered[:, -1] - ordered[:, -2] > allowed, outputs.argmax(1) != expected.argmax(1)
    assert not (is_clear & is_changed).any()
    assert ("top-1 changed in" in str(report)) is bool(is_changed.any())


def test_a_model_of_free_size_is_checked_at_the_size_of_its_contract(tmp_path: Path) -> None:
    ends = [tensor(name, [1, 3, "h", "w"], denotation="IMAGE") for name in "xy"]
    source = write_model(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], ends[:1], ends[1:]))
    out = tmp_path / "o"
    for scaling, size, assumed in (
        (LongestSide(100, multiple=Multiple(32)), (96, 96), ()),
        (ShortestSide(80, limit=133), (80, 80), ()),
        (Stretch((48, 320)), (48, 320), ()),
        (Keep(multiple=Multiple(32)), (64, 64), ("h", "w")),
        (CropRatio(0.875), (64, 64), ("h", "w")),
    ):
        report = convert(source, out, contract=ImageContract(scaling=scaling), force=True)
        assert report.sizes["x"] == ((1, 3, *size), assumed)
    image = RNG.random((1, 3, 40, 50), np.float32)
    report = convert(source, out, contract=ImageContract(scaling=scaling), inputs={"x": image}, force=True)
    assert report.sizes["x"].shape == (1, 3, 40, 50)


def test_the_sizes_that_were_assumed_are_told(tmp_path: Path) -> None:
    nodes = [NODE("Reshape", ["x", "shape"], ["row"]), NODE("MatMul", ["row", "w"], ["y"])]
    ends = [tensor("x", [1, 3, "height", "width"]), tensor("y", [1, 4])]
    weights = {"shape": np.array([1, 3 * 32 * 32]), "w": np.ones((3 * 32 * 32, 4), np.float32)}
    path, out = write_model(tmp_path, model(nodes, ends[:1], ends[1:], weights)), tmp_path / "half.onnx"
    words = "No size was specified for height and width of the input x, so 64 was used. To set one, add --size H,W or"
    for command in (["convert", "--output", out], ["perf"], ["tune", "--output", out], ["compare"]):
        options = ["--engine", "onnxruntime"] if command == ["compare"] else []
        failed = CliRunner().invoke(main, [str(word) for word in (command[0], path, *command[1:], *options)])
        assert (failed.exit_code, failed.stderr.count(words)) == (1, 1), failed.stderr
    with pytest.raises(EvaluationError, match=re.escape(words)) as failed_call:
        convert(path, out)
    assert failed_call.value.hint.startswith("To set one, ")
    with pytest.raises(EvaluationError) as stated:
        convert(path, out, sizes=StatedSizes(picture=(48, 48)))
    assert "If the model requires one size" not in str(stated.value)
    convert(path, out, sizes=StatedSizes(picture=(32, 32)))
    path = write_model(tmp_path, unary("Relu", (1, 3, "height", "width")))
    assert "x (height and width assumed as 64)" in str(convert(path, out))


def test_the_command(tmp_path: Path) -> None:
    def call(*arguments: object) -> Any:
        return CliRunner().invoke(main, ["convert", *map(str, arguments)])

    out = tmp_path / "half.onnx"
    done = call(MODELS / "digits.onnx", "--output", out)
    assert done.exit_code == 0
    assert "good probabilities: relative error" in done.stdout
    assert LearningModel.load(out).precision == "float16"
    facts = json.loads(call(MODELS / "digits.onnx", "--output", out, "--keep-io-types", "--json").stdout)
    assert (facts["is_good"], facts["outputs"][0]["top1"], facts["seeded"]) == (True, 1.0, ["image"])
    assert LearningModel.load(out).precision == "mixed"
    out.unlink()
    whole = make_model([helper.make_node("Mul", ["x", "big"], ["y"])], {"big": np.float32(1e6)})
    path = write_model(tmp_path, whole)
    np.save(tmp_path / "x.npy", np.ones((1, 8), np.float32))
    for code, words, arguments in (
        (1, "not accurate enough", (path, f"x={tmp_path / 'x.npy'}", "--output", out)),
        (2, "Expected inputs for one evaluation", (path, "a.npy", "b.npy", "--output", out)),
        (3, "Model file not found", ("none.onnx", "--output", out)),
        (4, "none.npy: The file does not exist.", (path, "x=none.npy", "--output", out)),
        (5, "nowhere", (MODELS / "digits.onnx", "--output", tmp_path / "nowhere" / "x.onnx")),
    ):
        failed = call(*arguments)
        assert (failed.exit_code, words in failed.stderr) == (code, True), failed.stderr
    assert not out.exists()


def test_a_folders_contract_goes_along(tmp_path: Path) -> None:
    folder, out = tmp_path / "published", tmp_path / "out.onnx"
    folder.mkdir()
    write_model(folder, unary("Neg", (1, 3, 224, 224)))
    config = {"image_processor_type": "ViTImageProcessor", "size": {"height": 224, "width": 224}, "resample": 2}
    config |= {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7], "do_normalize": True}
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    done = CliRunner().invoke(main, ["convert", str(folder), "--output", str(out)])
    assert done.exit_code == 0, done.output
    converted = LearningModel.load(out).input_features[0]
    assert isinstance(converted, ImageFeatureDescriptor)
    assert (converted.contract.mean, converted.contract.std) == ((0.5, 0.4, 0.3), (0.5, 0.6, 0.7))

"""Samples beside a model: what is written, what a check finds on any engine, and what is refused."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from helpers.cli import call, require_exit
from helpers.models import data, tensor, unary
from helpers.paths import MODELS, PICTURES
from winml_py import (
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
)
from winml_py.authoring import build_in, check_samples, write_contract, write_samples
from winml_py.errors import WinMLError
from winml_py.float16 import convert

SHAPES = PICTURES / "shapes.png"


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """The detector of shapes, with a wide picture."""
    Image.open(SHAPES).resize((200, 100)).save(tmp_path / "wide.png")
    return know(tmp_path, MODELS / "shapes.onnx", tmp_path / "wide.png")


def know(folder: Path, model: bytes | Path, *samples: Any) -> Path:
    """A model in a folder with samples, which it must give."""
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.read_bytes())
    write_samples(path, samples)
    assert check_samples(LearningModel.load(path)).is_right
    return path


def change_weight(path: Path, name: str, factor: float) -> LearningModel:
    """Multiplies a weight in a model's file."""
    model = onnx.load(path)
    weight = next(weight for weight in model.graph.initializer if weight.name == name)
    numbers = numpy_helper.to_array(weight)
    weight.CopyFrom(numpy_helper.from_array((numbers * factor).astype(numbers.dtype), name))
    path.write_bytes(model.SerializeToString())
    return LearningModel.load(path)


def read(folder: Path, name: str) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(onnx.load_tensor(folder / "test_data_set_0" / name))


def list_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# What is written


def test_a_picture_is_its_file_and_the_answer_that_of_raw_onnxruntime(known: Path) -> None:
    """The tensor of the picture, by hand: 200 x 100 fits into 128 x 128, gray around it."""
    folder = known.parent
    assert list_files(folder)[1:3] == ["test_data_set_0/input_0.png", "test_data_set_0/output_0.pb"]
    assert (folder / "test_data_set_0" / "input_0.png").read_bytes() == (folder / "wide.png").read_bytes()
    whole = np.full((128, 128, 3), 114, np.uint8)
    with Image.open(folder / "wide.png") as image:
        whole[32:96] = cv2.resize(np.asarray(image.convert("RGB")), (128, 64), interpolation=cv2.INTER_LINEAR)
    (given,) = onnxruntime.InferenceSession(known).run(
        None, {"image": (whole.astype(np.float32) / 255).transpose(2, 0, 1)[None]}
    )
    np.testing.assert_allclose(read(folder, "output_0.pb"), given, atol=5e-3 * np.abs(given).max())


def test_arrays_are_data_that_onnx_and_onnxruntime_evaluate(tmp_path: Path) -> None:
    ends = [tensor("a", [2, 3]), tensor("b", [2, 3], TensorProto.FLOAT16)]
    nodes = [helper.make_node("Cast", ["b"], ["c"], to=1), helper.make_node("Sub", ["a", "c"], ["y"])]
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = know(tmp_path, data(nodes, ends, [tensor("y", [2, 3])]), {"b": value.astype(np.float16) * 2, "a": value})
    (given,) = onnxruntime.InferenceSession(path).run(
        None, {"a": read(tmp_path, "input_0.pb"), "b": read(tmp_path, "input_1.pb")}
    )
    np.testing.assert_array_equal(read(tmp_path, "output_0.pb"), given)
    np.testing.assert_array_equal(given, -value)


@pytest.mark.parametrize("kind", ["path", "bytes", "file", "pillow", "value", "array", "npy"])
def test_every_kind_of_value_has_the_same_answer(kind: str, tmp_path: Path, seven: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.full((1, 1, 28, 28), 0.5, np.float32))
    gray = Image.open(seven).convert("L")
    value: Any = {
        "path": lambda: shutil.copy(seven, tmp_path / "a.b.PNG"),
        "bytes": seven.read_bytes,
        "file": lambda: io.BytesIO(seven.read_bytes()),
        "pillow": lambda: gray,
        "value": lambda: ImageFeatureValue.load(seven),
        "array": lambda: np.asarray(gray),
        "npy": lambda: tmp_path / "numbers.npy",
    }[kind]()
    know(tmp_path, MODELS / "digits.onnx", {"image": value})
    ending = {"path": "PNG", "npy": "pb"}.get(kind, "png")
    assert f"test_data_set_0/input_0.{ending}" in list_files(tmp_path)
    session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    (output,) = session.evaluate_features({"image": value if kind == "npy" else seven}).outputs.values()
    np.testing.assert_allclose(read(tmp_path, "output_0.pb"), output.to_numpy(), atol=1e-5)


def test_a_model_with_a_built_in_contract_has_pixels(tmp_path: Path, cat: Path) -> None:
    build_in(MODELS / "edges.onnx", tmp_path / "edges.onnx")
    write_samples(tmp_path / "edges.onnx", [cat])
    with Image.open(cat) as image:
        np.testing.assert_array_equal(read(tmp_path, "input_0.pb").squeeze(), np.asarray(image.convert("RGB")))
    assert check_samples(LearningModel.load(tmp_path / "edges.onnx")).largest_difference == 0


def test_only_force_replaces_samples_and_then_all(known: Path, seven: Path) -> None:
    before = list_files(known.parent)
    with pytest.raises(InvalidArgumentError, match=r"test_data_set_0: Samples already exist here\..*force=True"):
        write_samples(known, [SHAPES])
    assert write_samples(known, [SHAPES] * 11, force=True)[10].endswith("test_data_set_10")
    assert len(check_samples(LearningModel.load(known.parent)).samples) == 11
    with pytest.raises(WinMLError):
        write_samples(known, [SHAPES, {"image": "nope.png"}], force=True)
    assert len(check_samples(LearningModel.load(known)).samples) == 11  # as before
    write_samples(known, [SHAPES], force=True)
    assert list_files(known.parent) == before
    assert write_samples(known, [], force=True) == ()
    with pytest.raises(
        InvalidArgumentError, match=r"No sample folders, .* next to the model.* write_samples.* --record"
    ):
        check_samples(LearningModel.load(known))
    with pytest.raises(InvalidArgumentError, match=r"No sample folders, .* next to the model"):
        check_samples(LearningModel.load(known.read_bytes()))


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ({"nope": 1}, "'nope' is not an input of the model"),
        ({}, r"Expected a value for each input, got 0 values\..*Pass {'image': ...}"),
        (7, "Expected a value for each input, got int"),
        (PICTURES, "folder"),
        ({"image": [[1], [1, 2]]}, "cannot be bound with the provided type"),
        ({"image": [ImageFeatureValue.load(SHAPES)] * 2}, "Expected one picture for image, got a batch"),
    ],
)
def test_values_that_do_not_fit_write_nothing(sample: Any, words: str, tmp_path: Path) -> None:
    path = shutil.copy(MODELS / "digits_batch.onnx", tmp_path)
    with pytest.raises(WinMLError, match=words):
        write_samples(path, [sample])
    with pytest.raises(InvalidArgumentError, match="Expected a list of samples"):
        write_samples(path, "seven.png")
    assert os.listdir(tmp_path) == ["digits_batch.onnx"]


def test_a_random_model_has_no_answer(tmp_path: Path) -> None:
    node = helper.make_node("RandomNormalLike", ["x"], ["y"])
    (tmp_path / "random.onnx").write_bytes(data([node], [tensor("x", [2, 3])], [tensor("y", [2, 3])]))
    with pytest.raises(
        InvalidArgumentError, match=r"changes with each evaluation: y: the results differ .* Fix the seeds"
    ):
        write_samples(tmp_path / "random.onnx", [{"x": np.ones((2, 3), np.float32)}])
    assert os.listdir(tmp_path) == ["random.onnx"]


# What a check finds


def test_an_unchanged_model_is_right(known: Path) -> None:
    check = check_samples(LearningModel.load(known))
    assert (check.is_right, check.problems) == (True, ())
    assert check.largest_difference < 1e-6
    assert check.samples == (str(known.parent / "test_data_set_0"),)


def test_openvino_is_right(known: Path, openvino: object) -> None:
    options = LearningModelSessionOptions()
    options.engine = "openvino"
    check = check_samples(LearningModelSession(LearningModel.load(known), options=options))
    assert check.is_right, check.problems


def test_a_gpu_is_right(known: Path, gpu: LearningModelDevice) -> None:
    check = check_samples(LearningModelSession(LearningModel.load(known), gpu))
    assert check.is_right, check.problems


def test_a_float16_conversion_in_the_folder_is_right(tmp_path: Path, seven: Path) -> None:
    path = know(
        tmp_path, MODELS / "digits.onnx", {"image": np.random.default_rng(0).random((1, 1, 28, 28), np.float32)}
    )
    convert(path, tmp_path / "half.onnx")
    check = check_samples(LearningModel.load(tmp_path / "half.onnx"))
    assert check.is_right, check.problems
    assert check.largest_difference > 1e-5


@pytest.mark.parametrize("name", ["down.0.weight", "side.1.bias"])
def test_a_changed_weight_is_found(known: Path, name: str) -> None:
    (problem,) = check_samples(change_weight(known, name, 1.05)).problems
    assert problem.startswith("test_data_set_0, boxes: the results differ by ")
    assert problem.endswith("; the tolerance is 0.02")


@pytest.mark.parametrize("change", [{"Image.BitmapPixelFormat": "Bgr8"}, {"Image.Scaling": "stretch"}])
def test_another_contract_is_found(known: Path, change: dict[str, str]) -> None:
    words = LearningModel.load(known).input_features[0].contract.to_metadata()
    write_contract(known, known, ImageContract.from_metadata(words | change), force=True)
    assert not check_samples(LearningModel.load(known)).is_right


def test_the_best_class_is_told(tmp_path: Path) -> None:
    weights = {"weights": np.zeros((4, 3), np.float32), "bias": np.float32([1, 3, 2.9])}
    ends = [tensor("x", [1, 4]), tensor("scores", [1, 3])]
    node = helper.make_node("Gemm", ["x", "weights", "bias"], ["scores"])
    path = know(tmp_path, data([node], ends[:1], ends[1:], weights), {"x": np.zeros((1, 4), np.float32)})
    model = onnx.load(path)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.float32([1, 3, 3.5]), "bias"))
    onnx.save(model, path)
    (problem,) = check_samples(LearningModel.load(path)).problems
    assert problem == (
        "test_data_set_0, scores: the results differ by 2.0e-01; the tolerance is 0.001; "
        "the best class was 1 and is now 2"
    )


@pytest.mark.parametrize("element", [TensorProto.INT64, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.UINT8])
def test_numbers_of_every_type_come_back(element: int, tmp_path: Path) -> None:
    value = np.arange(6).reshape(3, 2).astype(helper.tensor_dtype_to_np_dtype(element))
    path = know(tmp_path, unary("Identity", shape=(3, 2), element=element), {"x": value})
    assert read(tmp_path, "input_0.pb").dtype == read(tmp_path, "output_0.pb").dtype == value.dtype
    np.testing.assert_array_equal(read(tmp_path, "output_0.pb"), value)
    onnx.save_tensor(numpy_helper.from_array(value + value.dtype.type(1)), tmp_path / "test_data_set_0/output_0.pb")
    assert not check_samples(LearningModel.load(path)).is_right


@pytest.mark.parametrize(("shift", "is_right"), [(1, True), (10, False)])
def test_levels_of_an_output_picture_may_be_one_off(shift: int, is_right: bool, tmp_path: Path, cat: Path) -> None:
    ends = [tensor(name, [1, 3, "h", "w"], denotation="IMAGE") for name in "xy"]
    node = helper.make_node("Add", ["x", "shift"], ["y"])
    path = know(tmp_path, data([node], ends[:1], ends[1:], {"shift": np.float32(0)}), cat)
    model = onnx.load(path)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32(shift), "shift"))
    onnx.save(model, path)
    assert check_samples(LearningModel.load(path)).is_right is is_right


def test_texts_must_be_equal(tmp_path: Path) -> None:
    path = know(
        tmp_path, unary("Identity", shape=(2,), element=TensorProto.STRING), {"x": np.array(["a", "ö"], object)}
    )
    assert read(tmp_path, "output_0.pb").tolist() == ["a", "ö"]
    onnx.save_tensor(numpy_helper.from_array(np.array(["a", "o"], object)), tmp_path / "test_data_set_0/output_0.pb")
    (problem,) = check_samples(LearningModel.load(path)).problems
    assert problem.startswith("test_data_set_0, y: the results are empty, or differ in ")


def test_empty_outputs_and_nan_are_answers(tmp_path: Path) -> None:
    """As those of a detector that finds nothing."""
    node = helper.make_node("Slice", ["x", "zero", "zero", "zero"], ["y"])
    ends = [tensor("x", ["n", 3]), tensor("y", ["m", 3])]
    path = know(tmp_path, data([node], ends[:1], ends[1:], {"zero": np.array([0])}), {"x": np.ones((2, 3), np.float32)})
    onnx.save_tensor(numpy_helper.from_array(np.ones((1, 3), np.float32)), tmp_path / "test_data_set_0/output_0.pb")
    assert not check_samples(LearningModel.load(path)).is_right
    shutil.rmtree(tmp_path / "test_data_set_0")
    path = know(tmp_path, unary("Log", shape=(2,)), {"x": np.float32([-1, 1])})
    onnx.save_tensor(numpy_helper.from_array(np.zeros(2, np.float32)), tmp_path / "test_data_set_0/output_0.pb")
    assert not check_samples(LearningModel.load(path)).is_right


def test_a_list_of_maps_has_a_file_for_each_array(tmp_path: Path) -> None:
    def zipped(*words: str) -> bytes:
        kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(1, []))
        output = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
        node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=list(words))
        graph = helper.make_graph([node], "g", [tensor("x", [1, 3])], [output])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

    path = know(tmp_path, zipped("ant", "bee", "cat"), {"x": np.float32([[0.1, 0.7, 0.2]])})
    np.testing.assert_array_equal(read(tmp_path, "output_0.pb"), np.float32([0.1, 0.7, 0.2]))
    assert read(tmp_path, "output_1.pb").tolist() == ["ant", "bee", "cat"]
    path.write_bytes(zipped("ant", "bee", "dog"))
    (problem,) = check_samples(LearningModel.load(path)).problems
    assert problem.startswith("test_data_set_0, y[0], keys: ")


# Samples that are damaged, or another model's


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("output_0.pb", b"no tensor", "output_0.pb: The file is not a valid ONNX tensor"),
        ("input_0.png", b"\x89PNG\r\n\x1a\nno more", "which cannot be evaluated: "),
        (
            "input_1.pb",
            b"",
            r"Expected a file for each of 1 inputs, got 2\. Delete any samples that belong to other models",
        ),
        (
            "output_1.pb",
            numpy_helper.from_array(np.ones(1)).SerializeToString(),
            "has 2 outputs; the model has 1: boxes",
        ),
    ],
)
def test_what_is_wrong_with_a_sample_is_a_problem(name: str, content: bytes, words: str, known: Path) -> None:
    (known.parent / "test_data_set_0" / name).write_bytes(content)
    check = check_samples(LearningModel.load(known))
    (problem,) = check.problems
    assert pytest.approx(np.inf) == check.largest_difference
    assert problem.startswith("test_data_set_0, which ")
    assert re.search(words, problem)


@pytest.mark.skipif(os.name == "nt", reason="Windows lets few users make links")
def test_a_link_out_of_the_folder_is_not_followed(known: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "output_0.pb"
    shutil.move(known.parent / "test_data_set_0" / "output_0.pb", outside)
    (known.parent / "test_data_set_0" / "output_0.pb").symlink_to(outside)
    (problem,) = check_samples(LearningModel.load(known)).problems
    assert "The file is outside the folder" in problem


# The command


def test_record_and_check(tmp_path: Path, seven: Path) -> None:
    path = shutil.copy(MODELS / "digits.onnx", tmp_path)
    folder, device = tmp_path / "test_data_set_0", LearningModelDevice().name
    lines = require_exit("run", path, seven, seven, "--record").stdout.splitlines()
    assert lines[-1] == f"  written to {tmp_path / 'test_data_set_1'}"
    assert (folder / "input_0.png").read_bytes() == seven.read_bytes()
    result = require_exit("run", path, "--check")
    assert result.stdout == f"{path}: right: 2 samples, at most 0.00% apart, on {device} with onnxruntime\n"
    result = call("run", path, seven, "--record")
    assert (result.exit_code, "Samples already exist here" in result.stderr) == (4, True)
    require_exit("run", path, seven, "--record", "--force")
    assert not (tmp_path / "test_data_set_1").exists()
    answer = read(tmp_path, "output_0.pb")
    onnx.save_tensor(numpy_helper.from_array(answer[:, ::-1].copy()), folder / "output_0.pb")
    result = call("run", tmp_path, "--check")
    assert (result.exit_code, ": wrong: 1 difference in 1 sample, on " in result.stdout) == (1, True)
    assert "the best class was 2 and is now 7" in result.stderr
    facts = json.loads(call("run", path, "--check", "--json").stdout)["results"][0]["check"]
    assert (facts["is_right"], facts["samples"], len(facts["problems"])) == (False, [str(folder)], 1)


def test_what_cannot_be_combined(known: Path, seven: Path) -> None:
    for words in ([seven], ["--top-k", "3"], ["--layout", "none"], ["--record"]):
        result = call("run", known, *words, "--check")
        assert (result.exit_code, "--check evaluates the samples next to MODEL" in result.stderr) == (2, True)
    for words in (["--precision", "float32"], ["--json-lines"]):
        result = call("run", known, seven, "--record", *words)
        assert (result.exit_code, "--record evaluates on the CPU" in result.stderr) == (2, True)

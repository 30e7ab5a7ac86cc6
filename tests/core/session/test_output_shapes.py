"""What is bound to an output states a shape, holds texts or booleans, or comes with properties: none is ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers import winml_models
from helpers.models import FLOAT, FLOAT16, INT64, STRING, Shape, data, tensor, unary
from helpers.sessions import bind_all, open_binding, open_session
from winml_py import (
    BitmapPixelFormat,
    EvaluationError,
    ImageContract,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    SizeMismatchError,
    TensorFloat,
    TensorFloat16Bit,
    TensorInt64Bit,
    TensorString,
    VideoFrame,
)
from winml_py.results import Prediction

# Shapes


@pytest.mark.parametrize("denotation", ["", "IMAGE"])
@pytest.mark.parametrize("shape", [(1, 3, 9, 9), (3, 5), (1, 3, 8), (2, 3, 8, 8), ()])
def test_float32_of_another_shape_is_refused_for_a_float16_picture(shape: tuple[int, ...], denotation: str) -> None:
    bound = open_binding(unary("Neg", (1, 3, 8, 8), FLOAT16, denotation=denotation))
    array = np.zeros(shape, np.float32)
    for name, value in (("x", array), ("y", array), ("y", TensorFloat.create(shape))):
        with pytest.raises(SizeMismatchError):
            bound.bind(name, value)
    bound.bind("x", np.ones((1, 3, 8, 8), np.float32))
    bound.bind("y", target := TensorFloat.create((1, -1, 8, 8)))
    bound._session.evaluate(bound)
    np.testing.assert_array_equal(target.to_numpy(), -np.ones((1, 3, 8, 8)))


CLASSES = {FLOAT: TensorFloat, FLOAT16: TensorFloat16Bit, INT64: TensorInt64Bit, STRING: TensorString}


@pytest.mark.parametrize("element", CLASSES)
@pytest.mark.parametrize(
    ("declared", "stated", "fits"),
    [
        ([1, 4], [1, 3], False),
        ([1, 4], [4], False),
        ([1, 4], [1, 4], True),
        ([1, 4], [-1, 4], True),
        ([1, 4], [-1, 3], False),
        (["n", 4], [1, 4], True),
        (["n", 4], [2, 4], False),
        (["n", "m"], [-1, 4], True),
        (["n", "m"], [-1, 3], False),
        ([1, 4], None, True),
    ],
)
def test_an_output_has_the_shape_that_its_tensor_states(
    element: int, declared: Shape, stated: list[int] | None, fits: bool
) -> None:
    """Whether it has memory or not, and whether the file or only the run tells the shape."""
    value = np.array([["a", "b", "c", "d"]], object) if element == STRING else np.ones((1, 4), CLASSES[element].dtype)
    targets = [CLASSES[element].create(stated)]
    if stated is not None and -1 not in stated:
        targets.append(CLASSES[element].create(stated))
        targets[1].to_numpy()  # it has memory now
    for target in targets:
        session = open_session(unary(shape=declared, element=element))
        if not fits:
            with pytest.raises(SizeMismatchError):
                session.evaluate_features({"x": value, "y": target})
            continue
        for _ in range(2):
            assert session.evaluate_features({"x": value, "y": target}).outputs["y"] is target
            assert target.to_numpy().tolist() == value.tolist()


def test_a_tensor_without_a_shape_takes_another_in_every_run() -> None:
    session, binding = bind_all(unary(), y=(target := TensorFloat.create()))
    for count in (2, 3):
        binding.bind("x", np.ones(count, np.float32))
        session.evaluate(binding)
        assert target.shape == (count,)


# Properties


PROPERTIES: dict[str, Any] = {
    "BitmapBounds": [0, 0, 2, 2],
    "BitmapPixelFormat": BitmapPixelFormat.RGBA8,
    "PixelRange": LearningModelPixelRange.ZERO_TO_ONE,
    "ImageContract": ImageContract(),
    "ImageSize": (4, 4),
}


@pytest.mark.parametrize("key", PROPERTIES)
@pytest.mark.parametrize(
    "target", [np.zeros((1, 3, 4, 4), np.float32), TensorFloat.create(), [], [bytearray(192)]], ids=type
)
def test_properties_of_pictures_are_refused_for_an_output_of_numbers(key: str, target: Any) -> None:
    whole = unary(shape=(1, 3, 4, 4))
    with pytest.raises(InvalidBindingError, match=f"The property {key} applies only to pictures"):
        open_binding(whole).bind("y", target, {key: PROPERTIES[key]})
    winml_models.open_binding(whole).bind("y", target, {key: PROPERTIES[key]})  # ignored, as in Windows ML


@pytest.mark.parametrize("key", ["BitmapBounds", "ImageSize"])
def test_properties_of_inputs_are_refused_for_a_picture_that_is_an_output(key: str) -> None:
    bound = open_binding(unary(shape=(1, 3, 4, 4), denotation="IMAGE"))
    with pytest.raises(InvalidBindingError, match=f"The property {key} applies only to inputs"):
        bound.bind("y", VideoFrame(BitmapPixelFormat.BGRA8, 4, 4), {key: PROPERTIES[key]})


# Texts


def gathering(element: int, table: np.ndarray[Any, Any]) -> LearningModelSession:
    """y = table[i]; another index than 0 and 1 fails."""
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    whole = data([node], [tensor("i", ["n"], INT64)], [tensor("y", ["n"], element)], {"table": table})
    return open_session(whole)


def make_text_targets() -> list[Any]:
    strided = np.empty((2, 2), object)[:, 0]
    return [
        np.empty(2, object),
        np.array(["old", "old"], object),
        strided,
        TensorString.create_from_array([2], ["", ""]),
    ]


def test_texts_are_written_into_the_array_that_is_bound() -> None:
    for target in make_text_targets():
        session = open_session(unary(shape=["n"], element=STRING))
        held = target if isinstance(target, np.ndarray) else target.to_numpy()
        binding = LearningModelBinding(session)
        binding.bind("y", target)
        for texts in (["a", "a longer text"], ["ü", ""]):
            binding.bind("x", texts)
            assert session.evaluate(binding).outputs["y"] is target
            assert held.tolist() == texts
        binding.bind("x", ["a", "b", "c"])
        with pytest.raises(SizeMismatchError):
            session.evaluate(binding)


def test_texts_of_an_earlier_run_do_not_outlive_a_failed_one() -> None:
    session = gathering(STRING, np.array(["zero", "one"], object))
    binding, array = LearningModelBinding(session), np.empty(1, object)
    binding.bind("y", array)
    for index, text in ((1, "one"), (7, None), (0, "zero")):
        binding.bind("i", [index])
        if text is None:
            with pytest.raises(EvaluationError):
                session.evaluate(binding)
        else:
            session.evaluate(binding)
        assert array.tolist() == [text]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (np.array(["old", "old"]), r"would truncate them\. Bind np\.empty\(\(2,\), object\)"),
        (np.empty(3, object), "Dimension 0 is 3, not 2"),
        (("old", "old"), "cannot be written into tuple"),
        (np.array([b"old", b"old"]), "got an array of"),
    ],
)
def test_what_cannot_take_the_texts_of_an_output_is_refused(target: Any, says: str) -> None:
    with pytest.raises((InvalidBindingError, SizeMismatchError), match=says):
        open_binding(unary(shape=[2], element=STRING)).bind("y", target)


def test_a_text_that_is_bound_to_an_output_is_refused() -> None:
    with pytest.raises(InvalidBindingError, match="cannot be written into str"):
        open_binding(unary(shape=[1], element=STRING)).bind("y", "old")


# Booleans


def test_the_error_of_a_failed_run_names_the_arrays_of_booleans() -> None:
    session = gathering(TensorProto.BOOL, np.array([False, True]))
    binding, array = LearningModelBinding(session), np.zeros(1, np.bool_)
    binding.bind("y", array)
    binding.bind("i", [7])
    with pytest.raises(EvaluationError, match=r"Do not read y: arrays of booleans cannot show that they are") as info:
        session.evaluate(binding)
    assert info.value.hint.endswith("cannot show that they are invalid.")
    (failed,) = session.evaluate_many([{"i": np.array([7]), "y": array}])
    assert "Do not read y: " in str(failed.error)
    binding.bind("y", np.zeros(1, np.bool_).tolist())
    with pytest.raises(EvaluationError) as info:
        session.evaluate(binding)
    assert "booleans" not in str(info.value)


# Reading what is bound


@pytest.mark.parametrize("kind", ["nothing", "array", "tensor", "tensor without memory", "list", "buffer"])
def test_the_best_classes_of_an_output_however_it_is_bound(kind: str) -> None:
    scores = np.float32([[0.125, 0.75, 0.25]])
    session, array = open_session(unary(shape=[1, 3])), np.zeros((1, 3), np.float32)
    bound: dict[str, Any] = {"array": array, "list": [0.0], "buffer": memoryview(array[0])}
    bound |= {"tensor": TensorFloat.from_numpy(array), "tensor without memory": TensorFloat.create()}
    output = {"y": bound[kind]} if kind in bound else {}
    best = session.evaluate_features({"x": scores, **output}).top_k(2)
    assert [(item.index, item.score) for item in best] == [(1, 0.75), (2, 0.25)]


@pytest.mark.parametrize("shape", [[2, 3], ["n", 3], ["n", "m"]])
def test_a_batch_that_is_bound_to_a_list_is_not_one_row(shape: list[int | str]) -> None:
    session, scores = open_session(unary(shape=shape)), np.float32([[1, 2, 3], [6, 5, 4]])
    with pytest.raises(InvalidArgumentError, match="one row of scores"):
        session.evaluate_features({"x": scores, "y": []}).top_k(1)


def test_masks_are_those_of_the_boxes_after_another_run() -> None:
    """A detector that has one object, with masks by prototypes: in the second run, the prototypes are negative."""
    from winml_py.testing import FakeDevice
    from winml_py.vision import DetectionLayout, detections

    boxes, sign = np.zeros((1, 37, 21), np.float32), 1.0
    boxes[0, :6, 0] = 16, 16, 20, 20, 0.9, 1

    def answer(inputs: Any) -> dict[str, Any]:
        return {"boxes": boxes.copy(), "prototypes": np.full((1, 32, 8, 8), sign, np.float32)}

    ends = [tensor("boxes", boxes.shape), tensor("prototypes", [1, 32, 8, 8])]
    nodes = [helper.make_node("Identity", ["x"], ["unused"])]
    model = LearningModel.load(data(nodes, [tensor("x", (1, 3, 32, 32), denotation="IMAGE")], ends))
    binding = LearningModelBinding(session := LearningModelSession(model, FakeDevice(answer)))
    binding.bind("x", VideoFrame(BitmapPixelFormat.BGRA8, 32, 32))
    for end in ends:
        binding.bind(end.name, np.zeros([size.dim_value for size in end.type.tensor_type.shape.dim], np.float32))
    found = detections(session.evaluate(binding), labels=["a"], layout=DetectionLayout.YOLO)
    sign = -1.0
    session.evaluate(binding)
    assert found.mask(0).sum() == 400


def test_detections_of_outputs_that_are_bound_to_arrays() -> None:
    from winml_py.vision import detections

    boxes, labels, scores = np.float32([[1, 1, 3, 4], [0, 0, 2, 2]]), np.array([1, 0]), np.float32([0.9, 0.8])
    names = ("boxes", "labels", "scores")
    weights = dict(zip(names, (boxes, labels, scores), strict=True))
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names]
    nodes += [helper.make_node("Shape", ["x"], ["size"])]
    ends = [tensor("boxes_out", [2, 4]), tensor("labels_out", [2], INT64), tensor("scores_out", [2])]
    session = open_session(data(nodes, [tensor("x", (1, 3, 8, 8), denotation="IMAGE")], ends, weights))
    bound = {f"{name}_out": np.zeros_like(weights[name]) for name in names}
    result = session.evaluate_features({"x": VideoFrame(BitmapPixelFormat.BGRA8, 8, 8), **bound})
    found = detections(result)
    np.testing.assert_array_equal(found.boxes, boxes)
    assert found.indices.tolist() == [1, 0]


def open_zip_map(**labels: list[Any]) -> LearningModelSession:
    """Returns its scores as a list of maps, as scikit-learn's classifiers do."""
    key = STRING if "classlabels_strings" in labels else INT64
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, []))
    end = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    whole = data([node], [tensor("x", ["n", 2])], [end], domains={"ai.onnx.ml": 3})
    return LearningModelSession(LearningModel.load(whole))


def test_the_scores_of_maps_and_of_the_rows_of_a_batch_are_ranked() -> None:
    scores = np.float32([[0.25, 0.75], [0.625, 0.375]])
    named, numbered = open_zip_map(classlabels_strings=["cat", "dog"]), open_zip_map(classlabels_int64s=[3, 7])
    tensors = LearningModelSession(LearningModel.load(unary(shape=["n", 2])))
    for session, labels in ((named, ["cat", "dog"]), (numbered, ["3", "7"]), (tensors, ["", ""])):
        dog, cat = Prediction(1, 0.75, labels[1]), Prediction(0, 0.25, labels[0])
        one, both = (session.evaluate_features({"x": rows}) for rows in (scores[:1], scores))
        assert one.top_k() == one.top_k(row=0) == both.top_k(row=0) == [dog, cat]
        assert both.top_k(1, row=1, output="y") == [Prediction(0, 0.625, labels[0])]
        if session is tensors:
            assert both.top_k(1, ["katze", "hund"], row=0)[0].label == "hund"
        else:
            with pytest.raises(InvalidArgumentError, match="a map, whose keys are the labels"):
                both.top_k(1, ["katze", "hund"], row=0)
        for row in (None, 2):
            with pytest.raises(InvalidArgumentError, match=r"choose a row with top_k\(row=0\)"):
                both.top_k(row=row)
        with pytest.raises(InvalidArgumentError, match="whole number of 0 or more"):
            both.top_k(row=-1)
    flat = LearningModelSession(LearningModel.load(unary(shape=[2]))).evaluate_features({"x": scores[0]})
    assert flat.top_k(row=0) == flat.top_k()
    single = LearningModelSession(LearningModel.load(unary(shape=["n", 1])))
    with pytest.raises(InvalidArgumentError, match=r"choose a row with top_k\(row=0\)"):  # three items, one class
        single.evaluate_features({"x": np.float32([[1], [3], [2]])}).top_k()


def test_the_wrong_reader_of_an_answer_names_the_right_call() -> None:
    from winml_py.vision.masks import Segmentation

    with pytest.raises(InvalidArgumentError, match=r"Pass labels to masks\(\), or an index"):
        Segmentation(np.zeros((2, 2), np.int32)).mask("dog")

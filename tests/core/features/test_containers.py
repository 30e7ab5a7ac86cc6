"""Maps, sequences, lists and buffers as values, in and out, against raw ONNX Runtime's answers."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SizeMismatchError,
    TensorFloat,
    TensorFloat16Bit,
    TensorInt64Bit,
    TensorString,
    VideoFrame,
)
from winml_py.winrt.windows.storage.streams import Buffer

SCALAR = helper.make_tensor_type_proto(FLOAT, [])


def ml(operator: str, inputs: Any, outputs: Any, **attributes: Any) -> LearningModelBinding:
    """A binding of a model of one operator of ai.onnx.ml: X -> Y."""
    node = helper.make_node(operator, ["X"], ["Y"], domain="ai.onnx.ml", **attributes)
    whole = data([node], [inputs], [outputs], domains={"ai.onnx.ml": 1})
    return LearningModelBinding(LearningModelSession(LearningModel.load(whole)))


def vectorizer(key: int) -> LearningModelBinding:
    vocabulary: Any = {"int64_vocabulary": [10, 20]} if key == INT64 else {"string_vocabulary": ["a", "b"]}
    kind = helper.make_map_type_proto(key, SCALAR)
    return ml("DictVectorizer", helper.make_value_info("X", kind), tensor("Y", [1, 2]), **vocabulary)


def zipmap(key: int) -> LearningModelBinding:
    labels: Any = {"classlabels_int64s": [5, 6, 7]} if key == INT64 else {"classlabels_strings": ["cat", "dog", "ü"]}
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(key, SCALAR))
    return ml("ZipMap", tensor("X", [None, 3]), helper.make_value_info("Y", kind), **labels)


def outputs(bound: LearningModelBinding) -> Any:
    return bound._session.evaluate(bound).outputs


def test_what_comes_out_unbound_has_winrt_s_names() -> None:
    bound = zipmap(STRING)
    bound.bind("X", np.float32([[1, 2, 3], [4, 5, 6]]))
    rows = outputs(bound)["Y"]
    assert rows == [{"cat": 1, "dog": 2, "ü": 3}, {"cat": 4, "dog": 5, "ü": 6}]
    assert isinstance(rows, list)
    assert (rows.size, rows.get_at(1), rows.index_of(rows[1])) == (2, rows[1], (True, 1))
    assert rows.first().current is rows[0]
    row = rows[1]
    assert isinstance(row, dict)
    assert (row.size, row.has_key("dog"), row.has_key("cow"), row.lookup("dog")) == (3, True, False, 5)
    assert [(pair.key, pair.value) for pair in row.first()] == [("cat", 4), ("dog", 5), ("ü", 6)]
    assert row.get("cow") is None
    with pytest.raises(KeyError, match=r"no key 'cow'\. The map contains 'cat', 'dog', 'ü'"):
        row.lookup("cow")


@pytest.mark.parametrize(("key", "value"), [(INT64, {10: 0.5, 20: 2}), (STRING, {"b": 2.0, "a": np.float32(0.5)})])
def test_a_dict_binds_to_a_map(key: int, value: dict[Any, Any]) -> None:
    bound = vectorizer(key)
    bound.bind("X", value)
    assert bound["X"] is value
    np.testing.assert_array_equal(outputs(bound)["Y"], [[0.5, 2]])


@pytest.mark.parametrize(
    ("key", "value", "spelled"),
    [
        (INT64, {"a": 1.0}, "Map<String,Float[]>"),
        (STRING, {1: 1.0}, "Map<Int64,Float[]>"),
        (INT64, {1.5: 1.0}, "Map<Float,Float[]>"),
        (INT64, {1: "a"}, "Map<Int64,String[]>"),
        (INT64, {1: True}, "Map<Int64,Boolean[]>"),
        (INT64, {1 << 63: 1.0}, "Map<Int64,Float[]>"),
        (INT64, np.ones(2, np.float32), "Float[2,]"),
        (INT64, ImageFeatureValue([VideoFrame(BitmapPixelFormat.BGRA8, 3, 2)]), "Image[3x2]"),
    ],
)
def test_what_does_not_fit_a_map_is_refused(key: int, value: Any, spelled: str) -> None:
    with pytest.raises(InvalidBindingError) as info:
        vectorizer(key).bind("X", value)
    assert f"incompatible type {spelled}" in str(info.value)


@pytest.mark.parametrize(("key", "labels"), [(INT64, [5, 6, 7]), (STRING, ["cat", "dog", "ü"])])
def test_a_sequence_of_maps_comes_out(key: int, labels: list[Any]) -> None:
    bound = zipmap(key)
    bound.bind("X", np.array([[0.5, 0.25, 0.125]], np.float32))
    expected = [dict(zip(labels, (0.5, 0.25, 0.125), strict=True))]
    assert outputs(bound)["Y"] == expected
    own: list[Any] = [{labels[1]: 1.0}, {}]
    bound.bind("Y", own)
    assert outputs(bound)["Y"] is own
    assert own == expected
    for wrong in ([1, 2], ["a"], [{3.5: 1.0}], [TensorFloat.create_from_array([1], [1])]):
        with pytest.raises(InvalidBindingError):
            bound.bind("Y", wrong)


def sequences() -> LearningModelBinding:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(INT64, None))
    nodes = [helper.make_node("SequenceLength", ["X"], ["N"]), helper.make_node("Identity", ["X"], ["Y"])]
    ends = [helper.make_value_info("X", kind), tensor("N", [], INT64), helper.make_value_info("Y", kind)]
    return LearningModelBinding(LearningModelSession(LearningModel.load(data(nodes, ends[:1], ends[1:]))))


def test_a_sequence_is_copied_at_bind() -> None:
    bound = sequences()
    array, held = np.array([[3]]), TensorInt64Bit.create_from_array([2], [1, 2])
    elements = [held, array]
    bound.bind("X", elements)
    array[:], held.to_numpy()[:] = 7, 8
    elements.append(array)
    assert [element.to_numpy().tolist() for element in outputs(bound)["Y"]] == [[1, 2], [[3]]]
    bound.bind("X", elements)
    assert [element.to_numpy().tolist() for element in outputs(bound)["Y"]] == [[8, 8], [[7]], [[7]]]


def test_a_placeholder_in_a_sequence_is_refused() -> None:
    bound, placeholder = sequences(), TensorInt64Bit.create([2])
    with pytest.raises(InvalidBindingError, match="X is an input, but has no associated resources to bind"):
        bound.bind("X", [np.array([1]), placeholder])
    assert placeholder.is_placeholder


def test_a_sequence_of_tensors_goes_in_and_out() -> None:
    bound = sequences()
    elements = [TensorInt64Bit.create_from_array([2], [1, 2]), np.array([[3]])]
    own: list[Any] = []
    bound.bind("X", elements)
    assert outputs(bound)["N"].to_numpy() == 2
    bound.bind("Y", own)
    result = outputs(bound)["Y"]
    assert result is own
    assert [element.to_numpy().tolist() for element in own] == [[1, 2], [[3]]]
    assert all(isinstance(element, TensorInt64Bit) for element in own)
    bound.bind("X", [])
    assert outputs(bound)["N"].to_numpy() == 0
    assert own == []


@pytest.mark.parametrize("value", [[np.ones(1, np.float32)], [{1: 1.0}], [5], np.ones(2, np.int64), {"a": 1}, "text"])
def test_what_does_not_fit_a_sequence_is_refused(value: Any) -> None:
    with pytest.raises(InvalidBindingError):
        sequences().bind("X", value)


def plain(shape: Any = (2, "n"), element: int = FLOAT) -> LearningModelBinding:
    return LearningModelBinding(LearningModelSession(LearningModel.load(unary(shape=shape, element=element))))


@pytest.mark.parametrize(
    "value",
    [
        [1.0, 2, 3, 4],
        (1.0, 2.0, 3.0, 4.0),
        array.array("f", [1, 2, 3, 4]),
        memoryview(np.array([1, 2, 3, 4], np.float32)),
        [np.array([1, 2], np.float32).tobytes(), bytearray(np.array([3, 4], np.float32).tobytes())],
    ],
    ids=["list", "tuple", "array.array", "memoryview", "buffers"],
)
def test_vectors_take_the_descriptors_shape(value: Any) -> None:
    bound = plain()
    bound.bind("x", value)
    np.testing.assert_array_equal(outputs(bound)["y"], [[1, 2], [3, 4]])


@pytest.mark.parametrize("numbers", [np.float32, np.float16])
def test_a_memoryview_of_rows_has_a_shape(numbers: Any) -> None:
    """Which is that of its array, and is not changed to the feature's."""
    rows = np.arange(8, dtype=numbers).reshape(2, 4)
    element = helper.np_dtype_to_tensor_dtype(rows.dtype)
    bound = plain(("m", "n"), element)
    bound.bind("x", rows.data)
    np.testing.assert_array_equal(outputs(bound)["y"], rows)
    for value in (rows.reshape(4, 2), rows.reshape(4, 2).data):
        with pytest.raises(SizeMismatchError, match="4,2"):
            plain((2, "n"), element).bind("x", value)


@pytest.mark.parametrize(
    ("element", "value"),
    [
        (TensorProto.FLOAT16, [0.5, 2]),
        (TensorProto.INT8, [-1, 2]),
        (STRING, ["a", "ü"]),
        (TensorProto.BOOL, [True, False]),
    ],
)
def test_vectors_of_other_kinds(element: int, value: list[Any]) -> None:
    bound = plain((2,), element)
    bound.bind("x", value)
    assert outputs(bound)["y"].to_numpy().tolist() == value


@pytest.mark.parametrize(
    ("shape", "element", "value", "kind"),
    [
        ((2, "n"), FLOAT, ["a", "b"], InvalidBindingError),
        ((2, "n"), FLOAT, array.array("I", [1, 2]), InvalidBindingError),
        ((2, "n"), FLOAT, array.array("d", [1, 2]), InvalidBindingError),
        ((2, "n"), FLOAT, [True, False], InvalidBindingError),
        ((2,), INT64, [1.5, 2], InvalidBindingError),
        ((2,), TensorProto.UINT8, [1, 256], InvalidBindingError),
        ((2,), STRING, [b"ab", b"cd"], InvalidBindingError),
        ((2, "n"), FLOAT, [1.0, 2.0, 3.0], InvalidArgumentError),
        ((2,), FLOAT, [1.0], InvalidArgumentError),
        (("m", "n"), FLOAT, [1.0], InvalidArgumentError),
        ((2,), FLOAT, [b"12345678", b"1"], InvalidArgumentError),
        ((2,), FLOAT, [], InvalidBindingError),
        ((2,), FLOAT, b"12345678", InvalidBindingError),
    ],
)
def test_vectors_that_do_not_fit(shape: Any, element: int, value: Any, kind: type[Exception]) -> None:
    bound = plain(shape, element)
    with pytest.raises(kind):
        bound.bind("x", value)
    assert dict(bound) == {}


def test_lists_and_buffers_bound_to_outputs_are_filled() -> None:
    bound = plain((2, 2))
    bound.bind("x", [1.0, 2.0, 3.0, 4.0])
    own: list[Any] = [7.0]
    bound.bind("y", own)
    assert outputs(bound)["y"] is own
    with pytest.raises(InvalidBindingError):
        bound.bind("y", ["words"])
    assert own == [1, 2, 3, 4]
    parts = [bytearray(4), bytearray(12)]
    bound.bind("y", parts)
    assert outputs(bound)["y"] is parts
    assert np.frombuffer(parts[0] + parts[1], np.float32).tolist() == [1, 2, 3, 4]
    bound.bind("y", [bytearray(4)])
    with pytest.raises(SizeMismatchError, match="has 16 bytes, but buffers of 4"):
        outputs(bound)
    winrt = [Buffer(12), Buffer(4)]
    bound.bind("y", winrt)
    assert outputs(bound)["y"] is winrt
    assert np.frombuffer(b"".join(map(bytes, winrt)), np.float32).tolist() == [1, 2, 3, 4]
    bound.bind("x", [Buffer.from_bytes(np.float32([4, 3]).tobytes()), Buffer.from_bytes(np.float32([2, 1]).tobytes())])
    outputs(bound)
    assert np.frombuffer(winrt[0], np.float32).tolist() == [4, 3, 2]
    bound.bind("x", TensorFloat.from_numpy(np.float32([[1, 2], [3, 4]])).get_as_vector_view())
    typed = array.array("f", [0] * 4)
    bound.bind("y", typed)
    outputs(bound)
    assert list(typed) == [1, 2, 3, 4]
    with pytest.raises(InvalidBindingError):
        bound.bind("y", {})


def test_lists_of_frames_are_batches() -> None:
    whole = unary(shape=("n", 3, 4, 6), denotation="IMAGE")
    session = LearningModelSession(LearningModel.load(whole))
    frames = [VideoFrame(BitmapPixelFormat.BGRA8, 6, 4) for _ in range(3)]
    for level, frame in enumerate(frames):
        frame.software_bitmap.to_numpy()[:] = 10 * level
    targets = [VideoFrame(BitmapPixelFormat.BGRA8, 6, 4) for _ in range(3)]
    binding = LearningModelBinding(session)
    binding.bind("x", frames)
    unbound = session.evaluate(binding).outputs["y"]
    binding.bind("y", targets)
    result = session.evaluate(binding).outputs["y"]
    assert result is targets
    for batch in (unbound, targets):
        assert [frame.software_bitmap.to_numpy()[0, 0, 0] for frame in batch] == [0, 10, 20]
    with pytest.raises(InvalidBindingError):
        binding.bind("x", [])


def test_an_open_reference_keeps_a_tensor_from_being_bound() -> None:
    bound = plain((2,))
    value = TensorFloat.create_from_array([2], [1, 2])
    with value.create_reference() as reference:
        assert reference.capacity == 8
        reference.get_buffer()[:4] = np.float32(5).tobytes()
        with pytest.raises(InvalidBindingError, match="outstanding memory buffer references"):
            bound.bind("x", value)
    bound.bind("x", value)
    assert outputs(bound)["y"].to_numpy().tolist() == [5, 2]
    assert (reference.is_closed, reference.capacity) == (True, 0)
    with pytest.raises(ClosedError):
        reference.get_buffer()
    value.close()
    assert value.create_reference().is_closed


def test_lengths_that_windows_ml_calls_unexpected() -> None:
    for count in (1, 3):
        with pytest.raises(InvalidArgumentError) as info:
            TensorFloat16Bit.create_from_array([2], [1.0] * count)
        assert info.value.hresult == 0x8000FFFF
    with pytest.raises(InvalidArgumentError) as info:
        TensorString.create_from_array([1], ["a", "b"])
    assert info.value.hresult == 0x8000FFFF


def test_map_views() -> None:
    bound = vectorizer(INT64)
    bound.bind("X", {10: 1.0})
    assert list(bound.first()) == [("X", {10: 1.0})]
    result = outputs(bound)
    assert [name for name, _ in result.first()] == ["Y"]
    assert (result.size, result.has_key("y")) == (1, True)
    assert result.lookup("Y") is result["Y"]


@pytest.mark.parametrize("value", [(0.0,) * 4, (bytearray(16),), b"0" * 16, [bytes(16)], [bytearray(12), b"1234"]])
def test_outputs_that_could_not_be_written_are_refused(value: Any) -> None:
    with pytest.raises(InvalidBindingError):
        plain((2, 2)).bind("y", value)


def test_outputs_of_another_size_than_the_buffers_element() -> None:
    half = plain((2,), TensorProto.FLOAT16)
    with pytest.raises(InvalidBindingError, match="cannot be written into array"):
        half.bind("y", array.array("f", [0, 0]))
    with pytest.raises(InvalidBindingError, match="Strings cannot be written into buffers"):
        plain((1,), STRING).bind("y", [bytearray(8)])


def test_empty_outputs_into_empty_buffers() -> None:
    bound = plain((0, 2))
    bound.bind("x", np.zeros((0, 2), np.float32))
    bound.bind("y", [bytearray(0)])
    assert outputs(bound)["y"] == [b""]


def test_a_refused_batch_leaves_what_was_bound() -> None:
    bound = LearningModelBinding(
        LearningModelSession(LearningModel.load(unary(shape=(2, 3, 4, 4), denotation="IMAGE")))
    )
    frames = [VideoFrame(BitmapPixelFormat.BGRA8, side, side) for side in (4, 4, 8, 4)]
    for frame, level in zip(frames, (10, 10, 200, 200), strict=True):
        frame.software_bitmap.to_numpy()[:] = level
    bound.bind("x", frames[:2])
    with pytest.raises(InvalidBindingError, match="do not lie inside"):
        bound.bind("x", frames[2:], {"BitmapBounds": [0, 0, 8, 8]})
    assert [frame.software_bitmap.to_numpy()[0, 0, 0] for frame in outputs(bound)["y"]] == [10, 10]

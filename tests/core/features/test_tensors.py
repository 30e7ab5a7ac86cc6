"""The tensor classes: factories, views, buffers, DLPack, and what they refuse."""

from __future__ import annotations

import array
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from winml_py import (
    InvalidArgumentError,
    LearningModelFeatureKind,
    SizeMismatchError,
    Tensor,
    TensorBoolean,
    TensorDouble,
    TensorFloat,
    TensorFloat16Bit,
    TensorInt8Bit,
    TensorInt16Bit,
    TensorInt32Bit,
    TensorInt64Bit,
    TensorKind,
    TensorString,
    TensorUInt8Bit,
    TensorUInt16Bit,
    TensorUInt32Bit,
    TensorUInt64Bit,
)
from winml_py.errors import IllegalCallError

CLASSES: dict[type[Tensor], tuple[TensorKind, Any]] = {
    TensorFloat: (TensorKind.FLOAT, np.float32),
    TensorFloat16Bit: (TensorKind.FLOAT16, np.float16),
    TensorDouble: (TensorKind.DOUBLE, np.float64),
    TensorInt8Bit: (TensorKind.INT8, np.int8),
    TensorUInt8Bit: (TensorKind.UINT8, np.uint8),
    TensorInt16Bit: (TensorKind.INT16, np.int16),
    TensorUInt16Bit: (TensorKind.UINT16, np.uint16),
    TensorInt32Bit: (TensorKind.INT32, np.int32),
    TensorUInt32Bit: (TensorKind.UINT32, np.uint32),
    TensorInt64Bit: (TensorKind.INT64, np.int64),
    TensorUInt64Bit: (TensorKind.UINT64, np.uint64),
    TensorBoolean: (TensorKind.BOOLEAN, np.bool_),
    TensorString: (TensorKind.STRING, object),
}
NUMERIC = [cls for cls in CLASSES if cls is not TensorString]


def sample(cls: type[Tensor]) -> list[Any]:
    if cls is TensorString:
        return ["", "a", "ü 漢字", "d", "e", "f"]
    return [True, False, True, True, False, False] if cls is TensorBoolean else [0, 1, 2, 3, 4, 100]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_factory_holds_the_same_values(cls: type[Tensor]) -> None:
    kind, dtype = CLASSES[cls]
    values = sample(cls)
    whole = np.array(values, dtype)
    made = [
        cls.create_from_array([2, 3], values),
        cls.create_from_array((2, -1), np.array(values, cls.view_dtype)),
        cls.create_from_iterable([2, 3], iter(values)),
        cls.create_from_shape_array_and_data_array([2, 3], values),
        cls.from_numpy(whole.reshape(2, 3)),
    ]
    for tensor in made:
        assert (tensor.kind, tensor.tensor_kind) == (LearningModelFeatureKind.TENSOR, kind)
        assert tuple(tensor.shape) == (2, 3)
        assert tensor.to_numpy().dtype == dtype
        assert list(tensor.get_as_vector_view()) == values
        np.testing.assert_array_equal(np.asarray(tensor), whole.reshape(2, 3))


@pytest.mark.parametrize("cls", CLASSES)
def test_data_are_copied_and_views_are_copies(cls: type[Tensor]) -> None:
    values = np.array(sample(cls), cls.view_dtype)
    tensor = cls.create_from_array([6], values)
    view = tensor.get_as_vector_view()
    values[:] = values[::-1].copy()
    assert list(tensor.get_as_vector_view()) == sample(cls)
    tensor.to_numpy()[:] = tensor.to_numpy()[::-1].copy()
    assert list(view) == sample(cls)
    assert list(tensor.get_as_vector_view()) == sample(cls)[::-1]


@pytest.mark.parametrize("cls", NUMERIC)
def test_from_numpy_and_buffers_share_memory(cls: type[Tensor]) -> None:
    whole = np.array(sample(cls), cls.dtype)
    tensor = cls.from_numpy(whole)
    over = cls.create_from_buffer([-1, 3], whole)
    whole[1] = whole[5]
    for shared in (tensor, over):
        assert np.shares_memory(shared.to_numpy(), whole)
        assert shared.to_numpy().reshape(-1)[1] == whole[5]
        assert bytes(shared.get_buffer()) == whole.tobytes()
    tensor.get_buffer().cast("B")[:] = bytes(whole.nbytes)
    assert not whole.any()


def test_memoryview_of_a_tensor() -> None:
    tensor = TensorFloat.create([2])
    if sys.version_info >= (3, 12):
        memoryview(tensor)[1] = 2.5
        assert list(tensor.to_numpy()) == [0, 2.5]
    else:
        with pytest.raises(TypeError, match="bytes-like"):
            memoryview(tensor)


def test_from_numpy_copies_only_what_is_not_contiguous() -> None:
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)
    turned = TensorFloat.from_numpy(grid.T)
    np.testing.assert_array_equal(turned.to_numpy(), grid.T)
    assert not np.shares_memory(turned.to_numpy(), grid)
    assert np.shares_memory(TensorFloat.from_numpy(grid[1:]).to_numpy(), grid)
    assert TensorFloat.from_numpy(np.float32(3)).shape == ()


def test_from_numpy_casts_nothing() -> None:
    with pytest.raises(InvalidArgumentError, match=r"float32 for TensorFloat, got float64. Cast it: array.astype"):
        TensorFloat.from_numpy(np.zeros(2))
    with pytest.raises(InvalidArgumentError, match="takes float32 elements, not int64"):
        TensorFloat.create_from_array([2], np.zeros(2, np.int64))
    with pytest.raises(InvalidArgumentError, match=r"got >f4\. Cast it"):
        TensorFloat.from_numpy(np.zeros(2, ">f4"))


def test_float16_takes_float32_and_halves() -> None:
    halves = np.float16([1.5, 2.5])
    shared = TensorFloat16Bit.from_numpy(halves)
    halves[0] = 7
    assert shared.get_as_vector_view() == [7, 2.5]
    numbers = np.float32([2049, 2051, 70000, 1e-8])  # halves are whole evens there
    cast = TensorFloat16Bit.from_numpy(numbers)
    assert cast.to_numpy().dtype == np.float16
    assert cast.get_as_vector_view() == [2048, 2052, float("inf"), 0]
    with pytest.raises(InvalidArgumentError):
        TensorFloat16Bit.from_numpy(np.zeros(2))


def test_a_list_with_a_number_beyond_the_type_is_refused() -> None:
    for cls, number in ((TensorFloat16Bit, 1e6), (TensorFloat, 1e60)):
        with pytest.raises(InvalidArgumentError, match=f"outside the range of {cls.dtype.name}"):
            cls.create_from_array([1], [number])


def test_float16_takes_and_gives_float32() -> None:
    exact = [0.1, 1 + 2**-11, 65504.0, 2**-24, -0.0]  # the second lies between two halves: even wins
    tensor = TensorFloat16Bit.create_from_array([5], exact)
    view = tensor.get_as_vector_view()
    expected = np.array(exact, np.float32).astype(np.float16)
    np.testing.assert_array_equal(tensor.to_numpy(), expected)
    assert list(view) == [float(value) for value in expected]
    assert np.asarray(view).dtype == np.float32
    np.testing.assert_array_equal(TensorFloat16Bit.create_from_array([5], expected).to_numpy(), expected)


def test_int8_travels_as_uint8() -> None:
    tensor = TensorInt8Bit.create_from_array([3], np.array([1, 128, 255], np.uint8))
    assert list(tensor.to_numpy()) == [1, -128, -1]
    assert list(tensor.get_as_vector_view()) == [1, 128, 255]


@pytest.mark.parametrize("cls", NUMERIC)
def test_dlpack_both_ways(cls: type[Tensor]) -> None:
    whole = np.array(sample(cls), cls.dtype)
    tensor = cls.from_dlpack(whole)
    assert np.shares_memory(tensor.to_numpy(), whole)
    back = np.from_dlpack(tensor)  # type: ignore[arg-type]
    assert np.shares_memory(back, whole)
    assert tensor.__dlpack_device__() == (1, 0)


def test_a_placeholder_has_no_memory_until_it_is_looked_at() -> None:
    for cls in CLASSES:
        nothing = cls.create()
        assert (nothing.shape, nothing.is_placeholder) == ((), True)
        with pytest.raises(IllegalCallError, match="has no data yet"):
            nothing.get_as_vector_view()
        shaped = cls.create([2, 0, 3])
        assert (shaped.shape, shaped.is_placeholder) == ((2, 0, 3), True)
        assert shaped.to_numpy().shape == (2, 0, 3)
        assert not shaped.is_placeholder
    assert list(TensorInt32Bit.create([2]).get_as_vector_view()) == [0, 0]
    assert list(TensorString.create([2]).get_as_vector_view()) == ["", ""]


@pytest.mark.parametrize("shape", [[-2], [-1, -1], ["a"], [2**62, 2**62], 5])
def test_shapes_that_cannot_be(shape: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        TensorFloat.create_from_array(shape, [1.0, 2.0])


def test_length_rules() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Argument size \(4\) exceeds the tensor size \(3\)"):
        TensorFloat.create_from_array([3], [1, 2, 3, 4])
    with pytest.raises(InvalidArgumentError, match="exceeds"):
        TensorFloat.create_from_iterable([3], iter(range(4)))
    assert list(TensorFloat.create_from_array([3], [1]).get_as_vector_view()) == [1, 0, 0]
    with pytest.raises(InvalidArgumentError, match="are not divisible by 3"):
        TensorFloat.create_from_array([3, -1], [1, 2, 3, 4])
    free = TensorFloat.create([-1, -1, 3])
    assert (list(free.shape), free.is_placeholder) == ([-1, -1, 3], True)
    with pytest.raises(IllegalCallError, match="no data yet"):
        free.to_numpy()
    with pytest.raises(InvalidArgumentError, match="is invalid"):
        TensorFloat.create([-2, 3])
    with pytest.raises(InvalidArgumentError, match="holds 4 elements, but the shape"):
        TensorFloat.create_from_buffer([3], np.zeros(4, np.float32))
    with pytest.raises(InvalidArgumentError, match="5 bytes are not a whole number"):
        TensorFloat.create_from_buffer([1], bytearray(5))
    with pytest.raises(InvalidArgumentError, match="C-contiguous"):
        TensorFloat.create_from_buffer([2], np.zeros((2, 2), np.float32)[:, 0])


def test_elements_of_another_type() -> None:
    with pytest.raises(InvalidArgumentError, match="float32 elements: got text elements"):
        TensorFloat.create_from_array([2], [1, "word"])
    with pytest.raises(InvalidArgumentError):
        TensorUInt8Bit.create_from_array([1], [300])
    with pytest.raises(InvalidArgumentError, match="str elements, not int"):
        TensorString.create_from_array([1], [5])
    assert list(TensorFloat.create_from_array([2], array.array("f", [1, 2])).get_as_vector_view()) == [1, 2]


def test_strings_have_no_buffer() -> None:
    with pytest.raises(IllegalCallError, match="cannot be created from IBuffers!"):
        TensorString.create_from_buffer([1], b"abc")
    with pytest.raises(IllegalCallError, match="has no buffer"):
        TensorString.create([1]).get_buffer()
    assert list(TensorString.from_numpy(np.array(["a", "b"])).get_as_vector_view()) == ["a", "b"]


@pytest.mark.parametrize("cls", CLASSES)
def test_after_close_only_shape_and_kind_remain(cls: type[Tensor]) -> None:
    with cls.create_from_array([6], sample(cls)) as tensor:
        kept = tensor.to_numpy()
    tensor.close()
    assert (tensor.shape, tensor.tensor_kind) == ((6,), CLASSES[cls][0])
    for use in (tensor.to_numpy, tensor.get_as_vector_view, tensor.get_buffer, lambda: tensor.is_placeholder):
        with pytest.raises(IllegalCallError, match="closed") as info:
            use()
        assert info.value.hresult == 0x8000000E
    assert list(kept) == list(np.array(sample(cls), cls.dtype))  # a view owns the memory
    assert "closed" in repr(tensor)


@pytest.mark.parametrize("cls", [*CLASSES, Tensor])
def test_there_are_no_constructors(cls: type[Tensor]) -> None:
    with pytest.raises(TypeError, match="no constructor"):
        cls()


def test_a_vector_view_is_a_sequence() -> None:
    view = TensorFloat.create_from_array([3], [1, 2, 3]).get_as_vector_view()
    assert (len(view), view.size, view[0], view[-1], view.get_at(1)) == (3, 3, 1.0, 3.0, 2.0)
    assert (view[1:], view.index(2), 3 in view, view == [1, 2, 3]) == ([2, 3], 1, True, True)
    assert repr(view) == "VectorView([1., 2., 3.])"
    with pytest.raises(IndexError):
        view[3]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(view)[0] = 5


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0)), st.booleans())
def test_any_array_survives_the_round_trip(values: Any, turned: bool) -> None:
    values = values.T if turned else values
    tensor = TensorFloat.from_numpy(values)
    np.testing.assert_array_equal(tensor.to_numpy(), values)
    assert tuple(tensor.shape) == values.shape
    again = TensorFloat.create_from_array(values.shape, values)
    np.testing.assert_array_equal(again.to_numpy(), values)


def test_new_numbers_are_written_into_a_tensors_memory() -> None:
    array = np.zeros((2, 2), np.float32)
    tensor = TensorFloat.from_numpy(array)
    tensor.write(np.float32([[1, 2], [3, 4]]))
    assert array.tolist() == [[1, 2], [3, 4]]
    made = TensorInt64Bit.create((3,))
    made.write(np.arange(3))
    assert made.to_numpy().tolist() == [0, 1, 2]
    with pytest.raises(SizeMismatchError, match=r"shape \(2, 2\) cannot hold an array of shape \(4,\)"):
        tensor.write(np.zeros(4, np.float32))
    with pytest.raises(InvalidArgumentError, match="float32 for TensorFloat, got float64"):
        tensor.write(np.zeros((2, 2)))  # type: ignore[arg-type]
    array.flags.writeable = False
    with pytest.raises(IllegalCallError, match="read-only"):
        TensorFloat.from_numpy(array).write(np.ones((2, 2), np.float32))
    tensor.close()
    with pytest.raises(IllegalCallError, match="closed"):
        tensor.write(np.ones((2, 2), np.float32))

"""Numbers and texts of Python and numpy, alone and in lists: each arrives as it is, or is refused."""

from __future__ import annotations

import array
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, FLOAT16, INT64, data, tensor, unary
from helpers.sessions import open_binding, open_session
from winml_py import (
    InvalidArgumentError,
    InvalidBindingError,
    TensorDouble,
    TensorFloat,
    TensorFloat16Bit,
    TensorInt64Bit,
    TensorUInt8Bit,
)

KINDS = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT8: np.int8,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT16: np.int16,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT32: np.int32,
    TensorProto.UINT32: np.uint32,
    TensorProto.INT64: np.int64,
    TensorProto.UINT64: np.uint64,
    TensorProto.BOOL: np.bool_,
    TensorProto.STRING: np.object_,
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "list": lambda value: [value, value],
    "tuple": lambda value: (value, value),
    "nested": lambda value: [[value], (value,)],
    "single": lambda value: value,
}
SHAPES = {"nested": [2, 1], "single": [1, 1]}


def make_scalars() -> list[Any]:
    scalars: list[Any] = [0, 3, -3, 300, 70000, 2**31, 2**63, 2**64, 10**39, 10**400, -(10**400), True, "a", None, 1j]
    scalars += [0.1, 2.5, -2.0, 65519.9, 65520.0, -3.4028235e38, 3.4028235677973366e38, 1e300, math.inf, math.nan]
    scalars += [Decimal(1), Fraction(1, 2), object()]
    for code in np.typecodes["AllInteger"]:
        limits = np.iinfo(code)
        scalars += [np.dtype(code).type(number) for number in (0, 3, limits.min, limits.max)]
    for code in np.typecodes["Float"]:
        numbers = (0, 2.5, -0.1, math.inf, math.nan, np.finfo(code).max, np.finfo(code).min)
        scalars += [np.dtype(code).type(number) for number in numbers]
    scalars += [np.dtype(code).type(1) for code in np.typecodes["Complex"]]
    return [*scalars, np.bool_(True), np.str_("a"), np.bytes_(b"abcd"), np.timedelta64(1, "s"), np.datetime64(1, "s")]


def find_expected(value: Any, dtype: Any) -> Any:
    """The element that numpy makes of a value; None where that would lose more than precision."""
    if dtype is np.object_:
        return value if isinstance(value, str) else None
    if dtype is np.bool_ or isinstance(value, (bool, np.bool_)):
        return value if dtype is np.bool_ and isinstance(value, (bool, np.bool_)) else None
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64)
    if np.dtype(dtype).kind in "iu":
        return value if is_whole and np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max else None
    if not is_whole and not isinstance(value, (float, np.floating)):
        return None
    try:
        with np.errstate(over="ignore"):
            element = np.array([value], dtype)[0]
    except OverflowError:
        return None
    return None if np.isinf(element) and value not in (math.inf, -math.inf) else element


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", KINDS, ids=TensorProto.DataType.Name)
def test_a_scalar_arrives_as_numpy_converts_it_or_is_refused(element: int, form: str) -> None:
    dtype, shape = KINDS[element], SHAPES.get(form, [2])
    session = open_session(unary(shape=shape, element=element))
    accepted = 0
    for scalar in make_scalars():
        value, expected = FORMS[form](scalar), find_expected(scalar, dtype)
        if expected is None:
            with pytest.raises((InvalidBindingError, InvalidArgumentError)):
                session.evaluate_features({"x": value})
            continue
        result = session.evaluate_features({"x": value}).outputs["y"].to_numpy()
        assert (result.shape, result.dtype) == (tuple(shape), dtype), repr(scalar)
        np.testing.assert_array_equal(result, np.full(shape, expected, dtype), err_msg=repr(scalar))
        accepted += 1
    assert accepted >= 2


@pytest.mark.parametrize(
    ("element", "value", "says"),
    [
        (FLOAT, [1.0, 1e300], r"numbers from -3\.40282e\+38 to 3\.40282e\+38"),
        (FLOAT16, [70000], r"numbers from -65504 to 65504"),
        (TensorProto.DOUBLE, [10**400], r"numbers from -1\.79769e\+308"),
        (INT64, [2**63], r"whole numbers from -9223372036854775808"),
    ],
)
def test_a_number_beyond_the_type_is_told_the_range(element: int, value: list[Any], says: str) -> None:
    with pytest.raises(InvalidBindingError, match=says):
        open_binding(unary(element=element)).bind("x", value)


@pytest.mark.parametrize("pair", [{1: 1e39}, {1: 10**400}, {2**63: 1.0}])
def test_a_number_in_a_map_fits_its_type(pair: dict[int, float]) -> None:
    kind = helper.make_value_info("x", helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [])))
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[1])
    session = open_session(data([node], [kind], [tensor("y", [1, 1])], domains={"ai.onnx.ml": 3}))
    assert session.evaluate_features({"x": {1: np.float64(0.5)}}).outputs["y"].to_numpy() == 0.5
    with pytest.raises(InvalidBindingError):
        session.evaluate_features({"x": pair})


@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (TensorFloat, 1e300),
        (TensorFloat, -(10**400)),
        (TensorFloat, np.float64(1e300)),
        (TensorFloat16Bit, 70000),
        (TensorDouble, np.timedelta64(1, "s")),
        (TensorUInt8Bit, np.int64(300)),
        (TensorUInt8Bit, -1),
        (TensorInt64Bit, np.uint64(2**63)),
    ],
)
def test_a_tensor_is_not_made_of_numbers_beyond_its_type(cls: Any, value: Any) -> None:
    for values in ([value], (0, value)):
        with pytest.raises(InvalidArgumentError):
            cls.create_from_array([len(values)], values)


def test_masks_and_infinity_are_numbers_of_a_tensor() -> None:
    values = [-3.4028235e38, math.inf, -math.inf]
    assert TensorFloat.create_from_array([3], values).to_numpy().tolist() == np.float32(values).tolist()
    assert TensorFloat16Bit.create_from_array([1], [65519]).to_numpy() == 65504


@pytest.mark.parametrize(
    "buffer",
    [
        array.array("d", [1, 2]),
        memoryview(np.array([1.0, 2.0])),
        array.array("i", [1, 2]),
        memoryview(np.ones(2, "f2")),
    ],
)
def test_buffers_of_another_type_are_not_read_as_bytes(buffer: Any) -> None:
    for name in "xy":
        with pytest.raises(InvalidBindingError):
            open_binding(unary(shape=["n"])).bind(name, [buffer])


def test_an_output_is_not_written_into_a_buffer_with_gaps() -> None:
    with pytest.raises(InvalidBindingError, match="read-only or have gaps"):
        open_binding(unary(shape=["n"])).bind("y", [memoryview(np.zeros(8, np.uint8))[::2]])


def test_buffers_of_bytes_or_of_the_features_type_are_joined() -> None:
    numbers = np.float32([1, 2, 3, 4, 5, 6])
    rows = numbers.reshape(3, 2)[::2]  # not contiguous
    parts = [array.array("f", numbers[2:4]), memoryview(rows), numbers[:1].tobytes(), memoryview(np.float32([]))]
    result = open_session(unary(shape=["n"])).evaluate_features({"x": parts}).outputs["y"]
    assert result.to_numpy().tolist() == [3, 4, 1, 2, 5, 6, 1]

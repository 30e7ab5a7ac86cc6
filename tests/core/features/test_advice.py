"""The hints of errors at bind: each is followed, and what it binds is right."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from helpers.sessions import open_binding, open_session
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SizeMismatchError,
    WinMLError,
)
from winml_py.testing import FakeDevice

SCOPE = {"np": np, "BitmapPixelFormat": BitmapPixelFormat, "ImageFeatureValue": ImageFeatureValue}
ARRAY = r"array(?:\.\w+(?:\((?:[^()]|\([^()]*\))*\))?|\[[^\]]*\])+"


def find_code(pattern: str, error: WinMLError) -> str:
    found = re.search(pattern, error.hint)
    assert found, str(error)
    return found[0]


def refuse(bound: LearningModelBinding, value: Any) -> WinMLError:
    with pytest.raises((InvalidBindingError, SizeMismatchError)) as info:
        bound.bind("x", value)
    return info.value


def bind(bound: LearningModelBinding, value: Any) -> Any:
    bound.bind("x", value)
    return bound._session.evaluate(bound).outputs["y"].to_numpy()


# Sizes


CHW = (3, 8, 6)


@pytest.mark.parametrize("image", ["", "IMAGE"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("shape", [(1, 3, 8, 6), (1, 3, "h", "w"), ("n", 3, "h", "w"), (1, 8, 6, 3)])
def test_a_picture_is_never_scrambled(shape: Any, order: tuple[int, ...], dtype: Any, image: str) -> None:
    """Both usual orders arrive as a picture; of others, channels stay channels, or nothing is advised."""
    if image and shape[-1] == 3:
        pytest.skip("an image has its channels first")
    whole = np.random.default_rng(0).integers(0, 250, CHW).astype(dtype)
    array = whole.transpose(order)
    node = helper.make_node("Identity", ["x"], ["y"])
    bound = open_binding(data([node], [tensor("x", shape, FLOAT, image)], [tensor("y", shape)]))
    error = refuse(bound, array)
    assert "reshape" not in str(error)
    code = re.search(ARRAY, error.hint)
    assert code or order not in {(0, 1, 2), (1, 2, 0)} or shape[-1] == 3, str(error)
    if not code or (dtype != np.float32 and code[0] == "array.astype(np.float32)"):
        assert (
            f"Bind an array of shape {' x '.join(str(s) if isinstance(s, int) else 'any' for s in shape)}" in error.hint
        )
        return
    result = bind(bound, eval(code[0], SCOPE, {"array": array}))
    if "h" not in shape or order in {(0, 1, 2), (1, 2, 0)}:
        expected = whole[None].transpose(0, 2, 3, 1) if shape[-1] == 3 else whole[None]
        np.testing.assert_array_equal(result, expected)
    else:
        assert [set(plane.ravel().tolist()) for plane in result[0]] == [set(plane.ravel().tolist()) for plane in whole]


@pytest.mark.parametrize(
    ("shape", "sizes", "code"),
    [
        ([1, 3, 8, 6], (8, 6, 3), "array.transpose(2, 0, 1)[None]"),
        (["n", 3, "h", "w"], (5, 8, 6, 3), "array.transpose(0, 3, 1, 2)"),
        (["n", "c", "h", "w"], (8, 6, 3), "array.transpose(2, 0, 1)[None]"),
        (["n", "h", "w", 3], (8, 6, 3), "array[None]"),
        ([1, 1, 28, 28], (28, 28), "array[None, None]"),
        (["n", 4], (4,), "array[None]"),
    ],
)
def test_the_advice_for_an_array_of_another_shape(shape: Any, sizes: tuple[int, ...], code: str) -> None:
    array = np.random.default_rng(0).random(sizes, np.float32)
    bound = open_binding(unary(shape=shape))
    hint = refuse(bound, array).hint
    assert re.search(rf"ind {re.escape(code)}(?:\.|;| if its)", hint), hint
    expected = eval(code, SCOPE, {"array": array})
    np.testing.assert_array_equal(bind(bound, expected), expected)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        *(([3, 4], (2, 6)), ([1, 4, 3], (12, 2)), ([1, 3, 8, 6], (8, 6, 2)), ([1, 3, 4, 4], (8, 6))),
        *((["n", "h", "w", 1], (5, 8, 6)), ([3, "h", "w"], (8, 6, 3)), ([1, 80, "t"], (100, 80)), (["n", 4], (8,))),
        *((["n", 8, 6, 3], (5, 3, 8, 6)), (["n", "c", "h", "w"], (8, 6)), ([1, 3, 8, 6], (8, 6, 4))),
    ],
)
def test_another_shape_is_named_where_no_code_is_sure(shape: Any, sizes: tuple[int, ...]) -> None:
    hint = refuse(open_binding(unary(shape=shape)), np.zeros(sizes, np.float32)).hint
    assert not re.search(ARRAY, hint)
    assert hint.endswith(f"array of shape {' x '.join(str(s) if isinstance(s, int) else 'any' for s in shape)}.")


def test_a_picture_of_another_size_has_to_be_resized() -> None:
    for dtype in (np.float32, np.float64):
        hint = refuse(open_binding(unary(shape=(1, 3, 224, 224))), np.zeros((300, 451, 3), dtype)).hint
        assert hint.endswith("Expected rank 4, got 3. Bind an array of shape 1 x 3 x 224 x 224.")


# Pictures of bytes


@pytest.mark.parametrize("sizes", [(8, 6, 3), CHW, (1, 8, 6, 3), (1, *CHW), (8, 6, 4), (8, 6)])
@pytest.mark.parametrize("image", ["", "IMAGE"])
@pytest.mark.filterwarnings("ignore::winml_py.errors.MissingContractWarning")
def test_bytes_become_pictures(sizes: tuple[int, ...], image: str) -> None:
    array = np.random.default_rng(0).integers(0, 256, sizes, np.uint8)
    ends = [tensor("x", (1, 3, 8, 6), FLOAT, image)], [tensor("y", (1, 3, 8, 6))]
    bound = open_binding(data([helper.make_node("Identity", ["x"], ["y"])], *ends))
    if image and sizes == (8, 6):
        assert bind(bound, array).shape == (1, 3, 8, 6)
        return
    code = find_code(r"ImageFeatureValue\.from_array\(array[^B]*BitmapPixelFormat\.\w+\)", refuse(bound, array))
    pixels = array.reshape(sizes[-3:])
    pixels = pixels.transpose(1, 2, 0) if sizes[-3:] == CHW else pixels
    bgr = pixels[..., 2::-1] if pixels.ndim == 3 else np.stack([pixels] * 3, -1)
    result = bind(bound, eval(code, SCOPE, {"array": array}))
    np.testing.assert_array_equal(result, bgr.transpose(2, 0, 1)[None].astype(np.float32))


# Types


def make_typed_values() -> list[Any]:
    numbers = [[1, 2], [3, 4]]
    return [
        (FLOAT, np.array(numbers, np.float64), numbers),
        (FLOAT, np.array([["1", "2"], ["3", "4"]]), numbers),
        (INT64, np.float32([1, 2]), [[1, 2]]),
        (INT64, np.float32(numbers), numbers),
        (STRING, np.array(numbers), [["1", "2"], ["3", "4"]]),
    ]


@pytest.mark.parametrize(("element", "array", "expected"), make_typed_values())
def test_an_array_of_another_type_is_cast_as_the_hint_says(element: int, array: Any, expected: Any) -> None:
    bound = open_binding(unary(shape=["n", 2], element=element))
    code = find_code(rf"np\.char\.decode\(array\)|{ARRAY}", refuse(bound, array))
    assert bind(bound, eval(code, SCOPE, {"array": array})).tolist() == expected


@pytest.mark.parametrize(
    ("element", "value", "says"),
    [
        (FLOAT, [[1.0, 2.0], [3.0]], "with rows of equal length"),
        (FLOAT, [np.zeros((2, 2)), np.zeros((2, 3))], "a list of numbers"),
        (FLOAT, [1.0, None], "a list of numbers"),
        (FLOAT, [1.0, 1e300], r"a list of numbers from -3\.40282e\+38 to 3\.40282e\+38"),
        (FLOAT, np.array([[1.0, None]], object), "Bind a numpy array of float32, a tensor such as TensorFloat"),
        (INT64, np.array([[1, 2.5]], object), "a list of whole numbers from -9223372036854775808"),
        (STRING, [b"a", b"b"], "Bind a numpy array of str, a tensor such as TensorString"),
    ],
)
def test_what_is_wrong_with_a_list_is_said(element: int, value: Any, says: str) -> None:
    assert re.search(says, refuse(open_binding(unary(shape=["n", 2], element=element)), value).hint)


def test_texts_that_are_bytes_or_missing_say_how_they_become_texts() -> None:
    bound = open_binding(unary(shape=[1], element=STRING))
    for value, hint in ((b"a", "element.decode()"), (float("nan"), "str(element)")):
        with pytest.raises(InvalidArgumentError) as info:
            bound.bind("x", np.array([value], object))
        assert hint in info.value.hint


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "INT4"])
def test_a_type_that_windows_ml_lacks_is_named(name: str) -> None:
    """The remedy is made, too: an input of float32 and a Cast."""
    element = TensorProto.DataType.Value(name)
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)]
    bound = open_binding(data(nodes, [tensor("x", [2], element)], [tensor("y", [2])], opset=21, ir_version=10))
    for value in (np.ones(2, np.float32), [1.0, 2.0]):
        error = refuse(bound, value)
        assert f"expects {name.lower()}[2,]" in str(error)
        assert f"make x float32 and add a Cast to {name.lower()} after it" in error.hint
        assert "Undefined" not in str(error)
    nodes[0] = helper.make_node("Cast", ["inner"], ["y"], to=FLOAT)
    nodes.insert(0, helper.make_node("Cast", ["x"], ["inner"], to=element))
    bound = open_binding(data(nodes, [tensor("x", [2])], [tensor("y", [2])], opset=21, ir_version=10))
    assert bind(bound, np.ones(2, np.float32)).tolist() == [1, 1]


def test_a_binding_of_another_session_says_so() -> None:
    first, second = open_session(unary()), open_session(unary())
    with pytest.raises(InvalidArgumentError, match="got one of another session"):
        first.evaluate(LearningModelBinding(second))


def test_no_hint_lists_nothing() -> None:
    """A model without inputs, and a map without entries."""
    constant = helper.make_node("Constant", [], ["y"], value_floats=[1.0])
    whole = data([constant], [], [tensor("y", [1])])
    (result,) = open_session(whole).evaluate_many([np.zeros(1)])
    hints = [result.error.hint if result.error else ""]
    for spell in (
        lambda: open_session(whole, input_shape_overrides={"x": (1,)}),
        lambda: LearningModel.load(whole).contracts.update({"x": ImageContract()}),
        lambda: result_of_a_map()["nothing"],
    ):
        with pytest.raises(WinMLError) as info:
            spell()
        hints.append(info.value.hint)
    assert all(re.search("none|nothing", hint) for hint in hints), hints


def result_of_a_map() -> Any:
    """An output that is an empty map, of a device that a function replaces."""
    end = helper.make_value_info("y", helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, [])))
    node = helper.make_node("CastMap", ["y0"], ["y"], domain="ai.onnx.ml")
    whole = data([node], [tensor("x", [1])], [end], domains={"ai.onnx.ml": 3})
    session = LearningModelSession(LearningModel.load(whole), FakeDevice(lambda _: {"y": {}}))
    return session.evaluate_features({"x": [1.0]}).outputs["y"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_of_a_picture_are_asked_for_their_range(dtype: Any) -> None:
    hint = refuse(open_binding(unary(shape=(1, 3, 8, 6))), np.zeros((8, 6, 3), dtype)).hint
    assert "[None] if its values are already prepared for the model; otherwise, bind a uint8 picture." in hint


def test_integers_that_a_cast_may_wrap_are_asked_for_their_range() -> None:
    hint = refuse(open_binding(unary("Identity", (2,), TensorProto.INT32)), np.array([2**40, 1])).hint
    assert hint.endswith("array.astype(np.int32) if its values are whole numbers from -2147483648 to 2147483647.")


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    refuse(open_binding(unary(shape=(1, 3, 8, 6))), endless)

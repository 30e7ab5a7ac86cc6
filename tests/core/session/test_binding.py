"""LearningModelBinding: what binds, what is refused and in which words, and what the map shows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper
from PIL import Image

from helpers.models import FLOAT16, STRING, data, model, tensor, unary
from helpers.sessions import open_binding, open_session
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    SizeMismatchError,
    SoftwareBitmap,
    TensorBoolean,
    TensorDouble,
    TensorFloat,
    TensorFloat16Bit,
    TensorString,
    TensorUInt8Bit,
    VideoFrame,
    WinMLError,
)
from winml_py.errors import MissingContractWarning, MissingInputError, NotBoundError
from winml_py.winrt.windows.ai import machinelearning


@pytest.fixture
def plain() -> LearningModelBinding:
    return open_binding(unary(shape=(2, "n")))


@pytest.fixture
def picture() -> LearningModelBinding:
    """An image feature of 3 channels, 4 x 6."""
    return open_binding(unary(shape=(1, 3, 4, 6), denotation="IMAGE"))


def refusal(target: LearningModelBinding, name: str, value: Any, properties: Any = None) -> WinMLError:
    with pytest.raises(WinMLError) as info:
        target.bind(name, value, properties)
    assert info.value.hint
    assert dict(target) == {}
    return info.value


def test_an_unknown_name_is_answered_with_the_known_ones(plain: LearningModelBinding) -> None:
    error = refusal(plain, "z", np.zeros((2, 1), np.float32))
    assert isinstance(error, InvalidBindingError)
    assert str(error) == "The model has no variable with name z. Its inputs: x; its outputs: y."
    assert error.hresult == 0x88900002


def test_names_match_in_any_case_and_resolve_to_the_models_spelling() -> None:
    ends = [tensor("Image", [1]), tensor("Result", [1])]
    bound = open_binding(data([helper.make_node("Neg", ["Image"], ["Result"])], ends[:1], ends[1:]))
    bound.bind("IMAGE", np.ones(1, np.float32))
    result = bound._session.evaluate(bound)
    assert list(bound) == ["Image"]
    assert list(result.outputs) == ["Result"]
    assert result.outputs["result"] is result.outputs["Result"]
    assert result.outputs["RESULT"].to_numpy() == [-1]


def test_names_that_differ_only_in_case_are_told_apart() -> None:
    ends = [tensor("x", [1]), tensor("X", [1]), tensor("Y", [1])]
    whole = data([helper.make_node("Sub", ["x", "X"], ["Y"])], ends[:2], ends[2:])
    bound = open_binding(whole)
    bound.bind("X", np.array([2], np.float32))
    assert "x" not in bound
    bound.bind("x", np.array([5], np.float32))
    assert bound._session.evaluate(bound).outputs["y"].to_numpy() == [3]


WRONG_TENSORS = [
    # value, class, HRESULT, what the message must say
    (TensorDouble.create_from_array([2, 1], [1, 2]), InvalidBindingError, "Double[2,1,]. Bind a TensorFloat"),
    (np.zeros((2, 1)), InvalidBindingError, "Double[2,1,]"),
    (TensorBoolean.create([2, 1]), InvalidBindingError, "Boolean[2,1,]"),
    (TensorFloat16Bit.create([2, 1]), InvalidBindingError, "Float16[2,1,]"),
    (np.zeros(2, np.float32), SizeMismatchError, "Expected rank 2, got 1"),
    (np.float32(2), SizeMismatchError, "got 0: bind an array of shape 2 x any, not a single number."),
    (np.zeros((3, 1), np.float32), SizeMismatchError, "Dimension 0 is 3, not 2."),
    (np.zeros((2, 1, 1), np.float32), SizeMismatchError, "got 3"),
    (np.array([["a"], ["b"]]), InvalidBindingError, "String[2,1,]"),
]


@pytest.mark.parametrize(("value", "kind", "words"), WRONG_TENSORS)
def test_a_tensor_that_does_not_fit_is_refused_in_windows_mls_words(
    plain: LearningModelBinding, value: Any, kind: type[WinMLError], words: str
) -> None:
    error = refusal(plain, "x", value)
    assert type(error) is kind
    assert str(error).startswith(
        "Model variable x, expects Float[2,-1,], but binding was attempted with an incompatible type "
    )
    assert words in str(error)


@pytest.mark.parametrize("value", ["text", b"bytes", 5, None, object(), [object()], {1, 2}])
def test_what_is_no_feature_value_is_refused(plain: LearningModelBinding, value: Any) -> None:
    error = refusal(plain, "x", value)
    assert type(error) is InvalidBindingError
    expected = "The model variable x cannot be bound with the provided type: it expects Float[2,-1,], got "
    assert str(error).startswith(f"{expected}{type(value).__name__}")


def test_a_path_is_bound_as_its_picture() -> None:
    assert "There is no such picture" in str(refusal(open_binding(unary(shape=(1, 3, 4, 6))), "x", "photo.jpg"))
    windows_ml = machinelearning.LearningModel.load(unary(shape=(1, 3, 4, 6)))
    of_windows_ml = LearningModelBinding(LearningModelSession(windows_ml))
    for value in ("photo.jpg", Path("photo.jpg"), b"GIF89a", io.BytesIO(), "array.npy"):
        error = refusal(of_windows_ml, "x", value)
        assert isinstance(error, InvalidBindingError)
        assert "ImageFeatureValue.load(path)" in str(error)


def test_dtypes_without_a_tensor_class(plain: LearningModelBinding) -> None:
    assert "got an array of complex64" in str(refusal(plain, "x", np.zeros((2, 1), np.complex64)))


def test_placeholders_as_inputs(plain: LearningModelBinding) -> None:
    for placeholder in (TensorFloat.create(), TensorFloat.create([2, 3])):
        assert "no associated resources to bind" in str(refusal(plain, "x", placeholder))
    placeholder.to_numpy()[1] = 7  # it has memory once it is looked at
    plain.bind("x", placeholder)
    np.testing.assert_array_equal(plain._session.evaluate(plain).outputs["y"], [[0, 0, 0], [7, 7, 7]])


def test_closed_tensors_are_refused(plain: LearningModelBinding) -> None:
    closed = TensorFloat.create([2, 1])
    closed.close()
    for name in ("x", "y"):
        assert refusal(plain, name, closed).hresult == 0x8000000E


def test_the_map_shows_what_was_bound(plain: LearningModelBinding) -> None:
    value, output = np.zeros((2, 1), np.float32), TensorFloat.create()
    assert (len(plain), plain.size, list(plain)) == (0, 0, [])
    with pytest.raises(NotBoundError, match="Nothing is bound to 'x'") as info:
        plain.lookup("x")
    assert info.value.hresult == 0x8000000B
    plain.bind("X", value)
    plain.bind("y", output)
    assert plain["x"] is value
    assert plain.lookup("y") is output
    assert plain.has_key("x")
    assert plain.lookup("X") is value  # in any case, as at a bind
    assert ["X" in plain, plain.has_key("Y"), plain.has_key("z"), 3 in plain] == [True, True, False, False]
    assert (list(plain), plain.size) == (["x", "y"], 2)
    plain.clear()
    assert dict(plain) == {}
    with pytest.raises(MissingInputError):
        plain._session.evaluate(plain)


def test_missing_inputs_are_named() -> None:
    ends = [tensor("a", [1]), tensor("b", [1, 2]), tensor("c", [1, 2])]
    bound = open_binding(data([helper.make_node("Add", ["a", "b"], ["c"])], ends[:2], ends[2:]))
    with pytest.raises(MissingInputError, match=r"Missing Input: a \(Float\[1,\]\), b \(Float\[1,2,\]\)") as info:
        bound._session.evaluate(bound)
    assert info.value.hresult == 0x80070057


@pytest.mark.parametrize("has_memory", [False, True])
def test_strings_of_another_evaluation_are_copied_at_bind(has_memory: bool) -> None:
    text = TensorString.create_from_array([1], ["old"]) if has_memory else TensorString.create()
    producer, consumer = (open_session(unary("Identity", ["n"], STRING)) for _ in range(2))
    writing, reading = LearningModelBinding(producer), LearningModelBinding(consumer)
    writing.bind("y", text)
    for word in ("first", "second"):
        writing.bind("x", np.array([word], object))
        producer.evaluate(writing)
        if word == "first":
            reading.bind("x", text)
        assert consumer.evaluate(reading)["y"].to_numpy().tolist() == ["first"]
    assert text.to_numpy().tolist() == ["second"]
    reading.bind("x", text)
    assert consumer.evaluate(reading)["y"].to_numpy().tolist() == ["second"]


def test_strings_are_copied_at_bind() -> None:
    bound = open_binding(unary(element=STRING))
    value = np.array(["a", "b"], object)
    bound.bind("x", value)
    value[0] = "changed"
    assert list(bound._session.evaluate(bound).outputs["y"].get_as_vector_view()) == ["a", "b"]


def test_a_failed_bind_leaves_what_was_bound(plain: LearningModelBinding) -> None:
    plain.bind("x", np.ones((2, 1), np.float32))
    with pytest.raises(SizeMismatchError):
        plain.bind("x", np.ones((3, 1), np.float32))
    np.testing.assert_array_equal(plain._session.evaluate(plain).outputs["y"], np.ones((2, 1)))


NUMBERS = [
    ("FLOAT", np.float32), ("FLOAT16", np.float16), ("DOUBLE", np.float64), ("INT8", np.int8), ("UINT8", np.uint8),
    ("INT16", np.int16), ("UINT16", np.uint16), ("INT32", np.int32), ("UINT32", np.uint32), ("INT64", np.int64),
    ("UINT64", np.uint64), ("BOOL", np.bool_),
]  # fmt: skip


@pytest.mark.parametrize(("element", "dtype"), NUMBERS)
def test_every_element_type_goes_in_and_out(element: str, dtype: Any) -> None:
    made = open_session(unary(shape=("a", "b"), element=getattr(TensorProto, element)))
    value = np.array([[0, 1, 100]]).astype(dtype)
    for bound_output in (None, np.zeros((1, 3), dtype)):
        bound = LearningModelBinding(made)
        bound.bind("x", value)
        if bound_output is not None:
            bound.bind("y", bound_output)
        output = made.evaluate(bound).outputs["y"]
        assert np.asarray(output).dtype == dtype
        np.testing.assert_array_equal(output, value)


# Pictures


def pixels(height: int = 4, width: int = 6, channels: int = 3) -> Any:
    return np.arange(height * width * channels, dtype=np.uint8).reshape(height, width, channels)


def numbers(bound: LearningModelBinding, value: Any, properties: Any = None) -> Any:
    """What the model sees of a picture."""
    bound.bind("x", value, properties)
    return bound._session.evaluate(bound).outputs["y"]


def test_every_kind_of_picture_binds(picture: LearningModelBinding) -> None:
    rgb = pixels()
    bitmap = SoftwareBitmap.from_array(rgb, BitmapPixelFormat.RGB8)
    values = [
        bitmap,
        VideoFrame.create_with_software_bitmap(bitmap),
        ImageFeatureValue.from_array(rgb, BitmapPixelFormat.RGB8),
        ImageFeatureValue.from_pil(Image.fromarray(rgb)),
        Image.fromarray(rgb),
    ]
    for value in values:
        output = numbers(picture, value)
        assert isinstance(output, ImageFeatureValue)
        np.testing.assert_array_equal(output.to_numpy()[..., [2, 1, 0]], rgb)
        assert picture["x"] is value
    output = numbers(picture, rgb, {"BitmapPixelFormat": BitmapPixelFormat.RGB8})
    np.testing.assert_array_equal(output.to_numpy()[..., [2, 1, 0]], rgb)


def test_an_array_must_say_its_channel_order(picture: LearningModelBinding) -> None:
    for channels in (3, 4):
        error = refusal(picture, "x", pixels(channels=channels))
        assert type(error) is InvalidBindingError
        right, other = ("RGB8", "BGR8") if channels == 3 else ("RGBA8", "BGRA8")
        assert f"BitmapPixelFormat.{right}) ({other} for arrays from OpenCV)" in str(error)
    gray = [numbers(picture, pixels()[..., which]).to_numpy() for which in (0, slice(1))]  # which has no order
    np.testing.assert_array_equal(*gray)


def test_a_tensor_binds_to_an_image_feature(picture: LearningModelBinding) -> None:
    value = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6)
    output = numbers(picture, value)
    np.testing.assert_array_equal(output.to_numpy()[..., :3], value[0].transpose(1, 2, 0))
    picture.clear()
    contract, zero_to_one = ImageContract(), LearningModelPixelRange.ZERO_TO_ONE
    for key, stated in {"BitmapBounds": [0, 0, 6, 4], "PixelRange": zero_to_one, "ImageContract": contract}.items():
        assert f"property {key} applies only to pictures" in str(refusal(picture, "x", value, {key: stated}))
    assert type(refusal(picture, "x", TensorUInt8Bit.create([1, 3, 4, 6]))) is InvalidBindingError
    assert type(refusal(picture, "x", np.zeros((1, 3, 4, 7), np.float32))) is SizeMismatchError


def test_the_properties(picture: LearningModelBinding) -> None:
    rgb = pixels(8, 8)
    frame = SoftwareBitmap.from_array(rgb, BitmapPixelFormat.RGB8)
    bounds = {"BitmapBounds": [1, 2, 6, 4], "PixelRange": None}
    np.testing.assert_array_equal(numbers(picture, frame, bounds).to_numpy()[..., [2, 1, 0]], rgb[2:6, 1:7])
    as_rgb = {"BitmapPixelFormat": BitmapPixelFormat.RGBA8, "BitmapBounds": (1, 2, 6, 4)}
    # the model's output is BGR still, so the channels come out swapped
    np.testing.assert_array_equal(numbers(picture, frame, as_rgb).to_numpy()[..., :3], rgb[2:6, 1:7])
    whole = unary(shape=(1, 3, 4, 6))
    small = SoftwareBitmap.from_array(pixels(), BitmapPixelFormat.BGR8)
    with pytest.warns(MissingContractWarning, match=r"\(BGR\), from 0 to 1"):
        ranged = numbers(open_binding(whole), small, {"PixelRange": LearningModelPixelRange.ZERO_TO_ONE})
    np.testing.assert_array_equal(ranged, (pixels().transpose(2, 0, 1)[None] / np.float32(255)))


BAD_PROPERTIES = [
    {"BitmapBounds": [0, 0, 1]},
    {"BitmapBounds": [0, 0, 1, -1]},
    {"BitmapBounds": 5},
    {"BitmapBounds": [0, 0, 9, 4]},
    {"BitmapBounds": [0, 0, 0, 4]},
    {"BitmapPixelFormat": BitmapPixelFormat.NV12},
    {"BitmapPixelFormat": BitmapPixelFormat.RGB8},
    {"BitmapPixelFormat": BitmapPixelFormat.GRAY8},
    {"BitmapPixelFormat": 5},
    {"PixelRange": 3},
]


@pytest.mark.parametrize("properties", BAD_PROPERTIES, ids=str)
def test_bad_properties_are_refused(picture: LearningModelBinding, properties: Any) -> None:
    value = SoftwareBitmap(BitmapPixelFormat.BGRA8, 8, 8)
    assert type(refusal(picture, "x", value, properties)) is InvalidBindingError


def test_pictures_bind_to_tensors_shaped_like_pictures() -> None:
    frame = SoftwareBitmap.from_array(pixels(), BitmapPixelFormat.RGB8)
    with pytest.warns(MissingContractWarning):
        colour = numbers(open_binding(unary(shape=(1, 3, 4, 6), metadata={"Image.BitmapPixelFormat": "Rgb8"})), frame)
    np.testing.assert_array_equal(colour, pixels()[..., ::-1].transpose(2, 0, 1)[None])  # BGR, whatever the metadata
    with pytest.warns(MissingContractWarning, match="gray, from 0 to 255"):
        gray = numbers(open_binding(unary(shape=(1, 1, 4, 6))), SoftwareBitmap(BitmapPixelFormat.GRAY8, 6, 4))
    np.testing.assert_array_equal(gray, np.zeros((1, 1, 4, 6)))


@pytest.mark.parametrize(
    ("whole", "kind", "words"),
    [
        (unary(shape=(3, 4, 6)), SizeMismatchError, "4 dimensions"),
        (unary(shape=(1, 2, 4, 6)), InvalidArgumentError, "1 or 3 channels, not 2"),
        (unary(shape=(1, 4, 6, 3)), InvalidArgumentError, "1 or 3 channels, not 4"),
        (unary(shape=(1, "c", 4, 6)), InvalidArgumentError, "1 or 3 channels, not -1"),
        (unary(shape=(1, 3, 4, 6), element=TensorProto.DOUBLE), InvalidBindingError, "Float or Float16"),
        (unary(shape=(1, 3, 4, 6), element=TensorProto.UINT8, denotation="IMAGE"), InvalidBindingError, "Float16"),
        (
            unary(shape=(1, 3, 4, 6), denotation="IMAGE", metadata={"Image.ColorSpaceGamma": "Linear"}),
            InvalidBindingError,
            "metadata is not supported",
        ),
        (unary(shape=(2, 3, 4, 6), denotation="IMAGE"), SizeMismatchError, "Expected a batch of 2, got 1"),
        (
            unary(shape=(1, 3, 4, 6), denotation="IMAGE", metadata={"Image.BitmapPixelFormat": "Gray8"}),
            InvalidBindingError,
            "GRAY8 pictures have 1 channels, not 3",
        ),
    ],
)
def test_pictures_are_refused_where_they_do_not_fit(whole: bytes, kind: type[WinMLError], words: str) -> None:
    error = refusal(open_binding(whole), "x", SoftwareBitmap(BitmapPixelFormat.BGRA8, 6, 4))
    assert type(error) is kind
    assert words in str(error)


def test_float16_image_features_are_pictures() -> None:
    metadata = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "Normalized_0_1"}
    whole = unary(shape=(1, 3, 4, 6), element=FLOAT16, denotation="IMAGE", metadata=metadata)
    bound = open_binding(whole)
    output = numbers(bound, SoftwareBitmap.from_array(pixels(), BitmapPixelFormat.RGB8))
    np.testing.assert_array_equal(output.to_numpy()[..., :3], pixels())
    assert output.video_frame.software_bitmap.bitmap_pixel_format is BitmapPixelFormat.RGBA8


def test_free_sides_take_the_pictures_size() -> None:
    bound = open_binding(unary(shape=(1, 3, "h", "w"), denotation="IMAGE"))
    for height, width in ((4, 6), (5, 3)):
        output = numbers(bound, SoftwareBitmap(BitmapPixelFormat.BGRA8, width, height))
        assert output.to_numpy().shape == (height, width, 4)


def test_batches_of_frames() -> None:
    frames = [VideoFrame(BitmapPixelFormat.BGRA8, *size) for size in ((6, 4), (12, 8))]
    frames[1].software_bitmap.to_numpy()[:] = 9
    bound = open_binding(unary(shape=("n", 3, "h", 6), denotation="IMAGE"))
    output = numbers(bound, ImageFeatureValue(frames))
    assert [frame.software_bitmap.to_numpy()[0, 0].tolist() for frame in output] == [[0, 0, 0, 255], [9, 9, 9, 255]]
    free = open_binding(unary(shape=("n", 3, "h", "w"), denotation="IMAGE"))
    with pytest.raises(InvalidArgumentError, match="any size, but all pictures in a batch must have"):
        free.bind("x", ImageFeatureValue(frames))


def test_pictures_and_tensors_take_turns(picture: LearningModelBinding) -> None:
    frame = SoftwareBitmap(BitmapPixelFormat.BGRA8, 6, 4)
    numbers(picture, frame)
    frame.to_numpy()[:] = 50
    assert numbers(picture, frame).to_numpy()[0, 0, 0] == 50
    numbers(picture, np.zeros((1, 3, 4, 6), np.float32))
    assert numbers(picture, frame).to_numpy()[0, 0, 0] == 50


# Outputs


def test_bound_outputs_are_the_same_objects_written_in_place(plain: LearningModelBinding) -> None:
    plain.bind("x", np.full((2, 2), 3, np.float32))
    own = np.zeros((2, 2), np.float32)
    for bound in (own, TensorFloat.from_numpy(own), TensorFloat.create([2, 2]), TensorFloat.create()):
        own[:] = 0
        plain.bind("y", bound)
        result = plain._session.evaluate(plain)
        assert result.outputs["y"] is bound
        np.testing.assert_array_equal(bound, [[3, 3], [3, 3]])
        if not isinstance(bound, np.ndarray) and np.shares_memory(bound.to_numpy(), own):
            np.testing.assert_array_equal(own, [[3, 3], [3, 3]])


def test_a_placeholder_output_follows_the_shape(plain: LearningModelBinding) -> None:
    output = TensorFloat.create()
    plain.bind("y", output)
    for width in (1, 3, 2):
        plain.bind("x", np.full((2, width), width, np.float32))
        assert plain._session.evaluate(plain).outputs["y"] is output
        assert tuple(output.shape) == (2, width)
        np.testing.assert_array_equal(output, np.full((2, width), width))


def test_results_of_earlier_evaluations_stay(plain: LearningModelBinding) -> None:
    value = np.ones((2, 1), np.float32)
    plain.bind("x", value)
    first = plain._session.evaluate(plain).outputs["y"]
    value[:] = 2
    second = plain._session.evaluate(plain).outputs["y"]
    np.testing.assert_array_equal(first, [[1], [1]])
    np.testing.assert_array_equal(second, [[2], [2]])


def test_an_output_of_the_wrong_size_says_what_came(plain: LearningModelBinding) -> None:
    plain.bind("x", np.ones((2, 1), np.float32))
    plain.bind("y", np.zeros((2, 5), np.float32))
    with pytest.raises(SizeMismatchError, match=r"bound to memory of shape \(2, 5\), but has the shape \(2, 1\)"):
        plain._session.evaluate(plain)
    plain.bind("y", TensorFloat.create())
    assert plain._session.evaluate(plain).outputs["y"].shape == (2, 1)


def test_outputs_need_memory_of_their_own(plain: LearningModelBinding) -> None:
    frozen = np.zeros((2, 1), np.float32)
    frozen.flags.writeable = False
    assert "read-only" in str(refusal(plain, "y", frozen))
    assert "not C-contiguous" in str(refusal(plain, "y", np.zeros((4, 2), np.float32).T[:, :3]))


def test_a_closed_output_is_refused_by_evaluate(plain: LearningModelBinding) -> None:
    output = TensorFloat.create([2, 1])
    plain.bind("x", np.ones((2, 1), np.float32))
    plain.bind("y", output)
    output.close()
    with pytest.raises(WinMLError, match="closed") as info:
        plain._session.evaluate(plain)
    assert info.value.hresult == 0x8000000E


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize(("shape", "keeps"), [(None, False), ([-1], False), ([2], True)])
def test_runs_write_to_the_memory_of_a_placeholder_with_a_shape(
    shape: list[int] | None, keeps: bool, is_read: bool
) -> None:
    """Read after the bind, it has memory before the first run."""
    session = open_session(unary("Neg", ["n"]))
    binding, output, views = LearningModelBinding(session), TensorFloat.create(shape), []
    binding.bind("y", output)
    if is_read and keeps:
        views.append(output.to_numpy())
    for number in (1, 2, 3):
        binding.bind("x", np.full(2, number, np.float32))
        assert session.evaluate(binding)["y"] is output
        views.append(output.to_numpy())
        assert views[-1].tolist() == [-number, -number]
    for view in views:
        assert np.shares_memory(view, views[-1]) == (keeps or view is views[-1])
    binding.bind("x", np.ones(3, np.float32))
    if keeps:
        with pytest.raises(SizeMismatchError):
            session.evaluate(binding)
        return
    assert session.evaluate(binding)["y"].to_numpy().tolist() == [-1, -1, -1]


def test_string_outputs() -> None:
    made = open_session(unary(element=STRING))
    filled = TensorString.create_from_array([2], ["old", "old"])
    made.evaluate_features({"x": np.array(["a", "ß"]), "y": filled})
    assert list(filled.get_as_vector_view()) == ["a", "ß"]


def test_picture_outputs_are_written_in_place_and_stretched() -> None:
    made = open_session(unary(shape=(1, 3, 4, 6), denotation="IMAGE"))
    rgb = pixels()
    source = SoftwareBitmap.from_array(rgb, BitmapPixelFormat.RGB8)
    for pixel_format, order in ((BitmapPixelFormat.RGBA8, [0, 1, 2]), (BitmapPixelFormat.BGR8, [2, 1, 0])):
        frame = VideoFrame(pixel_format, 6, 4)
        result = made.evaluate_features({"x": source, "y": frame})
        assert result.outputs["y"] is frame
        np.testing.assert_array_equal(frame.software_bitmap.to_numpy()[..., order], rgb)
    own = np.zeros((4, 6, 3), np.uint8)
    bound = LearningModelBinding(made)
    bound.bind("x", source)
    bound.bind("y", own, {"BitmapPixelFormat": BitmapPixelFormat.RGB8})
    assert made.evaluate(bound).outputs["y"] is own
    np.testing.assert_array_equal(own, rgb)
    larger = SoftwareBitmap(BitmapPixelFormat.RGB8, 12, 8)
    bound.bind("y", larger)
    made.evaluate(bound)
    expected = np.asarray(Image.fromarray(rgb).resize((12, 8), Image.Resampling.BICUBIC))
    np.testing.assert_array_equal(larger.to_numpy(), expected)


def test_a_read_only_picture_is_no_output(picture: LearningModelBinding) -> None:
    frozen = SoftwareBitmap(BitmapPixelFormat.BGRA8, 6, 4).get_read_only_view()
    assert "is read-only" in str(refusal(picture, "y", frozen))


def test_frames_for_another_batch_are_refused() -> None:
    made = open_session(unary(shape=("n", 3, 4, 6), denotation="IMAGE"))
    with pytest.raises(SizeMismatchError, match="takes a batch of 2 pictures, but 1 are bound to it"):
        made.evaluate_features(
            {"x": np.zeros((2, 3, 4, 6), np.float32), "y": VideoFrame(BitmapPixelFormat.BGRA8, 6, 4)}
        )


def test_a_pillow_image_is_no_output(picture: LearningModelBinding) -> None:
    assert "cannot be written in place" in str(refusal(picture, "y", Image.new("RGB", (6, 4))))


def test_outputs_that_are_not_what_the_model_says() -> None:
    # declared as a picture of 3 channels of any size, and computed with 4
    node = helper.make_node("Concat", ["x", "w"], ["y"], axis=1)
    ends = [tensor("x", [1, 3, "h", "w"]), tensor("y", [1, "c", "h", "w"], denotation="IMAGE")]
    whole = model([node], ends[:1], ends[1:], {"w": np.zeros((1, 1, 2, 2), np.float32)}).SerializeToString()
    with pytest.raises(WinMLError, match="unexpected evaluation output for unbound output variable y") as info:
        open_session(whole).evaluate_features({"x": np.zeros((1, 3, 2, 2), np.float32)})
    assert info.value.hresult == 0x8000FFFF


def test_a_binding_belongs_to_its_session(plain: LearningModelBinding) -> None:
    other = open_session(unary(shape=(2, "n")))
    plain.bind("x", np.ones((2, 1), np.float32))
    with pytest.raises(InvalidArgumentError, match="created for this session, got one of another session"):
        other.evaluate(plain)


def test_a_closed_session_refuses_everything(plain: LearningModelBinding) -> None:
    made = plain._session
    plain.bind("x", np.ones((2, 1), np.float32))
    made.close()
    made.close()
    for use in (
        lambda: LearningModelBinding(made),
        lambda: plain.bind("x", np.ones((2, 1), np.float32)),
        lambda: made.evaluate(plain),
        lambda: made.evaluate_features({"x": np.ones((2, 1), np.float32)}),
        plain.clear,
    ):
        with pytest.raises(ClosedError, match="has been closed") as info:
            use()
        assert info.value.hresult == 0x80000013
    assert made.model.name == "test graph"


FIT = open_session(unary(shape=(2, "n", 3)))


@settings(deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.uint8, np.bool_, np.float16]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.sampled_from(["x", "X", "y", "z", "", "ß"]),
)
def test_a_bind_works_exactly_when_name_dtype_and_shape_fit(value: Any, name: str) -> None:
    bound = LearningModelBinding(FIT)
    fits = value.dtype == np.float32 and value.ndim == 3 and value.shape[0] == 2 and value.shape[2] == 3
    if name in ("x", "X") and fits:
        bound.bind(name, value)
        np.testing.assert_array_equal(FIT.evaluate(bound).outputs["y"], value)
    elif name == "y" and fits:
        bound.bind(name, value)
    else:
        with pytest.raises((InvalidBindingError, SizeMismatchError)):
            bound.bind(name, value)

"""Values that people have: arrays of other libraries, and single numbers."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.cuda import CUDA, OnCard
from helpers.exported import Exported
from helpers.models import FLOAT, FLOAT16, INT64, STRING, data, tensor, unary
from helpers.providers import PROVIDERS, Runtime, make_device, runtime
from helpers.sessions import open_binding, open_session
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    TensorFloat,
    TensorInt64Bit,
)

__all__ = ["runtime"]  # a fixture

PICTURES = unary(shape=("n", 3, 4, 6), denotation="IMAGE")


class Unversioned(Exported):
    """As libraries export that know DLPack below 1.0, where numpy makes the array read-only."""

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()


class WithNumpy(Unversioned):
    """As older versions of torch: they also give a numpy array over the same memory."""

    def numpy(self) -> Any:
        return self.array


class Refusing(Exported):
    """A tensor that does not export its memory."""

    def __init__(self, reason: str, **attributes: Any) -> None:
        super().__init__([1])
        self.reason = reason
        vars(self).update(attributes)

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError(self.reason)


def evaluated(bound: LearningModelBinding) -> Any:
    return bound._session.evaluate(bound).outputs["y"]


def test_an_exported_array_is_bound_where_it_is() -> None:
    numbers = np.float32([[1, 2, 3], [4, 5, 6]])
    source = Exported(numbers)
    bound = open_binding(unary("Neg", [2, 3]))
    bound.bind("x", source)
    assert bound["x"] is source
    np.testing.assert_array_equal(evaluated(bound), -numbers)
    numbers *= 2  # by reference, as a numpy array
    np.testing.assert_array_equal(evaluated(bound), -numbers)


def test_an_exported_array_lives_as_long_as_it_is_bound() -> None:
    bound = open_binding(unary("Neg", [100_000]))
    bound.bind("x", Exported(np.arange(100_000, dtype=np.float32)))
    gc.collect()
    np.full(100_000, 7, np.float32)  # into the memory, were it free
    np.testing.assert_array_equal(evaluated(bound), -np.arange(100_000, dtype=np.float32))


OLD_NUMPY = np.lib.NumpyVersion(np.__version__) < "2.3.0"


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Exported, marks=pytest.mark.skipif(OLD_NUMPY, reason="numpy below 2.3 makes it read-only")),
        WithNumpy,
    ],
)
def test_an_exported_array_is_written_as_an_output(kind: type[Exported]) -> None:
    target = kind(np.zeros(3, np.float32))
    bound = open_binding(unary("Neg", [3]))
    bound.bind("x", np.float32([1, 2, 3]))
    bound.bind("y", target)
    assert evaluated(bound) is target
    assert target.array.tolist() == [-1, -2, -3]


def test_what_cannot_be_written_is_no_output() -> None:
    frozen, bound = np.zeros(3, np.float32), open_binding(unary("Neg", [3]))
    frozen.flags.writeable = False
    for target in (Exported(frozen), Unversioned(np.zeros(3, np.float32))):
        with pytest.raises(InvalidBindingError, match="read-only memory"):
            bound.bind("y", target)
    with pytest.raises(InvalidBindingError, match="not C-contiguous"):
        open_binding(unary("Neg", [2, 3])).bind("y", Exported(np.zeros((3, 2), np.float32).T))


def test_an_exported_array_that_is_not_contiguous_is_copied() -> None:
    numbers = np.arange(6, dtype=np.float32).reshape(3, 2)
    bound = open_binding(unary("Neg", [2, 3]))
    bound.bind("x", Exported(numbers.T))
    np.testing.assert_array_equal(evaluated(bound), -numbers.T)


@pytest.mark.parametrize("array", [np.float32(3), np.zeros((0, 4), np.float32), np.array([True]), np.int64([1, -1])])
def test_exported_arrays_of_every_shape_and_type(array: Any) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    bound = open_binding(unary(shape=np.shape(array), element=element))
    bound.bind("x", Exported(array))
    result = evaluated(bound).to_numpy()
    assert (result.dtype, result.shape, result.tolist()) == (array.dtype, np.shape(array), array.tolist())


def test_an_exported_array_must_fit_as_any_other() -> None:
    with pytest.raises(InvalidBindingError, match=r"expects Float\[3,\].* incompatible type Int64\[3,\]"):
        open_binding(unary(shape=[3])).bind("x", Exported(np.arange(3)))


def test_exported_pixels_are_a_picture() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    bound, output = open_binding(PICTURES), np.zeros((1, 3, 4, 6), np.float32)
    bound.bind("x", Exported(pixels), {"BitmapPixelFormat": BitmapPixelFormat.RGB8})
    bound.bind("y", output)
    evaluated(bound)
    np.testing.assert_array_equal(output[0], pixels[..., ::-1].transpose(2, 0, 1))


def test_sequences_hold_exported_arrays() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None]))
    node = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    bound = open_binding(data([node], [helper.make_value_info("x", kind)], [tensor("y", [None])]))
    bound.bind("x", [Exported(np.float32([1])), np.float32([2, 3])])
    assert evaluated(bound).to_numpy().tolist() == [1, 2, 3]


def test_exported_arrays_in_a_stream_of_batches() -> None:
    session = LearningModelSession(LearningModel.load(unary("Neg", ["n", 2])))
    items = [Exported(np.float32([[number, 1]])) for number in range(5)]
    results = [result.outputs["y"].to_numpy().tolist() for result in session.evaluate_many(items, batch=2)]
    assert results == [[[-number, -1]] for number in range(5)]


def test_tensors_are_made_of_exported_arrays() -> None:
    source = Exported(np.float32([1, 2]))
    tensor = TensorFloat.from_dlpack(source)
    assert np.shares_memory(tensor.to_numpy(), source.array)
    with pytest.raises(InvalidArgumentError, match="int64 for TensorInt64Bit, got float32"):
        TensorInt64Bit.from_dlpack(source)
    with pytest.raises(InvalidArgumentError, match="Refusing does not export its memory: it is locked"):
        TensorFloat.from_dlpack(Refusing("it is locked"))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Refusing("gradients.", requires_grad=True), "memory: gradients. Bind a copy, for example tensor.detach()."),
        (Exported([1], (8, 2)), "of device 2 of the DLPack device type 8. Bind a copy, for example tensor.detach()."),
    ],
)
def test_what_exports_nothing_is_named_with_a_remedy(value: Exported, says: str) -> None:
    with pytest.raises(InvalidBindingError) as info:
        open_binding(unary()).bind("x", value)
    assert str(info.value).startswith(f"A {type(value).__module__}.{type(value).__name__} does not export")
    assert says in str(info.value)


def test_an_array_on_a_card_says_how_it_comes_to_the_host() -> None:
    on_card = OnCard(np.float32([1, 2, 3]))
    bound = open_binding(unary("Neg", [3]))
    with pytest.raises(InvalidBindingError, match=r"Bind array\.get\(\), a copy"):
        bound.bind("x", on_card)
    bound.bind("x", on_card.get())
    assert evaluated(bound).to_numpy().tolist() == [-1, -2, -3]


def test_a_tensor_on_a_card_says_how_it_comes_to_the_host(runtime: Runtime) -> None:
    (provider,) = [provider for provider in PROVIDERS if provider.name == CUDA]
    session = open_session(unary("Neg", [3]), make_device(provider))
    bound, on_card = LearningModelBinding(session), TensorFloat.create()
    bound.bind("x", np.float32([1, 2, 3]))
    bound.bind("y", on_card, {"DisableTensorCpuSync": True})
    session.evaluate(bound)
    with pytest.raises(InvalidBindingError, match=r"Bind tensor\.to_numpy\(\), a copy"):
        open_binding(unary("Neg", [3])).bind("x", on_card)


class TestTorch:
    """What the substitutes above claim, with torch itself."""

    def test_tensors_are_bound_where_they_are(self) -> None:
        torch = pytest.importorskip("torch")
        source, target = torch.arange(6, dtype=torch.float32).reshape(2, 3), torch.zeros(2, 3)
        bound = open_binding(unary("Neg", [2, 3]))
        bound.bind("x", source)
        bound.bind("y", target)
        assert evaluated(bound) is target
        assert torch.equal(target, -source)
        source.mul_(2)
        evaluated(bound)
        assert torch.equal(target, -source)

    @pytest.mark.parametrize("name", ["float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool"])
    def test_every_type(self, name: str) -> None:
        torch = pytest.importorskip("torch")
        source = torch.tensor([0, 1, 3]).to(getattr(torch, name))
        bound = open_binding(unary(shape=[3], element=helper.np_dtype_to_tensor_dtype(source.numpy().dtype)))
        bound.bind("x", source)
        np.testing.assert_array_equal(evaluated(bound).to_numpy(), source.numpy())

    def test_what_it_says_of_others_works(self) -> None:
        torch = pytest.importorskip("torch")
        cases = [
            (torch.ones(3, requires_grad=True), r"torch\.Tensor .* Bind tensor\.detach\(\)", lambda x: x.detach()),
            (torch.nn.Parameter(torch.ones(3)), r"torch.nn.parameter.Parameter .*detach\(\)", lambda x: x.detach()),
            (torch.ones(3, dtype=torch.bfloat16), r"tensor\.float\(\)", lambda x: x.float()),
            (torch.ones(3).to_sparse(), r"tensor\.to_dense\(\)", lambda x: x.to_dense()),
        ]
        for value, says, follow in cases:
            bound = open_binding(unary("Neg", [3]))
            with pytest.raises(InvalidBindingError, match=says):
                bound.bind("x", value)
            bound.bind("x", follow(value))
            assert evaluated(bound).to_numpy().tolist() == [-1, -1, -1]
        with pytest.raises(InvalidBindingError, match=r"tensor\.cpu\(\)"):
            open_binding(unary("Neg", [3])).bind("x", torch.empty(3, device="meta"))


@pytest.mark.parametrize(
    ("shape", "element", "value", "expected"),
    [
        ([], FLOAT, 0.1, np.float32(0.1)),
        ([], FLOAT, 2, np.float32(2)),
        ([], FLOAT16, 0.1, np.float16(0.1)),
        ([], TensorProto.DOUBLE, 0.1, np.float64(0.1)),
        ([], INT64, 16000, np.int64(16000)),
        ([1], INT64, -1, np.int64([-1])),
        (["batch", 1], FLOAT, 0.5, np.float32([[0.5]])),
        ([], TensorProto.BOOL, True, np.bool_(True)),
        ([], STRING, "héllo", np.array("héllo", object)),
        ([1, 1], STRING, "", np.array([[""]], object)),
    ],
)
def test_a_number_binds_to_a_feature_of_one_element(
    shape: list[int | str], element: int, value: Any, expected: Any
) -> None:
    bound = open_binding(unary(shape=shape, element=element))
    bound.bind("x", value)
    result = evaluated(bound).to_numpy()
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        (STRING, [["a"], ["c"]], [["a"], ["c"]]),
        (FLOAT, [[1, 2.5], [3, 4]], [[1, 2.5], [3, 4]]),
        (INT64, ([1], (2,)), [[1], [2]]),
    ],
)
def test_lists_of_lists(element: int, value: Any, expected: Any) -> None:
    bound = open_binding(unary(shape=("n", len(expected[0])), element=element))
    bound.bind("x", value)
    assert evaluated(bound).to_numpy().tolist() == expected


@pytest.mark.parametrize(
    ("shape", "element", "value", "says"),
    [
        ([2], FLOAT, 1.0, r"expects Float\[2,\], got float 1.0"),
        ([], INT64, 1.5, r"expects Int64\[\], got float 1.5\. .* TensorInt64Bit\.from_numpy\(array\)"),
        ([], TensorProto.UINT8, 256, r"expects UInt8\[\], got int 256"),
        ([2], FLOAT, np.zeros(2, ">f4"), r"array of >f4\. .*newbyteorder"),
        ([], INT64, True, r"expects Int64\[\], got bool True"),
        ([], TensorProto.BOOL, 1, r"expects Boolean\[\], got int 1"),
        ([], FLOAT, "1", r"expects Float\[\], got str"),
        ([], STRING, 1, r"expects String\[\], got int 1"),
        ([], TensorProto.BFLOAT16, 1.0, r"expects bfloat16\[\]"),
    ],
)
def test_what_no_single_element_can_be(shape: list[int], element: int, value: Any, says: str) -> None:
    with pytest.raises(InvalidBindingError, match=says):
        open_binding(unary(shape=shape, element=element)).bind("x", value)


def test_the_byte_order_of_an_array_for_a_picture() -> None:
    bound = open_binding(unary(shape=(1, 3, 4, 6), denotation="IMAGE"))
    with pytest.raises(InvalidBindingError, match=r"array of >f4\. .*newbyteorder"):
        bound.bind("x", np.zeros((1, 3, 4, 6), ">f4"))


def test_an_empty_list_states_no_shape() -> None:
    with pytest.raises(InvalidBindingError, match=r"an empty list\. Bind an array, because an empty list has no shape"):
        open_binding(unary("Neg", [3])).bind("x", [])


def test_a_gray_array_is_a_picture_without_a_format() -> None:
    levels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    for array in (levels, levels[..., None]):
        picture = ImageFeatureValue.from_array(array)
        assert picture.video_frame.software_bitmap.bitmap_pixel_format is BitmapPixelFormat.GRAY8
        np.testing.assert_array_equal(picture.to_numpy(), levels)
    with pytest.raises(InvalidArgumentError, match="array's channel order is not specified"):
        ImageFeatureValue.from_array(np.zeros((4, 6, 3), np.uint8))


def test_a_number_is_no_output() -> None:
    with pytest.raises(InvalidBindingError, match="An output cannot be written into float"):
        open_binding(unary(shape=[])).bind("y", 0.5)


def test_types_are_named_with_their_modules() -> None:
    from decimal import Decimal

    with pytest.raises(InvalidBindingError, match=r"got decimal\.Decimal"):
        open_binding(unary(shape=[])).bind("x", Decimal(1))
    with pytest.raises(InvalidBindingError, match=r"got list of decimal\.Decimal"):
        open_binding(unary(shape=[1])).bind("x", [Decimal(1)])
    with pytest.raises(InvalidArgumentError, match=r"Expected a VideoFrame, got numpy\.ndarray"):
        ImageFeatureValue.create_from_video_frame(np.zeros(3))  # type: ignore[arg-type]

"""A run that fails leaves nothing stale: whatever ended it, what was bound as output says so, or holds nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.cuda import FakeCudaDevice, OnCard
from helpers.models import FLOAT, FLOAT16, INT64, counting_loop, data, tensor, unary
from helpers.waiting import wait_until
from winml_py import (
    BitmapPixelFormat,
    CanceledError,
    ClosedError,
    CustomOperator,
    DeviceLostError,
    EvaluationError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
    WinMLError,
)
from winml_py.errors import IllegalCallError, MissingInputError
from winml_py.testing import FakeDevice
from winml_py.winrt.windows.storage.streams import Buffer

TABLE = np.float32([10, 20, 30])
OUTSIDE = np.array(7)


def looking_up(element: int = FLOAT) -> LearningModelSession:
    """The number at an index, which fails where there is none."""
    dtype = helper.tensor_dtype_to_np_dtype(element)
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    ends = [tensor("i", [], INT64)], [tensor("y", [], element)]
    return LearningModelSession(LearningModel.load(data([node], *ends, {"table": TABLE.astype(dtype)})))


def bound(session: LearningModelSession, output: Any) -> LearningModelBinding:
    binding = LearningModelBinding(session)
    binding.bind("i", np.array(1))
    binding.bind("y", output)
    session.evaluate(binding)
    return binding


def fail(session: LearningModelSession, binding: LearningModelBinding) -> None:
    binding.bind("i", OUTSIDE)
    with pytest.raises(EvaluationError, match=r"indices element out of data bounds"):
        session.evaluate(binding)


def succeed(session: LearningModelSession, binding: LearningModelBinding) -> None:
    binding.bind("i", np.array(2))
    session.evaluate(binding)


@pytest.mark.parametrize("make", [TensorFloat.create, lambda: TensorFloat.create_from_array([], [0])])
def test_a_tensor_says_that_it_is_invalid_until_a_run_succeeds(make: Callable[[], TensorFloat]) -> None:
    session, output = looking_up(), make()
    binding = bound(session, output)
    assert output.to_numpy() == 20
    fail(session, binding)
    for read in (output.to_numpy, output.get_as_vector_view, output.get_buffer, output.create_reference):
        with pytest.raises(IllegalCallError, match=r"failed or was stopped, so its data is invalid. Evaluate again"):
            read()
    with pytest.raises(IllegalCallError, match="invalid"):
        np.asarray(output)
    succeed(session, binding)
    assert output.to_numpy() == 30


def test_what_earlier_runs_gave_stays() -> None:
    session, output = looking_up(), TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("i", np.array(1))
    fresh = session.evaluate(binding).outputs["y"]
    binding.bind("y", output)
    session.evaluate(binding)
    held = output.to_numpy()  # the memory of that run
    fail(session, binding)
    assert fresh.to_numpy() == 20
    assert held == 20


@pytest.mark.parametrize(
    ("dtype", "spoilt"),
    [
        (np.float32, np.nan),
        (np.float16, np.nan),
        (np.float64, np.nan),
        (np.int64, np.iinfo(np.int64).min),
        (np.int8, -128),
        (np.uint8, 255),
    ],
)
def test_an_array_holds_no_number_of_an_earlier_run(dtype: Any, spoilt: float) -> None:
    """It cannot say that it is invalid, so it holds what no reader takes for a result."""
    session, output = looking_up(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))), np.array(0, dtype)
    binding = bound(session, output)
    assert output == 20
    fail(session, binding)
    np.testing.assert_array_equal(output, np.array(spoilt, dtype))
    succeed(session, binding)
    assert output == 30


def test_lists_and_dicts_are_empty_and_buffers_have_no_length() -> None:
    session, values, buffer, plain = looking_up(), [0.0], Buffer(4), bytearray(4)
    for output in (values, [buffer], [plain]):
        binding = bound(session, output)
        fail(session, binding)
    assert values == []
    assert buffer.length == 0
    assert np.isnan(np.frombuffer(plain, np.float32)).all()
    succeed(session, binding)
    assert np.frombuffer(plain, np.float32) == 30


def pictures() -> LearningModelSession:
    """A picture of one colour, from a table."""
    table = np.zeros((2, 1, 3, 2, 2), np.float32)
    table[1] = 200
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    out = tensor("y", [1, 3, 2, 2], FLOAT, "IMAGE")
    metadata = {"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_0_255"}
    return LearningModelSession(
        LearningModel.load(data([node], [tensor("i", [], INT64)], [out], {"table": table}, metadata=metadata))
    )


def test_a_picture_says_that_it_is_invalid() -> None:
    session, frame = pictures(), VideoFrame(BitmapPixelFormat.RGB8, 2, 2)
    binding = bound(session, frame)
    bitmap = frame.software_bitmap
    assert (bitmap.to_numpy() == 200).all()
    fail(session, binding)
    for read in (bitmap.to_numpy, bitmap.to_pil, lambda: SoftwareBitmap.copy(bitmap)):
        with pytest.raises(IllegalCallError, match=r"pixels are invalid\. Evaluate again"):
            read()
    binding.bind("i", np.array(0))
    session.evaluate(binding)
    assert (bitmap.to_numpy() == 0).all()


def test_a_picture_that_is_cast_says_so_too() -> None:
    """Float32 for a float16 feature that takes pictures."""
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    out = tensor("y", [1, 3, 2, 2], FLOAT16, "IMAGE")
    table = np.full((2, 1, 3, 2, 2), 7, np.float16)
    session = LearningModelSession(LearningModel.load(data([node], [tensor("i", [], INT64)], [out], {"table": table})))
    output, array = TensorFloat.create_from_array([1, 3, 2, 2], [0] * 12), np.zeros((1, 3, 2, 2), np.float32)
    for each in (output, array):
        binding = bound(session, each)
        fail(session, binding)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()
    assert np.isnan(array).all()
    binding.bind("i", np.array(0))
    session.evaluate(binding)
    assert (array == 7).all()
    binding.bind("y", output)
    session.evaluate(binding)
    assert (output.to_numpy() == 7).all()


@pytest.mark.parametrize(("dtype", "filled"), [(np.float32, [np.nan] * 2), (np.int64, [-(2**63)] * 2)])
def test_an_array_of_another_library_on_a_gpu(dtype: type[np.generic], filled: list[float]) -> None:
    """It is filled by that library, on the device: the tensor around it is ours, and nobody else sees it."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    ends = [tensor("i", [2], INT64)], [tensor("y", [2], element)]
    whole = data([node], *ends, {"table": TABLE.astype(dtype)})
    session, target = LearningModelSession(LearningModel.load(whole), FakeCudaDevice()), OnCard(np.zeros(2, dtype))
    binding = LearningModelBinding(session)
    binding.bind("i", np.array([1, 2]))
    binding.bind("y", target)
    session.evaluate(binding)
    assert target.memory.tolist() == [20, 30]
    binding.bind("i", np.array([1, 7]))
    with pytest.raises(Exception, match="indices element out of data bounds"):  # the substitute's engine is the raw one
        session.evaluate(binding)
    np.testing.assert_array_equal(target.memory, filled)
    binding.bind("i", np.array([0, 0]))
    session.evaluate(binding)
    assert target.memory.tolist() == [10, 10]


# Whatever ends the run


def counting(**values: Any) -> tuple[LearningModelSession, LearningModelBinding, TensorFloat]:
    session = LearningModelSession(LearningModel.load(counting_loop()))
    binding, output = LearningModelBinding(session), TensorFloat.create_from_array([], [0])
    for name, value in ({"count": np.array(3), "x": np.array(1, np.float32), "y": output} | values).items():
        binding.bind(name, value)
    session.evaluate(binding)
    assert output.to_numpy() == 8
    binding.bind("count", np.array(2**60))
    return session, binding, output


def test_a_cancellation() -> None:
    session, binding, output = counting()
    begin = time.process_time()
    operation = session.evaluate_async(binding)
    wait_until(lambda: time.process_time() - begin > 0.1)  # the loop computes; this thread sleeps
    operation.cancel()
    with pytest.raises(CanceledError):
        operation.get(60)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()


@pytest.mark.parametrize("raised", [ValueError, MemoryError, KeyboardInterrupt])
def test_an_operator_of_the_programs_own_that_raises(raised: type[BaseException]) -> None:
    def choosy(x: np.ndarray) -> np.ndarray:
        if x.min() < 0:
            raise raised("below 0")
        return x

    node = helper.make_node("Choosy", ["x"], ["y"], domain="my")
    whole = data([node], [tensor("x", [2])], [tensor("y", [2])], domains={"my": 1})
    operator = CustomOperator(choosy, "Choosy", "my", outputs=[(np.float32, 1)])
    session = LearningModelSession(LearningModel.load(whole, operators=[operator]))
    binding, output = LearningModelBinding(session), TensorFloat.create_from_array([2], [0, 0])
    binding.bind("x", np.float32([1, 2]))
    binding.bind("y", output)
    session.evaluate(binding)
    assert output.to_numpy().tolist() == [1, 2]
    binding.bind("x", np.float32([-1, 2]))
    with pytest.raises((WinMLError, raised)):
        session.evaluate(binding)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()


def test_a_lost_device() -> None:
    def negate(inputs: Any) -> dict[str, Any]:
        if inputs["x"][0] < 0:
            raise DeviceLostError("The device has gone.")
        return {"y": -inputs["x"]}

    session = LearningModelSession(LearningModel.load(unary("Neg", [2])), FakeDevice(negate))
    binding, output, x = LearningModelBinding(session), TensorFloat.create_from_array([2], [0, 0]), np.float32([1, 2])
    binding.bind("x", x)
    binding.bind("y", output)
    session.evaluate(binding)
    x[:] = -1
    with pytest.raises(DeviceLostError):
        session.evaluate(binding)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()


def test_an_output_that_does_not_fit() -> None:
    """The run itself went well, and its result is not where it was to be."""
    session = LearningModelSession(LearningModel.load(unary("Neg", ["n"])))
    binding, output = LearningModelBinding(session), TensorFloat.create_from_array([2], [0, 0])
    binding.bind("x", np.float32([1, 2]))
    binding.bind("y", output)
    session.evaluate(binding)
    binding.bind("x", np.float32([1, 2, 3]))
    with pytest.raises(SizeMismatchError):
        session.evaluate(binding)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()


def test_what_never_began_leaves_everything_as_it_was() -> None:
    session, output = looking_up(), TensorFloat.create()
    binding = LearningModelBinding(session)
    binding.bind("y", output)
    with pytest.raises(MissingInputError):
        session.evaluate(binding)
    binding.bind("i", np.array(1))
    session.evaluate(binding)
    assert output.to_numpy() == 20


def test_asynchronous_and_at_once() -> None:
    session = looking_up()
    output, array = TensorFloat.create(), np.array(5, np.float32)
    binding = bound(session, output)
    binding.bind("i", OUTSIDE)
    with pytest.raises(EvaluationError):
        session.evaluate_async(binding).get(60)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()
    for evaluate in (session.evaluate_features, lambda values: session.evaluate_features_async(values).get(60)):
        array[...] = 5
        with pytest.raises(EvaluationError):
            evaluate({"i": OUTSIDE, "y": array})
        assert np.isnan(array)


@pytest.mark.parametrize("batch", [None, 3])
def test_streams(batch: int | None) -> None:
    """Items that fail in the midst of others; each brings the memory of its output."""
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    whole = data([node], [tensor("i", ["n"], INT64)], [tensor("y", ["n"])], {"table": TABLE})
    session = LearningModelSession(LearningModel.load(whole))
    outputs = [np.array([5], np.float32) for _ in range(9)]
    items = [{"i": np.array([7 if n % 4 == 0 else n % 3]), "y": outputs[n]} for n in range(9)]
    for number, result in enumerate(session.evaluate_many(items, batch=batch)):
        assert result.succeeded is (number % 4 != 0)
    for number, output in enumerate(outputs):
        np.testing.assert_array_equal(output, [np.nan if number % 4 == 0 else TABLE[number % 3]])
    failed, kept = session.evaluate_many([{"i": OUTSIDE.reshape(1)}, {"i": np.array([0])}], batch=batch)
    with pytest.raises(EvaluationError):
        _ = failed.outputs
    assert kept.outputs["y"].to_numpy() == 10


def test_a_tensor_that_the_next_session_reads() -> None:
    """The second session's input is bound once; what the first failed to write is not evaluated."""
    first, second = looking_up(), LearningModelSession(LearningModel.load(unary("Neg", [])))
    between = TensorFloat.create_from_array([], [0])
    one, two = bound(first, between), LearningModelBinding(second)
    two.bind("x", between)
    assert second.evaluate(two).outputs["y"].to_numpy() == -20
    fail(first, one)
    for evaluate in (lambda: second.evaluate(two), lambda: two.bind("x", between)):
        with pytest.raises(IllegalCallError, match=r"invalid\. Evaluate again, or use another tensor"):
            evaluate()
    succeed(first, one)
    assert second.evaluate(two).outputs["y"].to_numpy() == -30
    two.bind("x", np.array(1, np.float32))
    fail(first, one)
    assert second.evaluate(two).outputs["y"].to_numpy() == -1


def test_an_output_that_cannot_be_spoiled_hides_neither_the_error_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A buffer without bytes among others, and an array that became read-only after the bind."""
    nodes = [helper.make_node("Gather", ["table", "i"], [name]) for name in "abc"]
    whole = data(nodes, [tensor("i", [], INT64)], [tensor(name, []) for name in "abc"], {"table": TABLE})
    session = LearningModelSession(LearningModel.load(whole))
    binding, buffer = LearningModelBinding(session), bytearray(4)
    frozen, array = np.zeros((), np.float32), np.zeros((), np.float32)
    binding.bind("i", np.array(1))
    binding.bind("a", [bytearray(0), buffer])
    binding.bind("b", frozen)
    binding.bind("c", array)
    session.evaluate(binding)
    assert (np.frombuffer(buffer, np.float32), frozen, array) == (20, 20, 20)
    frozen.flags.writeable = False
    fail(session, binding)
    assert np.isnan(array)
    assert np.isnan(np.frombuffer(buffer, np.float32))
    assert "The output b keeps its contents from before" in caplog.text


def test_an_operator_of_a_substitute_that_says_closed_leaves_nothing_stale() -> None:
    """What a program's function raises is the run's failure, whatever class it has."""
    calls: list[int] = []

    def negative(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        calls.append(1)
        if len(calls) == 2:
            raise ClosedError("Something of the program's own is closed.")
        return {"y": -inputs["x"]}

    session = LearningModelSession(LearningModel.load(unary("Neg", [1])), FakeDevice(negative))
    binding, output = LearningModelBinding(session), TensorFloat.create_from_array([1], [0])
    binding.bind("x", np.float32([3]))
    binding.bind("y", output)
    session.evaluate(binding)
    assert output.to_numpy() == -3
    with pytest.raises(EvaluationError, match=r"raised ClosedError: Something of the program's own"):
        session.evaluate(binding)
    with pytest.raises(IllegalCallError, match="invalid"):
        output.to_numpy()

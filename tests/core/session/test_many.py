"""evaluate_many: order, errors where they belong, batches, and an end at any time."""

from __future__ import annotations

import asyncio
import io
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image, ImageSequence

from helpers.models import INT64, STRING, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.sessions import open_session
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModelSession,
    SizeMismatchError,
    TensorFloat,
    TensorInt64Bit,
)
from winml_py.errors import MissingInputError, PictureNotFoundError
from winml_py.testing import FakeDevice
from winml_py.winrt.windows.ai import machinelearning

pytestmark = pytest.mark.usefixtures("all_cores")


def negated(results: Any) -> list[list[float]]:
    return [result.outputs["y"].to_numpy().tolist() for result in results]


@pytest.mark.parametrize("concurrency", [None, 1, 3])
@pytest.mark.parametrize("batch", [None, 1, 4])
def test_results_come_in_order(concurrency: int | None, batch: int | None) -> None:
    opened = open_session(unary("Neg", ["n", 2]))
    items = [np.full((1, 2), number, np.float32) for number in range(23)]
    results = list(opened.evaluate_many(items, concurrency=concurrency, batch=batch))
    assert negated(results) == [[[-number, -number]] for number in range(23)]
    assert all(result.succeeded and result.error is None and result.error_status == 0 for result in results)


def test_an_error_stays_with_its_item() -> None:
    opened = open_session(unary("Neg", ["n", 2]))
    good, bad = np.ones((1, 2), np.float32), np.ones((1, 3), np.float32)
    for batch in (None, 3):
        results = list(opened.evaluate_many([good, bad, good, "text", good], batch=batch))
        assert [result.succeeded for result in results] == [True, False, True, False, True]
        assert isinstance(results[1].error, SizeMismatchError)
        assert results[1].error_status == results[1].error.winerror < 0
        assert "failed" in repr(results[1])
        assert results[1].error.__traceback__ is None  # its frames would keep the session
        with pytest.raises(SizeMismatchError):
            _ = results[1].outputs
    pictures = open_session(MODELS / "digits.onnx").evaluate_many([PICTURES / "seven.png", PICTURES / "none.png"])
    first, second = pictures
    assert first.succeeded
    assert isinstance(second.error, PictureNotFoundError)


def test_pictures_are_batched_and_told_apart() -> None:
    """The pixels of each picture are those it has alone, and the model is called once for both."""
    opened = open_session(MODELS / "digits_batch.onnx")
    paths = sorted(PICTURES.glob("*.png"))[:1] * 3 + [PICTURES / "cat.jpg"]
    name = opened.model.output_features[0].name
    alone = [
        opened.evaluate_features({"image": ImageFeatureValue.load(path)}).outputs[name].to_numpy() for path in paths
    ]
    for result, expected in zip(opened.evaluate_many(paths, batch=4, concurrency=1), alone, strict=True):
        np.testing.assert_allclose(result.outputs[name].to_numpy(), expected, atol=1e-6)


def test_a_batch_is_one_evaluation() -> None:
    sizes: list[int] = []

    def double(inputs: Any) -> Any:
        sizes.append(len(inputs["x"]))
        return {"y": inputs["x"] * 2}

    opened = open_session(unary("Neg", ["n", 1]), FakeDevice(double))
    items = [np.full((count, 1), count, np.float32) for count in (1, 2, 1, 3, 1)]
    results = list(opened.evaluate_many(items, batch=2, concurrency=1))
    assert [result.outputs["y"].shape for result in results] == [(1, 1), (2, 1), (1, 1), (3, 1), (1, 1)]
    assert [float(result.outputs["y"].to_numpy()[0, 0]) for result in results] == [2, 4, 2, 6, 2]
    assert sizes == [3, 3, 1, 2, 4, 1]  # the items of the first batch also the other way round, and one by one
    list(opened.evaluate_many(items[:2], batch=2, concurrency=1))
    list(opened.evaluate_many([{"X": item} for item in items[:2]], batch=2, concurrency=1))
    assert sizes[6:] == [3, 3]


@pytest.mark.parametrize("operator", ["CumSum", "ReduceSum"])
def test_a_model_that_mixes_the_items_of_a_batch_is_refused(operator: str) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node(operator, ["x", "rows"], ["mixed"]),
        helper.make_node("Sub", ["x", "mixed"], ["y"]),
    ]
    outputs = [tensor("same", ["n", 2]), tensor("y", ["n", 2])]
    model = data(nodes, [tensor("x", ["n", 2])], outputs, {"rows": np.array([0])})
    items = [np.full((1, 2), number, np.float32) for number in range(6)]
    opened = open_session(model)
    with pytest.raises(InvalidArgumentError, match="in a batch of 3, the output y differs"):
        list(opened.evaluate_many(items, batch=3))
    alone = list(opened.evaluate_many(items))
    assert negated(alone) == [[[0, 0]]] * 6


@pytest.mark.parametrize("first", [[[5, 5]] * 2, [[np.nan, 5], [1, 5]]])
def test_equal_items_do_not_hide_that_a_model_mixes_items(first: list[list[float]]) -> None:
    """The item less the mean of its batch: 0 alone, and with an equal one; also where only one of them has NaN."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    session = open_session(data(nodes, [tensor("x", ["n", 2])], [tensor("y", ["n", 2])], {}))
    items = [np.float32([item]) for item in (*first, [1, 1], [3, 3])]
    with pytest.raises(InvalidArgumentError, match="in a batch of 2, the output y differs"):
        list(session.evaluate_many(items, batch=2, concurrency=1))


@pytest.mark.parametrize("size", [1, 2])
def test_a_comparison_that_shows_nothing_is_repeated(size: int) -> None:
    """Until two items differ. Items of two entries, which differ, may be equal as well."""
    sizes: list[int] = []

    def double(inputs: Any) -> Any:
        sizes.append(len(inputs["x"]))
        return {"y": inputs["x"] * 2}

    items = [
        np.full((size, 1), number, np.float32) + np.arange(size, dtype=np.float32)[:, None]
        for number in (5, 5, 1, 2, 7, 7)
    ]
    list(open_session(unary("Neg", ["n", 1]), FakeDevice(double)).evaluate_many(items, batch=2, concurrency=1))
    assert sizes == [2 * size, 2 * size, size, size] * 2 + [2 * size]


def test_small_classes_that_a_batch_changes_are_mixed() -> None:
    """The item plus the size of its batch, as uint8."""

    def count(inputs: Any) -> Any:
        return {"y": inputs["x"] + np.uint8(len(inputs["x"]))}

    session = open_session(unary("Identity", ["n", 1], TensorProto.UINT8), FakeDevice(count))
    with pytest.raises(InvalidArgumentError, match="in a batch of 2, the output y differs"):
        list(session.evaluate_many([np.uint8([[item]]) for item in (200, 210)], batch=2))


@pytest.mark.parametrize("kind", [INT64, TensorProto.INT32])
def test_whole_numbers_that_a_batch_changes_by_little_are_mixed(kind: int) -> None:
    """1000 plus the item, less the largest item of its batch: 1000 alone, and 996 in a batch with 5."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "largest"], ["difference"]),
        helper.make_node("Add", ["difference", "thousand"], ["y"]),
    ]
    ends = [tensor(name, ["n", 1], kind) for name in "xy"]
    session = open_session(data(nodes, ends[:1], ends[1:], {"thousand": np.array(1000, dtype)}))
    with pytest.raises(InvalidArgumentError, match="in a batch of 2, the output y differs"):
        list(session.evaluate_many([np.array([[item]], dtype) for item in (1, 5)], batch=2))


@pytest.mark.parametrize("first", [[np.nan, np.nan], [1, np.nan], [np.nan, 1], [0, 5], [5, 0]])
def test_nan_and_zero_do_not_hide_that_a_model_mixes_items(first: list[float]) -> None:
    model = data(
        [helper.make_node("CumSum", ["x", "row"], ["y"])],
        [tensor("x", ["n", 1])],
        [tensor("y", ["n", 1])],
        {"row": np.array(0)},
    )
    items = [np.full((1, 1), number, np.float32) for number in (*first, 1, 1)]
    with pytest.raises(InvalidArgumentError, match="in a batch of 2, the output y differs"):
        list(open_session(model).evaluate_many(items, batch=2, concurrency=1))


@pytest.mark.parametrize(
    "bad",
    [
        np.int32([[7, 7]]),
        np.array([[True, True]]),
        TensorInt64Bit.create([1, 2]),
        np.uint8([[7, 7]]),
        TensorFloat.create_from_array([1, 2], [7, 7]),
    ],
)
def test_a_batch_takes_what_bind_takes(bad: Any) -> None:
    """Also after the first batch, whose items are evaluated one by one as well."""
    opened = open_session(unary("Neg", ["n", 2], TensorProto.INT64))
    good = np.ones((1, 2), np.int64)
    results = list(opened.evaluate_many([good, good, good, bad, bad, good], batch=2, concurrency=1))
    assert [type(result.error) for result in results[3:5]] == [InvalidBindingError] * 2
    assert negated([*results[:3], results[5]]) == [[[-1, -1]]] * 4
    if isinstance(bad, TensorInt64Bit):
        assert bad.is_placeholder


def test_arrays_of_pixels_and_lists_are_batched() -> None:
    sizes: list[int] = []

    def double(inputs: Any) -> Any:
        sizes.append(len(inputs["x"]))
        return {"y": inputs["x"] * 2}

    opened = open_session(unary("Neg", ["n", 1, 1, 2]), FakeDevice(double))
    pixels = [np.uint8([[gray, 20]]) for gray in range(4)]
    contract = ImageContract(BitmapPixelFormat.GRAY8)
    results = list(opened.evaluate_many(pixels, contract=contract, batch=4, concurrency=1))
    assert [result["y"].to_numpy().tolist() for result in results] == [[[[[2 * gray, 40]]]] for gray in range(4)]
    assert sizes == [4, 4, 1, 1, 1, 1]
    results = list(opened.evaluate_many([[1.0, 2.0], [4.0, 5.0]], batch=2, concurrency=1))
    assert [result["y"].to_numpy().reshape(-1).tolist() for result in results] == [[2, 4], [8, 10]]
    assert sizes[6:] == [2]


def test_outputs_that_a_batch_only_rounds_differently_are_not_mixed() -> None:
    def compute(inputs: Any) -> Any:
        x = inputs["x"]
        y = x * (1 + 1e-3 * len(x))
        y[:, 1] = np.nan
        return {"y": y}

    opened = open_session(unary("Neg", ["n", 2]), FakeDevice(compute))
    items = [np.full((1, 2), number, np.float32) for number in range(4)]
    results = list(opened.evaluate_many(items, batch=2))
    assert [result.outputs["y"].to_numpy()[0, 0] for result in results] == pytest.approx([0, 1, 2, 3], rel=3e-3)


def test_models_without_a_batch_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"first dimension of x is fixed"):
        open_session(unary("Neg", [1, 2])).evaluate_many([], batch=2)
    for settings in ({"batch": 0}, {"concurrency": 0}, {"concurrency": True}, {"batch": 1.5}):
        with pytest.raises(InvalidArgumentError, match="whole number of 1 or more"):
            open_session(unary()).evaluate_many([], **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("override", [None, 0, 1, 4])
@pytest.mark.parametrize("batch", [None, 1, 4])
def test_a_batch_needs_a_dimension_that_the_options_leave_free(override: int | None, batch: int | None) -> None:
    sizes: list[int] = []

    def double(inputs: Any) -> Any:
        sizes.append(len(inputs["x"]))
        return {"y": inputs["x"] * 2}

    settings = {} if override is None else {"batch_size_override": override}
    opened = open_session(batch_model(), FakeDevice(double), **settings)
    items = [np.full((1, 1), number, np.float32) for number in range(8)]
    if override and batch == 4:
        with pytest.raises(InvalidArgumentError, match=r"first dimension of x is fixed.*batch_size_override = 0"):
            opened.evaluate_many(items, batch=batch)
        return
    results = list(opened.evaluate_many(items, batch=batch, concurrency=1))
    if override == 4:
        assert [type(result.error) for result in results] == [SizeMismatchError] * 8
        assert not sizes  # refused at the bind
        return
    assert [float(result["y"].to_numpy()[0, 0]) for result in results] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert sizes == ([4, 4, 1, 1, 1, 1, 4] if batch == 4 else [1] * 8)


def batch_model() -> bytes:
    """y = -x; the first dimension is denoted the batch."""
    ends = [tensor(name, ["n", 1]) for name in "xy"]
    for end in ends:
        end.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:])


def test_inputs_are_taken_as_late_as_can_be() -> None:
    taken: list[int] = []

    def source() -> Iterator[Any]:
        for number in range(1000):
            taken.append(number)
            yield np.float32([number])

    stream = open_session(unary("Neg", ["n"])).evaluate_many(source(), concurrency=2)
    for _ in range(3):
        next(stream)
    assert 3 <= len(taken) <= 3 + 2 * 2 + 1
    stream.close()
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)


def test_what_the_source_raises_comes_in_its_turn() -> None:
    def source() -> Iterator[Any]:
        yield np.float32([1])
        yield np.float32([2])
        raise KeyError("the camera is gone")

    stream = open_session(unary("Neg", ["n"])).evaluate_many(source())
    assert negated([next(stream), next(stream)]) == [[-1], [-2]]
    with pytest.raises(KeyError, match="camera"):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)


def test_an_error_of_the_callers_own_is_not_swallowed() -> None:
    def broken(inputs: Any) -> Any:
        raise ZeroDivisionError("in the model")

    with pytest.raises(ZeroDivisionError):
        next(open_session(unary("Neg", ["n"]), FakeDevice(broken)).evaluate_many([np.float32([1])]))


def test_a_session_that_is_closed_ends_it() -> None:
    opened = open_session(unary("Neg", ["n"]))
    stream = opened.evaluate_many(list(np.ones((100, 1), np.float32)), concurrency=1)
    next(stream)
    opened.close()
    with pytest.raises(ClosedError):
        list(stream)
    stream.close()
    with pytest.raises(ClosedError):
        opened.evaluate_many([])


def test_it_overlaps() -> None:
    """Two items are in work at once: each waits for the other."""
    meeting = threading.Barrier(2, timeout=20)

    def meet(inputs: Any) -> Any:
        meeting.wait()
        return {"y": inputs["x"]}

    opened = open_session(unary("Neg", ["n"]), FakeDevice(meet))
    assert len(list(opened.evaluate_many(list(np.ones((6, 1), np.float32)), concurrency=2))) == 6


def test_async_for() -> None:
    opened = open_session(unary("Neg", ["n"]))

    async def collect() -> tuple[list[Any], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        results = [result async for result in opened.evaluate_many([np.float32([n]) for n in range(5)])]
        ticking.cancel()
        return negated(results), ticks

    results, ticks = asyncio.run(collect())
    assert results == [[0], [-1], [-2], [-3], [-4]]
    assert ticks > 1  # the loop went on


def test_with_closes_it() -> None:
    before = set(threading.enumerate())  # among them may be threads of streams that were left and are ending
    with open_session(unary("Neg", ["n"])).evaluate_many(list(np.ones((50, 1), np.float32))) as stream:
        next(stream)
        assert [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("winml-py many")]
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("winml-py many")]


def test_several_inputs_need_names() -> None:
    model = data([helper.make_node("Add", ["a", "b"], ["y"])], [tensor(n, ["n"]) for n in "ab"], [tensor("y", ["n"])])
    one, two = np.float32([1]), np.float32([2])
    results = list(open_session(model).evaluate_many([{"a": one, "b": two}, one], batch=2))
    assert results[0].outputs["y"].to_numpy().tolist() == [3]
    assert "2 inputs" in str(results[1].error)


# What one item binds is no other item's


def two_inputs() -> bytes:
    inputs = [tensor("a", ["n"]), tensor("b", ["n"])]
    return data([helper.make_node("Sub", ["a", "b"], ["y"])], inputs, [tensor("y", ["n"])])


@pytest.mark.parametrize("batch", [None, 3])
def test_an_item_without_an_input_does_not_take_an_earlier_ones(batch: int | None) -> None:
    opened = open_session(two_inputs())
    whole = {"a": np.float32([5]), "b": np.float32([2])}
    items = [whole, {"a": np.float32([7])}, whole]
    first, second, third = opened.evaluate_many(items, concurrency=1, batch=batch)
    assert isinstance(second.error, MissingInputError)
    assert [r.outputs["y"].to_numpy().tolist() for r in (first, third)] == [[3], [3]]


@pytest.mark.parametrize("batch", [None, 2])
def test_an_array_that_one_item_binds_to_an_output_is_not_the_next_ones(batch: int | None) -> None:
    opened = open_session(two_inputs())
    mine = np.zeros(1, np.float32)
    items = [
        {"a": np.float32([5]), "b": np.float32([2]), "y": mine},
        {"a": np.float32([9]), "b": np.float32([1])},
        {"a": np.float32([8]), "b": np.float32([1])},
    ]
    results = list(opened.evaluate_many(items, concurrency=1, batch=batch))
    assert results[0].outputs["y"] is mine
    assert mine.tolist() == [3]
    assert [r.outputs["y"].to_numpy().tolist() for r in results[1:]] == [[8], [7]]


def test_an_unknown_name_of_a_later_item_in_a_batch_is_an_error() -> None:
    opened = open_session(two_inputs())
    good = {"a": np.float32([5]), "b": np.float32([2])}
    results = list(opened.evaluate_many([good, good | {"c": np.float32([1])}, good], batch=3))
    assert [result.succeeded for result in results] == [True, False, True]
    assert isinstance(results[1].error, InvalidBindingError)
    assert "c" in str(results[1].error)


# Reading with asyncio


def test_a_wait_that_is_cancelled_loses_no_result() -> None:
    """Each wait is given up at first; the source is a generator, which two threads must not enter at once."""
    opened = open_session(unary("Neg", ["n", 2]))
    go = threading.Semaphore(0)

    def source() -> Iterator[Any]:
        for number in range(5):
            go.acquire()
            yield np.full((1, 2), number, np.float32)

    async def read() -> list[float]:
        found, cancelled = [], 0
        stream = opened.evaluate_many(source(), concurrency=1)
        while True:
            try:
                result = await asyncio.wait_for(anext(stream), 0.05)
            except TimeoutError:
                cancelled += 1
                go.release(5)
            except StopAsyncIteration:
                assert cancelled >= 1
                return found
            else:
                found.append(float(result.outputs["y"].to_numpy()[0, 0]))

    assert asyncio.run(read()) == [0, -1, -2, -3, -4]


def test_tasks_that_read_one_stream_share_its_results() -> None:
    opened = open_session(unary("Neg", ["n", 2]))

    async def read() -> list[float]:
        stream = opened.evaluate_many([np.full((1, 2), n, np.float32) for n in range(20)], concurrency=2)

        async def part() -> list[float]:
            return [float(result.outputs["y"].to_numpy()[0, 0]) async for result in stream]

        parts = await asyncio.gather(part(), part(), part())
        return sorted(number for numbers in parts for number in numbers)

    assert asyncio.run(read()) == sorted(-float(n) for n in range(20))


# What a stream must not mix or take for something else


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "PNG"])
def test_frames_of_one_pillow_image_are_evaluated_each(kind: str) -> None:
    """Pillow gives the same object for every frame, and seeks in it."""
    levels = (10, 100, 200, 250)
    frames, file = [Image.new("L", (8, 8), level) for level in levels], io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:])
    mean = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2, 3], keepdims=0)
    session = open_session(data([mean], [tensor("x", (1, 3, 8, 8), denotation="IMAGE")], [tensor("y", [1])]))
    with Image.open(file) as image:
        results = list(session.evaluate_many(ImageSequence.Iterator(image)))
    assert [round(float(result["y"].to_numpy()[0])) for result in results] == list(levels)


@pytest.mark.parametrize("change", ["close", "paint", "both"])
def test_a_pillow_image_may_change_before_it_is_evaluated(change: str) -> None:
    """Also one that Pillow has not decoded when the program yields it."""

    def source() -> Iterator[Image.Image]:
        for _ in range(3):
            image = Image.open(PICTURES / "seven.png")
            yield image
            if change != "close":
                image.paste(0, (0, 0, *image.size))
            if change != "paint":
                image.close()

    session = open_session(MODELS / "digits.onnx")
    results = session.evaluate_many(source(), concurrency=1)
    assert [result.top_k(1)[0].index for result in results] == [7] * 3


def test_items_whose_inputs_have_different_rows_are_not_batched() -> None:
    ends = [tensor("a", ["n", 1]), tensor("b", ["m", 1])]
    session = open_session(data([helper.make_node("Add", ["a", "b"], ["y"])], ends, [tensor("y", ["k", 1])]))
    with pytest.raises(InvalidArgumentError, match="first dimension of a is 'n', but that of b is 'm'"):
        session.evaluate_many([], batch=2)
    ends = [tensor("a", [None, 1]), tensor("b", [None, 1])]
    session = open_session(data([helper.make_node("Add", ["a", "b"], ["y"])], ends, [tensor("y", [None, 1])]))

    def rows(*numbers: float) -> Any:
        return np.float32(numbers).reshape(-1, 1)

    items = [{"a": rows(1), "b": rows(1)}, {"a": rows(2), "b": rows(2)}]
    items += [{"a": rows(1, 2), "b": rows(10)}, {"a": rows(3), "b": rows(20, 30)}]
    results = session.evaluate_many(items, batch=2, concurrency=1)
    assert [result["y"].to_numpy().ravel().tolist() for result in results] == [[2], [4], [11, 12], [23, 33]]


def test_texts_are_no_paths(tmp_path: Path) -> None:
    session = open_session(unary(shape=(1,), element=STRING))
    texts = ["How are you?", "samples.csv", str(tmp_path), "photos/*.jpg"]
    assert [result["y"].to_numpy().tolist() for result in session.evaluate_many(texts)] == [[text] for text in texts]
    assert next(session.evaluate_many("How are you?"))["y"].to_numpy().tolist() == ["How are you?"]


def test_models_of_windows_ml_read_no_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 3, 8, 8), np.float32))
    (tmp_path / "m.onnx").write_bytes(unary(shape=(1, 3, 8, 8)))
    session = LearningModelSession(machinelearning.LearningModel.load_from_file_path(str(tmp_path / "m.onnx")))
    for item in (str(tmp_path / "x.npy"), {"x": tmp_path / "x.npy"}, {"x": (tmp_path / "x.npy").read_bytes()}):
        assert isinstance(next(session.evaluate_many([item])).error, InvalidBindingError)


def test_streams_that_wait_keep_no_other_stream_from_its_results() -> None:
    session, queues = open_session(unary(shape=(1,))), [queue.Queue[Any]() for _ in range(20)]

    async def evaluate() -> float:
        streams = [session.evaluate_many(iter(each.get, None), concurrency=1) for each in queues]
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
        async with asyncio.timeout(60):
            result = await anext(session.evaluate_many([np.float32([7])], concurrency=1))
        for each in queues:
            each.put(np.float32([1]))
            each.put(None)
        await asyncio.gather(*waiting)
        return float(result["y"].to_numpy()[0])

    assert asyncio.run(evaluate()) == 7

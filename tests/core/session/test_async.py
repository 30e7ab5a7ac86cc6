"""Asynchronous loading and evaluating: awaited, waited for, and cancelled."""

from __future__ import annotations

import asyncio
import gc
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.models import counting_loop, data, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    CanceledError,
    ClosedError,
    CorruptModelError,
    EvaluationTimeoutError,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    ModelNotFoundError,
    TensorFloat,
)
from winml_py.errors import IllegalCallError, MissingInputError
from winml_py.results import AsyncOperation
from winml_py.testing import FakeDevice
from winml_py.winrt.windows.foundation import AsyncStatus

pytestmark = pytest.mark.usefixtures("all_cores")

IMAGE = np.zeros((1, 1, 28, 28), np.float32)


def test_loading_in_every_way() -> None:
    path = MODELS / "digits.onnx"
    whole = path.read_bytes()

    operations = [
        LearningModel.load_async(path),
        LearningModel.load_async(whole),
        LearningModel.load_from_stream_async(io.BytesIO(whole)),
    ]

    async def all_of_them() -> list[str]:
        return [(await operation).name for operation in operations]

    assert asyncio.run(all_of_them()) == ["digits"] * len(operations)


def test_errors_of_loading_surface_from_the_operation() -> None:
    operation = LearningModel.load_async("nope.onnx")
    with pytest.raises(ModelNotFoundError):
        operation.get()
    assert operation.status is AsyncStatus.ERROR
    assert operation.error_code == -2147024894
    with pytest.raises(CorruptModelError):
        asyncio.run(wait_for(LearningModel.load_from_stream_async(io.BytesIO(b"text, not a model"))))


async def wait_for(operation: AsyncOperation[Any]) -> Any:
    return await operation


def test_evaluations_run_side_by_side(digits: LearningModelSession) -> None:
    images = np.random.default_rng(0).random((6, 1, 1, 28, 28), np.float32)
    expected = [digits.evaluate_features({"image": image}).outputs["probabilities"].to_numpy() for image in images]

    async def together() -> list[Any]:
        operations = [digits.evaluate_features_async({"image": image}, str(i)) for i, image in enumerate(images)]
        return await asyncio.gather(*operations)

    results = asyncio.run(together())
    assert [result.correlation_id for result in results] == [str(index) for index in range(6)]
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.outputs["probabilities"], value)


async def in_a_task(operation: AsyncOperation[Any]) -> Any:
    return await asyncio.create_task(operation)


async def in_a_task_group(operation: AsyncOperation[Any]) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(operation)
    return task.result()


async def in_another_thread(operation: AsyncOperation[Any]) -> Any:
    """As a thread without an event loop hands an operation to this one."""
    loop = asyncio.get_running_loop()
    handed = await loop.run_in_executor(None, asyncio.run_coroutine_threadsafe, operation, loop)
    return await asyncio.wrap_future(handed)


WAYS: dict[str, Callable[[AsyncOperation[Any]], Any]] = {
    "run": asyncio.run,
    "await": lambda operation: asyncio.run(wait_for(operation)),
    "create_task": lambda operation: asyncio.run(in_a_task(operation)),
    "TaskGroup": lambda operation: asyncio.run(in_a_task_group(operation)),
    "run_coroutine_threadsafe": lambda operation: asyncio.run(in_another_thread(operation)),
}


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_an_operation_is_a_coroutine(way: str, is_done: bool) -> None:
    """For whatever asyncio takes coroutines for, before the work is done and after it."""

    def start(work: Callable[[], Any]) -> AsyncOperation[Any]:
        go = threading.Event()
        operation = AsyncOperation(lambda _: go.wait(30) and work())
        if is_done:
            go.set()
            operation.wait()
        else:
            threading.Timer(0.05, go.set).start()
        return operation

    def fail() -> None:
        raise CorruptModelError("It is broken.")

    assert WAYS[way](start(lambda: (1, 2))) == (1, 2)
    operation = start(fail)
    with pytest.raises((CorruptModelError, ExceptionGroup)) as info:
        WAYS[way](operation)
    error = info.value.exceptions[0] if isinstance(info.value, ExceptionGroup) else info.value
    assert isinstance(error, CorruptModelError)
    assert operation.status is AsyncStatus.ERROR


def test_tasks_of_every_asynchronous_call(digits: LearningModelSession) -> None:
    binding = LearningModelBinding(digits)
    binding.bind("image", IMAGE)

    async def all_of_them() -> list[Any]:
        calls = [
            LearningModel.load_async(MODELS / "digits.onnx"),
            LearningModelSession.create_async(digits.model),
            digits.evaluate_async(binding),
            digits.evaluate_features_async({"image": IMAGE}),
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
        return [task.result() for task in tasks]

    model, session, *results = asyncio.run(all_of_them())
    expected = digits.evaluate_features({"image": IMAGE}).outputs["probabilities"].to_numpy()
    assert model.name == "digits"
    for result in [*results, session.evaluate_features({"image": IMAGE})]:
        np.testing.assert_array_equal(result.outputs["probabilities"].to_numpy(), expected)


def test_tasks_and_awaits_share_an_operation() -> None:
    go = threading.Event()
    operation = AsyncOperation(lambda _: go.wait(30) and [1])

    async def share() -> list[Any]:
        waiting = [asyncio.create_task(operation), asyncio.create_task(wait_for(operation))]
        waiting.append(asyncio.create_task(operation))
        await asyncio.sleep(0.05)
        go.set()
        return [*await asyncio.gather(*waiting), await operation, await operation]

    results = asyncio.run(share())
    assert results == [[1]] * 5
    assert all(result is operation.get() for result in results)


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("is_running", [False, True])
def test_cancelling_the_task_of_an_operation_stops_it(is_running: bool, begins: bool) -> None:
    """Whether the work has begun or waits for a thread, and whether the task has begun to wait for it."""
    started, stopped = threading.Event(), threading.Event()

    def work(stop: Any) -> None:
        started.set()
        while not stop.requested:
            time.sleep(0.01)
        stopped.set()
        stop.require_not_requested()

    busy = [] if is_running else [AsyncOperation(lambda _: stopped.wait(30)) for _ in range(16)]  # all threads
    operation = AsyncOperation(work)
    assert started.wait(30 if is_running else 0.2) is is_running

    async def cancel() -> None:
        task, other = asyncio.create_task(operation), asyncio.create_task(operation)
        if begins:
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(CanceledError):  # the operation was cancelled, this task was not
            await other

    try:
        asyncio.run(cancel())
        assert operation.wait(30) is AsyncStatus.CANCELED
        assert stopped.wait(30 if is_running else 0) is is_running
    finally:
        operation.cancel()
        stopped.set()
    assert [waiting.get(30) for waiting in busy] == [True] * len(busy)


def test_a_limit_of_time_on_an_operation_cancels_it() -> None:
    session = LearningModelSession(LearningModel.load(counting_loop()))
    operation = session.evaluate_features_async({"x": np.float32(1), "count": np.int64(1 << 60)})
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(operation, 0.1))
    assert operation.wait(30) is AsyncStatus.CANCELED


def test_a_binding_is_evaluated_again_in_place(digits: LearningModelSession) -> None:
    binding = LearningModelBinding(digits)
    binding.bind("image", IMAGE)
    output = np.zeros((1, 10), np.float32)
    binding.bind("probabilities", output)
    for _ in range(2):
        output[:] = 0
        operation = digits.evaluate_async(binding, "id")
        result = operation.get()
        assert result.outputs["probabilities"] is output
        assert output.sum() == pytest.approx(1)
        assert (operation.status, operation.error_code) == (AsyncStatus.COMPLETED, 0)
        assert operation.get_results() is result


def test_errors_of_binding_are_raised_at_once(digits: LearningModelSession) -> None:
    with pytest.raises(InvalidBindingError):
        digits.evaluate_features_async({"nope": IMAGE})
    operation = digits.evaluate_features_async({})
    with pytest.raises(MissingInputError):
        operation.get()
    closed = LearningModelSession(LearningModel.load(unary()))
    binding = LearningModelBinding(closed)
    closed.close()
    with pytest.raises(ClosedError):
        closed.evaluate_async(binding)


def test_cancelling_the_awaiting_task_stops_the_run_between_nodes() -> None:
    session = LearningModelSession(LearningModel.load(counting_loop()))
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32(1))
    binding.bind("count", np.int64(1 << 60))

    async def cancel() -> AsyncOperation[Any]:
        operation = session.evaluate_async(binding)
        task = asyncio.ensure_future(wait_for(operation))
        await asyncio.sleep(0.2)
        assert operation.status is AsyncStatus.STARTED
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return operation

    operation = asyncio.run(cancel())
    deadline = time.monotonic() + 30
    while operation.status is AsyncStatus.STARTED and time.monotonic() < deadline:
        time.sleep(0.01)
    assert operation.status is AsyncStatus.CANCELED
    with pytest.raises(CanceledError):
        operation.get()
    binding.bind("count", np.int64(3))
    assert session.evaluate(binding).outputs["y"].to_numpy() == 8  # the binding works on


def test_what_has_not_begun_never_runs() -> None:
    started, go = threading.Event(), threading.Event()
    runs = []

    def slow(inputs: Any) -> Any:
        runs.append(1)
        started.set()
        go.wait()
        return {"y": inputs["x"]}

    session = LearningModelSession(LearningModel.load(unary()), FakeDevice(slow))
    binding = LearningModelBinding(session)
    binding.bind("x", np.ones(1, np.float32))
    first = session.evaluate_async(binding)
    started.wait()
    second = session.evaluate_async(binding)  # waits for its turn
    with pytest.raises(IllegalCallError, match="has not completed"):
        second.get_results()
    with pytest.raises(TimeoutError):
        second.get(0.01)
    second.cancel()
    go.set()
    assert first.get().succeeded
    with pytest.raises(CanceledError):
        second.get()
    assert second.status is AsyncStatus.CANCELED
    assert len(runs) == 1


def test_callbacks(digits: LearningModelSession) -> None:
    called: list[AsyncOperation[Any]] = []
    done = threading.Event()
    operation = digits.evaluate_features_async({"image": IMAGE})
    operation.add_done_callback(called.append)
    operation.add_done_callback(lambda _: done.set())
    assert done.wait(10)
    assert called == [operation]
    assert repr(operation) == "<AsyncOperation completed>"


def test_a_time_limit_stops_the_run() -> None:
    """Hours of cheap nodes: the run ends between two of them, and what is bound has no data until the next."""
    session = LearningModelSession(LearningModel.load(counting_loop()))
    binding, output = LearningModelBinding(session), TensorFloat.create_from_array([], [5])
    binding.bind("count", np.array(2**60))
    binding.bind("x", np.array(1, np.float32))
    binding.bind("y", output)
    with pytest.raises(EvaluationTimeoutError, match=r"within 0.05 s.*Allow more time") as info:
        session.evaluate(binding, timeout=0.05)
    with pytest.raises(EvaluationTimeoutError):
        session.evaluate_features({"count": np.array(2**60), "x": np.float32(1)}, timeout=0.05)
    assert isinstance(info.value, TimeoutError)
    assert isinstance(info.value, CanceledError)
    with pytest.raises(IllegalCallError, match="was stopped, so its data is invalid"):
        output.to_numpy()
    binding.bind("count", np.array(3))
    binding.bind("y", output)  # it can be bound again
    assert session.evaluate(binding, "id", timeout=60).correlation_id == "id"
    assert output.to_numpy() == 8


def test_a_time_limit_that_is_none() -> None:
    session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    binding = LearningModelBinding(session)
    binding.bind("image", IMAGE)
    for wrong in (0, -1, True, "1", float("inf"), float("nan")):
        with pytest.raises(InvalidArgumentError, match="seconds above 0"):
            session.evaluate(binding, timeout=wrong)  # type: ignore[arg-type]
    before = threading.active_count()
    for _ in range(20):
        assert session.evaluate(binding, timeout=30).succeeded
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:  # timers on their way out
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_session_is_made_in_a_thread() -> None:
    async def made() -> LearningModelSession:
        return await LearningModelSession.create_async(await LearningModel.load_async(MODELS / "digits.onnx"))

    session = asyncio.run(made())
    assert session.evaluate_features({"image": IMAGE}).outputs["probabilities"].shape == (1, 10)
    with pytest.raises(InvalidArgumentError):
        LearningModelSession.create_async("model").get()  # type: ignore[arg-type]


def deep(layers: int) -> bytes:
    """Products of constants, which the runtime works out while it compiles: seconds of them."""
    weight = np.eye(700, dtype=np.float32)
    nodes = [helper.make_node("MatMul", [f"h{index}", "w"], [f"h{index + 1}"]) for index in range(layers)]
    nodes.append(helper.make_node("MatMul", ["x", f"h{layers}"], ["y"]))
    return data(nodes, [tensor("x", [1, 700])], [tensor("y", [1, 700])], {"w": weight, "h0": weight})


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_cancelled_operation_raises_the_same_error_queued_or_running(is_queued: bool) -> None:
    """Awaited and waited for; the task that awaits is not cancelled, and must not look so."""
    session = LearningModelSession(LearningModel.load(counting_loop()))
    bindings = [LearningModelBinding(session) for _ in range(2)]
    for binding in bindings:
        binding.bind("x", np.float32(1))
        binding.bind("count", np.int64(1 << 60))

    async def cancelled(operation: AsyncOperation[Any]) -> None:
        asyncio.get_running_loop().call_later(0.1, operation.cancel)
        with pytest.raises(CanceledError):
            await operation
        assert operation.status is AsyncStatus.CANCELED
        with pytest.raises(CanceledError):
            operation.get()

    busy = [session.evaluate_async(bindings[0]) for _ in range(16 if is_queued else 0)]  # all threads of the pool
    try:
        asyncio.run(cancelled(session.evaluate_async(bindings[1])))
    finally:
        for operation in busy:
            operation.cancel()


def test_making_a_session_can_be_cancelled(natives: list[Any]) -> None:
    model = LearningModel.load(deep(200))
    operation = LearningModelSession.create_async(model)
    time.sleep(0.05)
    operation.cancel()
    with pytest.raises(CanceledError):
        operation.get(120)
    assert operation.status is AsyncStatus.CANCELED
    del operation  # it keeps the error, whose traceback may keep what was made
    gc.collect()
    assert [native for native in natives if native()] == []
    again = LearningModelSession(LearningModel.load(deep(2)))
    assert again.evaluate_features({"x": np.ones((1, 700), np.float32)}).outputs["y"].to_numpy()[0, 0] == 1

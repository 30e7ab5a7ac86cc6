"""A GPU session holds its lock while it runs, whatever the provider; a session on the CPU has none.

No card was here: the runtime's session is a substitute that computes on the CPU, see `helpers/providers.py`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from helpers.models import FLOAT16, STRING, unary
from helpers.providers import PROVIDERS, Runtime, make_device, runtime
from helpers.sessions import open_session
from winml_py import (
    CanceledError,
    ClosedError,
    EvaluationError,
    EvaluationTimeoutError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFloat,
)
from winml_py.winrt.windows.foundation import AsyncStatus

__all__ = ["runtime"]  # a fixture

WAIT = 10.0
"""Seconds that suffice for what must happen."""

MODELS = {
    "numbers": (unary("Neg", [2]), np.float32([1, -2]), np.float32([-1, 2])),
    "free sizes": (unary("Neg", ["n"]), np.float32([1, -2, 3]), np.float32([-1, 2, -3])),
    "words": (unary("Identity", [2], STRING), np.array(["a", "b"], object), np.array(["a", "b"], object)),
    "float16": (unary("Neg", [2], FLOAT16), np.float16([1, -2]), np.float16([-1, 2])),
}

by_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)


def bound(session: LearningModelSession, value: np.ndarray[Any, Any]) -> LearningModelBinding:
    binding = LearningModelBinding(session)
    binding.bind("x", value)  # on a GPU this takes the lock, too
    return binding


def evaluate(session: LearningModelSession, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array(session.evaluate(bound(session, value)).outputs["y"].to_numpy())


def meet(runtime: Runtime, sessions: list[LearningModelSession], model: str, seconds: float) -> bool:
    """Whether two runs are inside the runtime at once, where each waits so long for the other."""
    barrier, met = threading.Barrier(2), []

    def inside() -> None:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(seconds)
            met.append(True)

    _, given, expected = MODELS[model]
    runtime.inside = inside
    with ThreadPoolExecutor(2) as pool:
        for came in pool.map(lambda session: evaluate(session, given), sessions):
            np.testing.assert_array_equal(came, expected)
    return len(met) == 2


@contextmanager
def running(runtime: Runtime, session: LearningModelSession) -> Iterator[Future[Any]]:
    """Within the block another thread is in a run of the session, and stays there."""
    entered, leaving = threading.Event(), threading.Event()

    def inside() -> None:
        entered.set()
        assert leaving.wait(WAIT)

    runtime.inside = inside
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(evaluate, session, np.float32([1, 2]))
        try:
            assert entered.wait(WAIT)
            runtime.inside = lambda: None
            yield future
        finally:
            leaving.set()


DEVICES = [*((model, "lib.so", "gpu") for model in MODELS), ("numbers", "", "gpu"), ("numbers", "lib.so", "npu")]


@pytest.mark.parametrize(
    ("provider", "model", "library", "hardware"),
    [pytest.param(one, *case, id=one.name) for one, case in zip(PROVIDERS, cycle(DEVICES), strict=False)],
)
def test_two_threads_never_run_one_session_at_once(
    runtime: Runtime, provider: Any, model: str, library: str, hardware: str
) -> None:
    session = open_session(MODELS[model][0], make_device(provider, library, hardware))
    assert not meet(runtime, [session] * 2, model, 0.1)
    assert max(made.most for made in runtime.sessions) == 1


@pytest.mark.parametrize(
    ("provider", "model"),
    [pytest.param(one, model, id=one.name) for one, model in zip(PROVIDERS, cycle(MODELS), strict=False)],
)
def test_two_sessions_run_at_once_where_the_provider_allows_it(runtime: Runtime, provider: Any, model: str) -> None:
    where = make_device(provider)
    sessions = [open_session(MODELS[model][0], where) for _ in range(2)]
    seconds = 0.1 if provider.shares_lock else WAIT
    assert meet(runtime, sessions, model, seconds) is not provider.shares_lock


@by_provider
@pytest.mark.parametrize("capture", [False, True])
def test_sessions_of_one_model_share_its_weights_where_no_graph_is_captured(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, provider: Any, capture: bool
) -> None:
    if capture and not provider.capture_option:
        pytest.skip(f"{provider.name} captures no graphs")
    monkeypatch.setenv("WINML_PY_CACHE", "")  # a session more would make what is saved
    where, model = make_device(provider), LearningModel.load(MODELS["numbers"][0])
    options = LearningModelSessionOptions()
    options.graph_capture = capture
    one, two = (LearningModelSession(model, where, options) for _ in range(2))
    is_own = capture or provider.takes_one_thread
    assert len(runtime.sessions) == (2 if is_own else 1)
    one.close()
    np.testing.assert_array_equal(evaluate(two, MODELS["numbers"][1]), MODELS["numbers"][2])


@by_provider
def test_two_devices_run_at_once(runtime: Runtime, provider: Any) -> None:
    sessions = [open_session(MODELS["numbers"][0], make_device(provider, number=number)) for number in range(2)]
    assert meet(runtime, sessions, "numbers", WAIT)


@pytest.mark.parametrize("model", MODELS)
def test_a_session_on_the_cpu_has_no_lock(runtime: Runtime, model: str) -> None:
    assert meet(runtime, [open_session(MODELS[model][0])] * 2, model, WAIT)


@by_provider
def test_a_run_that_fails_leaves_the_lock_free(runtime: Runtime, provider: Any) -> None:
    def inside() -> None:
        runtime.inside = lambda: None
        raise RuntimeError("no kernel")

    session = open_session(MODELS["numbers"][0], make_device(provider))
    runtime.inside = inside
    with pytest.raises(EvaluationError, match="no kernel"):
        evaluate(session, np.float32([1, 2]))
    with ThreadPoolExecutor(1) as pool:  # another thread, for the lock is reentrant
        assert pool.submit(evaluate, session, np.float32([1, 2])).result(WAIT).tolist() == [-1, -2]


@by_provider
def test_a_time_limit_ends_the_wait_for_the_lock(runtime: Runtime, provider: Any) -> None:
    session = open_session(MODELS["numbers"][0], make_device(provider))
    binding = bound(session, np.float32([3, 4]))
    with running(runtime, session) as first:
        with pytest.raises(EvaluationTimeoutError, match=r"within 0\.1 s"):
            session.evaluate(binding, timeout=0.1)
        assert not first.done()
    assert first.result(WAIT).tolist() == [-1, -2]
    assert session.evaluate(binding, timeout=WAIT).outputs["y"].to_numpy().tolist() == [-3, -4]


@by_provider
def test_cancelling_ends_the_wait_for_the_lock(runtime: Runtime, provider: Any) -> None:
    session = open_session(MODELS["numbers"][0], make_device(provider))
    binding = bound(session, np.float32([3, 4]))
    with running(runtime, session) as first:
        operation = session.evaluate_async(binding)
        time.sleep(0.05)  # so that it waits for the lock, and not for a thread
        operation.cancel()
        with pytest.raises(CanceledError):
            operation.get(WAIT)
        assert not first.done()
    assert first.result(WAIT).tolist() == [-1, -2]
    assert max(made.most for made in runtime.sessions) == 1


@by_provider
def test_close_while_a_run_holds_the_lock(runtime: Runtime, provider: Any) -> None:
    """The run in flight ends well, what waits behind it too or with a typed error, and close returns."""
    session = open_session(MODELS["numbers"][0], make_device(provider))
    binding = bound(session, np.float32([3, 4]))
    with ThreadPoolExecutor(2) as pool:
        with running(runtime, session) as first:
            second = pool.submit(session.evaluate, binding)
            closing = pool.submit(session.close)
        closing.result(WAIT)
        assert first.result(WAIT).tolist() == [-1, -2]
        with suppress(ClosedError):
            assert second.result(WAIT).outputs["y"].to_numpy().tolist() == [-3, -4]
    with pytest.raises(ClosedError):
        evaluate(session, np.float32([1, 2]))


@by_provider
def test_a_loop_evaluates_on_a_gpu(runtime: Runtime, provider: Any) -> None:
    session = open_session(MODELS["numbers"][0], make_device(provider))

    async def main() -> None:
        operations = [session.evaluate_features_async({"x": np.float32([index, 1])}) for index in range(20)]
        for index, result in enumerate(await asyncio.gather(*operations)):
            assert result.outputs["y"].to_numpy().tolist() == [-index, -1]
        binding = bound(session, np.float32([1, 2]))
        with running(runtime, session), pytest.raises(TimeoutError):
            await asyncio.wait_for(session.evaluate_async(binding), 0.1)
        result = await session.evaluate_features_async({"x": np.float32([7, 8])})
        assert result.outputs["y"].to_numpy().tolist() == [-7, -8]

    asyncio.run(main())
    assert max(made.most for made in runtime.sessions) == 1


def test_cancelling_what_waits_for_its_turn_leaves_the_outputs_of_the_run_before(runtime: Runtime) -> None:
    session = open_session(MODELS["numbers"][0])
    binding, output = LearningModelBinding(session), TensorFloat.create([2])
    binding.bind("x", np.float32([1, 2]))
    binding.bind("y", output)
    entered, leaving = threading.Event(), threading.Event()
    runtime.inside = lambda: entered.set() or leaving.wait(WAIT)
    first = session.evaluate_async(binding)
    assert entered.wait(WAIT)
    second = session.evaluate_async(binding)
    with pytest.raises(EvaluationTimeoutError):
        session.evaluate(binding, timeout=0.1)
    time.sleep(0.05)
    second.cancel()
    with pytest.raises(CanceledError):
        second.get(WAIT)
    assert first.status is AsyncStatus.STARTED
    leaving.set()
    first.get(WAIT)
    assert output.to_numpy().tolist() == [-1, -2]


@pytest.mark.parametrize("provider", [provider for provider in PROVIDERS if provider.capture_option])
def test_making_a_session_that_captures_can_be_cancelled(runtime: Runtime, provider: Any) -> None:
    started = threading.Event()

    def compiling() -> None:
        started.set()
        assert runtime.cancelled.wait(WAIT)
        raise RuntimeError("graph capture: session initialization canceled due to user request.")

    runtime.compiling = compiling
    options = LearningModelSessionOptions()
    options.graph_capture = True
    operation = LearningModelSession.create_async(
        LearningModel.load(MODELS["numbers"][0]), make_device(provider), options
    )
    assert started.wait(WAIT)
    operation.cancel()
    with pytest.raises(CanceledError):
        operation.get(WAIT)
    assert runtime.sessions == []


def test_cancelling_ends_the_wait_for_a_compilation_by_another_thread(runtime: Runtime) -> None:
    model, started, leaving = LearningModel.load(MODELS["numbers"][0]), threading.Event(), threading.Event()
    runtime.compiling = lambda: started.set() or leaving.wait(WAIT)
    first = LearningModelSession.create_async(model)
    assert started.wait(WAIT)
    second = LearningModelSession.create_async(model)
    time.sleep(0.05)
    second.cancel()
    with pytest.raises(CanceledError):
        second.get(WAIT)
    assert first.status is AsyncStatus.STARTED
    leaving.set()
    assert evaluate(first.get(WAIT), np.float32([1, 2])).tolist() == [-1, -2]

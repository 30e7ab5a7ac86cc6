"""Many threads on one session, one binding, one model: right answers or typed errors, never a crash."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from helpers.models import model, tensor, unary
from helpers.paths import MODELS
from helpers.reference import run_raw
from helpers.sessions import open_session
from winml_py import (
    BitmapPixelFormat,
    ClosedError,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFloat,
    WinMLError,
)
from winml_py.errors import MissingInputError, ModelDisposedError
from winml_py.testing import FakeDevice

pytestmark = pytest.mark.usefixtures("all_cores")

THREADS, TIMES = 8, 1000
DIGITS = MODELS / "digits.onnx"


def on_threads(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """Calls `work(0)` ... `work(count - 1)` at the same moment; raises what any of them raises."""
    barrier = threading.Barrier(count)

    def start(index: int) -> Any:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


@pytest.mark.once  # the exception may come while coverage holds its own lock, and then nothing goes on
@pytest.mark.posix("Windows has no timers that send signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may come while an object goes
def test_a_signals_exception_comes_out_as_it_is_and_leaves_no_lock_held() -> None:
    class Interruption(BaseException):
        pass

    def interrupt(*_: object) -> None:
        if is_wanted:
            raise Interruption

    is_wanted, rng = False, random.Random(0)
    opened = open_session(unary("Neg", [3]))
    binding = LearningModelBinding(opened)
    binding.bind("x", np.ones(3, np.float32))
    start = time.perf_counter()
    for _ in range(100):
        opened.evaluate(binding, timeout=60)
    longest, came = 1.5 * (time.perf_counter() - start) / 100, 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(5000):
            try:
                is_wanted = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, longest))
                opened.evaluate(binding, timeout=60)
                is_wanted = False
            except Interruption:
                is_wanted = False
                came += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert opened.evaluate(binding, timeout=60).succeeded  # as each of them, it would wait in vain for a lock
    assert came > 100


def images(count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs of the digit classifier, and raw ONNX Runtime's answers."""
    made = list(np.random.default_rng(0).random((count, 1, 1, 28, 28), np.float32))
    return made, [run_raw(DIGITS, {"image": image})["probabilities"] for image in made]


def test_eight_threads_on_one_session() -> None:
    session = open_session(DIGITS)
    inputs, expected = images(THREADS)

    def work(index: int) -> None:
        binding = LearningModelBinding(session)
        binding.bind("image", inputs[index])
        output = TensorFloat.create([1, 10])
        if index % 2:
            binding.bind("probabilities", output)
        for _ in range(TIMES):
            result = session.evaluate(binding).outputs["probabilities"]
            np.testing.assert_array_equal(result, expected[index])
            if index % 2:
                output.to_numpy()[:] = 0

    on_threads(work)


def test_eight_threads_without_a_binding() -> None:
    """Nothing is kept: what one evaluation misses stays missing, and results stay as they are."""
    session = open_session(DIGITS)
    inputs, expected = images(4 * THREADS)

    def work(index: int) -> None:
        rng = random.Random(index)
        before = wanted = np.zeros(0, np.float32)
        for _ in range(TIMES):
            chosen, kind = rng.randrange(len(inputs)), rng.random()
            np.testing.assert_array_equal(before, wanted)
            before[...] = 0  # results are the caller's: no later one may be in their memory
            if kind < 0.05:
                with pytest.raises(MissingInputError):
                    session.evaluate_features({})
            elif kind < 0.1:
                with pytest.raises(WinMLError):
                    session.evaluate_features({"image": np.zeros((2, 2), np.float32)})
            output = {"probabilities": np.zeros((1, 10), np.float32)} if kind > 0.9 else {}
            before = np.asarray(session.evaluate_features({"image": inputs[chosen], **output})["probabilities"])
            wanted = expected[chosen]

    on_threads(work)


def test_pictures_of_random_sizes_on_one_session() -> None:
    """Each result is the one that a thread alone had before."""
    session, rng = open_session(DIGITS), np.random.default_rng(0)
    sizes = rng.integers(1, 700, (60, 2))
    pixels = [rng.integers(0, 256, (*size, 3), np.uint8) for size in sizes]
    values = [ImageFeatureValue.from_array(each, BitmapPixelFormat.RGB8) for each in pixels]
    expected = [session.evaluate_features({"image": value})["probabilities"].to_numpy() for value in values]

    def work(index: int) -> None:
        order, binding = random.Random(index), LearningModelBinding(session)
        for _ in range(60):
            chosen = order.randrange(len(values))
            binding.bind("image", values[chosen])
            np.testing.assert_array_equal(session.evaluate(binding)["probabilities"], expected[chosen])

    on_threads(work)


def test_one_engine_is_compiled_when_many_ask_at_once(natives: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    make = onnxruntime.InferenceSession.__init__

    def make_slowly(*arguments: Any, **options: Any) -> None:
        time.sleep(0.05)
        make(*arguments, **options)

    monkeypatch.setattr(onnxruntime.InferenceSession, "__init__", make_slowly)
    loaded = LearningModel.load(unary())
    sessions = on_threads(lambda _: LearningModelSession(loaded))
    assert len(natives) == 1
    for session in sessions:
        session.close()
    LearningModelSession(loaded)
    assert len(natives) == 2


def test_disposing_a_model_while_sessions_are_made() -> None:
    for _ in range(20):
        loaded = LearningModel.load(unary())

        def work(index: int, loaded: LearningModel = loaded) -> bool:
            if index == 0:
                loaded.dispose()
                return True
            options = LearningModelSessionOptions()
            options.intra_op_num_threads = index  # an engine of its own
            try:
                session = LearningModelSession(loaded, None, options)
            except ModelDisposedError:
                return True
            return session.evaluate_features({"x": np.ones(1, np.float32)}).outputs["y"].to_numpy() == [1]

        assert all(on_threads(work))


def test_a_run_in_flight_finishes_after_close() -> None:
    started, closed = threading.Event(), threading.Event()

    def slow(inputs: Any) -> Any:
        started.set()
        closed.wait()
        return {"y": inputs["x"] + 1}

    session = LearningModelSession(LearningModel.load(unary()), FakeDevice(slow))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(session.evaluate_features, {"x": np.ones(2, np.float32)})
        started.wait()
        session.close()
        closed.set()
        np.testing.assert_array_equal(future.result().outputs["y"], [2, 2])


def test_memory_the_run_reads_outlives_close() -> None:
    """A bound copy belongs to the binding alone, and close() in mid-run must not free it under the engine."""
    size = 700
    nodes = [helper.make_node("MatMul", [f"h{index}", "w"], [f"h{index + 1}"]) for index in range(20)]
    ends = [tensor("h0", [size, size]), tensor("h20", [size, size])]
    whole = model(nodes, ends[:1], ends[1:], {"w": np.eye(size, dtype=np.float32)}).SerializeToString()
    source = np.random.default_rng(0).random((size * 2, size), np.float32)
    for delay in (0.0, 0.002, 0.01):
        session = LearningModelSession(LearningModel.load(whole))
        binding = LearningModelBinding(session)
        binding.bind("h0", source[::2])
        output = np.zeros((size, size), np.float32)
        binding.bind("h20", output)
        operation = session.evaluate_async(binding)
        time.sleep(delay)
        session.close()
        try:
            operation.get()
        except ClosedError:
            continue
        np.testing.assert_allclose(output, source[::2], rtol=1e-5)


def test_closing_while_bindings_are_made(natives: list[Any]) -> None:
    for _ in range(30):
        session = LearningModelSession(LearningModel.load(unary()))

        def work(index: int, session: LearningModelSession = session) -> list[LearningModelBinding]:
            kept: list[LearningModelBinding] = []
            if index == 0:
                time.sleep(0.002)
                session.close()
            for _ in range(2000):
                try:
                    kept.append(LearningModelBinding(session))
                    kept[-1].bind("x", np.ones(1, np.float32))
                    for _ in range(2):  # the second run makes a native binding
                        session.evaluate(kept[-1])
                except ClosedError:
                    break
            return kept

        kept = on_threads(work, 4)
        assert [native() for native in natives] == [None]  # no binding holds it
        natives.clear()
        del kept

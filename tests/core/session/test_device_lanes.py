"""evaluate_many on several devices: order, errors at their items, who is free, and who is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from helpers.models import unary
from helpers.paths import MODELS, PICTURES
from winml_py import (
    DeviceLostError,
    EvaluationError,
    InvalidArgumentError,
    InvalidDeviceError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    SizeMismatchError,
)
from winml_py.core.runtime.ort.device_engine import OrtDeviceEngine
from winml_py.errors import ModelDisposedError
from winml_py.testing import FakeDevice

pytestmark = pytest.mark.usefixtures("all_cores")

Inputs = Any


def item(number: float) -> np.ndarray:
    return np.full((1, 2), number, np.float32)


def numbers(results: Any) -> list[float]:
    return [float(result.outputs["y"].to_numpy()[0, 0]) for result in results]


class Substitute:
    """A device that negates, counts, and can be told to wait or to fail."""

    def __init__(self, before: Callable[[float], object] = lambda number: None) -> None:
        self.seen: list[float] = []
        self._before = before
        self.device = FakeDevice(self._run)

    def _run(self, inputs: Inputs) -> Inputs:
        number = float(inputs["x"][0, 0])
        self.seen.append(number)
        self._before(number)
        return {"y": -inputs["x"]}


def lost(number: float) -> None:
    raise DeviceLostError("The substitute has gone.")


def opened(device: LearningModelDevice | None = None, **options: Any) -> LearningModelSession:
    settings = None
    if options:
        settings = LearningModelSessionOptions()
        for name, value in options.items():
            setattr(settings, name, value)
    return LearningModelSession(LearningModel.load(unary("Neg", ["n", 2])), device, settings)


@pytest.mark.parametrize("batch", [None, 3])
def test_results_come_in_order_whoever_computes_them(batch: int | None) -> None:
    first, second = Substitute(), Substitute()
    session = opened(first.device)
    items = [item(number) for number in range(40)]
    results = list(session.evaluate_many(items, devices=[first.device, second.device], batch=batch))
    assert numbers(results) == [-number for number in range(40)]
    assert [result.index for result in results] == list(range(40))
    assert all(result.source is given for result, given in zip(results, items, strict=True))
    if batch is None:
        assert sorted(first.seen + second.seen) == list(range(40))


def test_both_work_at_once() -> None:
    """Each waits until the other has an item as well."""
    meeting = threading.Barrier(2, timeout=20)
    first, second = (Substitute(lambda _: meeting.wait()) for _ in range(2))
    session = opened(first.device)
    results = session.evaluate_many(map(item, range(10)), devices=[first.device, second.device], concurrency=2)
    assert numbers(results) == [-number for number in range(10)]
    assert len(first.seen) == len(second.seen) == 5


def test_whoever_is_free_gets_the_next_item() -> None:
    """The slow one keeps its first item until the quick one has done three others."""
    done = threading.Semaphore(0)
    slow = Substitute(lambda number: number or [done.acquire(timeout=20) for _ in range(3)])
    quick = Substitute(lambda _: done.release())
    session = opened()
    stream = session.evaluate_many(map(item, range(10)), devices=[slow.device, quick.device], concurrency=2)
    assert numbers([next(stream)]) == [0]
    assert slow.seen[0] == 0
    assert quick.seen[:3] == [1, 2, 3]
    assert numbers(stream) == [-number for number in range(1, 10)]


def test_the_sessions_own_device_is_the_session_itself() -> None:
    own, other = Substitute(), Substitute()
    session = opened(own.device)
    list(session.evaluate_many(map(item, range(8)), devices=[other.device]))
    assert (len(own.seen), len(other.seen)) == (0, 8)  # it is not listed
    list(session.evaluate_many(map(item, range(8)), devices=[own.device]))
    assert (len(own.seen), len(other.seen)) == (8, 8)


def test_errors_stay_with_their_items() -> None:
    def refuse(number: float) -> None:
        if number == 3:
            raise EvaluationError("Three is refused.", hint="Take four.")

    first, second = Substitute(refuse), Substitute(refuse)
    session = opened(first.device)
    items = [item(0), np.ones((1, 3), np.float32), item(2), item(3), "missing.npy", item(5)]
    results = list(session.evaluate_many(items, devices=[first.device, second.device]))
    assert [result.succeeded for result in results] == [True, False, True, False, False, True]
    assert isinstance(results[1].error, SizeMismatchError)
    assert str(results[3].error) == "Three is refused. Take four."
    assert first.seen.count(3) + second.seen.count(3) == 1  # only a loss is tried again
    assert all(result.source is given for result, given in zip(results, items, strict=True))


@pytest.mark.parametrize("batch", [None, 4])
def test_a_device_that_is_lost_gives_its_items_to_the_others(batch: int | None) -> None:
    def fails(number: float) -> None:
        if len(falling.seen) > 3:
            lost(number)

    falling, steady = Substitute(fails), Substitute()
    session = opened(steady.device)
    devices = [falling.device, steady.device]
    results = list(session.evaluate_many(map(item, range(60)), devices=devices, concurrency=2, batch=batch))
    assert numbers(results) == [-number for number in range(60)]
    assert all(result.succeeded for result in results)
    assert 4 <= len(falling.seen) <= 5  # two threads may be there when it goes; then nobody comes any more
    assert not session.is_lost


def test_the_sessions_own_device_may_be_the_one_that_is_lost() -> None:
    falling, steady = Substitute(lost), Substitute()
    session = opened(falling.device)
    results = list(session.evaluate_many(map(item, range(20)), devices=[falling.device, steady.device]))
    assert numbers(results) == [-number for number in range(20)]
    assert session.is_lost


def test_when_all_are_lost_the_error_comes() -> None:
    def fails(number: float) -> None:
        if number >= 5:
            lost(number)

    substitutes = [Substitute(fails) for _ in range(3)]
    session = opened()
    devices = [one.device for one in substitutes]
    stream = session.evaluate_many(map(item, range(50)), devices=devices, concurrency=1)
    assert numbers(next(stream) for _ in range(5)) == [0, -1, -2, -3, -4]
    with pytest.raises(DeviceLostError, match=r"was lost during|has gone"):
        next(stream)
    stream.close()
    assert Counter(number for one in substitutes for number in one.seen)[5] == 3  # each has tried


def test_sessions_of_other_devices_have_the_options_and_go_with_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Substitute()
    compiler = other.device._private_state
    requests, engines = [], []
    compile_model = compiler.compile

    def noted(request: Any) -> Any:
        requests.append(request)
        engines.append(compile_model(request))
        return engines[-1]

    monkeypatch.setattr(compiler, "compile", noted)
    session = opened(intra_op_num_threads=3, batch_size_override=0)
    stream = session.evaluate_many(map(item, range(5)), devices=[session.device, other.device])
    assert requests[0].options.intra_op_num_threads == 3
    assert engines[0].function is not None
    assert numbers(stream) == [0, -1, -2, -3, -4]
    assert engines[0].function is None
    assert session.evaluate_features({"x": item(1)}).succeeded  # the program's own session stays open

    with session.evaluate_many(map(item, range(50)), devices=[other.device], concurrency=1) as stream:
        next(stream)
    assert [engine.function for engine in engines] == [None, None]


def test_a_session_that_cannot_be_made_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Substitute(), Substitute()
    engines = []
    compile_first = first.device._private_state.compile
    monkeypatch.setattr(
        first.device._private_state, "compile", lambda request: engines.append(compile_first(request)) or engines[-1]
    )

    def refuse(request: Any) -> Any:
        raise InvalidDeviceError("The substitute has no room.", hint="Take another.")

    monkeypatch.setattr(second.device._private_state, "compile", refuse)
    with pytest.raises(InvalidDeviceError, match="no room"):
        opened().evaluate_many([], devices=[first.device, second.device])
    assert engines[0].function is None


def test_what_are_no_devices() -> None:
    session = opened()
    for wrong in ([], "cpu", [3], session.device, ["gpu"]):
        with pytest.raises(InvalidArgumentError, match="Write a list"):
            session.evaluate_many([], devices=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="in the list twice"):
        session.evaluate_many([], devices=[LearningModelDevice(), LearningModelDevice()])
    session.model.dispose()
    with pytest.raises(ModelDisposedError):
        session.evaluate_many([], devices=[Substitute().device])


def test_pictures_are_prepared_once_and_placed() -> None:
    """A device that is lost has seen the same tensor as the one that takes over, and the result says where it lies."""
    seen: list[np.ndarray] = []

    def keep(inputs: Inputs) -> Inputs:
        seen.append(inputs["image"].copy())
        if len(seen) == 1:
            lost(0)
        return {"probabilities": np.eye(10, dtype=np.float32)[[7]]}

    model = LearningModel.load(MODELS / "digits.onnx")
    session = LearningModelSession(model)
    devices = [FakeDevice(keep), FakeDevice(keep)]
    picture = Image.open(PICTURES / "seven.png")
    (result,) = session.evaluate_many([{"IMAGE": picture}], devices=devices)
    expected = np.asarray(picture.convert("L").resize((28, 28), Image.Resampling.BICUBIC), np.float32) / 255
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_allclose(seen[0][0, 0], expected, atol=2.01 / 255)
    (placement,) = result.placements["image"]
    corners = placement.points_to_picture([[0, 0], [28, 28]])
    np.testing.assert_allclose(corners, [[0, 0], picture.size])


@pytest.mark.parametrize("batch", [None, 4])
def test_the_software_gpu_beside_the_cpu(
    gpu: LearningModelDevice, batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are those of raw ONNX Runtime on the CPU, in order, and both devices have a part in them."""
    runs: list[int] = []
    run = OrtDeviceEngine.run
    monkeypatch.setattr(OrtDeviceEngine, "run", lambda *arguments: runs.append(1) or run(*arguments))
    path = MODELS / "digits_batch.onnx"
    session = LearningModelSession(LearningModel.load(path))
    raw = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    items: list[Any] = [rng.random((1, 1, 28, 28), np.float32) for _ in range(24)]
    items[5:5] = ["missing.png", PICTURES / "seven.png"]
    results = list(session.evaluate_many(items, devices=[session.device, gpu], batch=batch))
    assert [result.succeeded for result in results] == [index != 5 for index in range(26)]
    assert results[6].top_k(1)[0].index == 7
    for given, result in zip(items, results, strict=True):
        if isinstance(given, np.ndarray):
            (expected,) = raw.run(None, {"image": given})
            np.testing.assert_allclose(result.outputs["probabilities"].to_numpy(), expected, atol=1e-4)
    assert 0 < len(runs) < 26

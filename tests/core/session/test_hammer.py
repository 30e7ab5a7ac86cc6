"""Every public class with a state, from eight threads at once: right answers or typed errors, never a crash.

Each case shares one object. The threads use it in an order of their own; halfway, where it can be closed, one closes
it. An operation says whether its answer was right; it may raise an error of ours, and nothing else.
"""

from __future__ import annotations

import inspect
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import helper

import winml_py as w
from helpers.models import TENSOR_CLASSES, data, tensor, unary
from helpers.paths import MODELS
from winml_py.enums import AsyncStatus, BitmapBufferAccessMode
from winml_py.winrt.windows.foundation.collections import PropertySet

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("all_cores")]

THREADS, ROUNDS, TIMES = 8, 10, 60
BGRA8, GRAY8 = w.BitmapPixelFormat.BGRA8, w.BitmapPixelFormat.GRAY8
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4), np.uint8)
LENGTH = 16

Operation = Callable[[Any], bool]


class Case(NamedTuple):
    make: Callable[[], Any]
    operations: list[Operation]
    close: Callable[[Any], object] | None = None


def vector(value: float) -> np.ndarray:
    return np.full(LENGTH, value, np.float32)


def negate() -> w.LearningModel:
    node = helper.make_node("Neg", ["x"], ["y"])
    return w.LearningModel.load(data([node], [tensor("x", [LENGTH])], [tensor("y", [LENGTH])]))


def evaluated(session: w.LearningModelSession) -> bool:
    value = random.random()
    result = session.evaluate_features({"x": vector(value)}, str(value))
    return result.correlation_id == str(value) and bool((result.outputs["y"].to_numpy() == vector(-value)).all())


def bound_and_evaluated(binding: w.LearningModelBinding) -> bool:
    """Another thread may bind in between, so any thread's value is right, but never a mixture of two."""
    binding.bind("x", vector(random.randrange(100)))
    result = binding._session.evaluate(binding).outputs["y"].to_numpy()
    return bool((result == result[0]).all() and -100 < result[0] <= 0)


def scale() -> w.CustomOperator:
    return w.CustomOperator(lambda x, factor: x * np.float32(factor), "Scale", "my", outputs=[(np.float32, 1)])


@cache
def scaled_by(operator: w.CustomOperator) -> w.LearningModelSession:
    node = helper.make_node("Scale", ["x"], ["y"], domain="my", factor=3.0)
    ends = tensor("x", [LENGTH]), tensor("y", [LENGTH])
    model = data([node], ends[:1], ends[1:], domains={"my": 1})
    return w.LearningModelSession(w.LearningModel.load(model, operators=[operator]))


def operator_called(shared: w.CustomOperator) -> bool:
    value = random.randrange(100)
    result = scaled_by(shared).evaluate_features({"x": vector(value)})
    return bool((result.outputs["y"].to_numpy() == vector(3 * value)).all())


def tensor_case(cls: type[w.Tensor]) -> Case:
    values: Any = ["a", "b"] if cls is w.TensorString else [True, False] if cls is w.TensorBoolean else [1, 2]

    def reference(shared: w.Tensor) -> bool:
        with shared.create_reference() as opened:
            return opened.capacity in (0, shared.dtype.itemsize * 2)  # of a closed tensor, it is closed

    return Case(
        lambda: cls.create_from_array([2], values),
        [
            lambda shared: list(shared.get_as_vector_view()) == values,
            lambda shared: list(shared.shape) == [2],
            lambda shared: shared.to_numpy().tolist() == values,
            lambda shared: shared.kind is w.LearningModelFeatureKind.TENSOR,
            lambda shared: not shared.is_placeholder,
            lambda shared: bool(repr(shared)),
            reference,
        ],
        lambda shared: shared.close(),
    )


def picture() -> w.SoftwareBitmap:
    return w.SoftwareBitmap.from_array(PIXELS.copy(), BGRA8)


@cache
def video() -> str:
    import cv2

    path = tempfile.mkstemp(suffix=".avi")[1]
    writer = cv2.VideoWriter(path, cv2.VideoWriter.fourcc(*"MJPG"), 25, (32, 24))
    for level in range(0, 250, 2):
        writer.write(np.full((24, 32, 3), level, np.uint8))
    writer.release()
    return path


def options_are_kept(shared: w.LearningModelSessionOptions) -> bool:
    shared.override_named_dimension("n", LENGTH)
    shared.batch_size_override = 1
    return (
        dict(shared.named_dimension_overrides) == {"n": LENGTH}
        and w.LearningModelSession(FREE_MODEL, None, shared).get_intra_op_num_threads() >= 1
    )


SHARED_MODEL = negate()
FREE_MODEL = w.LearningModel.load(unary())


def done(operation: w.results.AsyncOperation[int]) -> bool:
    return operation.get(10) == 42


def scribble(shared: PropertySet) -> bool:
    key = str(threading.get_ident())
    shared.insert(key, key)
    right = shared.lookup(key) == key
    shared.remove(key)
    return right


CASES: dict[str, Case] = {
    **{cls.__name__: tensor_case(cls) for cls in TENSOR_CLASSES.values()},
    "LearningModel": Case(
        lambda: w.LearningModel.load(MODELS / "invert.onnx"),
        [
            lambda shared: shared.name == "invert",
            lambda shared: shared.input_features[0].name == "image",
            lambda shared: w.LearningModelSession(shared).model is shared,
            lambda shared: len(shared.metadata) >= 1,
        ],
        lambda shared: shared.dispose(),
    ),
    "LearningModelSession": Case(
        lambda: w.LearningModelSession(negate()),
        [evaluated, lambda shared: shared.evaluate_features_async({"x": vector(1)}).get().succeeded],
        lambda shared: shared.close(),
    ),
    "LearningModelBinding": Case(
        lambda: w.LearningModelBinding(w.LearningModelSession(negate())),
        [
            bound_and_evaluated,
            lambda shared: set(shared) <= {"x", "y"},
            lambda shared: shared.bind("y", w.TensorFloat.create()) is None,
            lambda shared: shared.size <= 2 and shared.lookup("x").shape == (LENGTH,),
            lambda shared: shared.clear() is None,
        ],
        lambda shared: shared._session.close(),
    ),
    "AttachedContracts": Case(
        lambda: w.LearningModel.load(MODELS / "invert.onnx").contracts,
        [
            lambda shared: shared.__setitem__("image", w.ImageContract(w.BitmapPixelFormat.BGR8)) is None,
            lambda shared: shared.__setitem__("image", None) is None,
            lambda shared: shared.get("image") in (None, w.ImageContract(w.BitmapPixelFormat.BGR8)),
            lambda shared: set(shared) <= {"image"} and len(shared) <= 1,
        ],
    ),
    "LearningModelDevice": Case(
        w.LearningModelDevice,
        [
            lambda shared: evaluated(w.LearningModelSession(SHARED_MODEL, shared)),
            lambda shared: shared.adapter_id == (0, 0),
        ],
    ),
    "LearningModelSessionOptions": Case(w.LearningModelSessionOptions, [options_are_kept]),
    "LearningModelEvaluationResult": Case(
        lambda: w.LearningModelSession(negate()).evaluate_features({"x": vector(3)}, "id"),
        [
            lambda shared: shared.succeeded and shared.error_status == 0,
            lambda shared: bool((shared.outputs["Y"].to_numpy() == -3).all()),
            lambda shared: shared.correlation_id == "id",
        ],
    ),
    "ImageFeatureValue": Case(
        lambda: w.ImageFeatureValue.from_software_bitmap(picture()),
        [
            lambda shared: bool((shared.to_numpy() == PIXELS).all()),
            lambda shared: shared.to_pil().size == (5, 6),
            lambda shared: w.LearningModelSession(INVERT).evaluate_features({"image": shared}).succeeded,
        ],
        lambda shared: shared.video_frame.close(),
    ),
    "SoftwareBitmap": Case(
        picture,
        [
            lambda shared: bool((w.SoftwareBitmap.copy(shared).to_numpy() == PIXELS).all()),
            lambda shared: w.SoftwareBitmap.convert(shared, GRAY8).to_numpy().shape == (6, 5),
            lambda shared: (shared.pixel_width, shared.pixel_height) == (5, 6),
            lambda shared: shared.copy_to_buffer(bytearray(PIXELS.nbytes)) is None,
            lambda shared: shared.copy_from_buffer(PIXELS) is None,
        ],
        lambda shared: shared.close(),
    ),
    "VideoFrame": Case(
        lambda: w.VideoFrame.create_with_software_bitmap(picture()),
        [
            lambda shared: shared.copy_to(w.VideoFrame(BGRA8, 3, 3)) is None,
            lambda shared: shared.copy_to_async(w.VideoFrame(GRAY8, 5, 6)).get() is None,
            lambda shared: shared.software_bitmap.pixel_width == 5,
        ],
        lambda shared: shared.close(),
    ),
    "BitmapBuffer": Case(
        lambda: picture().lock_buffer(BitmapBufferAccessMode.READ_WRITE),
        [
            lambda shared: shared.get_plane_description(0) == (0, 5, 6, 20),
            lambda shared: bytes(shared.create_reference().get_buffer()) == PIXELS.tobytes(),
        ],
        lambda shared: shared.close(),
    ),
    "MemoryBufferReference": Case(
        lambda: w.TensorFloat.from_numpy(vector(2)).create_reference(),
        [
            lambda shared: bool((np.frombuffer(shared, np.float32) == 2).all()),
            lambda shared: shared.capacity in (0, LENGTH * 4),
            lambda shared: len(shared.get_buffer()) == LENGTH * 4,
        ],
        lambda shared: shared.close(),
    ),
    "AsyncOperation": Case(
        lambda: w.results.AsyncOperation(lambda _: 42),
        [
            done,
            lambda shared: shared.wait(10) in (AsyncStatus.COMPLETED, AsyncStatus.CANCELED),
            lambda shared: isinstance(shared.status, AsyncStatus) and shared.error_code in (0, -2147467260),
        ],
        lambda shared: shared.cancel(),
    ),
    "VideoReader": Case(
        lambda: w.VideoReader(video()),
        [
            lambda shared: (shared.pixel_width, shared.pixel_height) == (32, 24),
            lambda shared: (frame := shared.read()) is None or frame.software_bitmap.pixel_width == 32,
        ],
        lambda shared: shared.close(),
    ),
    "CustomOperator": Case(scale, [operator_called, lambda shared: str(shared) == "my:Scale"]),
    "PropertySet": Case(
        PropertySet, [scribble, lambda shared: shared.size >= 0, lambda shared: bool(repr(shared.get_view()))]
    ),
}
INVERT = w.LearningModel.load(MODELS / "invert.onnx")
IMMUTABLE = {
    "BitmapBounds",
    "FeatureDescriptor",
    "ImageContract",
    "ImageFeatureDescriptor",
    "Isolation",
    "MapFeatureDescriptor",
    "OperatorOutput",
    "SequenceFeatureDescriptor",
    "Tensor",
    "TensorFeatureDescriptor",
    "Tuning",
}
"""Values that never change, protocols, and the bases of other classes."""


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads give way to each other after every few bytecodes, and not only every 5 ms."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_every_public_class_has_a_case() -> None:
    classes = [value for name in w.__all__ if inspect.isclass(value := getattr(w, name))]
    states = {cls.__name__ for cls in classes if not issubclass(cls, (Enum, Exception))}
    assert states <= set(CASES) | IMMUTABLE


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("name", CASES)
def test_eight_threads(name: str) -> None:
    case = CASES[name]
    with ThreadPoolExecutor(THREADS) as pool:
        for seed in range(ROUNDS):
            shared, barrier = case.make(), threading.Barrier(THREADS)

            def work(index: int, shared: Any = shared, barrier: threading.Barrier = barrier, seed: int = seed) -> int:
                order, right = random.Random(seed * THREADS + index), 0
                barrier.wait(10)
                for time in range(TIMES):
                    if index == 0 and time == TIMES // 2 and case.close is not None:
                        case.close(shared)
                    try:
                        assert order.choice(case.operations)(shared)
                        right += 1
                    except w.WinMLError:
                        pass
                return right

            counts = list(pool.map(work, range(THREADS)))
            if case.close is None:
                assert counts == [TIMES] * THREADS
            else:
                assert sum(counts) > 0

"""`evaluate_features_async` refuses at once what it can, and loads, decodes, tensorizes and binds in its thread."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import simplejpeg
from onnx import helper
from PIL import Image, ImageFile

from helpers.models import data, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    CanceledError,
    ClosedError,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelSession,
    PictureError,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFloat,
    VideoFrame,
    WinMLError,
)
from winml_py.errors import MissingContractWarning, PictureNotFoundError
from winml_py.winrt.windows.foundation import AsyncStatus

SEVEN = MODELS.parent / "samples" / "pictures" / "seven.png"
CAT = MODELS.parent / "samples" / "pictures" / "cat.jpg"


def identity(contract: ImageContract | None = None) -> LearningModelSession:
    """Its answer is the tensor of the picture."""
    model = LearningModel.load(unary("Identity", (1, 3, 32, 32)))
    model.contracts["x"] = contract or ImageContract()
    return LearningModelSession(model)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What libraries decode and scale, and in which threads; each step once."""
    seen: list[tuple[str, int]] = []

    def watch(module: Any, name: str) -> None:
        original = getattr(module, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            step = (name, threading.get_ident())
            if step not in seen:
                seen.append(step)
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, watched)

    watch(simplejpeg, "decode_jpeg")
    watch(ImageFile.ImageFile, "load")
    watch(Image.Image, "resize")
    return seen


def pictures() -> dict[str, tuple[Any, list[str]]]:
    """Each kind of value, and what is done with it."""
    bitmap = SoftwareBitmap.load(CAT)
    frame = VideoFrame.create_with_software_bitmap(bitmap)
    pillow = Image.open(io.BytesIO(CAT.read_bytes()))  # not decoded yet
    return {
        "path": (CAT, ["decode_jpeg", "resize"]),
        "text": (str(CAT), ["decode_jpeg", "resize"]),
        "bytes": (CAT.read_bytes(), ["decode_jpeg", "resize"]),
        "decoded at bind": (ImageFeatureValue.load(CAT, fast_decode=True), ["decode_jpeg", "resize"]),
        "Pillow": (pillow, ["load", "resize"]),
        "list": ([pillow], ["load", "resize"]),
        "bitmap": (bitmap, ["resize"]),
        "frame": (frame, ["resize"]),
        "value": (ImageFeatureValue([frame]), ["resize"]),
    }


@pytest.mark.usefixtures("pillow_scales")
@pytest.mark.parametrize("kind", pictures())
def test_pictures_are_decoded_and_tensorized_in_the_thread(kind: str, threads: list[tuple[str, int]]) -> None:
    session, (value, steps) = identity(ImageContract.imagenet()), pictures()[kind]
    threads.clear()

    async def evaluate() -> Any:
        return await session.evaluate_features_async({"x": value}, "an id")

    result = asyncio.run(evaluate())
    assert [name for name, _ in threads] == steps
    assert threading.get_ident() not in {thread for _, thread in threads}
    is_fast = kind == "decoded at bind"
    expected = session.evaluate_features({"x": ImageFeatureValue.load(CAT, fast_decode=is_fast)})
    np.testing.assert_array_equal(result.outputs["y"].to_numpy(), expected.outputs["y"].to_numpy())
    assert (result.correlation_id, result.placements) == ("an id", expected.placements)


def test_the_call_returns_before_a_picture_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop goes on while the thread loads."""
    go, original = threading.Event(), ImageFeatureValue.load

    def load(source: Any, **options: Any) -> ImageFeatureValue:
        assert go.wait(60)
        return original(source)

    monkeypatch.setattr(ImageFeatureValue, "load", load)
    session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))

    async def evaluate() -> int:
        operation = session.evaluate_features_async({"image": SEVEN})
        for _ in range(5):
            await asyncio.sleep(0)
        assert operation.status is AsyncStatus.STARTED
        go.set()
        return int((await operation).outputs["probabilities"].to_numpy().argmax())

    assert asyncio.run(evaluate()) == 7


FRAME = VideoFrame(BitmapPixelFormat.RGB8, 8, 8)
READ_ONLY = np.zeros((1, 3, 32, 32), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("features", "error"),
    [
        ({"nope": CAT}, InvalidBindingError),
        ({"x": CAT, "nope": 1}, InvalidBindingError),
        ({"x": np.zeros((1, 3, 32, 32))}, InvalidBindingError),
        ({"x": np.zeros((1, 3, 32, 31), np.float32)}, SizeMismatchError),
        ({"x": [FRAME, FRAME]}, SizeMismatchError),
        ({"x": TensorFloat.create()}, InvalidBindingError),
        ({"x": None}, InvalidBindingError),
        ({"x": CAT, "y": READ_ONLY}, InvalidBindingError),
        ({"x": CAT, "y": np.zeros(3, np.float32)}, SizeMismatchError),
        ({"x": CAT, "y": Image.new("RGB", (32, 32))}, InvalidBindingError),
        ([("x", CAT)], InvalidArgumentError),
    ],
)
def test_what_shows_before_a_picture_is_decoded_is_refused_at_once(features: Any, error: type[WinMLError]) -> None:
    session = identity()
    with pytest.raises(error) as info:
        session.evaluate_features_async(features)
    if isinstance(features, dict):
        given = {name: ImageFeatureValue.load(value) if value is CAT else value for name, value in features.items()}
        with pytest.raises(error) as other:
            session.evaluate_features(given)
        assert str(info.value) == str(other.value)


@pytest.mark.parametrize("value", ["words", b"bytes", Path("a/path")])
def test_a_tensor_takes_no_picture_file(value: Any) -> None:
    session = LearningModelSession(LearningModel.load(unary("Identity", (3, 32, 32))))
    with pytest.raises(InvalidBindingError):
        session.evaluate_features_async({"x": value})
    of_stream = InvalidBindingError if value == b"bytes" else InvalidArgumentError  # there is no such file
    assert type(next(session.evaluate_many([value])).error) is of_stream


def test_a_size_that_the_model_contradicts_is_refused_at_once() -> None:
    stated = ImageContract(size=(16, 16)).to_metadata()  # of a model that contradicts itself
    content = unary("Identity", (1, 3, 32, 32), denotation="IMAGE", metadata=stated)
    session = LearningModelSession(LearningModel.load(content))
    with pytest.raises(InvalidBindingError, match="specifies 16"):
        session.evaluate_features_async({"x": FRAME})
    operation = session.evaluate_features_async({"x": SEVEN})
    with pytest.raises(InvalidBindingError, match="specifies 16"):
        operation.get(60)


WITHOUT_ASSERT = f"""
import numpy as np
from winml_py import *
model = LearningModel.load({unary("Identity", ("n", 3, "h", "w"))!r})
model.contracts["x"] = ImageContract()
session = LearningModelSession(model)
pictures = [np.zeros((2, side, 3), np.uint8) for side in (2, 3)]
frames = [ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8) for pixels in pictures]
try:
    operation = session.evaluate_features_async({{"x": frames}})
except WinMLError as error:
    print(error)
"""


def test_pictures_that_differ_are_refused_at_once_also_where_python_leaves_out_assertions() -> None:
    done = subprocess.run([sys.executable, "-O", "-c", WITHOUT_ASSERT], capture_output=True, text=True, timeout=120)
    assert "all pictures in a batch must have the same size; these would become 2x2, 3x2" in done.stdout, done.stderr


@pytest.mark.parametrize(("value", "error"), [("missing.png", PictureNotFoundError), (b"no picture", PictureError)])
def test_what_a_file_shows_is_raised_by_the_operation(value: Any, error: type[WinMLError]) -> None:
    operation = identity().evaluate_features_async({"x": value})
    with pytest.raises(error):
        operation.get(60)
    assert operation.status is AsyncStatus.ERROR


def test_a_session_that_is_closed_is_refused_before_and_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    session, go, original = identity(), threading.Event(), ImageFeatureValue.load

    def load(source: Any, **options: Any) -> ImageFeatureValue:
        assert go.wait(60)
        return original(source)

    monkeypatch.setattr(ImageFeatureValue, "load", load)
    operation = session.evaluate_features_async({"x": CAT})
    session.close()
    go.set()
    with pytest.raises(ClosedError):
        operation.get(60)
    with pytest.raises(ClosedError):
        session.evaluate_features_async({"x": CAT})


def test_a_cancelled_operation_loads_no_second_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    started, go, loaded, original = threading.Event(), threading.Event(), [], ImageFeatureValue.load

    def load(source: Any, **options: Any) -> ImageFeatureValue:
        loaded.append(source)
        started.set()
        assert go.wait(60)
        return original(source)

    monkeypatch.setattr(ImageFeatureValue, "load", load)
    pictures = [tensor(name, (1, 3, 32, 32), denotation="IMAGE") for name in "xwy"]
    model = LearningModel.load(data([helper.make_node("Add", ["x", "w"], ["y"])], pictures[:2], pictures[2:]))
    operation = LearningModelSession(model).evaluate_features_async({"x": CAT, "w": SEVEN})
    assert started.wait(60)
    operation.cancel()
    go.set()
    with pytest.raises(CanceledError):
        operation.get(60)
    assert loaded == [CAT]


ON_ONE_CORE = f"""
import psutil
process = psutil.Process()
process.cpu_affinity(process.cpu_affinity()[:1])
import threading, time
from contextlib import suppress
from winml_py import CanceledError, ImageFeatureValue, LearningModel, LearningModelSession
running, most, started, go = [], [], threading.Event(), threading.Event()
original = ImageFeatureValue.load
def load(source, **options):
    running.append(source)
    most.append(len(running))
    started.set()
    assert go.wait(60)
    time.sleep(0.05)  # so that others come meanwhile, where they may
    running.pop()
    return original(source)
ImageFeatureValue.load = load
session = LearningModelSession(LearningModel.load({str(MODELS / "digits.onnx")!r}))
operations = [session.evaluate_features_async({{"image": {str(SEVEN)!r}}})]
assert started.wait(60)
operations += [session.evaluate_features_async({{"image": {str(SEVEN)!r}}}) for _ in range(4)]
waiting = operations.pop()
waiting.cancel()
with suppress(CanceledError):
    print(waiting.get(60))
go.set()
print(all(operation.get(60).succeeded for operation in operations), max(most))
"""


@pytest.mark.skipif(not hasattr(psutil.Process, "cpu_affinity"), reason="macOS has no affinity")
def test_pictures_are_prepared_in_turn_where_there_is_one_core() -> None:
    """One that waits for its turn can be cancelled meanwhile."""
    done = subprocess.run([sys.executable, "-c", ON_ONE_CORE], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "1"], done.stderr


def test_operations_share_a_pillow_image_that_is_not_decoded() -> None:
    """Pillow decodes it when it is first looked at, and threads that look at once disturb each other."""
    session, file = identity(), io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    value = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
    expected = session.evaluate_features({"x": value}).outputs["y"].to_numpy()
    for _ in range(10):
        image = Image.open(io.BytesIO(file.getvalue()))
        operations = [session.evaluate_features_async({"x": image}) for _ in range(8)]
        for operation in operations:
            np.testing.assert_array_equal(operation.get(60).outputs["y"].to_numpy(), expected)


def test_a_missing_contract_is_told_to_the_line_that_calls() -> None:
    session = LearningModelSession(LearningModel.load(unary("Identity", (1, 3, 8, 8))))
    with pytest.warns(MissingContractWarning) as told:
        operation = session.evaluate_features_async({"x": FRAME})
    assert told[0].filename == __file__
    assert operation.get(60).succeeded


def test_two_names_of_one_feature_are_refused() -> None:
    session, features = identity(), {"x": CAT, "X": np.zeros((1, 3, 32, 32), np.float32)}
    for evaluate in (session.evaluate_features, session.evaluate_features_async):
        with pytest.raises(InvalidArgumentError, match=r"^'x' and 'X' specify the same input\."):
            evaluate(features)
    assert "'x' and 'X' specify the same input." in str(next(session.evaluate_many([features])).error)

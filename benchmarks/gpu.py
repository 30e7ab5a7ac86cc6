"""Compares a session on a GPU with raw ONNX Runtime, with and without I/O binding by hand.

    python benchmarks/gpu.py [--device NAME] [--json FILE] [--models NAME ...]

The device is a name of `winml-py devices`; the default is "cuda". The results are compared first (1e-3 in float32).
Then all ways take turns in this process. Target: at least 1.0 of raw with I/O binding. For the way from a picture to
the result, the usual code (Pillow, numpy, raw `run`) is compared with ours, which scales and tensorizes on the device.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from _measure import arguments, interleaved, medians, report
from _models import inputs, light
from PIL import Image

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
)
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.engine import EngineOptions
from winml_py.core.runtime.ort.compile import compile_with_ort
from winml_py.core.runtime.providers.provider import Target
from winml_py.core.runtime.request import CompileRequest

MODELS = ("squeezenet", "resnet50", "densenet121")


def raw_session(session: LearningModelSession) -> onnxruntime.InferenceSession:
    """The same model on the same device, in raw ONNX Runtime."""
    source = private_state(session.model).open().make_engine_input(private_state(session.model).header)
    return compile_with_ort(CompileRequest(source, EngineOptions(1)), Target(session.device._device))._session


def ways(session: LearningModelSession) -> dict[str, Callable[[], np.ndarray]]:
    raw = raw_session(session)
    feed = inputs(raw)
    ((name, array),) = feed.items()
    (output,) = raw.get_outputs()
    location = private_state(session).engine.location
    native = raw.io_binding()
    uploaded = onnxruntime.OrtValue.ortvalue_from_numpy(array, location.kind, location.number)
    target = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, np.float32, location.kind, location.number)
    native.bind_ortvalue_input(name, uploaded)
    native.bind_ortvalue_output(output.name, target)
    binding = LearningModelBinding(session)
    binding.bind(name, array)

    def by_hand() -> np.ndarray:
        uploaded.update_inplace(array)
        raw.run_with_iobinding(native)
        return target.numpy()

    return {
        "raw run": lambda: raw.run(None, feed)[0],
        "raw with I/O binding": by_hand,
        "winml-py": lambda: session.evaluate(binding).outputs[output.name].to_numpy(),
    }


def picture_ways(session: LearningModelSession, pixels: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    contract = ImageContract.imagenet()
    raw = raw_session(session)
    (given,), (output,) = raw.get_inputs(), raw.get_outputs()
    binding = LearningModelBinding(session)
    mean, std = (np.float32(numbers) for numbers in (contract.mean, contract.std))

    def usual() -> np.ndarray:
        left = (pixels.shape[1] - pixels.shape[0]) // 2
        square = Image.fromarray(pixels).crop((left, 0, left + pixels.shape[0], pixels.shape[0]))
        small = np.asarray(square.resize((224, 224), Image.Resampling.BILINEAR), np.float32)
        planes = np.ascontiguousarray(((small / 255 - mean) / std).transpose(2, 0, 1)[None])
        return raw.run(None, {given.name: planes})[0]

    def ours() -> np.ndarray:
        value = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
        binding.bind(given.name, value, {"ImageContract": contract})
        return session.evaluate(binding).outputs[output.name].to_numpy()

    return {"picture, the usual way": usual, "picture, winml-py": ours}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    device = LearningModelDevice.find(options.device)
    print(f"{device.name}, {device.provider}")
    y, x = np.mgrid[0:1080, 0:1920]
    pixels = np.stack([np.sin(x / 90 + c) * np.cos(y / 70 - c) * 120 + 128 for c in range(3)], -1).astype(np.uint8)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            path = Path(folder, f"{name}.onnx")
            onnx.save(light(name), path)
            session = LearningModelSession(LearningModel.load(path), device)
            for calls in (ways(session), picture_ways(session, pixels)):
                results = [call() for call in calls.values()]
                for result in results[1:]:
                    scale = np.abs(results[0]).max()
                    assert np.abs(result - results[0]).max() <= (1e-3 if len(calls) > 2 else 2e-2) * scale, name
                interleaved(calls, 3, 1)
                middle = medians(interleaved(calls, options.rounds, 1))
                base = middle["raw with I/O binding"] if "winml-py" in middle else middle["picture, the usual way"]
                for way, seconds in middle.items():
                    rows.append({"model": name, "way": way, "ms": seconds * 1e3, "times as fast": base / seconds})
            session.close()
            print(f"{name}: done", file=sys.stderr)
    report({"gpu": rows}, options.json)


if __name__ == "__main__":
    main()

"""Goes from the bytes of a 1080p JPEG to the best class of the onnx package's light squeezenet, in several ways.

    python benchmarks/end_to_end.py [--json FILE]

One thread, warm; all ways take turns in this process. First our tensor is compared with Pillow's, the others with ours,
and the classes with each other. Targets: our way is at least 1.55 times as fast as the usual code, and 1.12 times as
fast as good OpenCV code; with `fast_decode` 1.9 and 1.36 times, and 1.02 times as fast as OpenCV code with a reduced
decode. What our ways take beyond the decoder and the network is printed.
"""

import io
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import simplejpeg
from _measure import arguments, at_least, interleaved, medians, report
from PIL import Image

from winml_py import (
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
)
from winml_py.core.base.winrt_object import private_state
from winml_py.scaling import CropToAspect

SPEC = find_spec("onnx")
assert SPEC is not None
assert SPEC.origin is not None
MODEL = Path(SPEC.origin).parent / "backend" / "test" / "data" / "light" / "light_squeezenet.onnx"
CAT = Path(__file__).parent.parent / "samples" / "pictures" / "cat.jpg"
CONTRACT = replace(ImageContract.clip(), scaling=CropToAspect())
MEAN, STD = np.array(CONTRACT.mean, np.float32), np.array(CONTRACT.std, np.float32)
SIDE = 224


def photograph() -> bytes:
    """A JPEG of 1920x1080: the sample photograph, enlarged, with added camera grain."""
    with Image.open(CAT) as image:
        pixels = np.asarray(image.convert("RGB").resize((1920, 1080), Image.Resampling.BICUBIC)).astype(np.float32)
    pixels += np.random.default_rng(0).normal(0, 4, (1080, 1920, 1))
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def usual(data: bytes) -> np.ndarray:
    """Pillow and numpy, as most code that calls ONNX Runtime uses them."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    left = (image.width - image.height) // 2
    image = image.crop((left, 0, left + image.height, image.height)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    array = np.array(image).astype(np.float32) / 255.0
    array = (array - MEAN) / STD
    return np.expand_dims(array.transpose(2, 0, 1), 0).astype(np.float32)


def normalised(image: np.ndarray) -> np.ndarray:
    """Crops and shrinks without aliasing, with one multiplication and one addition for each channel."""
    left = (image.shape[1] - image.shape[0]) // 2
    image = cv2.resize(image[:, left : left + image.shape[0]], (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    tensor = np.empty((1, 3, SIDE, SIDE), np.float32)
    for channel, plane in enumerate(cv2.split(image)[::-1]):
        scale = 1 / (255 * STD[channel])
        cv2.addWeighted(plane, scale, plane, 0, -MEAN[channel] / STD[channel], tensor[0, channel], cv2.CV_32F)
    return tensor


def good(data: bytes) -> np.ndarray:
    """OpenCV code that avoids aliasing and is written for speed."""
    return normalised(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR))


def reduced(data: bytes) -> np.ndarray:
    """The same, from a picture that was decoded to half of its width and height."""
    return normalised(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_REDUCED_COLOR_2))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    data = photograph()

    one_thread = LearningModelSessionOptions()
    one_thread.intra_op_num_threads = 1
    session = LearningModelSession(LearningModel.load(MODEL), None, one_thread)
    raw: onnxruntime.InferenceSession = private_state(session).engine._session
    name = session.model.input_features[0].name
    output = session.model.output_features[0].name
    binding = LearningModelBinding(session)
    tensors: dict[str, np.ndarray] = {}

    def ours(fast_decode: bool) -> int:
        binding.bind(name, ImageFeatureValue.load(data, fast_decode=fast_decode), {"ImageContract": CONTRACT})
        return int(session.evaluate(binding).outputs[output].to_numpy().argmax())

    def theirs(way: Callable[[bytes], np.ndarray]) -> int:
        return int(raw.run(None, {name: way(data)})[0].argmax())

    calls: dict[str, Callable[[], Any]] = {
        "Pillow and numpy": lambda: theirs(usual),
        "OpenCV": lambda: theirs(good),
        "OpenCV, reduced": lambda: theirs(reduced),
        "winml-py": lambda: ours(False),
        "winml-py, fast_decode": lambda: ours(True),
    }
    for way, fast in (("winml-py", False), ("winml-py, fast_decode", True)):
        ours(fast)
        tensors[way] = private_state(binding).bound.inputs[name].copy()
    tensors |= {"Pillow and numpy": usual(data), "OpenCV": good(data), "OpenCV, reduced": reduced(data)}
    levels = {way: tensor * STD[:, None, None] * 255 for way, tensor in tensors.items()}
    distance = {way: float(np.abs(level - levels["Pillow and numpy"]).mean()) for way, level in levels.items()}
    assert distance["winml-py"] < 0.1, distance
    assert max(distance.values()) < 2, distance
    assert len({call() for call in calls.values()}) == 1

    interleaved(calls, 5, 1)
    cost = medians(interleaved(calls, options.rounds, 1))
    half = {"min_width": 960, "min_height": 540, "min_factor": 2}
    alone = medians(
        interleaved(
            {
                "network": lambda: raw.run(None, {name: tensors["winml-py"]}),
                "winml-py": lambda: simplejpeg.decode_jpeg(data, "BGR"),
                "winml-py, fast_decode": lambda: simplejpeg.decode_jpeg(data, "BGR", **half),
            },
            30,
            1,
        )
    )
    rows = [
        {
            "way": way,
            "ms": seconds * 1e3,
            "Pillow and numpy / this": cost["Pillow and numpy"] / seconds,
            "OpenCV / this": cost["OpenCV"] / seconds,
            "OpenCV, reduced / this": cost["OpenCV, reduced"] / seconds,
            "mean difference in levels": distance[way],
            "beyond decoder and network, ms": (seconds - alone["network"] - alone[way]) * 1e3 if way in alone else "",
        }
        for way, seconds in cost.items()
    ]
    print(f"JPEG of {len(data):,} bytes; the network alone takes {alone['network'] * 1e3:.1f} ms")
    plain, fast = rows[-2:]
    bars = [
        at_least("winml-py, Pillow and numpy / this", plain["Pillow and numpy / this"], 1.55),
        at_least("winml-py, OpenCV / this", plain["OpenCV / this"], 1.12),
        at_least("`fast_decode`, Pillow and numpy / this", fast["Pillow and numpy / this"], 1.9),
        at_least("`fast_decode`, OpenCV / this", fast["OpenCV / this"], 1.36),
        at_least("`fast_decode`, OpenCV, reduced / this", fast["OpenCV, reduced / this"], 1.02),
    ]
    report({"end_to_end": rows}, options.json, bars)


if __name__ == "__main__":
    main()

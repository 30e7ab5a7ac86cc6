"""What it costs to turn pixels into a tensor, compared with a copy of the tensor's bytes.

    python benchmarks/tensorize.py [--json FILE]

One thread, warm. One tight loop makes the tensor and copies it in turns, a second one binds the picture to a model, and
a third runs the other ways. Results are checked for equality first. Targets, in multiples of the copy: BGR8 to float32
NCHW with mean and std 3.8 at 224x224, 1.5 at 640x640, 1.3 at 1920x1080; float16 2.5 (of its own copy) and NV12 2.5,
both at 640x640. In every row, at least twice as fast as `cv2.dnn.blobFromImage` with normalisation, and ten times as
fast as the numpy code of tutorials. `bind` at 224x224: 1.5 times the making of the tensor.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from _measure import arguments, at_least, at_most, interleaved, medians, report
from onnx import helper

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SoftwareBitmap,
    VideoFrame,
)
from winml_py.core.imaging.contract import compute_placement
from winml_py.core.imaging.pixels import BufferCache
from winml_py.core.imaging.tensorize import tensorize
from winml_py.scaling import CropToAspect

CAT = Path(__file__).parent.parent / "samples" / "pictures" / "cat.jpg"
ROWS = [
    ("BGR8", 224, 224, np.float32, 3.8),
    ("BGR8", 640, 640, np.float32, 1.5),
    ("BGR8", 1920, 1080, np.float32, 1.3),
    ("BGR8", 640, 640, np.float16, 2.5),
    ("NV12", 640, 640, np.float32, 2.5),
]
CONTRACT = replace(ImageContract.imagenet(), scaling=CropToAspect())
MEAN, STD = np.array(CONTRACT.mean, np.float32), np.array(CONTRACT.std, np.float32)


def photograph() -> SoftwareBitmap:
    """The sample photograph, with added camera grain."""
    picture = SoftwareBitmap.load(CAT)
    grain = np.random.default_rng(0).normal(0, 6, picture.to_numpy().shape)
    picture.to_numpy()[:] = np.clip(picture.to_numpy() + grain, 0, 255)
    return picture


def to_bgr(pixels: np.ndarray, pixel_format: str) -> np.ndarray:
    return cv2.cvtColor(pixels, cv2.COLOR_YUV2BGR_NV12) if pixel_format == "NV12" else pixels


def tutorial(pixels: np.ndarray, pixel_format: str, dtype: Any) -> np.ndarray:
    """The code of the tutorials for torchvision's models on ONNX Runtime."""
    image = cv2.cvtColor(to_bgr(pixels, pixel_format), cv2.COLOR_BGR2RGB)
    image = image / 255.0
    image = (image - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    image = np.transpose(image, (2, 0, 1))
    return np.expand_dims(image, 0).astype(dtype)


def blob(pixels: np.ndarray, pixel_format: str, dtype: Any) -> np.ndarray:
    """OpenCV's function for this, and the division that it lacks."""
    made = cv2.dnn.blobFromImage(to_bgr(pixels, pixel_format), 1 / 255.0, swapRB=True)
    made -= MEAN[:, None, None]
    made /= STD[:, None, None]
    return made.astype(dtype, copy=False)


def binds(bitmap: SoftwareBitmap, tensor: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Binds a picture to a model whose answer is its tensor: as a value, and as an array with its pixel format."""
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(tensor.dtype), tensor.shape)
        for name in "xy"
    ]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", ends[:1], ends[1:])
    opset = helper.make_opsetid("", 17)
    model = LearningModel.load(helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString())
    model.contracts["x"] = CONTRACT
    session = LearningModelSession(model)
    binding, other = LearningModelBinding(session), LearningModelBinding(session)
    value = ImageFeatureValue.from_software_bitmap(bitmap)
    properties = {"BitmapPixelFormat": bitmap.bitmap_pixel_format}
    calls = {
        "bind": lambda: binding.bind("x", value),
        "bind array": lambda: other.bind("x", bitmap.to_numpy(), properties),
    }
    for call in calls.values():
        call()
    for bound in (binding, other):
        np.testing.assert_array_equal(session.evaluate(bound).outputs["y"], tensor)
    return calls


def measure(pixel_format: str, width: int, height: int, dtype: Any, seconds: float) -> dict[str, Any]:
    bitmap = SoftwareBitmap(BitmapPixelFormat[pixel_format], width, height)
    pixels = bitmap.to_numpy()
    VideoFrame.create_with_software_bitmap(photograph()).copy_to(VideoFrame.create_with_software_bitmap(bitmap))
    ours, target = (np.zeros((1, 3, height, width), dtype) for _ in range(2))
    buffers = BufferCache()
    placement = compute_placement(width, height, (height, width), CONTRACT.scaling)
    calls: dict[str, Callable[[], Any]] = {
        "copy": lambda: np.copyto(target, ours),
        "ours": lambda: tensorize(bitmap, CONTRACT, ours[0], placement, buffers),
        "blob": lambda: blob(pixels, pixel_format, dtype),
        "tutorial": lambda: tutorial(pixels, pixel_format, dtype),
    }
    calls["ours"]()
    tolerance = 2e-3 if dtype == np.float16 else 1e-6
    for other in ("blob", "tutorial"):
        np.testing.assert_allclose(ours, calls[other](), atol=tolerance, rtol=tolerance)
    yardstick = timed({name: calls[name] for name in ("copy", "ours")}, seconds / 3)
    bound = timed({"ours": calls["ours"], **binds(bitmap, ours)}, seconds / 3)
    others = timed({name: calls[name] for name in ("ours", "blob", "tutorial")}, seconds / 3)
    return {
        "picture": f"{pixel_format} {width}x{height}",
        "tensor": np.dtype(dtype).name,
        "copy ms": yardstick["copy"] * 1e3,
        "winml-py / copy": yardstick["ours"] / yardstick["copy"],
        "bind / winml-py": bound["bind"] / bound["ours"],
        "`blobFromImage` / winml-py": others["blob"] / others["ours"],
        "numpy / winml-py": others["tutorial"] / others["ours"],
    }


def timed(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Medians of calls that take turns in a tight loop."""
    once = medians(interleaved(calls, 5, 1, time.thread_time))
    return medians(interleaved(calls, max(20, int(seconds / sum(once.values()))), 1, time.thread_time))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=6, help="for each row")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    rows = [measure(*row, options.seconds) for *row, _ in ROWS]
    bars = [
        at_most(f"winml-py / copy, {row['picture']} {row['tensor']}", row["winml-py / copy"], limit)
        for row, (*_, limit) in zip(rows, ROWS, strict=True)
    ]
    for other, least in (("`blobFromImage` / winml-py", 2), ("numpy / winml-py", 10)):
        bars.append(at_least(f"{other}, minimum", min(row[other] for row in rows), least))
    bars.append(at_most("bind / winml-py, 224x224", rows[0]["bind / winml-py"], 1.5))
    report({"tensorize": rows}, options.json, bars)


if __name__ == "__main__":
    main()

"""Measures models with a built-in contract in raw ONNX Runtime against bind and evaluate, on one thread.

    python benchmarks/built_in.py [--rounds N] [--json FILE]

The model gives its input back. Both ways take turns once their tensors were compared: no level may differ by more than
one, nor by 0.05 on average. "peak MB" is how far the memory of a new process grows in its first run, without the
picture. Targets: a ratio of at most 2 for `NEAREST` and `LINEAR`, and of 3 for the other kernels, at 1920x1080; of 4 at
4000x3000. The processor time of the calling thread counts, as there is no other.
"""

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime as ort
from _measure import arguments, at_most, interleaved, ratio, report
from onnx import TensorProto, helper
from resize import photograph

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    LearningModelSessionOptions,
)
from winml_py.authoring import build_in
from winml_py.scaling import Stretch

PICTURES, TARGETS = ((1920, 1080), (4000, 3000)), (224, 640)


def identity(side: int, path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, side, side]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def raw_session(path: str | Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options)


def print_peak(path: str, width: str, height: str) -> None:
    pixels = photograph(int(width), int(height))
    session = raw_session(path)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = resident("VmRSS")
    session.run(None, {"x": pixels})
    print(resident("VmHWM") - before)


def resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def peak(path: Path, size: tuple[int, int]) -> float:
    command = [sys.executable, __file__, "--peak", str(path), *map(str, size)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def bind_and_evaluate(
    session: LearningModelSession, binding: LearningModelBinding, value: ImageFeatureValue, contract: ImageContract
) -> np.ndarray:
    binding.bind("x", value, {"ImageContract": contract})
    return session.evaluate(binding, "").outputs["y"].to_numpy()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    one_thread = LearningModelSessionOptions()
    one_thread.set_intra_op_num_threads_override(1)
    rows: dict[ImageKernel, dict[str, Any]] = {kernel: {"kernel": f"`{kernel.name}`"} for kernel in ImageKernel}
    worst: dict[tuple[str, float], float] = {}
    folder = Path(tempfile.mkdtemp())
    for size in PICTURES:
        pixels = photograph(*size)
        value = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
        for side in TARGETS:
            source, target = folder / "model.onnx", folder / "built.onnx"
            identity(side, source)
            session = LearningModelSession(LearningModel.load(source), None, one_thread)
            binding = LearningModelBinding(session)
            for kernel in ImageKernel:
                contract = ImageContract(
                    BitmapPixelFormat.RGB8,
                    LearningModelPixelRange.ZERO_TO_ONE,
                    scaling=Stretch(),
                    kernel=kernel,
                )
                build_in(source, target, contract, force=True)
                built = raw_session(target)

                calls = {
                    "bind": partial(bind_and_evaluate, session, binding, value, contract),
                    "built in": partial(lambda session, pixels: session.run(None, {"x": pixels})[0], built, pixels),
                }
                levels = np.abs(calls["bind"]() - calls["built in"]()) * 255
                assert levels.max() <= 1.01, kernel
                assert levels.mean() <= 0.05, kernel
                seconds = interleaved(calls, options.rounds, 1, time.thread_time)
                times, row = ratio(seconds["built in"], seconds["bind"]), rows[kernel]
                row["x".join(map(str, size)) + f" to {side}"] = times
                row["peak MB"] = max(row.pop("peak MB", 0.0), peak(target, size))
                is_quick = kernel in (ImageKernel.NEAREST, ImageKernel.LINEAR)
                bar = (
                    ("4000x3000", 4)
                    if size[0] == 4000
                    else ("1920x1080, `NEAREST` and `LINEAR`", 2)
                    if is_quick
                    else ("1920x1080, other kernels", 3)
                )
                worst[bar] = max(worst.get(bar, 0), times)
    bars = [at_most(f"{what}, slowest", times, limit) for (what, limit), times in worst.items()]
    report({"built_in": list(rows.values())}, options.json, bars)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print_peak(*sys.argv[2:])
    else:
        main()

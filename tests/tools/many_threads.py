"""Many threads on one session: every result right, every error one of ours.

    python tests/tools/many_threads.py [--times N] [--seconds S]

Eight threads evaluate N times each on one session (10,000 by default), half of them with bound outputs. Then they do so
with `evaluate_features`, which keeps nothing: what is missing stays missing, and results stay as they are. Then they
evaluate pictures of random sizes, a quarter as often. A watchdog ends a process that hangs, with the stacks of all
threads.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers import reference
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    TensorFloat,
    WinMLError,
)
from winml_py.errors import MissingInputError

PATH = str(MODELS / "digits.onnx")
NONSENSE = (np.zeros((2, 2), np.float32), "seven", np.zeros((1, 1, 28, 28), np.int64), None, {"a": 1.0})


def pictures(count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs, and raw ONNX Runtime's answers."""
    images = list(np.random.default_rng(0).random((count, 1, 1, 28, 28), np.float32))
    return images, [reference.run_raw(PATH, {"image": image})["probabilities"] for image in images]


def one_session(threads: int, times: int) -> int:
    """How many results were right, of `threads` times `times`."""
    session = LearningModelSession(LearningModel.load(PATH))
    images, expected = pictures(threads)
    barrier = threading.Barrier(threads)

    def work(index: int) -> int:
        binding = LearningModelBinding(session)
        binding.bind("image", images[index])
        output = TensorFloat.create([1, 10])
        if index % 2:
            binding.bind("probabilities", output)
        right = 0
        barrier.wait()
        for _ in range(times):
            right += np.array_equal(session.evaluate(binding).outputs["probabilities"].to_numpy(), expected[index])
            if index % 2:
                output.to_numpy()[:] = 0
        return right

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def without_a_binding(threads: int, times: int) -> int:
    """How many turns of `evaluate_features` were right, of `threads` times `times`; some turns leave the input out."""
    session = LearningModelSession(LearningModel.load(PATH))
    images, expected = pictures(4 * threads)
    barrier = threading.Barrier(threads)

    def work(index: int) -> int:
        rng, right = random.Random(index), 0
        before, wanted = np.zeros(0, np.float32), np.zeros(0, np.float32)
        barrier.wait()
        for _ in range(times):
            chosen, kind = rng.randrange(len(images)), rng.random()
            is_kept = np.array_equal(before, wanted)
            before[...] = 0  # results are the caller's: no later one may be in their memory
            if kind < 0.1:
                features: dict[str, Any] = {} if kind < 0.05 else {"image": rng.choice(NONSENSE)}
                right += is_kept and _is_refused(session, features)
                before = wanted = np.zeros(0, np.float32)
                continue
            output = {"probabilities": np.zeros((1, 10), np.float32)} if kind < 0.2 else {}
            result = session.evaluate_features({"image": images[chosen], **output}).outputs["probabilities"]
            before, wanted = np.asarray(result), expected[chosen]
            right += is_kept and np.array_equal(before, wanted)
        return right

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def pictures_of_all_sizes(threads: int, times: int) -> int:
    """How many results were right, of `threads` times `times`: each as one thread alone had it before."""
    session, rng = LearningModelSession(LearningModel.load(PATH)), np.random.default_rng(0)
    values, expected = [], []
    for _ in range(60):
        height, width = rng.integers(1, 700, 2)
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        values.append(ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8))
        expected.append(session.evaluate_features({"image": values[-1]})["probabilities"].to_numpy())
    barrier = threading.Barrier(threads)

    def work(index: int) -> int:
        order, binding, right = random.Random(index), LearningModelBinding(session), 0
        barrier.wait()
        for _ in range(times):
            chosen = order.randrange(len(values))
            binding.bind("image", values[chosen])
            right += np.array_equal(session.evaluate(binding)["probabilities"].to_numpy(), expected[chosen])
        return right

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def _is_refused(session: LearningModelSession, features: dict[str, Any]) -> bool:
    try:
        session.evaluate_features(features)
    except WinMLError as error:
        return bool(features) or isinstance(error, MissingInputError)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--times", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0, help="after which a hang is reported")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds, exit=True)
    right = one_session(8, options.times)
    print(f"8 threads on one session: {right:,} of {8 * options.times:,} right")
    alone = without_a_binding(8, options.times)
    print(f"8 threads without a binding: {alone:,} of {8 * options.times:,} right")
    sized = pictures_of_all_sizes(8, options.times // 4)
    print(f"8 threads with pictures of random sizes: {sized:,} of {8 * (options.times // 4):,} right")
    faulthandler.cancel_dump_traceback_later()
    all_right = right == alone == 8 * options.times and sized == 8 * (options.times // 4)
    sys.exit(not all_right)


if __name__ == "__main__":
    main()

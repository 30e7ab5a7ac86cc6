"""Mutated models: loaded, compiled and evaluated, each ends in an answer or in one of our errors.

    python tests/tools/model_mutations.py [--count N] [--seed S]

They are worked off by child processes, in chunks. One that dies is reported with the number of its model, which
`--first NUMBER --count 1` repeats, and the next chunk goes on behind it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers import collateral
from helpers.models import INT64, STRING, unary
from helpers.paths import MODELS
from tools.mutations import mutate
from winml_py import (
    ImageFeatureDescriptor,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFeatureDescriptor,
    TensorKind,
    WinMLError,
)
from winml_py.core.features.tensor_classes import TENSOR_CLASSES

CHUNK = 500
MAX_NUMBERS = 1 << 20


def seeds() -> list[bytes]:
    """Small models of every kind."""
    made = [path.read_bytes() for path in sorted(MODELS.glob("*.onnx")) if path.stat().st_size < 40_000]
    made += [unary("Neg", ["n"]), unary("Neg", [2], INT64), unary("Identity", [2], STRING)]
    made += [collateral.candy("Bgr8", (8, 8)), collateral.zipmap(INT64), collateral.sequence_construct()]
    return made


def work(data: bytes) -> str:
    """What becomes of one model."""
    try:
        with LearningModel.load(data) as model:
            options = LearningModelSessionOptions()
            options.intra_op_num_threads = 1
            with LearningModelSession(model, None, options) as session:
                features = {}
                for feature in model.input_features:
                    if not isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
                        return "compiled"
                    shape = [size if size >= 0 else 2 for size in feature.shape]
                    too_much = np.prod(shape, dtype=np.float64) > MAX_NUMBERS
                    if too_much or feature.tensor_kind in (TensorKind.STRING, TensorKind.UNDEFINED):
                        return "compiled"
                    features[feature.name] = np.zeros(shape, TENSOR_CLASSES[feature.tensor_kind].dtype)
                session.evaluate_features(features)
                return "evaluated"
    except WinMLError:
        return "refused"


def chunk(first: int, count: int, seed: int) -> None:
    """Prints a word for each model, as it is done."""
    models = seeds()
    for number in range(first, first + count):
        data = mutate(models[number % len(models)], random.Random(f"{seed} {number}"))
        print(work(data), flush=True)


def run(count: int, seed: int, first: int = 0) -> tuple[Counter[str], list[int]]:
    """Works off `count` models in child processes; what became of them, and which ended their process."""
    counts, deaths, number = Counter[str](), list[int](), first
    while number < first + count:
        size = min(CHUNK, first + count - number)
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            __file__,
            "--chunk",
            str(number),
            "--count",
            str(size),
            "--seed",
            str(seed),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
        words = done.stdout.split()
        counts.update(words)
        number += len(words)
        if done.returncode:
            if done.returncode > 0:
                raise AssertionError(f"model {number} of seed {seed}: {done.stderr[-2000:]}")
            print(f"model {number} of seed {seed}: signal {-done.returncode}\n{done.stderr[-3000:]}", file=sys.stderr)
            deaths.append(number)
            number += 1
    return counts, deaths


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first model")
    parser.add_argument("--chunk", type=int, help="be a child process, from this model on")
    options = parser.parse_args()
    if options.chunk is not None:
        chunk(options.chunk, options.count, options.seed)
        return
    counts, deaths = run(options.count, options.seed, options.first)
    print(f"{options.count} mutated models: {dict(counts)}")
    for number in deaths:
        print(f"model {number} of seed {options.seed} ended the interpreter")
    sys.exit(1 if deaths else 0)


if __name__ == "__main__":
    main()

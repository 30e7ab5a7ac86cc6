"""Evaluates a folder from the command line, kills the command half-way, resumes it, and measures whole runs.

    python tests/tools/many_answers.py [--pictures 500] [--model models/digits.onnx] [--rounds 5]

The answers must be those of `evaluate_many`: each picture once, in order. The times are those of whole processes, by
turns: a program that loops over `evaluate_many`, and the command. Ratios are those of the turns, and their median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from winml_py import LearningModel, LearningModelSession

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
options = LearningModelSessionOptions()
options.batch_size_override = 0
options.intra_op_num_threads = 1
session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
for result in session.evaluate_many(sys.argv[2]):
    outputs = {name: value.to_numpy() for name, value in result.outputs.items()}
"""


def write_pictures(folder: Path, count: int) -> None:
    """Smooth pictures of 640x480, all different."""
    random = np.random.default_rng(0)
    for index in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), np.uint8))
        coarse.resize((640, 480), Image.Resampling.BICUBIC).save(folder / f"{index}.jpg", quality=90)


def kill_half_way(command: list[str], answers: Path, count: int) -> int:
    """Starts the command, kills it when half of the lines are written; the number of whole lines."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not answers.exists() or answers.read_bytes().count(b"\n") < count // 2:
        if process.poll() is not None:
            raise SystemExit("The command ended before it could be killed.")
        time.sleep(0.01)
    process.kill()
    process.wait()
    return answers.read_bytes().count(b"\n")


def check_answers(answers: Path, model: str, folder: Path, count: int) -> float:
    """The largest difference of a number from `evaluate_many`'s; exits if a picture is missing, twice or elsewhere."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in answers.read_text().splitlines()]
    if [line["input"] for line in lines] != [str(folder / f"{index}.jpg") for index in range(count)]:
        raise SystemExit("The lines are not those of the pictures, each once, in order.")
    largest = 0.0
    for line, result in zip(
        lines, LearningModelSession(LearningModel.load(model)).evaluate_many(str(folder)), strict=True
    ):
        for name, output in line["outputs"].items():
            expected = result.outputs[name].to_numpy().reshape(-1)
            if "top" in output:
                actual = [best["value"] for best in output["top"]]
                expected = expected[[best["index"] for best in output["top"]]]
            elif "values" in output:
                actual = output["values"]
            else:
                actual, expected = [output[key] for key in ("min", "max")], [expected.min(), expected.max()]
            largest = max(largest, float(np.abs(np.subtract(actual, expected)).max()))
    return largest


def measure(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=500)
    parser.add_argument("--model", default=str(ROOT / "models" / "digits.onnx"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, answers = Path(place, "pictures"), Path(place, "answers.jsonl")
        folder.mkdir()
        write_pictures(folder, args.pictures)
        run = [sys.executable, "-m", "winml_py", "run", args.model, str(folder)]
        done = kill_half_way([*run, "--resume", str(answers)], answers, args.pictures)
        with answers.open("ab") as file:  # what a kill in the middle of a line leaves
            file.write(json.dumps({"model": args.model, "input": str(folder / f"{done}.jpg")})[:-1].encode())
        kept = answers.read_bytes()[: answers.read_bytes().rindex(b"\n") + 1]
        subprocess.run([*run, "--resume", str(answers)], check=True)
        if not answers.read_bytes().startswith(kept):
            raise SystemExit("The second run changed lines of the first.")
        difference = check_answers(answers, args.model, folder, args.pictures)
        print(f"killed after {done} of {args.pictures} answers, resumed: each picture once, in order; ", end="")
        print(f"the largest difference from evaluate_many is {difference:.1e}")
        program = [sys.executable, "-c", PROGRAM, args.model, str(folder)]
        turns = []
        for index in range(args.rounds):
            fresh = Path(place, f"{index}.jsonl")
            turns.append((measure(program), measure([*run, "--json-lines"]), measure([*run, "--resume", str(fresh)])))
        many, lines, resumed = (statistics.median(times) for times in zip(*turns, strict=True))
        ratios = [statistics.median(turn[column] / turn[0] for turn in turns) for column in (1, 2)]
        print(f"evaluate_many {many:.2f} s; --json-lines {lines:.2f} s, {ratios[0]:.2f} times; ", end="")
        print(f"--resume {resumed:.2f} s, {ratios[1]:.2f} times")


if __name__ == "__main__":
    main()

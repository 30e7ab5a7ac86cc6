"""How long a program takes from its start to its first answer, and how much memory: with winml_py, and with raw ONNX
Runtime.

    python benchmarks/first_answer.py [--pairs N] [--json FILE]

The programs are those of `first_programs/`, which must print the same: a small classifier and a detector, each on a PNG
and a JPEG. Every figure is of fresh processes that take turns, after a turn that warms the file cache. Targets: 1.2
times the time and 1.25 times the memory of the raw program, and for `winml-py run` 1.5 times the time of the program.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from _measure import arguments, at_most, ratio, report
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "benchmarks" / "first_programs"

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""With that variable, every process would compile the modules of a checkout again."""


class Run(NamedTuple):
    """What a process printed, its seconds on the clock and of the processor, and its largest memory in MB."""

    printed: str
    seconds: float
    processor: float
    memory: float


def run(command: list[str]) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Run(printed, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def draw_shapes(path: Path) -> Path:
    picture = Image.new("RGB", (500, 320), (225, 222, 210))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((60, 70, 190, 200), (200, 60, 50))
    pen.polygon([(300, 60), (430, 90), (400, 220), (270, 190)], (40, 90, 160))
    picture.save(path)
    return path


def cases(folder: Path) -> dict[str, tuple[str, list[str], list[str]]]:
    """Of each case the task, the arguments of its programs, and those of `winml-py run`."""
    models, labels = ROOT / "models", str(ROOT / "models" / "digits.labels.txt")
    seven = ROOT / "samples" / "pictures" / "seven.png"
    jpeg, picture = folder / "seven.jpg", draw_shapes(folder / "shapes.png")
    Image.open(seven).convert("L").save(jpeg, quality=95)
    Image.open(picture).convert("RGB").save(picture.with_suffix(".jpg"), quality=95)
    found = {}
    for each in (seven, jpeg):
        words = [str(models / "digits.onnx"), str(each)]
        found[f"classify {each.suffix[1:]}"] = ("classify", [*words, labels], [*words, "--labels", labels])
    for each in (picture, picture.with_suffix(".jpg")):
        words, drawn = [str(models / "shapes.onnx"), str(each)], str(folder / "drawn.png")
        found[f"detect {each.suffix[1:]}"] = ("detect", [*words, drawn], [*words, "--output", drawn, "--force"])
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="how many times each program runs")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, words, command_words) in cases(Path(folder)).items():
            commands = {
                "ours": [sys.executable, str(PROGRAMS / f"{task}_ours.py"), *words],
                "raw": [sys.executable, str(PROGRAMS / f"{task}_raw.py"), *words],
                "winml-py run": [sys.executable, "-m", "winml_py", "run", *command_words],
            }
            runs: dict[str, list[Run]] = {way: [] for way in commands}
            for turn in range(options.pairs + 1):
                for way, command in commands.items():
                    came = run(command)
                    if turn:
                        runs[way].append(came)
            if runs["ours"][0].printed != runs["raw"][0].printed:
                raise SystemExit(f"{name}: the two programs do not print the same")
            memory = {way: statistics.median(each.memory for each in found) for way, found in runs.items()}

            def compared(way: str, other: str, field: str, runs: dict[str, list[Run]] = runs) -> float:
                one, two = ([getattr(each, field) for each in runs[key]] for key in (way, other))
                return ratio(one, two)

            rows.append(
                {
                    "case": name,
                    "raw ms": statistics.median(each.seconds for each in runs["raw"]) * 1e3,
                    "x raw": compared("ours", "raw", "seconds"),
                    "x raw, CPU": compared("ours", "raw", "processor"),
                    "raw MB": memory["raw"],
                    "x raw, memory": memory["ours"] / memory["raw"],
                    "winml-py run / program": compared("winml-py run", "ours", "seconds"),
                }
            )
    limits = {"x raw": 1.2, "x raw, memory": 1.25, "winml-py run / program": 1.5}
    bars = [at_most(name, max(row[name] for row in rows), limit) for name, limit in limits.items()]
    report({"first_answer": rows}, options.json, bars)


if __name__ == "__main__":
    main()

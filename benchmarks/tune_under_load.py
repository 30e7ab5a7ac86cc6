"""Whether `winml-py tune` keeps what is slower than the default, when it runs beside another load.

    python benchmarks/tune_under_load.py [--json FILE] [--model NAME] [--quick]

`tune` runs ten times on one model while another process works: on one core all the time, in bursts, or on all cores, in
turn. Then that load has ended, and each setting that was found takes turns with the default, each in its own process,
on a machine that should be quiet. "Gain" is the median of the turns' ratios, and the interval holds the true one with
95 %. "Without" is a run of `tune` with no load. The bar: no setting is more than 3 % slower than the default, beyond
the interval: its upper end is at least 0.97. --quick runs it twice, and takes few turns, to see that it works.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from _measure import arguments, paired_processes, ratio, report
from _models import light
from tune import SERVE, TUNE

from winml_py.perf.turns import median_range

BAR = 1 / 1.03

BUSY = """
import random, sys, time
bursts, rng = sys.argv[1] == "bursts", random.Random(0)
while True:
    until = time.monotonic() + rng.uniform(0.02, 0.5)
    while time.monotonic() < until:
        pass
    if bursts:
        time.sleep(rng.uniform(0.02, 0.5))
"""

LOADS = {"one core": 1, "bursts": 1, "all cores": os.cpu_count() or 1}
"""The processes of each load."""


@contextmanager
def load(kind: str) -> Iterator[None]:
    """Another load, until the block ends."""
    command = [sys.executable, "-c", BUSY, kind]
    processes = [subprocess.Popen(command) for _ in range(LOADS.get(kind, 0))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def tune_beside(kind: str, model: Path, target: Path) -> dict:
    """What `winml-py tune` prints while the load runs."""
    command = [sys.executable, "-c", TUNE, str(model), str(target)]
    with load(kind):
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found: dict = json.loads(done.stdout)
    return found


def compare(model: Path, options: Path, rounds: int, seconds: float) -> tuple[float, float, float]:
    """How many times as fast as the default the options are now, and the interval."""
    ways = {"default": "", "tuned": str(options)}
    commands = {name: [sys.executable, "-c", SERVE, str(model), file] for name, file in ways.items()}
    took = paired_processes(commands, rounds, seconds)
    ratios = [one / other for one, other in zip(took["default"], took["tuned"], strict=True)]
    return ratio(took["default"], took["tuned"]), *median_range(ratios)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="squeezenet", help="a model of onnx's wheel")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=14, help="turns of each of three pairs of processes")
    parser.add_argument("--quick", action="store_true", help="two runs, few turns")
    options = parser.parse_args()
    runs, rounds, seconds = (2, 4, 0.1) if options.quick else (options.runs, options.rounds, 0.3)
    kinds = [list(LOADS)[run % len(LOADS)] for run in range(runs)]
    rows, measured = [], {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = folder
        model = Path(folder) / "model.onnx"
        onnx.save(light(options.model), model)
        runs_found = []
        for run, kind in enumerate([*kinds, "without"]):
            target = Path(folder) / f"{run}.json"
            runs_found.append((kind, target, tune_beside(kind, model, target)))
            kept = [trial["change"] for trial in runs_found[-1][2]["trials"] if trial["kept"]]
            print(kind, kept, f"{runs_found[-1][2]['gain']:.3f}", file=sys.stderr)
        for kind, target, found in runs_found:
            is_default = found["gain"] == 1
            setting = json.dumps(found["options"])
            if not is_default and setting not in measured:
                measured[setting] = compare(model, target, rounds, seconds)
            gain, low, high = (1.0, 1.0, 1.0) if is_default else measured[setting]
            kept = ", ".join(trial["change"] for trial in found["trials"] if trial["kept"] and not is_default)
            rows.append(
                {
                    "load": kind,
                    "other cores": found["other_cores"],
                    "search's gain": found["gain"],
                    "gain": gain,
                    "low": low,
                    "high": high,
                    "holds": high >= BAR,
                    "kept": kept or "nothing",
                }
            )
    report("tune-under-load", rows, options.json, {"worst upper end": min(row["high"] for row in rows)})


if __name__ == "__main__":
    main()

"""Load, session, evaluate, dispose, again and again: nothing may stay behind.

    python tests/tools/cycles.py [--count N] [--kind KIND] [--json FILE]

For tensors, for pictures, and for a model with an operator of the program's own, each in a fresh process: by how much
resident memory, open files and threads grow from the end of the first tenth of the cycles to their end. The bars:
memory by less than 1 %, files and threads by none. Linux only: it reads /proc/self.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("tensors", "pictures", "operators")
CYCLES = """
import os, sys
import numpy as np
from winml_py import CustomOperator, ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession

kind, count, model, picture = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]

def cycle(index):
    value = np.full((1, 1, 28, 28), index % 7, np.float32) if kind != "pictures" else picture
    # every Relu of the model in Python
    relu = CustomOperator(lambda x: np.maximum(x, 0), "Relu", "", outputs=[(np.float32, None)])
    operators = [relu] if kind == "operators" else []
    with LearningModel.load(model, operators=operators) as loaded, LearningModelSession(loaded) as session:
        binding = LearningModelBinding(session)
        binding.bind("image", ImageFeatureValue.load(value) if kind == "pictures" else value)
        session.evaluate(binding).outputs["probabilities"].to_numpy().copy()

def state():
    resident = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
    return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

for index in range(count // 10):
    cycle(index)
before = state()
for index in range(count - count // 10):
    cycle(index)
after = state()
print(after[0] / before[0] - 1, after[1] - before[1], after[2] - before[2])
"""


def measure(kind: str, count: int) -> tuple[float, int, int]:
    """The share by which memory grew, and by how many open files and threads."""
    places = [str(ROOT / "models" / "digits.onnx"), str(ROOT / "samples" / "pictures" / "seven.png")]
    command = [sys.executable, "-c", CYCLES, kind, str(count), *places]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    memory, files, threads = done.stdout.split()
    return float(memory), int(files), int(threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--kind", choices=KINDS, help="this one alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for kind in [options.kind] if options.kind else KINDS:
        memory, files, threads = measure(kind, options.count)
        rows.append({"kind": kind, "cycles": options.count, "memory": memory, "files": files, "threads": threads})
        print(f"{kind}: {options.count} cycles, memory {memory:+.2%}, open files {files:+d}, threads {threads:+d}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))
    sys.exit(any(row["memory"] >= 0.01 or row["files"] or row["threads"] for row in rows))


if __name__ == "__main__":
    main()

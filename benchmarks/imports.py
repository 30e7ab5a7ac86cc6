"""What `import winml_py` costs on top of numpy, compared with importing the libraries that it uses.

    python benchmarks/imports.py [--json FILE]

Each figure is the median over fresh processes, which take turns. The target: under 25 ms for `import winml_py`.
"""

import subprocess
import sys

from _measure import arguments, at_most, medians, report

CASES = {
    "import winml_py": "import winml_py",
    "from winml_py import *": "from winml_py import *",
    "import onnxruntime, onnx, cv2, PIL": "import onnxruntime, onnx, cv2, PIL.Image",
}
PROGRAM = "import numpy, time; started = time.perf_counter(); {}; print(time.perf_counter() - started)"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=15)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    for turn in range(options.processes + 1):
        for name, code in CASES.items():
            done = subprocess.run([sys.executable, "-c", PROGRAM.format(code)], check=True, capture_output=True)
            if turn:  # the first turn warms the file cache
                seconds[name].append(float(done.stdout))
    middle = medians(seconds)
    libraries = middle["import onnxruntime, onnx, cv2, PIL"]
    rows = [{"what": name, "ms": value * 1e3, "x libraries": value / libraries} for name, value in middle.items()]
    report({"imports": rows}, options.json, [at_most("import winml_py, ms", rows[0]["ms"], 25)])


if __name__ == "__main__":
    main()

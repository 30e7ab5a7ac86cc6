"""Compares the times of `winml-py perf` (evaluate) with a simple loop over `session.evaluate`.

    python benchmarks/perf_agrees.py [--json FILE]

The command and the loop take turns, each in its own process, on the same model with the same example inputs. The loop
calls `session.evaluate(binding)` with unbound outputs, and takes the median. The bar: within noise, here 10 %. The
stopwatch itself takes some microseconds, which show on models of less than a tenth of a millisecond.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from _measure import arguments, report
from _models import public_models

LOOP = """
import statistics, sys, time
from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions
from winml_py._inputs.files import generated
model = LearningModel.load(sys.argv[1])
options = LearningModelSessionOptions()
options.batch_size_override = 0
session = LearningModelSession(model, None, options)
binding = LearningModelBinding(session)
values = generated(model)
times = []
for _ in range(1 + int(sys.argv[2])):
    for name, value in values.items():
        binding.bind(name, value)
    started = time.perf_counter()
    session.evaluate(binding)
    times.append(time.perf_counter() - started)
print(statistics.median(times[1:]) * 1e3)
"""
PERF = "import sys; from winml_py.cli.main import main; main(['perf', sys.argv[1], '-n', sys.argv[2], '--json'])"
MODELS = ("light_squeezenet", "light_shufflenet", "light_bvlc_alexnet", "light_resnet50")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=100)
    options = parser.parse_args()
    own = Path(__file__).parent.parent / "models" / "digits.onnx"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [own]
        for name, model in public_models().items():
            if name in MODELS or f"light_{name}" in MODELS:
                paths.append(Path(folder) / f"{name}.onnx")
                onnx.save(model, paths[-1])
        for path in paths:
            pairs = [(loop(path, options.iterations), perf(path, options.iterations)) for _ in range(options.rounds)]
            loops, perfs = zip(*pairs, strict=True)
            ratio = statistics.median(told / looped for looped, told in pairs)
            row = {"model": path.stem, "loop ms": statistics.median(loops), "perf ms": statistics.median(perfs)}
            rows.append(row | {"perf / loop": ratio})
    report("perf-agrees", rows, options.json)


def loop(path: Path, iterations: int) -> float:
    return float(_said(LOOP, path, iterations))


def perf(path: Path, iterations: int) -> float:
    phases = json.loads(_said(PERF, path, iterations))["cases"][0]["phases"]
    return phases["evaluate"]["p50_ms"]


def _said(code: str, path: Path, iterations: int) -> str:
    command = [sys.executable, "-c", code, str(path), str(iterations)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()

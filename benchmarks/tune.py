"""What `tune` gains over the default options on public models, measured after the search, and over the fastest engine.

    python benchmarks/tune.py [--json FILE] [--models NAME ...]

The options that each search finds take turns with the default options, and with each engine in float32, each in its own
process. The fastest engine is that of the engines whose results agree, ONNX Runtime included. Targets: nothing is
slower than the default, or than the fastest engine (within 3 %, the noise of two equal ways). Where nothing helped, the
result is the default, and both are equal.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from _measure import arguments, at_least, medians, paired_processes, ratio, report
from _models import public_models

SERVE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from _measure import serve
from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions
from winml_py._examples import make_examples
model = LearningModel.load(sys.argv[1])
options = LearningModelSessionOptions()
if sys.argv[2].endswith(".json"):
    options = LearningModelSessionOptions.load(sys.argv[2])
else:
    options.batch_size_override, options.engine = 0, sys.argv[2]
session = LearningModelSession(model, None, options)
values = make_examples(model.input_features)
binding = LearningModelBinding(session)
for name, value in values.items():
    binding.bind(name, value)
serve(lambda: session.evaluate(binding))
"""

TUNE = """
import json
import sys
from winml_py import LearningModel
from winml_py._examples import make_examples
from winml_py.perf.tuning import search
model = LearningModel.load(sys.argv[1])
tuned = search(model, [make_examples(model.input_features)], {})
tuned.options.save(sys.argv[2])
print(json.dumps(tuned.to_json()))
"""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WINML_PY_CACHE"] = folder
        for name, model in public_models().items():
            if options.models and name not in options.models:
                continue
            path, target = Path(folder) / f"{name}.onnx", Path(folder) / "options.json"
            onnx.save(model, path)
            command = [sys.executable, "-c", TUNE, str(path), str(target)]
            tuned = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            trials = [trial for trial in tuned["trials"] if trial["gain"]]  # whose results agree
            words = [trial["change"].split() for trial in trials]
            engines = ["onnxruntime", *(word[1] for word in words if word[0] == "engine" and len(word) == 2)]
            ways = {"tuned": str(target)} | {engine: engine for engine in engines}
            commands = {way: [sys.executable, "-c", SERVE, str(path), stated] for way, stated in ways.items()}
            times = paired_processes(commands, options.rounds, 0.3, generations=2)
            gain = ratio(times["onnxruntime"], times["tuned"])
            fastest = min(engines, key=medians(times).__getitem__)
            searched = tuned["gain"]["ratio"] if tuned["gain"] else 1.0  # without a gain, the default is the result
            kept = ", ".join(trial["change"] for trial in tuned["trials"] if trial["kept"] and tuned["gain"])
            row = {"model": name, "found": kept or "nothing", "gain in the search": searched, "gain": gain}
            rows.append(row | {"fastest engine": fastest, "fastest / tuned": ratio(times[fastest], times["tuned"])})
            print(rows[-1], file=sys.stderr)
    bars = [at_least(f"minimum {key}", min(row[key] for row in rows), 0.97) for key in ("gain", "fastest / tuned")]
    report({"tune": rows}, options.json, bars)


if __name__ == "__main__":
    main()

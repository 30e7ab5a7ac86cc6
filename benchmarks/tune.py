"""What `winml-py tune` gains over the default options on public models, measured after the search.

    python benchmarks/tune.py [--json FILE] [--models NAME ...]

The options that each search finds take turns with the default options, each in its own process. The bar: none slower
than the default (within 3 %, the noise of two equal ways). Where nothing helped, the result is the default, and both
are equal.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from _measure import arguments, at_least, paired_processes, ratio, report
from _models import public_models

SERVE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from _measure import serve
from winml_py import LearningModel, LearningModelBinding, LearningModelSession, LearningModelSessionOptions
from winml_py._cases.examples import make_examples
model = LearningModel.load(sys.argv[1])
options = LearningModelSessionOptions.load(sys.argv[2]) if sys.argv[2] else LearningModelSessionOptions()
if not sys.argv[2]:
    options.batch_size_override = 0
session = LearningModelSession(model, None, options)
values = make_examples(model)
binding = LearningModelBinding(session)
for name, value in values.items():
    binding.bind(name, value)
serve(lambda: session.evaluate(binding))
"""

TUNE = """
import sys
from winml_py.cli.main import main
main(["tune", sys.argv[1], "--json", "--output", sys.argv[2]])
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
            ways = {"default": "", "tuned": str(target)}
            commands = {name: [sys.executable, "-c", SERVE, str(path), file] for name, file in ways.items()}
            times = paired_processes(commands, options.rounds, 0.3, generations=2)
            gain = ratio(times["default"], times["tuned"])
            searched = tuned["gain"]["ratio"] if tuned["gain"] else 1.0  # without a gain, the default is the result
            kept = ", ".join(trial["change"] for trial in tuned["trials"] if trial["kept"] and tuned["gain"])
            print(name, kept or "nothing", f"{gain:.3f}", file=sys.stderr)
            rows.append({"model": name, "found": kept or "nothing", "gain in the search": searched, "gain": gain})
    report({"tune": rows}, options.json, [at_least("least gain", min(row["gain"] for row in rows), 0.97)])


if __name__ == "__main__":
    main()

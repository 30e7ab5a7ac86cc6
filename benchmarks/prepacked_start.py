"""What the start of a session costs over weights that raw ONNX Runtime has saved as its kernels want them.

    python benchmarks/prepacked_start.py [--json FILE] [--weights N] [--megabytes N]

A chain of matrix products is optimised once and saved with its weights, plain and prepacked, in one file. Each figure
is of a fresh process that opens it: the time and the highest resident size of the start, and what is resident before
the first run, in multiples of the plain weights. "Anonymous" is the process's own memory; "mapped" is the file's, which
processes share and the system takes back. The second line starts without prepacking, and shows what the first one
reads. Up to ONNX Runtime 1.31.1, a session maps the prepacked weights; from 1.32.0 on, `ValidatePrePackedWeights` packs
each weight again when the session is made and compares it with the file, so that all of them are read. No session key
switches that off. Linux only.
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _measure import arguments, report

START = """
import json, sys, time
import numpy as np
import onnxruntime
def field(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024
path, keys, side = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
for key, value in keys.items():
    options.add_session_config_entry(key, value)
before = {name: field(name) for name in ("VmHWM", "RssAnon", "RssFile")}
started = time.perf_counter()
session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
seconds = time.perf_counter() - started
after = {name: field(name) - size for name, size in before.items()}
total = float(session.run(None, {"x": np.ones((8, side), np.float32)})[0].sum())
print(json.dumps({"seconds": seconds, "total": total} | after))
"""


def saved(folder: Path, count: int, side: int) -> Path:
    """The model as the runtime saves it, with its weights prepacked beside the plain ones."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    names = ["x", *(f"h{index}" for index in range(1, count)), "y"]
    # Every matrix holds its own value: the runtime saves equal ones only once.
    matrices = [np.full((side, side), (1 + i) / side, np.float32) for i in range(count)]
    tensors = [numpy_helper.from_array(matrix, f"w{i}") for i, matrix in enumerate(matrices)]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, side]) for name in "xy")
    graph = helper.make_graph(nodes, "products", [x], [y], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "saved.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "saved.bin")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    options.add_session_config_entry("session.save_external_prepacked_constant_initializers", "1")
    onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return folder / "saved.onnx"


def main() -> None:
    import onnxruntime

    parser = arguments(__doc__)
    parser.add_argument("--weights", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=64, help="of each")
    options = parser.parse_args()
    side = math.isqrt((options.megabytes << 20) // 4)
    rows, totals = [], set()
    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder), options.weights, side)
        for way, keys in {"as saved": {}, "without prepacking": {"session.disable_prepacking": "1"}}.items():
            command = [sys.executable, "-c", START, str(path), json.dumps(keys), str(side)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            totals.add(round(found["total"] / side))
            weights = options.weights * side * side * 4
            row = {"onnxruntime": onnxruntime.__version__, "start": way, "seconds": found["seconds"]}
            names = {"VmHWM": "peak", "RssAnon": "anonymous", "RssFile": "mapped"}
            rows.append(row | {f"{words} x weights": found[name] / weights for name, words in names.items()})
    if len(totals) != 1:
        raise SystemExit(f"the results differ: {totals}")
    report("prepacked_start", rows, options.json)


if __name__ == "__main__":
    main()

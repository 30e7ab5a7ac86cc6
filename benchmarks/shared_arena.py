"""What four models hold in one arena, as a share of what they hold in an arena each.

    python benchmarks/shared_arena.py [--json FILE]

Each figure is of a fresh process that makes four sessions of small convolution networks, evaluates each of them three
times, one after the other, and then has eight threads evaluate all of them. Held is what the process has more than
before the first session. Results of both ways are compared first, those of the threads with those before. The bar:
at most 0.7. Linux only.
"""

import json
import statistics
import subprocess
import sys

from _measure import arguments, report

WORK = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import onnxruntime as ort
from onnx import helper, numpy_helper
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions

def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) * 1024

def network(seed):
    rng = np.random.default_rng(seed)
    tensors, nodes, value, channels = [], [], "x", 3
    for index in range(5):
        kernel = rng.standard_normal((32, channels, 3, 3), np.float32) * np.float32(0.05)
        tensors.append(numpy_helper.from_array(kernel, f"w{index}"))
        nodes.append(helper.make_node("Conv", [value, f"w{index}"], [f"c{index}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"h{index}"]))
        value, channels = f"h{index}", 32
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"]))
    ends = [helper.make_tensor_value_info("x", 1, [1, 3, 256, 256]), helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

models = [LearningModel.load(network(seed)) for seed in range(4)]
picture = np.random.default_rng(0).random((1, 3, 256, 256), np.float32)
options = LearningModelSessionOptions()
if sys.argv[1] == "one arena":
    kinds = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, ort.OrtMemType.DEFAULT
    memory = ort.OrtMemoryInfo("Cpu", kinds[0], 0, kinds[1])
    ort.create_and_register_allocator(memory, None)
    options.session_config = {"session.use_env_allocators": True}
LearningModelSession(models[0], options=LearningModelSessionOptions()).close()  # what every first session takes
before = held()
sessions = [LearningModelSession(model, options=options) for model in models]
evaluate = lambda session: session.evaluate_features({"x": picture}).outputs["y"].to_numpy().copy()
for _ in range(3):
    results = [evaluate(session) for session in sessions]
in_turns = held() - before
with ThreadPoolExecutor(8) as pool:
    again = list(pool.map(evaluate, sessions * 8))
same = all(np.array_equal(one, results[index % 4]) for index, one in enumerate(again))
sums = [float(result.sum()) for result in results]
print(json.dumps({"turns": in_turns, "threads": held() - before, "same": same, "sums": sums}))
"""


def measure(way: str) -> dict:
    done = subprocess.run([sys.executable, "-c", WORK, way], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = {way: [] for way in ("an arena each", "one arena")}
    for _ in range(options.rounds):
        for way, results in found.items():
            results.append(measure(way))
    everything = [result for results in found.values() for result in results]
    if not all(result["same"] and result["sums"] == everything[0]["sums"] for result in everything):
        raise SystemExit("the results differ")
    rows = []
    for way, results in found.items():
        row = {"way": way}
        for phase in ("turns", "threads"):
            apart = [result[phase] for result in found["an arena each"]]
            own = [result[phase] for result in results]
            row[f"MB, in {phase}"] = statistics.median(own) / 1e6
            row[f"x apart, in {phase}"] = statistics.median(own) / statistics.median(apart)
        rows.append(row)
    report("shared-arena", rows, options.json)


if __name__ == "__main__":
    main()

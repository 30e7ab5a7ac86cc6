"""Many sessions of one large model, each with its own options, share one copy of the weights.

    python samples/many_sessions.py

The sample creates a model with 18 MB of weights. Its sessions share one copy of the weights if they use the same graph.
Threads, arena and order of execution can differ. The printed memory is the proportional set size of the process, which
only Linux reports. If several processes map a file, each counts its share.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, Tuning, Weights

SMALL = Path(__file__).parent.parent / "models" / "digits.onnx"
SIDE, LAYERS = 1536, 2
OPTIONS = (  # threads, tuning
    (1, Tuning()),
    (2, Tuning()),
    (1, Tuning(memory_arena=False)),
    (2, Tuning(execution_mode="parallel", inter_op_num_threads=2)),
)


def make_model(path: Path) -> None:
    """A chain of matrix products with random weights, 9 MB each."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((SIDE, SIDE), np.float32) / SIDE**0.5 for _ in range(LAYERS)]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"weight{n}"], [f"x{n + 1}"]) for n in range(LAYERS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", SIDE]) for name in ("x0", f"x{LAYERS}")]
    tensors = [numpy_helper.from_array(weight, f"weight{n}") for n, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def memory() -> float:
    """The memory of this process in MB, or NaN if the system does not report it."""
    if sys.platform != "linux":
        return float("nan")
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def opened(model: LearningModel, weights: Weights) -> list[LearningModelSession]:
    sessions = []
    for threads, tuning in OPTIONS:
        options = LearningModelSessionOptions()
        options.intra_op_num_threads, options.tuning, options.weights = threads, tuning, weights
        sessions.append(LearningModelSession(model, None, options))
    return sessions


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["WINML_PY_CACHE"] = folder  # the folder of the shared copy; usually, keep the default
        path = Path(folder, "large.onnx")
        make_model(path)
        print(f"weights: {path.stat().st_size / 2**20:.0f} MB")
        inputs = {"x0": np.ones((1, SIDE), np.float32)}
        # A first session loads the code of the libraries, so that the measurement does not include it.
        with LearningModel.load(path) as model, LearningModelSession(LearningModel.load(SMALL)):
            for weights in (Weights.SHARED, Weights.PRIVATE):
                before = memory()
                sessions = opened(model, weights)
                results = [session.evaluate_features(inputs).outputs[f"x{LAYERS}"].to_numpy() for session in sessions]
                print(f"{weights.name.lower()}: {len(sessions)} sessions take {memory() - before:.0f} MB,", end=" ")
                print(f"the first number is {results[0][0, 0]:.4f},", end=" ")
                print(f"at most {max(np.abs(result - results[0]).max() for result in results):.0e} apart")
                for session in sessions:
                    session.close()


if __name__ == "__main__":
    main()

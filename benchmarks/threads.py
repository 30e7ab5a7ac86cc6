"""Two threads on one session compared with one, and a process that may use only one of the machine's cores.

    python benchmarks/threads.py [--json FILE]

Two threads, each with its own binding, evaluate on one session with one intra-op thread. The alternative is a session
of raw ONNX Runtime with two intra-op threads. The target: at least 1.9 times the evaluations of one thread; with the
same model in float16, or with OpenVINO where it is installed, 1.8. The second part limits the process to one core by
affinity. It compares a session with default options with a session whose thread count was set to 1 manually, and with
raw ONNX Runtime, which has a thread for each of the machine's cores. The target: not slower than the one set manually
(within 3 %, the noise of two equal ways). Results are compared first.
"""

import importlib.util
import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np
from _measure import arguments, at_least, at_most, medians, paired_processes, report

CHANNELS, PIXELS = 64, 56
CONFINED = f"""
import os, sys
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import threads
from _measure import serve
"""
OURS = """
session = threads.session({threads})
serve(lambda: session.evaluate_features({{"x": threads.PICTURE}}))
"""
RAW = """
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = {threads}
session = onnxruntime.InferenceSession(threads.model(), options)
serve(lambda: session.run(None, {{"x": threads.PICTURE}}))
"""
PICTURE = np.random.default_rng(1).random((1, CHANNELS, PIXELS, PIXELS), np.float32)


def model(dtype: type = np.float32) -> bytes:
    """Four convolutions that take some milliseconds, in float32 or float16."""
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)
    tensors, nodes, value = [], [], "x"
    for i in range(4):
        kernel = rng.standard_normal((CHANNELS, CHANNELS, 3, 3), np.float32) * np.float32(0.05)
        tensors.append(numpy_helper.from_array(kernel.astype(dtype), f"w{i}"))
        after = "y" if i == 3 else f"h{i}"
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [after]))
        value = after
    shape = [1, CHANNELS, PIXELS, PIXELS]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, element, shape) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "convolutions", [x], [y], tensors)
    opset = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    return data


def session(threads: int | None = None, dtype: type = np.float32, engine: str | None = None):
    """A session with this many intra-op threads, or with the default number."""
    from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions

    options = LearningModelSessionOptions()
    options.engine = engine
    if threads is not None:
        options.intra_op_num_threads = threads
    return LearningModelSession(LearningModel.load(model(dtype)), None, options)


def evaluations(call_of, threads: int, seconds: float) -> float:
    """Evaluations a second with this many threads, each with its own call."""
    counts, stop = [0] * threads, threading.Event()
    calls = [call_of() for _ in range(threads)]

    def work(index: int) -> None:
        while not stop.is_set():
            calls[index]()
            counts[index] += 1

    pool = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    started = time.perf_counter()
    for thread in pool:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in pool:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def together(rounds: int, dtype: type, engine: str | None = None) -> list[dict]:
    import onnxruntime

    from winml_py import LearningModelBinding

    shared = session(1, dtype, engine)
    picture = PICTURE.astype(dtype)

    def call_of():
        binding = LearningModelBinding(shared)
        binding.bind("x", picture)
        return lambda: shared.evaluate(binding)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning would disturb the others
    raw = onnxruntime.InferenceSession(model(dtype), options)
    expected = raw.run(None, {"x": picture})[0]
    tolerance = 1e-4 if dtype is np.float32 else 2e-3
    if not np.allclose(call_of()().outputs["y"].to_numpy(), expected, rtol=tolerance, atol=tolerance):
        raise SystemExit("the results differ")
    ways = {
        "one thread": lambda: evaluations(call_of, 1, 1.0),
        "two threads, one session": lambda: evaluations(call_of, 2, 1.0),
        "raw, two intra-op threads": lambda: evaluations(lambda: lambda: raw.run(None, {"x": picture}), 1, 1.0),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            samples[name].append(way())
    one = samples["one thread"]
    return [
        {
            "model": np.dtype(dtype).name,
            "engine": shared.engine,
            "way": name,
            "evaluations/s": statistics.median(found),
            "x one thread": statistics.median(a / b for a, b in zip(found, one, strict=True)),
        }
        for name, found in samples.items()
    ]


def streams(rounds: int) -> list[dict]:
    """OpenVINO by default, where one call has all cores, beside a call for each core at once."""
    from winml_py import LearningModelBinding

    sessions = {"all": session(None, engine="openvino"), "one": session(1, engine="openvino")}

    def call_of(one):
        binding = LearningModelBinding(one)
        binding.bind("x", PICTURE)
        return lambda: one.evaluate(binding)

    results = [call_of(one)().outputs["y"].to_numpy() for one in sessions.values()]
    if not np.allclose(*results, rtol=1e-4, atol=1e-4):
        raise SystemExit("the results differ")
    samples: dict[tuple[str, int], list[float]] = {(name, count): [] for name in sessions for count in (1, 2)}
    for _ in range(rounds):
        for (name, count), found in samples.items():
            found.append(evaluations(lambda name=name: call_of(sessions[name]), count, 1.0))
    base = samples["all", 1]
    return [
        {
            "cores per call": name,
            "concurrent calls": count,
            "evaluations/s": statistics.median(found),
            "x default, one call": statistics.median(a / b for a, b in zip(found, base, strict=True)),
        }
        for (name, count), found in samples.items()
    ]


def confined(rounds: int) -> list[dict]:
    codes = {
        "by default": OURS.format(threads=None),
        "set manually to 1": OURS.format(threads=1),
        "raw, one thread per core": RAW.format(threads="os.cpu_count()"),
        "raw by default, which escapes": RAW.format(threads=0),  # it pins its threads to cores that it chooses
    }
    commands = {name: [sys.executable, "-c", CONFINED + code] for name, code in codes.items()}
    found = medians(paired_processes(commands, rounds, 0.3))
    return [
        {"confined to one core": name, "ms": seconds * 1e3, "x manual": seconds / found["set manually to 1"]}
        for name, seconds in found.items()
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rows = [row for dtype in (np.float32, np.float16) for row in together(options.rounds, dtype)]
    tables = {"threads": rows}
    if importlib.util.find_spec("openvino"):
        rows += together(options.rounds, np.float32, "openvino")
        tables["threads-streams"] = streams(options.rounds)
    tables["threads-confined"] = confined(options.rounds)
    bars = [
        at_least(f"{row['model']}, {row['engine']}", row["x one thread"], 1.9 if is_first else 1.8)
        for is_first, row in zip((True, False, False), rows[1::3], strict=False)
    ]
    bars.append(at_most("confined to one core, default / manual", tables["threads-confined"][0]["x manual"], 1.03))
    report(tables, options.json, bars)


if __name__ == "__main__":
    main()

"""Plants faults in models, and sees which node is named: bars for `winml_py.compare.blame`.

    python tests/tools/blame.py [--seed 0] [--models 40]

Each model is evaluated in two ways that differ by rounding alone, for which nothing may be named; and once more with a
fault in one node: that node, or the group that it is computed in, is to be named, and no other. At the end it prints
the memory that a search takes beside its bound.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers import models as small
from helpers.corpus import OURS, SHIPPED
from helpers.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from _models import RAPIDOCR_SHAPES, light

from winml_py import LearningModelSessionOptions, Tuning
from winml_py._inputs.model import Case
from winml_py.compare.blame import find_departure

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
Made = tuple[ModelProto, Values]
FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


# Models: made up, of the package, and of other packages.


class Draft:
    """A graph that is made up, node by node."""

    def __init__(self, rng: np.random.Generator, prefix: str = "") -> None:
        self.rng, self.prefix, self.nodes, self.weights = rng, prefix, list[NodeProto](), dict[str, Array]()

    def add(self, operator: str, *inputs: str | Array, **attributes: Any) -> str:
        """Adds a node, with names and constants as its inputs; returns the name of its first output."""
        names = [
            each if isinstance(each, str) else f"{self.prefix}w{len(self.nodes)}.{place}"
            for place, each in enumerate(inputs)
        ]
        self.weights |= {
            name: np.asarray(each) for name, each in zip(names, inputs, strict=True) if not isinstance(each, str)
        }
        made = f"{self.prefix}{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [made], f"node/{made}", **attributes))
        return made

    def weight(self, *shape: int) -> Array:
        return (self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)

    def graph(self, inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        return helper.make_graph(self.nodes, "made up", inputs, outputs, weights)

    def model(self, end: str, shape: list[int]) -> Made:
        graph = self.graph([small.tensor("x", shape)], [helper.make_tensor_value_info(end, FLOAT, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return model, {"x": self.rng.standard_normal(shape).astype(np.float32)}


def convolutional(rng: np.random.Generator) -> Made:
    draft, channels, x = Draft(rng), int(rng.choice([8, 12, 16])), "x"
    side = int(rng.choice([16, 24, 33]))
    shape = [1, 3, side, side]
    x = draft.add("Conv", x, draft.weight(channels, 3, 3, 3), draft.weight(channels), pads=[1] * 4)
    for _ in range(int(rng.integers(2, 5))):
        spread = (rng.random((4, channels)) + 0.5).astype(np.float32)
        y = draft.add("BatchNormalization", x, *spread, epsilon=1e-5)
        y = draft.add(str(rng.choice(["Relu", "LeakyRelu", "HardSwish", "Sigmoid"])), y)
        group = int(rng.choice([1, channels]))
        y = draft.add("Conv", y, draft.weight(channels, channels // group, 3, 3), pads=[1] * 4, group=group)
        y = draft.add("InstanceNormalization", y, *spread[:2], epsilon=1e-5) if rng.random() < 0.3 else y
        x = draft.add("Add", x, y) if rng.random() < 0.6 else draft.add("Mul", x, draft.add("Tanh", y))
    x = draft.add("Transpose", draft.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), perm=[0, 1, 3, 2])
    x = draft.add("Flatten", draft.add("GlobalAveragePool", draft.add("Conv", x, draft.weight(24, channels, 1, 1))))
    x = draft.add("Gemm", x, draft.weight(10, 24), draft.weight(10), transB=1)
    return draft.model(draft.add("Softmax", x, axis=-1), shape)


def recurrent(rng: np.random.Generator) -> Made:
    draft, kind, hidden, size = Draft(rng), str(rng.choice(["LSTM", "GRU", "RNN"])), 12, 6
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    weights = draft.weight(1, gates, size), draft.weight(1, gates, hidden), draft.weight(1, 2 * gates)
    x = draft.add(kind, draft.add("Tanh", "x"), *weights, hidden_size=hidden)
    x = draft.add("Squeeze", x, np.array([1]))
    x = draft.add("LayerNormalization", x, draft.weight(hidden) + 1, draft.weight(hidden), epsilon=1e-5)
    x = draft.add("MatMul", x, draft.weight(hidden, size))
    x = draft.add("GRU", x, draft.weight(1, 36, size), draft.weight(1, 36, 12), hidden_size=12)
    x = draft.add("Sigmoid", draft.add("Squeeze", x, np.array([1])))
    x = draft.add("Gemm", draft.add("Reshape", x, np.array([-1, 12])), draft.weight(12, 5), draft.weight(5))
    return draft.model(draft.add("Softmax", x, axis=-1), [int(rng.integers(5, 30)), 1, size])


def attention(rng: np.random.Generator) -> Made:
    draft, width, steps, x = Draft(rng), 16, int(rng.choice([4, 7, 16])), "x"
    for _ in range(int(rng.integers(1, 3))):
        y = x
        if rng.random() < 0.5:
            y = draft.add("LayerNormalization", x, draft.weight(width) + 1, draft.weight(width), epsilon=1e-5)
        else:  # in its parts, which engines fuse
            y = draft.add("Sub", x, draft.add("ReduceMean", x, axes=[-1]))
            variance = draft.add("ReduceMean", draft.add("Pow", y, np.float32(2)), axes=[-1])
            y = draft.add("Div", y, draft.add("Sqrt", draft.add("Add", variance, np.float32(1e-5))))
            y = draft.add("Add", draft.add("Mul", y, draft.weight(width) + 1), draft.weight(width))
        heads = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            z = draft.add("Add", draft.add("MatMul", y, draft.weight(width, width)), draft.weight(width))
            heads.append(draft.add("Transpose", draft.add("Reshape", z, np.array([0, 0, 4, 4])), perm=perm))
        z = draft.add("Div", draft.add("MatMul", *heads[:2]), np.float32(2))
        z = draft.add("MatMul", draft.add("Softmax", z, axis=-1), heads[2])
        z = draft.add("Reshape", draft.add("Transpose", z, perm=[0, 2, 1, 3]), np.array([0, 0, width]))
        x = draft.add("Add", x, draft.add("MatMul", z, draft.weight(width, width)))
        z = draft.add("Add", draft.add("MatMul", x, draft.weight(width, 32)), draft.weight(32))
        erf = draft.add("Add", draft.add("Erf", draft.add("Div", z, np.float32(2**0.5))), np.float32(1))
        z = draft.add("Mul", draft.add("Mul", z, erf), np.float32(0.5))
        x = draft.add("Add", x, draft.add("MatMul", z, draft.weight(32, width)))
    return draft.model(x, [1, steps, width])


def branching(rng: np.random.Generator) -> Made:
    """An `If` that reads outer tensors, and a `Loop` that carries one."""
    draft, size = Draft(rng), int(rng.integers(4, 9))
    x = draft.add("MatMul", "x", draft.weight(size, size))
    is_positive = draft.add("Greater", draft.add("ReduceSum", x, keepdims=0), np.float32(rng.choice([-1e9, 1e9])))
    bodies = {}
    for name in ("then_branch", "else_branch"):
        inner = Draft(rng, f"{name}/")
        y = inner.add("Tanh", inner.add("Gemm", x, inner.weight(size, size), inner.weight(size)))
        bodies[name] = inner.graph([], [small.tensor(y, [size, size])])
    x = draft.add("If", is_positive, **bodies)
    outer, inner = draft.add("Sigmoid", x), Draft(rng, "body/")
    y = inner.add("Mul", inner.add("MatMul", "carried", inner.weight(size, size)), np.float32(0.7))
    y = inner.add("Add", inner.add("Tanh", y), outer)
    ends = [small.tensor("step", [], INT64), small.tensor("go", [], BOOL), small.tensor("carried", [size, size])]
    body = inner.graph(ends, [small.tensor(inner.add("Identity", "go"), [], BOOL), small.tensor(y, [size, size])])
    x = draft.add("Loop", np.array(int(rng.integers(2, 7))), "", x, body=body)
    x = draft.add("Gemm", draft.add("Softmax", x, axis=1), draft.weight(size, 4), draft.weight(4))
    return draft.model(draft.add("LogSoftmax", x, axis=-1), [size, size])


def of_others(rng: np.random.Generator) -> Made:
    """A model of the package, or of another one."""
    made = {path.stem: onnx.load(path) for path in OURS if "float16" not in path.stem}
    made |= {path.parent.name: onnx.load(path) for path in SHIPPED if "magika" in str(path)}
    name = str(rng.choice([*made, "squeezenet", "shufflenet", "resnet50", "inception_v1", *RAPIDOCR_SHAPES]))
    if name in RAPIDOCR_SHAPES:
        made[name] = onnx.load(next(path for path in SHIPPED if path.stem == name))
    model = made[name] if name in made else light(name)
    values: Values = {}
    for info in model.graph.input:
        if info.name not in {weight.name for weight in model.graph.initializer}:
            sizes = [size.dim_value for size in info.type.tensor_type.shape.dim]
            shape = RAPIDOCR_SHAPES.get(name) or [
                size if size > 0 else 48 if place > 1 else 1 for place, size in enumerate(sizes)
            ]
            is_float = info.type.tensor_type.elem_type == FLOAT
            values[info.name] = rng.random(shape, np.float32) if is_float else rng.integers(0, 200, shape, np.int32)
    model.graph.name = name
    return model, values


MAKERS = (convolutional, recurrent, attention, branching, of_others)


# Faults: each changes a copy of a model, and gives the first output of the node that has it; or None without a place.


class Planted(NamedTuple):
    first: ModelProto
    second: ModelProto
    output: str


def heavier(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """5 % more in one channel of a weight, which may be inside an `If` or a `Loop`."""
    wrong = copy.deepcopy(model)
    places = []
    for owner in wrong.graph.node:
        bodies = [item.g for item in owner.attribute if item.type == onnx.AttributeProto.GRAPH]
        for graph in [wrong.graph, *bodies]:
            known = {each.name: each for each in graph.initializer}
            for node in [owner] if graph is wrong.graph else graph.node:
                if node.op_type in ("Conv", "Gemm", "MatMul", "LSTM", "GRU") and node.input[1] in known:
                    places.append((owner, node, known[node.input[1]]))
    if not places:
        return None
    owner, node, found = places[rng.integers(len(places))]
    array = numpy_helper.to_array(found).copy()
    axis = array.ndim - 1 if node.op_type == "MatMul" else 1 if node.op_type in ("LSTM", "GRU") else 0
    np.moveaxis(array, axis, 0)[rng.integers(array.shape[axis])] *= 1.05
    found.CopyFrom(numpy_helper.from_array(array, found.name))
    return Planted(model, wrong, owner.output[0])


def overflow(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """A product that float16 cannot hold; both models have it, the second in float16."""
    tensors = evaluate(model, values, everything=True)
    names = [name for name, value in tensors.items() if value.dtype == np.float32 and 0 < np.abs(value).max() < 1e4]
    name = str(rng.choice(names))
    factor = np.float32(min(6e4, 1.5e5 / np.abs(tensors[name]).max()))
    if np.abs(tensors[name]).max() * factor < 7e4 or not tensors[name].ndim:
        return None
    pair = []
    for is_half in (False, True):
        changed = copy.deepcopy(model)
        place = next(place for place, node in enumerate(changed.graph.node) if name in node.output) + 1
        for node in changed.graph.node:
            node.input[:] = ["scaled back" if each == name else each for each in node.input]
        nodes = [
            helper.make_node("Mul", [name, "factor"], ["scaled"]),
            helper.make_node("Div", ["scaled", "factor"], ["scaled back"]),
        ]
        changed.graph.initializer.append(numpy_helper.from_array(factor, "factor"))
        if is_half:
            changed.graph.initializer.append(numpy_helper.from_array(np.float16(factor), "factor16"))
            nodes[:1] = [
                helper.make_node("Cast", [name], ["half"], to=TensorProto.FLOAT16),
                helper.make_node("Mul", ["half", "factor16"], ["half scaled"]),
                helper.make_node("Concat", ["half scaled"], ["held"], axis=0),  # without it, float32 is never left
                helper.make_node("Cast", ["held"], ["scaled"], to=FLOAT),
            ]
        rest = [*changed.graph.node[:place], *nodes, *changed.graph.node[place:]]
        del changed.graph.node[:]
        changed.graph.node.extend(rest)
        for end in changed.graph.output:
            if end.name == name:
                return None
        pair.append(changed)
    return Planted(pair[0], pair[1], "scaled")


def attribute(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """Another epsilon; 0.02 instead of 0.01 in a LeakyRelu; another axis; axes swapped where sizes allow it."""
    wrong, tensors = copy.deepcopy(model), evaluate(model, values, everything=True)
    places: list[tuple[NodeProto, str, Any]] = []
    for node in wrong.graph.node:
        known = {item.name: item for item in node.attribute}
        sizes = tensors[node.input[0]].shape if node.input and node.input[0] in tensors else ()
        perm = [*known["perm"].ints] if "perm" in known and sizes else []
        if "epsilon" in known:
            places.append((node, "epsilon", max(100 * known["epsilon"].f, 1e-3)))
        elif node.op_type == "LeakyRelu":
            places.append((node, "alpha", 0.02))
        elif "Softmax" in node.op_type and len(sizes) > 1 and sizes[-2] == sizes[-1] > 1:
            places.append((node, "axis", len(sizes) - 2))
        for one, other in itertools.combinations(range(len(perm)), 2):
            if sizes[perm[one]] == sizes[perm[other]] > 1:
                swapped = {one: perm[other], other: perm[one]}
                places.append((node, "perm", [swapped.get(axis, source) for axis, source in enumerate(perm)]))
    if not places:
        return None
    node, name, value = places[rng.integers(len(places))]
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
    return Planted(model, wrong, node.output[0])


def element(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """A node whose output is 1 % off, wrong in one element, or NaN there."""
    wrong, how = copy.deepcopy(model), int(rng.integers(3))
    constant = {weight.name for weight in wrong.graph.initializer}
    kinds = ("Relu", "Sigmoid", "Tanh", "Add", "Mul")
    places = [node for node in wrong.graph.node if node.op_type in kinds and not {*node.input} <= constant]
    if not places:
        return None
    node = places[rng.integers(len(places))]
    name, right = node.output[0], evaluate(model, values, everything=True)[node.output[0]]
    if right.dtype != np.float32 or not right.size:
        return None
    number = np.zeros_like(right)
    number.flat[rng.integers(right.size)] = (0, np.nan, right.flat[0] + 0.05 * np.abs(right).max() + 0.01)[how]
    number = number if how else np.float32(1.01)
    node.output[0] = "right"
    wrong.graph.initializer.append(numpy_helper.from_array(number, "number"))
    place = [*wrong.graph.node].index(node) + 1
    wrong.graph.node.insert(place, helper.make_node("Add" if how else "Mul", ["right", "number"], [name]))
    return Planted(model, wrong, name)


FAULTS = (heavier, overflow, attribute, element)


def evaluate(model: ModelProto, values: Values, everything: bool = False) -> Values:
    """The outputs of a model in raw ONNX Runtime, and those of all nodes."""
    asked = copy.deepcopy(model)
    if everything:
        del asked.graph.output[:]
        names = [name for node in asked.graph.node for name in node.output if name]
        asked.graph.output.extend(map(helper.make_empty_tensor_value_info, names))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(asked.SerializeToString(), options)
    return dict(zip([end.name for end in session.get_outputs()], session.run(None, values), strict=True))


# Two ways to evaluate the same model.


def pair_of(kind: str, path: str, folder: Path) -> tuple[Case, Case]:
    if kind == "openvino":
        return Case(path), Case(path, engine="openvino")
    if kind == "optimized":
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(folder / "optimized.onnx")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return Case(path), Case(str(folder / "optimized.onnx"))
    settings = [LearningModelSessionOptions() for _ in range(2)]
    for index, each in enumerate(settings):
        each.batch_size_override = 0
        if kind == "threads":
            each.intra_op_num_threads = 1 + index
        else:
            each.tuning = Tuning(graph_optimization=("none", "all")[index])
        each.save(folder / f"{index}.json")
    return Case(path, settings=str(folder / "0.json")), Case(path, settings=str(folder / "1.json"))


PAIRS = ("openvino", "levels", "threads", "optimized")


def plant(place: int, seed: int) -> tuple[str, Planted, Values, Made]:
    """A model with a fault that changes its outputs."""
    for attempt in range(99):
        rng = np.random.default_rng([seed, place, attempt])
        maker, fault = MAKERS[place % len(MAKERS)], FAULTS[(place // len(MAKERS) + place) % len(FAULTS)]
        model, values = maker(rng)
        planted = fault(model, values, rng)
        if planted is not None and changes(planted, values):
            name = model.graph.name if maker is of_others else maker.__name__
            return f"{name}, {fault.__name__}", planted, values, (model, values)
    raise AssertionError(f"{MAKERS[place % len(MAKERS)].__name__} has no place for this fault")


def changes(planted: Planted, values: Values) -> bool:
    pairs = zip(*(evaluate(model, values).values() for model in planted[:2]), strict=True)
    return any(not np.allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(one).max()) for one, other in pairs)


def memory(folder: Path) -> str:
    """What a search adds to a process, beside its bound: three times the largest tensor, and what two sessions add."""
    rng, draft = np.random.default_rng(0), Draft(np.random.default_rng(0))
    x = "x"
    for _ in range(6):
        x = draft.add("Relu", draft.add("Conv", x, draft.weight(16, 4 if x == "x" else 16, 1, 1)))
        x = draft.add("Mul", x, draft.add("Sigmoid", x))
    x = draft.add("Add", x, draft.add("ReduceMean", draft.add("MatMul", x, draft.weight(1024, 1024))))
    model, _ = draft.model(draft.add("Tanh", x), [1, 4, 1024, 1024])
    planted = heavier(model, {}, rng)
    assert planted is not None
    paths = [str(folder / name) for name in ("first.onnx", "second.onnx")]
    for path, each in zip(paths, planted[:2], strict=True):
        onnx.save(each, path)
    command = [sys.executable, "-c", MEMORY]
    raw, once, took = (
        int(subprocess.run([*command, how, *paths], capture_output=True, text=True, check=True, cwd=ROOT).stdout)
        for how in ("raw", "evaluate", "search")
    )
    largest = (16 << 20) * 4 >> 20
    return (
        f"memory: {took} MB; bound {raw + 3 * largest} MB (sessions {raw}, 3 x {largest}); one raw evaluation {once} MB"
    )


MEMORY = """
import sys
import numpy as np
import onnxruntime
from winml_py._inputs.model import Case
from winml_py.compare.blame import find_departure

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10

values = {"x": np.random.default_rng(0).standard_normal((1, 4, 1024, 1024), np.float32)}
small = Case("models/digits.onnx"), Case("models/digits_float16.onnx")
find_departure(*small, {"image": np.zeros((1, 1, 28, 28), np.float32)})  # what it imports is no model's
before = peak()
if sys.argv[1] == "search":
    find_departure(Case(sys.argv[2]), Case(sys.argv[3]), values)
else:
    sessions = [onnxruntime.InferenceSession(path) for path in sys.argv[2:]]
    if sys.argv[1] == "evaluate":
        sessions[0].run(None, values)
print(peak() - before)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--only", type=int, help="one model, by its number")
    options = parser.parse_args()
    counts, started = Counter[str](), time.perf_counter()
    for place in range(options.models) if options.only is None else [options.only]:
        label, planted, values, (model, plain_values) = plant(place, options.seed)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            paths = [str(folder / f"{name}.onnx") for name in ("first", "second", "plain")]
            for path, each in zip(paths, (*planted[:2], model), strict=True):
                onnx.save(each, path)
            kind = PAIRS[place % len(PAIRS)]
            start = time.perf_counter()
            plain = find_departure(*pair_of(kind, paths[2], folder), plain_values)
            middle = time.perf_counter()
            found = find_departure(Case(paths[0]), Case(paths[1]), values)
            seconds = f"{middle - start:.1f} s, {time.perf_counter() - middle:.1f} s"
        counts["named without a fault"] += plain is not None
        node = next(node for node in planted.first.graph.node if planted.output in node.output)
        is_named = found is not None and (node.name or planted.output) in found.first
        counts["named"] += is_named
        counts["another named"] += found is not None and not is_named
        print(
            f"{place:3} {label} in {node.op_type} {planted.output!r}: {'' if is_named else 'WRONG '}{found} [{seconds}]"
        )
        if plain is not None:
            print(f"    WRONG, without a fault, {kind}: {plain}")
    with tempfile.TemporaryDirectory() as name:
        print(memory(Path(name)))
    total = options.models
    print(
        f"named {counts['named']} of {total}; another {counts['another named']}; without a fault "
        f"{counts['named without a fault']} of {total}; {time.perf_counter() - started:.0f} s"
    )
    is_good = counts["named"] >= 0.9 * total and not counts["another named"] and not counts["named without a fault"]
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()

"""Plants faults in models, and counts how many of them `winml_py.compare.first_departure` names.

    python tests/tools/find_planted_faults.py [--seed 0] [--models 40]

Each model is evaluated in two ways that differ only by rounding: no node may be named. Then one node gets a fault: that
node, or its group, has to be named.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers import models as small
from helpers.corpus import OURS, SHIPPED
from helpers.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from _models import RAPIDOCR_SHAPES, light

from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, Tuning
from winml_py.compare.first_departure import find_departure

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
ModelAndValues = tuple[ModelProto, Values]
FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


# Models: random ones, the package's, and those of other packages.


class Draft:
    """A graph, node by node, with random weights."""

    def __init__(self, rng: np.random.Generator, prefix: str = "") -> None:
        self.rng, self.prefix, self.nodes, self.weights = rng, prefix, list[NodeProto](), dict[str, Array]()

    def add(self, operator: str, *inputs: str | Array, **attributes: Any) -> str:
        """Adds a node, with names and constants as its inputs; returns the name of its first output."""
        names = []
        for place, value in enumerate(inputs):
            name = value if isinstance(value, str) else f"{self.prefix}w{len(self.nodes)}.{place}"
            if not isinstance(value, str):
                self.weights[name] = np.asarray(value)
            names.append(name)
        output = f"{self.prefix}{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], f"node/{output}", **attributes))
        return output

    def weight(self, *shape: int) -> Array:
        return (self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)

    def graph(self, inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        return helper.make_graph(self.nodes, "random", inputs, outputs, weights)

    def model(self, end: str, shape: list[int]) -> ModelAndValues:
        graph = self.graph([small.tensor("x", shape)], [helper.make_tensor_value_info(end, FLOAT, None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return model, {"x": self.rng.standard_normal(shape).astype(np.float32)}


def make_convolutional(rng: np.random.Generator) -> ModelAndValues:
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


def make_recurrent(rng: np.random.Generator) -> ModelAndValues:
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


def make_attention(rng: np.random.Generator) -> ModelAndValues:
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


def make_branching(rng: np.random.Generator) -> ModelAndValues:
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


def load_published(rng: np.random.Generator) -> ModelAndValues:
    """A model of the package, or of another one."""
    paths = {path.stem: path for path in OURS if "float16" not in path.stem}
    paths |= {path.parent.name: path for path in SHIPPED if "magika" in str(path)}
    paths |= {path.stem: path for path in SHIPPED if path.stem in RAPIDOCR_SHAPES}
    name = str(rng.choice([*paths, "squeezenet", "shufflenet", "resnet50", "inception_v1"]))
    model = onnx.load(paths[name]) if name in paths else light(name)
    model.graph.name = name
    weights = {weight.name for weight in model.graph.initializer}
    values: Values = {}
    for info in model.graph.input:
        if info.name in weights:
            continue
        sizes = enumerate(info.type.tensor_type.shape.dim)
        free_shape = [size.dim_value or (48 if place > 1 else 1) for place, size in sizes]
        shape = RAPIDOCR_SHAPES.get(name, free_shape)
        is_float = info.type.tensor_type.elem_type == FLOAT
        values[info.name] = rng.random(shape, np.float32) if is_float else rng.integers(0, 200, shape, np.int32)
    return model, values


MAKERS = (make_convolutional, make_recurrent, make_attention, make_branching, load_published)


# Faults


class Planted(NamedTuple):
    """Two models, and the first output of the node in which they differ."""

    first: ModelProto
    second: ModelProto
    output: str


def scale_weight(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """Adds 5 % to one channel of a weight, which may be inside an `If` or a `Loop`."""
    changed = copy.deepcopy(model)
    places = [
        (owner, node, weight)
        for owner, node, graph in list_nodes(changed)
        if node.op_type in ("Conv", "Gemm", "MatMul", "LSTM", "GRU")
        for weight in graph.initializer
        if weight.name == node.input[1]
    ]
    if not places:
        return None
    owner, node, weight = places[rng.integers(len(places))]
    array = numpy_helper.to_array(weight).copy()
    axis = {"MatMul": array.ndim - 1, "LSTM": 1, "GRU": 1}.get(node.op_type, 0)
    np.moveaxis(array, axis, 0)[rng.integers(array.shape[axis])] *= 1.05
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return Planted(model, changed, owner.output[0])


def list_nodes(model: ModelProto) -> Iterator[tuple[NodeProto, NodeProto, GraphProto]]:
    """All nodes, each with the node of the main graph that has it, and with its graph."""
    for owner in model.graph.node:
        yield owner, owner, model.graph
        for attribute in owner.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from ((owner, node, attribute.g) for node in attribute.g.node)


def overflow_float16(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """Multiplies a tensor by a factor and divides it again; the second model multiplies in float16, and overflows."""
    tensors = evaluate(model, values, everything=True)
    names = [name for name, value in tensors.items() if value.dtype == np.float32 and 0 < np.abs(value).max() < 1e4]
    name = str(rng.choice(names))
    largest = np.abs(tensors[name]).max()
    factor = np.float32(min(6e4, 1.5e5 / largest))
    if largest * factor < 7e4 or not tensors[name].ndim or name in {end.name for end in model.graph.output}:
        return None
    product = [helper.make_node("Mul", [name, "factor"], ["scaled"])]
    half_product = [
        helper.make_node("Cast", [name], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["half", "half factor"], ["half scaled"]),
        helper.make_node("Concat", ["half scaled"], ["held"], axis=0),  # otherwise ONNX Runtime stays in float32
        helper.make_node("Cast", ["held"], ["scaled"], to=FLOAT),
    ]
    quotient = helper.make_node("Div", ["scaled", "factor"], ["restored"])
    pair = []
    for nodes in (product, half_product):
        changed = copy.deepcopy(model)
        for node in changed.graph.node:
            node.input[:] = ["restored" if read == name else read for read in node.input]
        place = next(place for place, node in enumerate(changed.graph.node) if name in node.output) + 1
        for node in (quotient, *reversed(nodes)):
            changed.graph.node.insert(place, node)
        factors = {"factor": factor, "half factor": np.float16(factor)}
        changed.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in factors.items())
        pair.append(changed)
    return Planted(pair[0], pair[1], "scaled")


def change_attribute(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """Changes an epsilon, the slope of a LeakyRelu, an axis, or the order of axes, where the sizes allow it."""
    changed, tensors = copy.deepcopy(model), evaluate(model, values, everything=True)
    places: list[tuple[NodeProto, str, Any]] = []
    for node in changed.graph.node:
        attributes = {item.name: item for item in node.attribute}
        sizes = tensors[node.input[0]].shape if node.input and node.input[0] in tensors else ()
        if "epsilon" in attributes:
            places.append((node, "epsilon", max(100 * attributes["epsilon"].f, 1e-3)))
        elif node.op_type == "LeakyRelu":
            places.append((node, "alpha", 0.02))
        elif "Softmax" in node.op_type and len(sizes) > 1 and sizes[-2] == sizes[-1] > 1:
            places.append((node, "axis", len(sizes) - 2))
        elif "perm" in attributes and sizes:
            perm = list(attributes["perm"].ints)
            for left, right in itertools.combinations(range(len(perm)), 2):
                if sizes[perm[left]] == sizes[perm[right]] > 1:
                    swapped = perm.copy()
                    swapped[left], swapped[right] = perm[right], perm[left]
                    places.append((node, "perm", swapped))
    if not places:
        return None
    node, name, value = places[rng.integers(len(places))]
    others = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend([*others, helper.make_attribute(name, value)])
    return Planted(model, changed, node.output[0])


def change_element(model: ModelProto, values: Values, rng: np.random.Generator) -> Planted | None:
    """Makes the output of a node 1 % larger, or wrong or NaN in one element."""
    changed, kind = copy.deepcopy(model), ("larger", "NaN", "wrong")[rng.integers(3)]
    weights = {weight.name for weight in changed.graph.initializer}
    operators = ("Relu", "Sigmoid", "Tanh", "Add", "Mul")
    nodes = [node for node in changed.graph.node if node.op_type in operators and not {*node.input} <= weights]
    if not nodes:
        return None
    node = nodes[rng.integers(len(nodes))]
    name = node.output[0]
    right = evaluate(model, values, everything=True)[name]
    if right.dtype != np.float32 or not right.size:
        return None
    if kind == "larger":
        operator, operand = "Mul", np.float32(1.01)
    else:
        operator, operand = "Add", np.zeros_like(right)
        wrong = right.flat[0] + 0.05 * np.abs(right).max() + 0.01
        operand.flat[rng.integers(right.size)] = np.nan if kind == "NaN" else wrong
    node.output[0] = "right"
    changed.graph.initializer.append(numpy_helper.from_array(operand, "operand"))
    place = [*changed.graph.node].index(node) + 1
    changed.graph.node.insert(place, helper.make_node(operator, ["right", "operand"], [name]))
    return Planted(model, changed, name)


FAULTS = (scale_weight, overflow_float16, change_attribute, change_element)


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


def has_effect(planted: Planted, values: Values) -> bool:
    """Whether the fault changes the outputs."""
    first, second = (evaluate(model, values) for model in (planted.first, planted.second))
    return any(
        not np.allclose(first[name], second[name], rtol=1e-4, atol=1e-5 * np.abs(first[name]).max()) for name in first
    )


def plant(place: int, seed: int) -> tuple[str, ModelProto, Values, Planted]:
    """A model with its name and values, and the same model with a fault that changes its outputs."""
    maker, fault = MAKERS[place % len(MAKERS)], FAULTS[(place // len(MAKERS) + place) % len(FAULTS)]
    for attempt in range(99):
        rng = np.random.default_rng([seed, place, attempt])
        model, values = maker(rng)
        planted = fault(model, values, rng)
        if planted is not None and has_effect(planted, values):
            name = model.graph.name if maker is load_published else maker.__name__
            return f"{name}, {fault.__name__}", model, values, planted
    raise AssertionError(f"{maker.__name__} has no place for this fault")


PAIRS = ("openvino", "levels", "threads")
"""Two ways to evaluate a model, which differ only by rounding."""


def make_pair(kind: str, path: str) -> list[LearningModelSession]:
    """Sessions of two ways: two engines, two levels of optimization, or two numbers of threads."""
    sessions = []
    for index in range(2):
        options = LearningModelSessionOptions()
        options.batch_size_override = 0
        if kind == "openvino":
            options.engine = (None, "openvino")[index]
        elif kind == "threads":
            options.intra_op_num_threads = 1 + index
        else:
            options.tuning = Tuning(graph_optimization=("none", "all")[index])
        sessions.append(LearningModelSession(LearningModel.load(path), None, options))
    return sessions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=40)
    options = parser.parse_args()
    counts, start = Counter[str](), time.perf_counter()
    for place in range(options.models):
        label, model, values, planted = plant(place, options.seed)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            paths = [str(folder / f"{name}.onnx") for name in ("first", "second", "plain")]
            for path, proto in zip(paths, (planted.first, planted.second, model), strict=True):
                onnx.save(proto, path)
            kind = PAIRS[place % len(PAIRS)]
            departure_without_fault = find_departure(*make_pair(kind, paths[2]), values)
            departure = find_departure(*map(LearningModel.load, paths[:2]), values)
        node = next(node for node in planted.first.graph.node if planted.output in node.output)
        is_named = departure is not None and (node.name or planted.output) in departure.first
        counts["named"] += is_named
        counts["another"] += departure is not None and not is_named
        counts["without"] += departure_without_fault is not None
        print(f"{place:3} {label} in {node.op_type} {planted.output!r}: {'' if is_named else 'WRONG '}{departure}")
        if departure_without_fault is not None:
            print(f"    WRONG, without a fault, {kind}: {departure_without_fault}")
    total = options.models
    print(
        f"named {counts['named']} of {total}; another {counts['another']}; without a fault {counts['without']} of "
        f"{total}; {time.perf_counter() - start:.0f} s"
    )
    if counts["named"] < 0.9 * total or counts["another"] or counts["without"]:
        sys.exit(1)


if __name__ == "__main__":
    main()

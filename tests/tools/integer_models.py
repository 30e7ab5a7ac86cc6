"""Random models over integer and shape operators, and what ONNX Runtime and another engine make of them.

    python tests/tools/integer_models.py [--count 2000] [--seed 0]

A model grows node by node: a node is kept where ONNX Runtime computes it on the numbers at hand. So every model is
right for the inputs it was made with, and may be refused for the others that it is tried on: those have other sizes and
other numbers, which move positions, counts and shapes. It prints the seeds where the engine that `tune` chooses, on an
input of each shape and with OpenVINO as the faster one, gives another result, or another error, than ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_errors

Array = np.ndarray[Any, Any]
NODES = 7
MAX_NUMBER = 1 << 16
"""Numbers in a value: a shape made of the large constants would take gigabytes."""

_NAMES = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")
RAISED = (ValueError, *(getattr(runtime_errors, name) for name in _NAMES))


class Grown(NamedTuple):
    """A model, and inputs to evaluate it on, the first of which it was made with."""

    model: bytes
    inputs: list[dict[str, Array]]
    operators: Counter[str]


class _Growing:
    """A model that grows, with the value of each name on the inputs at hand."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        shape = tuple(int(size) for size in self.rng.integers(1, 5, self.rng.integers(1, 4)))
        self.values: dict[str, Array] = {"x": self.numbers(shape)}
        self.is_free = bool(self.rng.integers(2))
        self.is_tame = bool(seed % 2)  # so that auto may take many of the models

    def numbers(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rng.integers(-3, 4, shape), np.float32)

    def pick(self, kinds: str) -> str:
        """A value of one of these kinds of type, the younger the likelier; a new constant where there is none."""
        names = [name for name, value in self.values.items() if value.dtype.kind in kinds]
        if names and self.rng.random() < 0.85:
            return str(names[-1 - min(int(self.rng.geometric(0.4)) - 1, len(names) - 1)])
        return self.constant(kinds[0])

    def constant(self, kind: str, *numbers: int) -> str:
        large = [2, 3, 5, 1000, 65536, 300000007, 2**31 - 1]
        if not numbers:
            count = int(self.rng.integers(0, 3))
            choices = large if self.rng.random() < (0.1 if self.is_tame else 0.3) else [-2, -1, 0, 1, 2, 3]
            array = np.array(self.rng.choice(choices, count) if count else self.rng.choice(choices))
        else:
            array = np.array(numbers)
        name = f"k{len(self.weights)}"
        self.weights[name] = self.values[name] = array.astype({"i": np.int64, "f": np.float32, "b": np.bool_}[kind])
        return name

    def grow(self) -> bool:
        """Tries one more node; gives whether ONNX Runtime computes it."""
        operator, inputs, attributes, count = self.proposal()
        outputs = [f"v{len(self.nodes)}_{index}" for index in range(count)]
        node = helper.make_node(operator, inputs, outputs, **attributes)
        given = {name: self.values[name] for name in inputs if name}
        if operator in MAKES_SIZES and any(np.abs(given[name]).max(initial=0) > MAX_NUMBER for name in inputs):
            return False
        try:
            came = evaluated(one_node(node, given), given)
        except RAISED:
            return False
        if any(value.size > MAX_NUMBER for value in came.values()):
            return False
        self.nodes.append(node)
        self.values |= came
        return True

    def proposal(self) -> tuple[str, list[str], dict[str, Any], int]:
        rng = self.rng
        operator = str(rng.choice(TAME if self.is_tame else OPERATORS))
        axis = int(rng.integers(-2, 3))
        if operator in ("Shape", "Size", "NonZero"):
            return operator, [self.pick("fi" if operator == "NonZero" else "fib")], {}, 1
        if operator in ("ArgMax", "ArgMin"):
            return operator, [self.pick("fi")], {"axis": axis, "keepdims": int(rng.integers(2))}, 1
        if operator == "TopK":
            return operator, [self.pick("f"), self.constant("i", int(rng.integers(1, 4)))], {"axis": axis}, 2
        if operator in ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min"):
            return operator, [self.pick("i"), self.pick("i")], {}, 1
        if operator in ("Neg", "Abs", "Sign", "Identity"):
            return operator, [self.pick("i")], {}, 1
        if operator in ("Equal", "Less", "GreaterOrEqual"):
            return operator, [self.pick("i"), self.pick("i")], {}, 1
        if operator == "Where":
            return operator, [self.pick("b"), self.pick("i"), self.pick("i")], {}, 1
        if operator == "Cast":
            kinds = [TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.BOOL]
            return operator, [self.pick("ifb")], {"to": int(rng.choice(kinds))}, 1
        if operator in ("Gather", "GatherElements", "GatherND"):
            return operator, [self.pick("fi"), self.pick("i")], {} if operator == "GatherND" else {"axis": axis}, 1
        if operator == "Concat":
            return operator, [self.pick("i"), self.pick("i")], {"axis": axis}, 1
        if operator in ("Unsqueeze", "Squeeze"):
            return operator, [self.pick("if"), self.constant("i", axis)], {}, 1
        if operator == "Slice":
            ends = [self.pick("i"), self.pick("i")] if rng.integers(2) else [self.constant("i", 0), self.pick("i")]
            return operator, [self.pick("if"), *ends], {}, 1
        if operator in ("Reshape", "Expand", "Tile"):
            return operator, [self.pick("fi"), self.pick("i")], {}, 1
        if operator == "ConstantOfShape":
            value = numpy_helper.from_array(np.array([int(rng.choice([0, 3, 65536]))]))
            return operator, [self.pick("i")], {"value": value}, 1
        if operator == "Range":
            return operator, [self.pick("i"), self.pick("i"), self.constant("i", 1)], {}, 1
        if operator in ("ReduceSum", "ReduceMax", "ReduceProd"):
            return operator, [self.pick("i")], {"keepdims": int(rng.integers(2))}, 1
        if operator == "Clip":
            return operator, [self.pick("i"), self.pick("i"), ""], {}, 1
        return operator, [self.pick("i")], {"axis": axis}, 1  # Flatten


OPERATORS = """Shape Shape Shape Size ArgMax ArgMax ArgMin NonZero TopK Add Add Sub Mul Mul Div Pow Mod Max Min Neg Abs
    Sign Identity Equal Less GreaterOrEqual Where Cast Cast Cast Gather Gather Gather GatherElements GatherND Concat
    Unsqueeze Squeeze Slice Slice Reshape Expand Tile ConstantOfShape Range ReduceSum ReduceMax ReduceProd Clip
    Flatten""".split()


TAME = """Shape Shape Shape Shape Size ArgMax ArgMax Add Sub Mul Mul Div Pow Neg Abs Sign Identity Equal Less Where Cast
    Cast Cast Gather Gather Gather Concat Concat Unsqueeze Unsqueeze Squeeze Slice Slice Reshape Reshape Expand
    ConstantOfShape Flatten""".split()

MAKES_SIZES = {"Expand", "Tile", "ConstantOfShape", "Range", "Reshape"}


def one_node(node: Any, given: dict[str, Array]) -> bytes:
    ends = [value_info(name, value) for name, value in given.items()]
    return model_of([node], ends, [helper.make_empty_tensor_value_info(name) for name in node.output], {})


def value_info(name: str, value: Array, is_free: bool = False) -> Any:
    shape = [f"{name}{axis}" if is_free else size for axis, size in enumerate(value.shape)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Array]) -> bytes:
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "integers", inputs, outputs, tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def native(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])


def evaluated(model: bytes, inputs: dict[str, Array]) -> dict[str, Array]:
    session = native(model)
    values = session.run(None, inputs)
    return {end.name: value for end, value in zip(session.get_outputs(), values, strict=True)}


def grown(seed: int) -> Grown:
    """The model of a seed."""
    growing = _Growing(seed)
    for _ in range(6 * NODES):
        if len(growing.nodes) < NODES:
            growing.grow()
    x, nodes = growing.values["x"], growing.nodes
    growing.values["only"] = growing.values["x"]
    last = [helper.make_node("Identity", ["x"], ["only"])]
    for some in [nodes[:count] for count in range(len(nodes), 0, -1)] + [last]:
        model, nodes = _whole(growing, some), some
        try:  # what each node computes alone, the inference of shapes may refuse in the whole
            evaluated(model, {"x": x})
            break
        except RAISED:
            continue
    inputs = [{"x": x}]
    for _ in range(4):
        sizes = growing.rng.integers(1, 7, x.ndim) if growing.is_free else x.shape
        inputs.append({"x": growing.numbers(tuple(int(size) for size in sizes))})
    inputs.append({"x": growing.numbers(x.shape)})
    return Grown(model, inputs, Counter(node.op_type for node in nodes))


def _whole(growing: _Growing, nodes: list[Any]) -> bytes:
    used = {name for node in nodes for name in node.input}
    ends = {name: growing.values[name] for node in nodes for name in node.output if name not in used}
    x = value_info("x", growing.values["x"], growing.is_free)
    weights = {name: value for name, value in growing.weights.items() if name in used}
    return model_of(nodes, [x], [value_info(name, value, True) for name, value in ends.items()], weights)


def expected_of(model: bytes, inputs: list[dict[str, Array]]) -> Iterator[dict[str, Array] | str]:
    """What ONNX Runtime gives for each of the inputs, or "an error"."""
    session = native(model)
    for each in inputs:
        try:
            values = session.run(None, each)
        except RAISED:
            yield "an error"
        else:
            yield {end.name: value for end, value in zip(session.get_outputs(), values, strict=True)}


def difference(expected: dict[str, Array] | str, came: dict[str, Array] | str) -> str:
    """Where two results differ, in words; ""."""
    if isinstance(expected, str) or isinstance(came, str):
        return "" if expected == came else f"{_words(expected)} was expected, and {_words(came)} came"
    for name, value in expected.items():
        other = came[name]
        if other.dtype != value.dtype or other.shape != value.shape:
            return f"{name}: {value.dtype} of {value.shape}, and {other.dtype} of {other.shape} came"
        is_alike = np.allclose(value, other, rtol=1e-3) if value.dtype.kind == "f" else np.array_equal(value, other)
        if not is_alike:
            return f"{name}: {value.ravel()[:4].tolist()}, and {other.ravel()[:4].tolist()} came"
    return ""


def _words(result: dict[str, Array] | str) -> str:
    return result if isinstance(result, str) else "a result"


class Compared(NamedTuple):
    """What became of one model.

    Attributes:
        engine: the one that `tune` chose.
        problem: where the results differ, or "".
    """

    engine: str
    problem: str


def compared(seed: int) -> Compared:
    """Tunes the model of a seed on an input of each shape, and evaluates it on all inputs with what was chosen.

    The caller sees to it that OpenVINO counts as the faster one.
    """
    from winml_py import LearningModel, LearningModelSession, WinMLError
    from winml_py.perf import tune

    found = grown(seed)
    wanted = list(expected_of(found.model, found.inputs))
    model = LearningModel.load(found.model)
    given: dict[object, Any] = {}
    for inputs, expected in zip(found.inputs, wanted, strict=True):
        if not isinstance(expected, str):
            given.setdefault(inputs["x"].shape, inputs)
    try:
        options = tune(model, list(given.values()))
        session = LearningModelSession(model, None, options)
    except WinMLError as error:
        return Compared("", f"no session: {error}")
    for index, (inputs, expected) in enumerate(zip(found.inputs, wanted, strict=True)):
        if inputs["x"].shape not in given:
            continue  # OpenVINO may write over other memory where ONNX Runtime refuses the shapes
        came: dict[str, Array] | str
        try:
            outputs = session.evaluate_features(inputs).outputs
            came = {name: np.asarray(value.to_numpy()) for name, value in outputs.items()}
        except WinMLError:
            came = "an error"
        if problem := difference(expected, came):
            return Compared(session.engine, f"input {index}: {problem}; {dict(found.operators)}")
    engine = session.engine
    session.close()
    return Compared(engine, "")


def main() -> int:
    from winml_py.perf import tuning

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tuning.list_changes = lambda _: [("openvino", {"engine": "openvino"})]
    tuning.ROUNDS = 1
    tuning.compute_gain = lambda *_: tuning.Gain(2, (2, 1), 0)
    engines, bad = Counter[str](), 0
    for seed in range(options.seed, options.seed + options.count):
        found = compared(seed)
        engines[found.engine] += 1
        if found.problem:
            bad += 1
            print(f"seed {seed}: {found.problem}")
    print(f"{options.count} models from seed {options.seed}: {bad} differ; they ran on {dict(engines)}")
    return bad


if __name__ == "__main__":
    sys.exit(main())

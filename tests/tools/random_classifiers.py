"""Does conversion to float16 keep the winners of random classifiers, and does its report name the others?

    python tests/tools/random_classifiers.py [--count 200] [--pairs 50] [--seed 0]

Each model is converted. In raw ONNX Runtime, the result must keep clear winners and stay within the tolerance, and the
report must name any other changed winner. If the conversion is refused, rounding only the input and the output to
float16 must already exceed the tolerance.

Each pair is a classifier, and a copy in which the winner and another class exchange their weights. The report must name
the change, and call it bad if the winner's lead exceeds the tolerance.

Prints each failure and the totals. The exit code is 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from winml_py.errors import ConversionError
from winml_py.float16 import ConversionReport, convert
from winml_py.float16.report import report_outputs

Array = np.ndarray[Any, Any]
TOLERANCES = (1e-2, 1e-2, 5e-4)
"""Taken in turns. The last is smaller than the error of rounding to float16."""

SLACK = 1.5
"""The factor by which an engine's order of sums may exceed the tolerance."""


class Classifier(NamedTuple):
    """A model of x -> y, and an input. The last axis of `y` has the classes."""

    model: bytes
    x: Array
    kind: str

    def evaluate(self, x: Array | None = None) -> Array:
        """`y` in raw ONNX Runtime."""
        return evaluate_raw(self.model, self.x if x is None else x)


def evaluate_raw(model: bytes, x: Array) -> Array:
    """The output of a model in raw ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    is_half = session.get_inputs()[0].type == "tensor(float16)"
    return np.asarray(session.run(None, {"x": x.astype(np.float16) if is_half else x})[0])


def make_classifier(seed: int, exchanged: tuple[int, int] | None = None) -> Classifier:
    """A classifier of up to 2,000 classes. One in eight computes its scores in an `If`.

    Args:
        seed: determines everything else.
        exchanged: two classes that exchange their weights.
    """
    rng = np.random.default_rng(seed)
    batch, classes = int(rng.choice([1, 1, 4, 40])), int(2 ** rng.uniform(1, 11))
    has_softmax, has_if, is_picture = rng.random() < 0.5, rng.random() < 0.125, rng.random() < 0.3
    nodes: list[Any] = []
    weights: dict[str, Array] = {}
    if is_picture:
        shape, width = (batch, 3, 16, 16), int(rng.integers(8, 33))
        weights["kernels"] = rng.normal(size=(width, 3, 3, 3)).astype(np.float32)
        nodes += [
            helper.make_node("Conv", ["x", "kernels"], ["filtered"]),
            helper.make_node("Relu", ["filtered"], ["positive"]),
            helper.make_node("GlobalAveragePool", ["positive"], ["pooled"]),
            helper.make_node("Flatten", ["pooled"], ["h"]),
        ]
    else:
        width = int(rng.integers(4, 257))
        shape = (batch, width)
        nodes.append(helper.make_node("Identity", ["x"], ["h"]))
    for layer in range(int(rng.integers(0, 4))):
        before, width = width, int(rng.integers(4, 257))
        weights[f"w{layer}"] = (rng.normal(size=(before, width)) / np.sqrt(before)).astype(np.float32)
        nodes += [
            helper.make_node("MatMul", [nodes[-1].output[0], f"w{layer}"], [f"sum{layer}"]),
            helper.make_node(str(rng.choice(["Relu", "Tanh", "Sigmoid"])), [f"sum{layer}"], [f"h{layer}"]),
        ]
    scale = 10 ** rng.uniform(-2, 3)  # from nearly equal scores to one clear winner
    last = (scale * rng.normal(size=(width, classes)) / np.sqrt(width)).astype(np.float32)
    bias = (scale * rng.normal(size=classes)).astype(np.float32)
    if exchanged is not None:
        one, other = exchanged
        last[:, [one, other]], bias[[one, other]] = last[:, [other, one]], bias[[other, one]]
    weights |= {"last": last, "bias": bias}
    logits = helper.make_node("Gemm", [nodes[-1].output[0], "last", "bias"], ["logits"])
    ends = [helper.make_node("Softmax", ["logits"], ["y"], axis=-1)] if has_softmax else []
    if has_if:
        weights["flag"] = np.array(True)
        plain = helper.make_node("Identity", ["bias"], ["others"])
        branches = [
            helper.make_graph([node], name, [], [helper.make_tensor_value_info(node.output[0], 1, None)])
            for name, node in (("then", logits), ("else", plain))
        ]
        nodes.append(helper.make_node("If", ["flag"], ["chosen"], then_branch=branches[0], else_branch=branches[1]))
        nodes.append(helper.make_node("Softmax" if has_softmax else "Identity", ["chosen"], ["y"]))
    else:
        nodes += [logits, *(ends or [helper.make_node("Identity", ["logits"], ["y"])])]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, classes))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    kind = f"{'softmax' if has_softmax else 'logits'}{' in an If' if has_if else ''}, {batch} x {classes}"
    return Classifier(proto.SerializeToString(), rng.normal(size=shape).astype(np.float32), kind)


def compute_error(expected: Array, got: Array) -> float:
    """The largest difference, relative to the largest magnitude of its class, or of all if there are fewer than 16."""
    wide, differences = expected.astype(np.float64), np.abs(expected.astype(np.float64) - got.astype(np.float64))
    largest = np.abs(wide).max()
    if len(wide) < 16:
        return float(differences.max() / largest)
    return float((differences.max(0) / np.maximum(np.abs(wide).max(0), 1e-3 * largest)).max())


def count_changes(expected: Array, got: Array, tolerance: float) -> tuple[int, int, int]:
    """The number of rows with a clear winner, of those where it changes, and of other rows where the winner changes."""
    clear, changed, close = 0, 0, 0
    floor = float(np.abs(expected).max()) / 20
    for row, other in zip(expected.astype(np.float64), got, strict=True):
        second, first = sorted(row)[-2:]
        is_changed = int(np.argmax(row)) != int(np.argmax(other))
        is_clear = first - second > tolerance * max(float(np.abs(row).max()), floor)
        clear, changed = clear + is_clear, changed + (is_clear and is_changed)
        close += not is_clear and is_changed and first > second
    return clear, changed, close


def is_beyond(expected: Array, got: Array, tolerance: float, slack: float = 1.0) -> bool:
    """Whether values exceed the tolerance, or the clear winners of more than 1 % of the rows change."""
    clear, changed, _ = count_changes(expected, got, tolerance)
    return compute_error(expected, got) > slack * tolerance or changed > 0.01 * clear


def try_conversion(seed: int, folder: Path) -> tuple[str, str]:
    """Converts a classifier: the outcome, and what is wrong with it, or ""."""
    one, tolerance = make_classifier(seed), TOLERANCES[seed % len(TOLERANCES)]
    source, target = folder / "model.onnx", folder / "half.onnx"
    source.write_bytes(one.model)
    expected = one.evaluate()
    try:
        report = convert(source, target, inputs={"x": one.x}, tolerance=tolerance, force=True)
    except ConversionError as refusal:
        rounded = one.evaluate(one.x.astype(np.float16).astype(np.float32)).astype(np.float16)
        is_true = is_beyond(expected, rounded, tolerance)
        return "refused", "" if is_true else f"{one.kind} was refused without need: {refusal}"
    got = evaluate_raw(target.read_bytes(), one.x)
    if is_beyond(expected, got, tolerance, SLACK):
        return "converted", f"{one.kind} exceeds the tolerance: {report}"
    if any(count_changes(expected, got, tolerance)[1:]) and "top-1 changed in" not in str(report):
        return "converted", f"{one.kind} has another winner that the report does not name: {report}"
    return "converted", ""


def try_pair(seed: int) -> str:
    """Compares a classifier with one that has another winner: what is wrong with the report, or ""."""
    rng, one, tolerance = np.random.default_rng([seed, 1]), make_classifier(seed), TOLERANCES[0]
    expected = one.evaluate()
    order = np.argsort(-expected[0], kind="stable")
    place = 1 if rng.random() < 0.5 else int(rng.integers(1, len(order)))
    got = make_classifier(seed, (int(order[0]), int(order[place]))).evaluate()
    clear, changed, close = count_changes(expected, got, tolerance)
    if not changed + close:
        return f"{one.kind}: nothing was planted"
    outputs = report_outputs({"y": expected}, {"y": got}, tolerance)
    told = str(ConversionReport(1, 1, 1, {}, outputs, [], tolerance))
    top1 = 1 - changed / clear if clear else None
    is_named = "top-1 changed in" in told and outputs[0].near_ties == close
    is_counted = outputs[0].top1 == top1 if top1 is None else abs((outputs[0].top1 or 0.0) - top1) < 1e-9
    is_refused = not outputs[0].is_good or changed <= 0.01 * clear
    return "" if is_named and is_counted and is_refused else f"{one.kind}: {changed} of {clear}, {close} near: {told}"


def try_all(count: int, pairs: int, seed: int) -> Iterator[tuple[str, str]]:
    """The outcome of each conversion and pair, and what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            yield try_conversion(seed + number, Path(folder))
    for number in range(pairs):
        yield "pair", try_pair(seed + 100_000 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    got: Counter[str] = Counter()
    for index, (what, problem) in enumerate(try_all(wanted.count, wanted.pairs, wanted.seed)):
        got[what] += 1
        got["wrong " + what] += bool(problem)
        if problem:
            print(f"{index}: {problem}", flush=True)
    failures = sum(number for what, number in got.items() if what.startswith("wrong "))
    print(
        f"{wanted.count} classifiers: {got['converted']} converted, {got['wrong converted']} of them wrongly, "
        f"{got['refused']} refused, {got['wrong refused']} of them without need; {wanted.pairs} pairs: "
        f"{got['pair'] - got['wrong pair']} changed winners named"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

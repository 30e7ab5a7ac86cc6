"""The search for the nodes that stay in float32: convert, compare, keep the worst nodes, convert again."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from .._inputs.trial import ProcessEndedError
from ..core.base.agreement import relative_error
from ..core.base.messages import Progress
from ..core.runtime.ort.transformers import float16_converter
from ..errors import ConversionError, InvalidArgumentError, WinMLError
from .half_graph import ConversionPlan, find_owners, half_graph, rounded_graph
from .model_file import evaluate, is_custom_operator, model_size, operators_of
from .report import REASONS, ConversionReport, OutputReport, report_each

MAX_HALF = float(np.finfo(np.float16).max)

ROUNDS = 6
"""How often the worst nodes are added to those that stay in float32, before another way is tried."""


class Search:
    """The conversion of one model: its results in float32, and the nodes that stay in float32."""

    def __init__(
        self, model: ir.Model, keep_io_types: bool, tolerance: float, names_to_keep: set[str], progress: Progress
    ) -> None:
        """Starts with the nodes with these names or operators, which stay in any case.

        Raises:
            InvalidArgumentError: `names_to_keep` has a name that no node or operator has.
        """
        self._model, self._keep_io_types, self._tolerance, self._tell = model, keep_io_types, tolerance, progress
        # A subgraph stays in float32 with its node: otherwise the casts between the two would need distinguishing.
        self._owners, self._owners_of_graphs = find_owners(model.graph)
        names = {name for node in self._owners for name in (node.name, node.op_type)}
        if names_to_keep - names:
            raise InvalidArgumentError(
                f"The model has no node and no operator {', '.join(sorted(names_to_keep - names))}.",
                hint="Use the graph's names; a node without one is called Operator_number.",
            )
        self._kept: dict[str, str] = {}  # node names, and why they stay
        self._keep([node for node in self._owners if {node.name, node.op_type} & names_to_keep], "asked")
        without_kernel = float16_converter.DEFAULT_OP_BLOCK_LIST
        self._keep([node for node in self._owners if node.op_type in without_kernel], "operators")
        operators = operators_of(model)
        self._keep([node for node in self._owners if is_custom_operator(node.domain, node.op_type, operators)], "own")

    def measure(self, inputs: dict[str, Any]) -> None:
        """Evaluates the float32 model, with all its inner floats, and keeps the nodes that exceed float16's range."""
        self._tell(None, "evaluating in float32")
        graph = self._model.graph
        self._inputs = inputs
        outputs = {value.name for value in graph.outputs}
        floats = {
            str(value.name): value for node in graph for value in node.outputs if value.dtype is ir.DataType.FLOAT
        }
        # An omitted output has no name, though inference gives it a type.
        tensors = [name for name, value in floats.items() if name and isinstance(value.type, ir.TensorType)]
        self._inner = [name for name in tensors if name not in outputs]
        everything = evaluate(self._model, inputs, self._inner)
        self._expected = {name: value for name, value in everything.items() if name in outputs}
        self._values = {name: value for name, value in everything.items() if isinstance(value, np.ndarray)}
        weights = _large_weights(graph)
        self._keep_weights = bool(weights)
        large = weights | {name for name, value in self._values.items() if _overflows(value)}
        inside = {owner for inner, owner in self._owners_of_graphs.items() if owner and _large_weights(inner)}
        for node in graph:
            if node in inside or large & {value.name for value in (*node.inputs, *node.outputs) if value is not None}:
                self._keep([node], "overflow")

    def _keep(self, nodes: Iterable[ir.Node], reason: str) -> bool:
        """Adds nodes to those that stay in float32; returns whether any is new."""
        names = dict.fromkeys((str(self._owners[node].name) for node in nodes), reason)
        before = len(self._kept)
        self._kept |= names | self._kept  # a node keeps its first reason
        return len(self._kept) > before

    def best(self, seeded: list[str]) -> tuple[ir.Model, ConversionReport]:
        """Converts until the result is good, or nothing is left to try; raises ConversionError if no model runs."""
        self._seeded = seeded
        model, report, actual = self._attempt()
        for number in range(ROUNDS):
            # Twice as many nodes in each round: few are kept if few are at fault, and many are soon found if many are.
            if report.is_good or not self._keep(self._worst_nodes(actual, 1 << number), "precision"):
                break
            model, report, actual = self._attempt()
        return (model, report) if report.is_good else self._longest_prefix()

    def _longest_prefix(self) -> tuple[ir.Model, ConversionReport]:
        """Leaves the first nodes and their weights in float32, as few as give a good result.

        The errors of early nodes grow in all later nodes, and early nodes have few weights.
        """
        nodes = list(self._model.graph)
        attempts: dict[bool, tuple[ir.Model, ConversionReport]] = {}  # the last good one, and the last other one
        self._keep_weights = True

        def is_good(last: int) -> bool:
            self._kept = {name: reason for name, reason in self._kept.items() if reason != "precision"}
            self._keep(nodes[: last + 1], "precision")
            model, report, _ = self._attempt()
            attempts[report.is_good] = model, report
            return report.is_good

        bisect_left(range(len(nodes)), True, key=is_good)
        return attempts.get(True) or attempts[False]

    def _candidate(self, kept: Mapping[str, str]) -> tuple[ir.Model, dict[str, Any]]:
        """The float16 model with these nodes in float32, and its inputs."""
        candidate = half_graph(self._model, ConversionPlan(kept, self._keep_io_types, self._keep_weights))
        halves = {str(value.name) for value in candidate.graph.inputs if value.dtype is ir.DataType.FLOAT16}
        return candidate, self._inputs | {name: np.asarray(self._inputs[name]).astype(np.float16) for name in halves}

    def _attempt(self) -> tuple[ir.Model, ConversionReport, dict[str, Any]]:
        """Converts and evaluates; nodes that the engine names in a refusal also stay in float32."""
        while True:
            self._tell(None, f"converting and comparing; {len(self._kept)} nodes stay in float32")
            candidate, inputs = self._candidate(self._kept)
            try:
                real = evaluate(candidate, inputs)
            except ProcessEndedError as ended:
                raise ConversionError(
                    f"The runtime ends the process that compiles the float16 model ({ended}).",
                    hint="Keep nodes in float32 (--keep-float32), or use another version of onnxruntime.",
                ) from ended
            except WinMLError as error:
                if self._keep((node for node in self._owners if _is_named(str(node.name), str(error))), "operators"):
                    continue
                raise ConversionError(f"The float16 model does not run: {error}") from error
            # A CPU omits roundings that other hardware makes, so a float32 model with all of them is also tried.
            wide = {
                name: np.asarray(value).astype(np.asarray(self._inputs[name]).dtype) for name, value in inputs.items()
            }
            plan = ConversionPlan(self._kept, self._keep_io_types, self._keep_weights)
            held = evaluate(rounded_graph(self._model, plan), wide, self._inner)
            return candidate, self._report(candidate, [real, held]), held

    def _report(self, candidate: ir.Model, runs: list[dict[str, Any]]) -> ConversionReport:
        pairs = zip(*(report_each(self._expected, actual, self._tolerance) for actual in runs), strict=True)
        worse = [_worse(pair) for pair in pairs]
        sizes = model_size(self._model), model_size(candidate)
        kept = {reason: [name for name in self._kept if self._kept[name] == reason] for reason in REASONS}
        return ConversionReport(*sizes, len(self._owners), kept, worse, self._seeded, self._tolerance)

    def _worst_nodes(self, actual: Mapping[str, object], count: int) -> list[ir.Node]:
        """The nodes that turn small errors into large ones, and the nodes before them, whose outputs they read."""
        arrays = {
            name: value for name, value in actual.items() if name in self._values and isinstance(value, np.ndarray)
        }
        errors = {name: relative_error(self._values[name], value) for name, value in arrays.items()}
        grown: list[tuple[float, ir.Node]] = []
        for node in self._model.graph:
            before, after = (
                max((errors.get(str(value.name), 0.0) for value in values if value is not None), default=0.0)
                for values in (node.inputs, node.outputs)
            )
            if after > self._tolerance / 8 and before != float("inf"):
                # One rounding to float16 costs 2**-11, about 5e-4. Compared with a smaller error before it, every node
                # would seem to cause the error.
                grown.append((after / max(before, 5e-4), node))
        selected: dict[str, ir.Node] = {}
        for _, node in sorted(grown, key=lambda item: -item[0]):
            around = [node, *node.predecessors()]
            selected |= {str(near.name): near for near in around if near.name not in self._kept}
            if len(selected) >= count:
                break
        return list(selected.values())


def _worse(pair: Sequence[OutputReport]) -> OutputReport:
    """The worse of two runs of an output, with the changed winners of both."""
    top1 = min((output.top1 for output in pair if output.top1 is not None), default=None)
    near_ties = max(output.near_ties for output in pair)
    return replace(max(pair, key=lambda output: (not output.is_good, output.error)), top1=top1, near_ties=near_ties)


def _is_named(name: str, text: str) -> bool:
    """Whether a text contains a whole name: "Add_12" does not name "Add_1", nor "/block/Add" "Add"."""
    return re.search(rf"(?<![\w/.-]){re.escape(name)}(?![/.:-]?\w)", text) is not None


def _overflows(value: object) -> bool:
    array = np.asarray(value)
    return array.dtype == np.float32 and float(np.abs(array[np.isfinite(array)]).max(initial=0)) > MAX_HALF


def _large_weights(graph: ir.Graph) -> set[str]:
    weights = {name: value.const_value for name, value in graph.initializers.items()}
    return {name for name, weight in weights.items() if weight is not None and _overflows(weight.numpy())}

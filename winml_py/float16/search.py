"""The search for the nodes that stay in float32: convert, compare, keep the worst nodes, convert again."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from ..core.base.agreement import compute_error
from ..core.base.child_process import ProcessEndedError
from ..core.base.messages import Progress
from ..core.runtime.custom.operator import ModelOperators
from ..core.runtime.ort.transformers import float16_converter
from ..errors import ConversionError, InvalidArgumentError, WinMLError
from .graph_conversion import ConversionPlan, convert_graph, find_owners, make_rounded_graph
from .model_file import compute_model_size, evaluate, is_custom_operator
from .report import REASONS, ConversionReport, OutputReport, flatten, report_outputs

MAX_FLOAT16 = float(np.finfo(np.float16).max)

ROUNDS = 6
"""How often the worst nodes are added to those that stay in float32, before another way is tried."""


class Search:
    """The conversion of one model: its results in float32, and the nodes that stay in float32."""

    def __init__(
        self,
        model: ir.Model,
        operators: ModelOperators,
        names_to_keep: set[str],
        keep_io_types: bool,
        tolerance: float,
        progress: Progress,
    ) -> None:
        """Starts with the nodes with these names or operators, which stay in any case.

        Raises:
            InvalidArgumentError: `names_to_keep` has a name that no node or operator has.
        """
        self._model = model
        self._operators = operators
        self._keep_io_types = keep_io_types
        self._keep_weights = False
        self._tolerance = tolerance
        self._progress = progress
        # A subgraph stays in float32 with its node: otherwise the casts between the two would need distinguishing.
        self._owners, self._owners_of_graphs = find_owners(model.graph)
        names = {name for node in self._owners for name in (node.name, node.op_type)}
        if names_to_keep - names:
            raise InvalidArgumentError(
                f"The model has no node or operator {', '.join(sorted(names_to_keep - names))}.",
                hint="Use the names in the graph. A node without a name is called Operator_number.",
            )
        self._kept: dict[str, str] = {}  # node names, and why they stay
        self._keep([node for node in self._owners if {node.name, node.op_type} & names_to_keep], "asked")
        without_kernel = float16_converter.DEFAULT_OP_BLOCK_LIST
        self._keep([node for node in self._owners if node.op_type in without_kernel], "operators")
        custom = [node for node in self._owners if is_custom_operator(node.domain, node.op_type, operators)]
        self._keep(custom, "own")

    def evaluate_float32(self, inputs: dict[str, Any]) -> None:
        """Evaluates the float32 model, with all its inner floats, and keeps the nodes that exceed float16's range.

        Raises:
            ConversionError: an output is empty, or NaN or infinite everywhere, so that nothing could be compared.
        """
        self._progress(None, "evaluating in float32")
        self._inputs = inputs
        graph = self._model.graph
        outputs = {value.name for value in graph.outputs}
        # An omitted output has no name, though inference gives it a type.
        floats = [value for node in graph for value in node.outputs if value.name and value.dtype is ir.DataType.FLOAT]
        tensors = [str(value.name) for value in floats if isinstance(value.type, ir.TensorType)]
        self._inner_names = [name for name in tensors if name not in outputs]
        values = evaluate(self._model, self._operators, inputs, self._inner_names)
        self._expected = {name: value for name, value in values.items() if name in outputs}
        for name, row in zip(self._expected, map(flatten, self._expected.values()), strict=True):
            if not (np.isfinite(row) if row.dtype.kind == "f" else np.ones(row.shape)).any():
                what = "NaN or infinite everywhere" if row.size else "empty"
                raise ConversionError(
                    f"A float16 model cannot be checked with these inputs: the output {name} of the float32 model is "
                    f"{what}.",
                    hint="Pass inputs for which the model returns numbers, such as a picture with objects: "
                    "inputs={name: value}, or files after the model on the command line.",
                )
        self._float32_arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        weights = _find_large_weights(graph)
        # Where float16 cannot hold some weights, those that only nodes in float32 read stay as they are.
        self._keep_weights = bool(weights)
        large = weights | {name for name, array in self._float32_arrays.items() if _is_beyond_float16(array)}
        owners_of_large_weights = {
            owner for subgraph, owner in self._owners_of_graphs.items() if owner and _find_large_weights(subgraph)
        }
        for node in graph:
            names = {value.name for value in (*node.inputs, *node.outputs) if value is not None}
            if node in owners_of_large_weights or large & names:
                self._keep([node], "overflow")

    def _keep(self, nodes: Iterable[ir.Node], reason: str) -> bool:
        """Adds nodes to those that stay in float32; returns whether any is new."""
        count = len(self._kept)
        for node in nodes:
            self._kept.setdefault(str(self._owners[node].name), reason)
        return len(self._kept) > count

    def find_model(self, seeded: list[str]) -> tuple[ir.Model, ConversionReport]:
        """Converts until the result is good, or nothing is left to try.

        Raises:
            ConversionError: no converted model runs.
        """
        self._seeded = seeded
        model, report, arrays = self._convert_and_compare()
        for number in range(ROUNDS):
            # Twice as many nodes in each round: few are kept if few are at fault, and many are soon found if many are.
            if report.is_good or not self._keep(self._find_worst_nodes(arrays, 1 << number), "precision"):
                break
            model, report, arrays = self._convert_and_compare()
        return (model, report) if report.is_good else self._keep_first_nodes()

    def _keep_first_nodes(self) -> tuple[ir.Model, ConversionReport]:
        """Leaves the first nodes and their weights in float32, as few as give a good result.

        The errors of early nodes grow in all later nodes, and early nodes have few weights.
        """
        nodes = list(self._model.graph)
        self._keep_weights = True
        results: dict[bool, tuple[ir.Model, ConversionReport]] = {}  # the last good one, and the last other one

        def is_good(last: int) -> bool:
            self._kept = {name: reason for name, reason in self._kept.items() if reason != "precision"}
            self._keep(nodes[: last + 1], "precision")
            model, report, _ = self._convert_and_compare()
            results[report.is_good] = model, report
            return report.is_good

        bisect_left(range(len(nodes)), True, key=is_good)
        return results.get(True) or results[False]

    def _convert_and_compare(self) -> tuple[ir.Model, ConversionReport, dict[str, Any]]:
        """Converts and evaluates. Nodes that the engine names in a refusal stay in float32, and it converts again.

        Returns:
            The model, its report, and its outputs and inner values with every rounding.
        """
        while True:
            self._progress(None, f"converting and comparing; {len(self._kept)} nodes stay in float32")
            plan = ConversionPlan(self._kept, self._keep_io_types, self._keep_weights)
            converted = convert_graph(self._model, plan)
            names = [str(value.name) for value in converted.graph.inputs if value.dtype is ir.DataType.FLOAT16]
            halves = {name: np.asarray(self._inputs[name]).astype(np.float16) for name in names}
            inputs = self._inputs | halves
            try:
                outputs = evaluate(converted, self._operators, inputs)
                break
            except ProcessEndedError as ended:
                raise ConversionError(
                    f"The runtime crashes while it compiles the float16 model ({ended}).",
                    hint="Keep nodes in float32 (keep_float32, --keep-float32), or use another version of onnxruntime.",
                ) from ended
            except WinMLError as error:
                refused = [node for node in self._owners if _is_name_in(str(node.name), str(error))]
                if not self._keep(refused, "operators"):
                    raise ConversionError(f"The float16 model does not run: {error}") from error
        # A CPU omits roundings that other hardware makes, so a float32 model with all of them is also tried.
        rounded_inputs = inputs | {name: half.astype(np.float32) for name, half in halves.items()}
        rounded_model = make_rounded_graph(self._model, plan)
        rounded = evaluate(rounded_model, self._operators, rounded_inputs, self._inner_names)
        return converted, self._make_report(converted, outputs, rounded), rounded

    def _make_report(
        self, converted: ir.Model, outputs: Mapping[str, object], rounded: Mapping[str, object]
    ) -> ConversionReport:
        reports, rounded_reports = (
            report_outputs(self._expected, actual, self._tolerance) for actual in (outputs, rounded)
        )
        return ConversionReport(
            size_before=compute_model_size(self._model),
            size_after=compute_model_size(converted),
            nodes=len(self._owners),
            kept={reason: [name for name in self._kept if self._kept[name] == reason] for reason in REASONS},
            outputs=[_choose_worse(pair) for pair in zip(reports, rounded_reports, strict=True)],
            seeded=self._seeded,
            tolerance=self._tolerance,
        )

    def _find_worst_nodes(self, values: Mapping[str, object], count: int) -> list[ir.Node]:
        """The nodes that turn small errors into large ones, and the nodes before them, whose outputs they read."""
        errors = {
            name: compute_error(self._float32_arrays[name], value)
            for name, value in values.items()
            if name in self._float32_arrays and isinstance(value, np.ndarray)
        }

        def find_largest_error(values: Iterable[ir.Value | None]) -> float:
            return max((errors.get(str(value.name), 0.0) for value in values if value is not None), default=0.0)

        growths: list[tuple[float, ir.Node]] = []
        for node in self._model.graph:
            before, after = find_largest_error(node.inputs), find_largest_error(node.outputs)
            if after > self._tolerance / 8 and before != float("inf"):
                # One rounding to float16 costs 2**-11, about 5e-4. Compared with a smaller error before it, every node
                # would seem to cause the error.
                growths.append((after / max(before, 5e-4), node))
        selected: dict[str, ir.Node] = {}
        for _, node in sorted(growths, key=lambda growth: -growth[0]):
            for near in (node, *node.predecessors()):
                if near.name not in self._kept:
                    selected[str(near.name)] = near
            if len(selected) >= count:
                break
        return list(selected.values())


def _choose_worse(pair: Sequence[OutputReport]) -> OutputReport:
    """The worse of two reports of an output, with the changed winners of both."""
    top1 = min((output.top1 for output in pair if output.top1 is not None), default=None)
    near_ties = max(output.near_ties for output in pair)
    return replace(max(pair, key=lambda output: (not output.is_good, output.error)), top1=top1, near_ties=near_ties)


def _is_name_in(name: str, text: str) -> bool:
    """Whether a text contains a whole name: "Add_12" does not name "Add_1", nor "/block/Add" "Add"."""
    return re.search(rf"(?<![\w/.-]){re.escape(name)}(?![/.:-]?\w)", text) is not None


def _is_beyond_float16(value: object) -> bool:
    array = np.asarray(value)
    return array.dtype == np.float32 and float(np.abs(array[np.isfinite(array)]).max(initial=0)) > MAX_FLOAT16


def _find_large_weights(graph: ir.Graph) -> set[str]:
    weights = {name: value.const_value for name, value in graph.initializers.items()}
    return {name for name, weight in weights.items() if weight is not None and _is_beyond_float16(weight.numpy())}

"""From float32 to float16: convert, check, keep in float32 what loses too much, check again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.agreement import relative_error
from ...base.atomic_files import require_folder, written_to
from ...errors import ConversionError, InvalidArgumentError, WinMLError
from ...features.example_inputs import example_inputs
from ...imaging.contract import OUR_KEYS
from ...session.model import LearningModel
from .graphs import (
    all_nodes,
    drop_twins,
    inner_graphs,
    inner_types,
    join_casts,
    mend_inner_graphs,
    name_nodes,
    prepared,
    producers,
    rounded,
    run,
    save,
    sort,
    widen_captured,
    without_value_info,
)
from .report import ConversionReport
from .verify import compare

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

FLOAT, FLOAT16 = 1, 10
LARGEST = 65504.0
"""The largest number of float16."""
ROUNDS = 6
"""How often nodes that lose much are added to those that stay in float32, before another way is tried."""

Progress = Callable[[str], object]


def convert(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    keep_io_types: bool = False,
    inputs: Mapping[str, Any] | None = None,
    tolerance: float = 1e-2,
    keep_float32: Iterable[str] = (),
    progress: Progress | None = None,
) -> ConversionReport:
    """Converts a float32 model to float16, and checks that it gives what it gave.

    Both models are evaluated on the same inputs. Nodes whose values leave float16's range, and nodes that lose too
    much, stay in float32; they are found by comparing every value inside the two models, and named in the report.
    Metadata, contracts and denotations are kept. The file appears whole, or not at all.

    Args:
        source: the path of a float32 model; its weights may lie in files beside it.
        destination: the path to write to; above 2 GB, the weights go to a file beside it.
        keep_io_types: leave the model's own inputs and outputs in float32.
        inputs: values to check with, by name; arrays of the float32 model's types. Floats that are not given are made
            up; ids, words and truths are asked for.
        tolerance: the largest difference in an output, over its largest magnitude.
        keep_float32: names of nodes, or operators, to leave in float32.
        progress: called with what is being done, now and then.

    Returns:
        What was done and how well it does.

    Raises:
        ConversionError: no way was found to do it well enough; the error has the last `report`, where there is one.
        InvalidArgumentError: inputs that cannot be made up, a name in `keep_float32` that nobody has, a tolerance that
            is none, or a model that is float16 already.
        StorageNotFoundError: there is no folder to write to.
        StorageAccessError: the file cannot be written.
        ModelNotFoundError: there is no such model.
        CorruptModelError: it is not a model, or not a valid one.

    Example:
        >>> import os, tempfile
        >>> from winml_py.float16 import convert
        >>> report = convert("models/edges.onnx", os.path.join(tempfile.mkdtemp(), "edges.onnx"))
        >>> report.is_good, report.kept["overflow"]  # squares of differences of levels
        (True, ['Mul_3', 'Mul_4', 'Add_5', 'Sqrt_6'])
    """
    loaded = LearningModel.load_from_file_path(source)
    import onnx

    if loaded.precision == "float16":
        raise InvalidArgumentError(f"{os.fspath(source)} is a float16 model already.")
    if not 0 < tolerance < 1:
        raise InvalidArgumentError(f"The tolerance is {tolerance}, and lies between 0 and 1.")
    require_folder(destination)
    asked = {keep_float32} if isinstance(keep_float32, str) else set(keep_float32)
    tell = progress or (lambda _: None)
    tell("reading")
    conversion = _Conversion(prepared(onnx.load(source)), keep_io_types, tolerance, asked)
    values, seeded = example_inputs(loaded.input_features, inputs or {})
    conversion.measure(values, tell)
    model, report = conversion.search(seeded, tell)
    if not report.is_good:
        raise ConversionError(
            "The float16 model is not good enough: " + "; ".join(str(report).splitlines()[1:]) + ".",
            hint="Keep inputs and outputs in float32, allow a larger tolerance, or name nodes to keep in float32.",
            report=report,
        )
    tell("writing")
    with written_to(destination):
        save(model, os.fspath(destination))
    return report


class _Conversion:
    """One model on its way: what it gave in float32, and which nodes stay so."""

    def __init__(self, model: ModelProto, keep_io_types: bool, tolerance: float, asked: set[str]) -> None:
        self._model = model
        self._keep_io_types = keep_io_types
        self._tolerance = tolerance
        self._nodes = list(all_nodes(model))
        # what is inside a node stays in float32 with it: casts between the two would have to be told apart
        self._owner = {inner.name: outer for outer in model.graph.node for inner in (outer, *_inside(outer))}
        known = {node.name for node in self._nodes} | {node.op_type for node in self._nodes}
        if asked - known:
            raise InvalidArgumentError(
                f"The model has no node and no operator {', '.join(sorted(asked - known))}.",
                hint="Names are those of the graph; a node without one is called Operator_number.",
            )
        self._kept: dict[str, list[str]] = {"asked": [], "operators": [], "overflow": [], "precision": []}
        self._keep((node for node in self._nodes if node.name in asked or node.op_type in asked), "asked")
        self._keep((node for node in self._nodes if node.op_type in _without_float16()), "operators")

    def measure(self, inputs: dict[str, Any], tell: Progress) -> None:
        """Evaluates the float32 model, with all of its inner floats."""
        tell("evaluating in float32")
        self._inputs = inputs
        self._inner = {name: kind for name, kind in inner_types(self._model).items() if kind == FLOAT}
        outputs = {output.name for output in self._model.graph.output}
        everything = run(self._model, inputs, {name: FLOAT for name in self._inner if name not in outputs})
        self._expected = {name: everything[name] for name in everything if name in outputs}
        self._float_outputs = {
            output.name for output in self._model.graph.output if output.type.tensor_type.elem_type == FLOAT
        }
        self._values = {name: value for name, value in everything.items() if isinstance(value, np.ndarray)}
        weights = {weight.name: weight for weight in self._model.graph.initializer}
        self._weights_fit = not any(self._overflows(name, weights) for name in weights)
        for node in self._model.graph.node:
            inside = {weight.name: weight for weight in _tensors_inside(node)}
            names = (*node.input, *node.output)
            if any(self._overflows(name, weights) for name in names) or any(
                self._overflows(name, inside) for name in inside
            ):
                self._keep([node], "overflow")

    def _overflows(self, name: str, weights: Mapping[str, Any]) -> bool:
        value = self._values.get(name)
        if value is None and name in weights and weights[name].data_type == FLOAT:
            import onnx

            value = onnx.numpy_helper.to_array(weights[name])
        if value is None or value.dtype.kind != "f" or not value.size:
            return False
        finite = np.abs(value[np.isfinite(value)])
        return bool(finite.size) and float(finite.max()) > LARGEST

    def _keep(self, nodes: Iterable[NodeProto], reason: str) -> bool:
        """Adds nodes to those that stay in float32; whether any is new."""
        kept = self._kept_names()
        owners = (self._owner[node.name] for node in nodes)
        new = [owner.name for owner in owners if owner.name not in kept and owner.op_type != "Constant"]
        self._kept[reason].extend(dict.fromkeys(new))
        return bool(new)

    def _kept_names(self) -> set[str]:
        return {name for names in self._kept.values() for name in names}

    def search(self, seeded: list[str], tell: Progress) -> tuple[ModelProto, ConversionReport]:
        """Converts until the result is good, or nothing is left to try."""
        model, report, came = self._attempt(seeded, tell)
        for number in range(ROUNDS):
            if report.is_good or not self._keep(self._worst(came, 1 << number), "precision"):
                break
            model, report, came = self._attempt(seeded, tell)
        return (model, report) if report.is_good else self._search_prefix(seeded, tell)

    def _search_prefix(self, seeded: list[str], tell: Progress) -> tuple[ModelProto, ConversionReport]:
        """Leaves the first nodes in float32, weights and all, and no more of them than it takes.

        What is lost early grows through all that follows, and early weights are few.
        """
        order = list(self._model.graph.node)
        self._weights_fit = False
        best = None
        low, high = 0, len(order)
        while low < high:
            self._kept["precision"] = []
            middle = (low + high) // 2
            self._keep(order[: middle + 1], "precision")
            model, report, _ = self._attempt(seeded, tell)
            if report.is_good:
                best, high = (model, report), middle
            else:
                low = middle + 1
        return best or (model, report)

    def _attempt(self, seeded: list[str], tell: Progress) -> tuple[ModelProto, ConversionReport, dict[str, Any]]:
        """Converts and evaluates; nodes that the engine names in a refusal stay in float32, too."""
        while True:
            tell(f"converting and comparing; {sum(map(len, self._kept.values()))} nodes stay in float32")
            candidate = self._convert()
            try:
                real = run(candidate, self._halves(candidate))
            except WinMLError as error:
                if self._keep(self._named_in(str(error)), "operators"):
                    continue
                raise ConversionError(f"The float16 model does not run: {error}") from error
            held = self._held_in_halves(candidate)
            return candidate, self._report(candidate, [real, held], seeded), held

    def _held_in_halves(self, candidate: ModelProto) -> dict[str, Any]:
        """What comes out where every value that the model holds in float16 is rounded to it, as a CPU does not."""
        outputs = {output.name for output in self._model.graph.output}
        floats = set(self._inner) | (set() if self._keep_io_types else self._float_outputs)
        model = rounded(self._model, self._kept_names(), floats)
        halves = {weight.name for weight in candidate.graph.initializer if weight.data_type == FLOAT16}
        for weight in model.graph.initializer:
            if weight.name in halves:
                _round(weight)
        inputs = dict(self._inputs)
        for name, value in inputs.items():
            if not self._keep_io_types and getattr(value, "dtype", None) == np.float32:
                inputs[name] = value.astype(np.float16).astype(np.float32)
        return run(model, inputs, {name: FLOAT for name in self._inner if name not in outputs})

    def _convert(self) -> ModelProto:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        copy = onnx.ModelProto()
        copy.CopyFrom(self._model)
        kept = self._kept_names()
        half: ModelProto = convert_float_to_float16(
            copy,
            keep_io_types=self._keep_io_types,
            node_block_list=sorted(kept),
            op_block_list=sorted(_without_float16()),
            force_fp16_initializers=self._weights_fit,  # also those of nodes that compute in float32
        )
        drop_twins(half)
        name_nodes(half)
        inserted = {node.name for node in all_nodes(half)} - {node.name for node in self._nodes}
        mend_inner_graphs(half, inserted, kept)
        widen_captured(half, kept, self._held_as_halves(half))
        join_casts(half, inserted)
        sort(half)
        without_value_info(half)
        for entry in half.metadata_props:
            if entry.key in OUR_KEYS and entry.value == "Float" and not self._keep_io_types:
                entry.value = "Float16"
        return half

    def _held_as_halves(self, half: ModelProto) -> set[str]:
        """The values of the main graph that are float16 once it is converted."""
        ends = {value.name for value in half.graph.input if value.type.tensor_type.elem_type == FLOAT16}
        weights = {weight.name for weight in half.graph.initializer if weight.data_type == FLOAT16}
        outputs = set() if self._keep_io_types else self._float_outputs
        return ends | weights | set(self._inner) | outputs

    def _halves(self, candidate: ModelProto) -> dict[str, Any]:
        kinds = {value.name: value.type.tensor_type.elem_type for value in candidate.graph.input}
        return {
            name: np.asarray(value).astype(np.float16) if kinds.get(name) == FLOAT16 else value
            for name, value in self._inputs.items()
        }

    def _named_in(self, message: str) -> list[NodeProto]:
        return [node for node in self._nodes if node.name in message]

    def _report(self, candidate: ModelProto, runs: list[dict[str, Any]], seeded: list[str]) -> ConversionReport:
        judged = [compare(self._expected, came, self._tolerance) for came in runs]
        worse = [
            max(outputs, key=lambda output: (not output.is_good, output.error)) for outputs in zip(*judged, strict=True)
        ]
        return ConversionReport(
            self._model.ByteSize(),
            candidate.ByteSize(),
            len(self._nodes),
            {reason: list(names) for reason, names in self._kept.items()},
            worse,
            seeded,
            self._tolerance,
        )

    def _worst(self, came: Mapping[str, Any], count: int) -> list[NodeProto]:
        """The nodes that turn small errors into large ones, and those that give them what they cannot do with."""
        made = producers(self._model.graph.node)
        errors = {
            name: relative_error(self._values[name], value)
            for name, value in came.items()
            if name in self._values and isinstance(value, np.ndarray)
        }
        kept = self._kept_names()
        grown: list[tuple[float, NodeProto]] = []
        for node in self._model.graph.node:
            after = max((errors[name] for name in node.output if name in errors), default=0.0)
            before = max((errors[name] for name in node.input if name in errors), default=0.0)
            if after > self._tolerance / 8 and before != float("inf"):
                grown.append((after / max(before, 5e-4), node))
        grown.sort(key=lambda item: -item[0])
        found: dict[str, NodeProto] = {}
        for _, node in grown:
            around = [node, *(made[name] for name in node.input if name in made)]
            found |= {near.name: near for near in around if near.name not in kept and near.op_type != "Constant"}
            if len(found) >= count:
                break
        return list(found.values())


def _inside(node: NodeProto) -> Iterator[NodeProto]:
    for inner in inner_graphs(node):
        yield from inner.node


def _tensors_inside(node: NodeProto) -> Iterator[TensorProto]:
    """The weights and constants of the graphs inside a node; constants under the name of their value."""
    import onnx

    for inner in inner_graphs(node):
        yield from inner.initializer
    for constant in (inner for inner in _inside(node) if inner.op_type == "Constant"):
        for attribute in constant.attribute:
            if attribute.name == "value":
                named = onnx.TensorProto()
                named.CopyFrom(attribute.t)
                named.name = constant.output[0]
                yield named


def _round(weight: TensorProto) -> None:
    import onnx

    halves = onnx.numpy_helper.to_array(weight).astype(np.float16)
    weight.CopyFrom(onnx.numpy_helper.from_array(halves.astype(np.float32), weight.name))


def _without_float16() -> set[str]:
    """The operators that the converter leaves in float32, since they have no float16."""
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

    return set(DEFAULT_OP_BLOCK_LIST)

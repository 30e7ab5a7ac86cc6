"""Finds the first node whose output differs between two evaluations by more than rounding explains.

Every node is judged alone: both sides compute it from the first side's tensors, so that differences of earlier nodes do
not count. The first side computes it again from inputs whose last bits are changed; rounding may cause a difference of
that size. A node that departs alone must also depart in the whole model, where the engine may fuse it with others.

Not found are differences that appear only where an engine fuses nodes. Weights, and what is computed from weights
alone, are not judged: their differences appear in the nodes that read them.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, TensorProto, TypeProto, helper

from .._examples import list_inputs
from .._graphs.model_file import read_model, save_model
from .._values import evaluate_to_arrays, get_session_arguments, match_inputs
from ..core.base.arrays import DType
from ..core.features.prepare import as_picture, prepare
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.onnx_file.source import Skeleton
from ..core.runtime.custom.split import sort_nodes
from ..core.runtime.ort.schemas import infer_outputs
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision, Weights
from ..errors import InvalidArgumentError
from .comparison import Gap, fit_values, measure_gap

MIN_SHARE_IN_MODEL = 0.3
"""A node is named only if the whole model, whose engine may fuse it, shows this share of its difference."""

# What rounding explains. `tests/tools/find_planted_faults.py` shows that with these numbers every planted
# fault is named, and no node without one.

EPSILONS = {"": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number. Engines may compute float64 in float32, so it has the same."""

ROUNDINGS = 4
"""How many epsilons a node may lose: both sides round an intermediate and the result, by one each if they truncate."""

APPROXIMATION = 1e-5
"""The least relative difference: engines approximate exp, tanh and erf by polynomials. Found by experiment."""

SUM_ROUNDING = 2.0**-24
"""The rounding error of an addition in float32. Errors are random: a sum of n terms has root n times as much."""

NOISE_FACTORS = {False: 16, True: 4}
"""How many times the effect of changed last bits is explained: in float32, and in narrower types (True). An engine that
reorders a sum rounds several times; it adds up narrower types in float32, and rounds once. Found by experiment."""

LEAST_NORMALS = {False: 1.2e-38, True: 6.1e-5}
"""The least normal numbers of float32 and of float16 (True). Below, digits are lost, and engines may flush to 0."""

EIGHT_BIT_ROUNDING = 1
"""Engines may round an 8-bit number up or down if it lies halfway."""


@dataclass(frozen=True)
class Departure:
    """The first node, or group of nodes, whose output differs by more than rounding explains.

    Attributes:
        tensor: the output.
        first: the first side's nodes, and the operator of each; several if the second side has one node for them; none
            if the tensor is an input.
        second: the second side's nodes.
        difference: the largest difference for the same inputs; infinite for NaN, overflow and other shapes.
        explained: the largest difference that rounding explains.
    """

    tensor: str
    first: dict[str, str]
    second: dict[str, str]
    difference: float
    explained: float

    def __str__(self) -> str:
        nodes = [f"{operator} {name!r}" for name, operator in self.first.items()] or [f"The input {self.tensor!r}"]
        text = nodes[0] if len(nodes) == 1 else f"From {nodes[0]} to {nodes[-1]}, {len(nodes)} nodes compared as one"
        text += (
            f": the same inputs yield a difference of {self.difference:.2g}; rounding explains {self.explained:.1g}."
        )
        operators = list(self.second.values())
        if operators != list(self.first.values()):
            text += f" The second side uses {', '.join(operators)} instead."
        return text


def find_departure(
    first: LearningModelSession | LearningModel,
    second: LearningModelSession | LearningModel,
    values: Mapping[str, Any],
) -> Departure | None:
    """Finds the first node whose output differs by more than rounding explains.

    Nodes are matched by the names of their outputs. The nodes between two tensors that both models have are one group.

    Args:
        first: a session, from whose model, device and options others are made; or a model, which runs on the CPU.
        second: the same or nearly the same model, or the same evaluated in another way.
        values: a value for each input, as `LearningModelBinding.bind` takes it.

    Returns:
        The departure, or None if rounding explains all differences.

    Raises:
        InvalidArgumentError: the models share no tensors, or a name is no input's.
        WinMLError: a model cannot be evaluated, or a part of it.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel
        >>> from winml_py.compare.first_departure import find_departure
        >>> models = [LearningModel.load(f"models/{name}.onnx") for name in ("digits", "digits_float16")]
        >>> find_departure(*models, {"image": np.zeros((1, 1, 28, 28), np.float32)}) is None
        True
    """
    values = match_inputs(get_session_arguments(first)[0], values, any_name=True)
    with tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        sides = [_ComparedModel(side, values, tempfile.mkdtemp(dir=folder)) for side in (first, second)]
        return _Search(sides).find()


class _Search:
    """A search. A node, or a group of nodes, is known by the name of the tensor that it computes on both sides."""

    def __init__(self, sides: Sequence[_ComparedModel]) -> None:
        first, second = self._sides = sides
        self._tensors: dict[str, Any] = {**second.inputs, **first.inputs}  # the first side's
        shared = first.makers.keys() & second.makers.keys() & (first.read | second.read)
        names = [name for name in shared if first.can_compare(name) and second.can_compare(name)]
        if not names:
            raise InvalidArgumentError(
                "The models have no tensor names in common.",
                hint="Compare a model with one that was converted from it. Each export assigns new names.",
            )
        self._names = sorted(names, key=first.makers.__getitem__)

    def find(self) -> Departure | None:
        """The departure; see `find_departure`."""
        first, second = self._sides
        for name in first.inputs.keys() & second.inputs.keys():  # models may make other tensors of one picture
            gap = measure_gap(first.inputs[name], second.inputs[name])
            if departure := self._judge(name, (), gap, 0):
                return departure
        if not any(gap.difference for gap, _ in self._compare(_ComparedModel.open_whole).values()):
            return None
        for name in self._names:
            gap, noise = self._compare_part(name, self._tensors)
            departure = self._judge(name, self._tensors, gap, noise)
            if departure is not None:
                gap_in_model, _ = self._compare_part(name, ())
                if gap_in_model.difference >= MIN_SHARE_IN_MODEL * departure.difference:
                    return departure
        return None

    def _compare_part(self, name: str, stops: Collection[str]) -> tuple[Gap, float]:
        """Compares the nodes that compute a tensor from those at which they stop; see `_compare`."""
        return self._compare(lambda side: side.open_part(name, stops, self._tensors))[name]

    def _compare(self, open_session: Callable[[_ComparedModel], LearningModelSession]) -> dict[str, tuple[Gap, float]]:
        """Evaluates both sides on the first side's tensors.

        Returns:
            For each output the gap between the sides, and the difference that changed last bits of the inputs make.
        """
        first, second = self._sides
        with open_session(first) as session:
            self._tensors.update(first.evaluate(session, lambda name: self._make_input(first, name)))
            features = *session.model.input_features, *session.model.output_features
            epsilon = self._find_epsilon([feature.name for feature in features])
            moved = first.evaluate(session, lambda name: self._make_input(first, name, epsilon))
            noise = {name: measure_gap(self._tensors[name], value).difference for name, value in moved.items()}
            del moved
        with open_session(second) as session:
            results = second.evaluate(session, lambda name: self._make_input(second, name))
        names = noise.keys() & results.keys()
        return {name: (measure_gap(self._tensors[name], results[name]), noise[name]) for name in names}

    def _make_input(self, side: _ComparedModel, name: str, epsilon: float = 0) -> Any:
        """One of the first side's tensors in a side's type, rounded to the coarser type of both sides.

        With an epsilon, half of its floats grow by two epsilons: on average, each changes by one.
        """
        value = self._tensors[name]
        if not isinstance(value, np.ndarray):
            return value
        dtype = side.get_dtype(name)
        types = [known.get_dtype(name) for known in self._sides if name in known.types]
        coarsest = min(types, key=lambda kind: kind.itemsize)
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.array(value).astype(coarsest, copy=False).astype(dtype, copy=False)
            if epsilon and dtype.kind == "f":
                is_moved = np.random.default_rng(0).integers(0, 2, value.shape, np.bool_)
                np.multiply(value, dtype.type(1 + 2 * epsilon), out=value, where=is_moved)
        return value

    def _find_epsilon(self, names: Collection[str]) -> float:
        """The epsilon of the coarsest type in which a side computes one of these tensors."""
        types = {side.half for side in self._sides} | {""}
        if any(side.get_element_type(name) == TensorProto.FLOAT16 for side in self._sides for name in names):
            types.add("float16")
        return max(EPSILONS[kind] for kind in types)

    def _judge(self, name: str, stops: Collection[str], gap: Gap, noise: float) -> Departure | None:
        """The departure of a tensor; None if rounding explains the difference.

        Args:
            name: the tensor's name.
            stops: the tensors from which it was computed.
            gap: the gap between the sides.
            noise: the difference that changed last bits of its inputs cause.
        """
        first, second = self._sides
        places, inputs = first.find_part(name, stops)
        second_places, second_inputs = second.find_part(name, stops)
        names = {name, *inputs, *second_inputs}
        epsilon = self._find_epsilon(names)
        is_narrow = epsilon > EPSILONS[""]
        relative = max(APPROXIMATION, ROUNDINGS * epsilon) * math.sqrt(max(1, len(places)))
        relative += SUM_ROUNDING * math.sqrt(max(np.size(self._tensors[each]) for each in names))
        explained = relative * gap.magnitude + NOISE_FACTORS[is_narrow] * noise + LEAST_NORMALS[is_narrow]
        if self._tensors[name].dtype.str[1:] in ("i1", "u1"):
            explained += EIGHT_BIT_ROUNDING
        if gap.difference <= explained:
            return None
        operators = first.list_operators(places), second.list_operators(second_places)
        return Departure(name, *operators, gap.difference, explained)


class _ComparedModel:
    """A model, and how its nodes are evaluated.

    Attributes:
        nodes: the nodes of the main graph, in an order of evaluation. A node with subgraphs is one node.
        makers: the position of the node that makes a tensor, by the tensor's name.
        constant: the names of weights, and of tensors that are computed from weights alone.
        read: the names of the tensors that nodes read, and of the outputs.
        inputs: the values of the model's inputs; pictures are tensors.
        types: the types of inputs and of nodes' outputs, as far as they are known.
        half: "float16" or "bfloat16" if the engine computes in this type, whatever type the model states; else "".
    """

    def __init__(self, side: LearningModelSession | LearningModel, values: Mapping[str, Any], folder: str) -> None:
        self._model, self._device, self._options = get_session_arguments(side)
        self._folder, self._engine, self.half = folder, self._options.engine, ""
        path = os.path.join(folder, "whole.onnx")
        whole = read_model(self._model)
        # A part loads only its own weights from this file. Small ones stay in the model: type inference reads shapes.
        onnx.save_model(whole, path, save_as_external_data=True, location="weights", size_threshold=1024)
        self._proto = onnx.load(path, load_external_data=False)
        graph = self._proto.graph
        members = sort_nodes(graph.node)
        self.nodes = [member.node for member in members]
        self.makers = {name: place for place, node in enumerate(self.nodes) for name in node.output if name}
        self._weights = {weight.name for weight in graph.initializer}
        known = {*self.makers, *self._weights, *(info.name for info in graph.input)}
        self._needs = [member.needs & known for member in members]
        self.constant = {*self._weights}
        for node, needs in zip(self.nodes, self._needs, strict=True):
            self.constant.update(node.output if needs <= self.constant else ())
        self.read = {end.name for end in graph.output}.union(*self._needs)
        self.inputs = fit_values(self._model, values)
        for feature in list_inputs(side):
            picture = as_picture(self.inputs.get(feature.name))
            if picture is not None and (plan := prepare(picture, feature).plan) is not None:
                self.inputs[feature.name] = plan.make_tensor(picture)
        self.types = self._infer_types()

    def _infer_types(self) -> dict[str, TypeProto]:
        probe = onnx.ModelProto()
        probe.CopyFrom(self._proto)
        for info in probe.graph.input:
            if isinstance(value := self.inputs.get(info.name), np.ndarray):
                info.type.CopyFrom(helper.make_tensor_type_proto(info.type.tensor_type.elem_type, value.shape))
        probe.graph.ClearField("output")
        probe.graph.output.extend(map(helper.make_empty_tensor_value_info, self.makers.keys() - self.constant))
        return {info.name: info.type for info in probe.graph.input} | infer_outputs(probe, Skeleton(b"", self._folder))

    def get_element_type(self, name: str) -> int:
        """The element type of a tensor, as in ONNX; 0 if it is none."""
        return int(self.types[name].tensor_type.elem_type) if name in self.types else 0

    def get_dtype(self, name: str) -> DType:
        """The numpy type of a tensor."""
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.get_element_type(name)))

    def can_compare(self, name: str) -> bool:
        """Whether a tensor depends on the inputs, and has a type whose values can be compared."""
        return name not in self.constant and self.get_element_type(name) in TENSOR_CLASSES

    def find_part(self, tensor: str, stops: Collection[str]) -> tuple[list[int], set[str]]:
        """Finds the nodes that compute a tensor from other tensors.

        Args:
            tensor: the tensor's name.
            stops: the names of the tensors to start from; where there are none, the model's inputs.

        Returns:
            The positions of the nodes, and the names of the tensors that they start from.
        """
        places, inputs = set[int](), set[str]()
        waiting = [tensor]
        while waiting:
            place = self.makers.get(waiting.pop())
            if place is None or place in places:
                continue
            places.add(place)
            for name in self._needs[place] - self._weights:
                if name in stops or name not in self.makers:
                    inputs.add(name)
                else:
                    waiting.append(name)
        return sorted(places), inputs

    def list_operators(self, places: list[int]) -> dict[str, str]:
        """The operators of nodes by the nodes' names, without nodes that depend on weights alone."""
        nodes = [self.nodes[place] for place in places]
        return {node.name or node.output[0]: node.op_type for node in nodes if not self.constant & {*node.output}}

    def open_whole(self) -> LearningModelSession:
        """A session of the whole model, as it is in its file."""
        return self._open_session(self._model, copy(self._options))

    def open_part(self, tensor: str, stops: Collection[str], tensors: Mapping[str, Any]) -> LearningModelSession:
        """A session of the nodes that compute a tensor from others; see `find_part`.

        Args:
            tensor: the tensor's name.
            stops: the names of the tensors to start from.
            tensors: the values of tensors: the part gets their shapes.
        """
        path = os.path.join(self._folder, "part.onnx")
        save_model(self._make_part(tensor, stops, tensors), path)
        model = LearningModel.load(path)
        options = copy(self._options)
        options.named_dimension_overrides, options.input_shape_overrides = {}, {}
        options.engine, options.weights, options.profiling = self._engine, Weights.PRIVATE, False
        options.tuned_for = {}  # a part is another model
        if not self.half and options.precision.is_half:  # a GPU, where not every part may be float16
            options.precision = Precision.AUTO
        return self._open_session(model, options)

    def _make_part(self, tensor: str, stops: Collection[str], tensors: Mapping[str, Any]) -> onnx.ModelProto:
        places, inputs = self.find_part(tensor, stops)
        part = onnx.ModelProto(ir_version=max(self._proto.ir_version, 4), graph=GraphProto(name="part"))
        part.opset_import.extend(self._proto.opset_import)
        part.functions.extend(self._proto.functions)
        part.graph.node.extend(self.nodes[place] for place in places)
        needed = {name for place in places for name in self._needs[place]}
        part.graph.initializer.extend(weight for weight in self._proto.graph.initializer if weight.name in needed)
        for name in sorted(inputs):
            value, kind = tensors[name], self.types[name]
            if isinstance(value, np.ndarray):
                kind = helper.make_tensor_type_proto(self.get_element_type(name), value.shape)
            part.graph.input.append(helper.make_value_info(name, kind))
        part.graph.output.append(helper.make_tensor_value_info(tensor, self.get_element_type(tensor), None))
        onnx.load_external_data_for_model(part, self._folder)
        return part

    def _open_session(self, model: LearningModel, options: LearningModelSessionOptions) -> LearningModelSession:
        if options.engine in (None, "onnxruntime"):  # without arenas, which grow by doubling
            options.tuning = replace(options.tuning, memory_arena=False, memory_pattern=False)
        return LearningModelSession(model, self._device, options)

    def evaluate(self, session: LearningModelSession, make_input: Callable[[str], Any]) -> dict[str, Any]:
        """Evaluates a session of the model or of a part. Parts get the engine that has evaluated the whole model."""
        inputs = {feature.name: make_input(feature.name) for feature in session.model.input_features}
        results = evaluate_to_arrays(session, inputs)
        if session.model is self._model:
            self._engine = session.engine
            if session.device.hardware == "cpu" and session.precision.is_half:
                self.half = session.precision.name.lower()
        return results

"""One of two evaluations that are compared: the nodes of its model, and parts of them, evaluated alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from .._inputs.copies import MAX_PROTOBUF_BYTES
from .._inputs.model import Case, evaluate_by, load_model
from ..core.contracts.published.folder import find_model
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import PreprocessPlan
from ..core.features.resolve import as_picture
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import messages, sort_places
from ..core.onnx_file.source import Skeleton
from ..core.runtime.custom.operator import ModelOperators
from ..core.runtime.custom.split import declared_outputs, take_out
from ..core.runtime.ort.schemas import infer_outputs
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision, Weights

_OUTSIDE = 1024
"""Bytes from which a weight goes to a file, from which each part takes its own. Smaller ones may be shapes or axes."""

_FIXED = 64
"""The most integers of a value that a part gets as a constant: engines want to know shapes and axes in advance."""

_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)

_HINTS = {"float16": "f16", "bfloat16": "bf16"}

Values = Mapping[str, Any]
Runs = Generator[dict[str, Any]]
"""The results of several evaluations, one at a time: large tensors may not be held together."""


class Cut(NamedTuple):
    """Nodes that compute some tensors: their places in `Side.nodes`, and the tensors that they read."""

    places: list[int]
    inputs: set[str]

    @classmethod
    def union(cls, cuts: Iterable[Cut]) -> Cut:
        """Several cuts as one."""
        cuts = [*cuts]
        return cls(sorted({each for cut in cuts for each in cut.places}), {name for cut in cuts for name in cut.inputs})


class Side:
    """A model, and how it is evaluated.

    Attributes:
        nodes: those of the main graph, each after those that it needs; one with graphs inside counts as one.
        makers: the place of the node that makes a tensor, by the tensor's name.
        constant: the names of weights, and of what is computed from weights alone.
        read: the names of what a node reads, and of the outputs.
        inputs: the tensors that the whole model gets.
        types: the types of inputs and nodes' outputs that a part can take and return.
        half: "float16" or "bfloat16" if the engine computes in it, though the model may state float32; else "".
    """

    def __init__(self, case: Case, operators: ModelOperators, values: Values, folder: str) -> None:
        self._case, self._operators, self._folder = case, operators, folder
        self._engine, self.half = case.engine, ""
        self._proto = _write_weights_apart(find_model(case.model), folder)
        graph = self._proto.graph
        self._weights = {weight.name: weight for weight in graph.initializer}
        needs = [_needs(node) for node in graph.node]
        order = sort_places(graph.node, needs)
        self.nodes = [graph.node[place] for place in order]
        self.makers = {name: place for place, node in enumerate(self.nodes) for name in node.output if name}
        known = {*self.makers, *self._weights, *(info.name for info in graph.input)}
        self._needs = [needs[place] & known for place in order]
        self.constant = {*self._weights}
        for node, need in zip(self.nodes, self._needs, strict=True):
            if need <= self.constant and node.op_type not in _RANDOM:
                self.constant.update(node.output)
        self.outputs = [end.name for end in graph.output]
        self.read = {name for need in self._needs for name in need} | {*self.outputs}
        self.inputs: MutableMapping[str, Any] = dict(values)
        for feature in case.sizes.applied(self._load().input_features):
            if (picture := as_picture(values.get(feature.name))) is not None:
                self.inputs[feature.name] = PreprocessPlan(picture.sizes, feature).tensor(picture)
        for info in graph.input:  # the values may be of the other side's type, as of a model before its conversion
            value, element = self.inputs.get(info.name), info.type.tensor_type.elem_type
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and element in _FLOATS:
                self.inputs[info.name] = value.astype(helper.tensor_dtype_to_np_dtype(element), copy=False)
        self.types = self._infer_types()

    def _infer_types(self) -> dict[str, onnx.TypeProto]:
        probe = onnx.ModelProto()
        probe.CopyFrom(self._proto)
        types = declared_outputs(probe, self._operators.functions)
        take_out(probe, self._operators.functions)
        for info in probe.graph.input:
            if isinstance(value := self.inputs.get(info.name), np.ndarray):
                info.type.CopyFrom(helper.make_tensor_type_proto(info.type.tensor_type.elem_type, value.shape))
                types[info.name] = info.type
        probe.graph.ClearField("output")
        names = [name for node in probe.graph.node for name in node.output if name and name not in self.constant]
        probe.graph.output.extend(map(helper.make_empty_tensor_value_info, names))
        if names:
            types |= infer_outputs(probe, Skeleton(b"", self._folder), self._operators.libraries)
        kinds = {int(kind) for kind in TENSOR_CLASSES}
        return {name: kind for name, kind in types.items() if kind.tensor_type.elem_type in kinds}

    def element(self, name: str) -> int:
        """The element type of a tensor, as in ONNX; 0 if it is none."""
        return int(self.types[name].tensor_type.elem_type) if name in self.types else 0

    def weight(self, name: str) -> Any:
        """A weight; None if there is none of that name."""
        return numpy_helper.to_array(self._weights[name], self._folder) if name in self._weights else None

    def count(self, cut: Cut) -> int:
        """How many nodes a cut has, those in graphs inside nodes included."""
        return sum(isinstance(part, NodeProto) for place in cut.places for part in messages(self.nodes[place]))

    def cut(self, asked: Iterable[str], stops: Collection[str]) -> Cut:
        """The nodes that compute tensors from those at which they stop, and from the model's inputs."""
        places, inputs, waiting = set[int](), set[str](), [self.makers[name] for name in asked]
        while waiting:
            if (place := waiting.pop()) not in places:
                places.add(place)
                read = {name for name in self._needs[place] if name in stops or name not in self.makers}
                inputs |= read - self._weights.keys()
                waiting += [self.makers[name] for name in self._needs[place] - read]
        return Cut(sorted(places), inputs)

    def whole(self, *feeds: Values) -> Runs:
        """Evaluates the untouched model, as the user does; parts are evaluated with what its engine turns out to be."""
        model = self._load()
        options = _lean(self._case.options(model))
        with LearningModelSession(model, self._case.find_device(), options) as session:
            for feed in feeds:
                came = [evaluate_by(session, feed)]
                self._engine, self.half = session.explain().engine, session.explain().number_type
                yield came.pop()

    def part(self, cut: Cut, asked: Collection[str], suffix: str, *feeds: Callable[[], Values]) -> Runs:
        """Evaluates some nodes, with the inputs that each of `feeds` returns; returns the tensors that are asked for.

        With a suffix, nodes write under other names, so that no node reads another's output, but an input instead.
        """
        model, names = self._part_model(cut, asked, suffix, feeds[0]())
        options = self._case.options(model)
        options.named_dimension_overrides, options.input_shape_overrides = {}, {}
        options.engine, options.weights, options.profiling = self._engine, Weights.PRIVATE, False
        if options.precision is Precision.HALF:  # measured again, another precision could be the fastest for a part
            hint = {"INFERENCE_PRECISION_HINT": _HINTS[self.half]} if self.half else {}
            options.precision, options.provider_options = Precision.AUTO, {**options.provider_options, **hint}
        with LearningModelSession(model, self._case.find_device(), _lean(options)) as session:
            for feed in feeds:
                came = evaluate_by(session, {name: value for name, value in feed().items() if name in names})
                yield {name: came.pop(name + suffix) for name in asked}

    def _part_model(
        self, cut: Cut, asked: Collection[str], suffix: str, values: Values
    ) -> tuple[LearningModel, set[str]]:
        """A model of some nodes, and the names of its inputs."""
        part = onnx.ModelProto(ir_version=max(self._proto.ir_version, 4), graph=GraphProto(name="part"))
        part.opset_import.extend(self._proto.opset_import)
        part.functions.extend(self._proto.functions)
        part.graph.node.extend(self.nodes[place] for place in cut.places)
        for node in part.graph.node if suffix else ():
            node.output[:] = [name + suffix if name in asked else name for name in node.output]
        needed = {name for place in cut.places for name in self._needs[place]}
        fixed = {name for name in cut.inputs if _is_small(values[name])}
        part.graph.initializer.extend(weight for name, weight in self._weights.items() if name in needed)
        part.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in sorted(fixed))
        stated = {info.name: info for info in self._proto.graph.input}
        for name in sorted(cut.inputs - fixed):
            element = self.element(name)
            tensor = helper.make_tensor_value_info(name, element, values[name].shape) if element else stated[name]
            part.graph.input.append(tensor)
        ends = [helper.make_tensor_value_info(name + suffix, self.element(name), None) for name in asked]
        part.graph.output.extend(ends)
        sizes = [each for weight in part.graph.initializer for each in weight.external_data if each.key == "length"]
        if sum(int(each.value) for each in sizes) < MAX_PROTOBUF_BYTES:  # sessions would read the weights of all parts
            onnx.load_external_data_for_model(part, self._folder)
        path = os.path.join(self._folder, "part.onnx")
        onnx.save_model(part, path)
        return LearningModel.load(path, operators=self._operators.given), cut.inputs - fixed

    def _load(self) -> LearningModel:
        stated = self._case.load()
        if not self._operators.given:
            return stated
        model = load_model(self._case.model, None, self._operators.given)
        for feature in stated.input_features:
            if isinstance(feature, ImageFeatureDescriptor):
                model.contracts[feature.name] = feature.contract
        return model


def _write_weights_apart(path: str, folder: str) -> onnx.ModelProto:
    """Reads a model, and writes its large weights to a file; the result lacks them."""
    model = onnx.load(path)
    for graph in [part for part in messages(model) if isinstance(part, GraphProto)]:
        for tensor in graph.initializer:
            if tensor.data_type != TensorProto.STRING and not tensor.raw_data and tensor.ByteSize() >= _OUTSIDE:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    path = os.path.join(folder, "whole.onnx")
    onnx.save_model(model, path, save_as_external_data=True, location="weights", size_threshold=_OUTSIDE)
    return onnx.load(path, load_external_data=False)


def _needs(node: NodeProto) -> set[str]:
    """The names that a node and the graphs inside it read, those of values inside them included."""
    names = set(node.input)
    for part in messages(node):
        names.update(part.input if isinstance(part, NodeProto) else ())
        names.update(end.name for end in (part.output if isinstance(part, GraphProto) else ()))
    return names - {""}


def _lean(options: LearningModelSessionOptions) -> LearningModelSessionOptions:
    """Options that compute the same with less memory: arenas grow by doubling."""
    if options.engine in (None, "onnxruntime"):
        options.tuning = replace(options.tuning, memory_arena=False, memory_pattern=False)
    return options


def _is_small(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim < 2 and value.size <= _FIXED

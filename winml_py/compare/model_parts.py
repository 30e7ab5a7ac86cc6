"""A model whose nodes are compared with those of another: its graph, and parts of it as separate models."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, TypeProto, helper

from .._cases.case import Case, evaluate_to_arrays
from .._graphs.model_file import read_model, save_model
from ..core.base.arrays import DType
from ..core.features.pictures import PreprocessPlan
from ..core.features.prepare import as_picture
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.onnx_file.source import Skeleton
from ..core.runtime.custom.split import sort_nodes
from ..core.runtime.ort.schemas import infer_outputs
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision, Weights
from .comparison import fit_values

_HINTS = {"float16": "f16", "bfloat16": "bf16"}


class ComparedModel:
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

    def __init__(self, case: Case, values: Mapping[str, object], folder: str) -> None:
        self._case, self._folder, self._model = case, folder, case.load()
        self._engine, self.half = case.engine, ""
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
        for feature in case.sizes.apply(self._model.input_features):
            if (picture := as_picture(self.inputs.get(feature.name))) is not None:
                self.inputs[feature.name] = PreprocessPlan(picture.sizes, feature).make_tensor(picture)
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
        return self._open_session(self._model, self._case.options(self._model))

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
        options = self._case.options(model)
        options.named_dimension_overrides, options.input_shape_overrides = {}, {}
        options.engine, options.weights, options.profiling = self._engine, Weights.PRIVATE, False
        if options.precision is Precision.HALF:  # the whole model's: for a part, another precision could be the fastest
            options.precision = Precision.AUTO
            if self.half:
                hint = {"INFERENCE_PRECISION_HINT": _HINTS[self.half]}
                options.provider_options = {**options.provider_options, **hint}
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
        return LearningModelSession(model, self._case.find_device(), options)

    def evaluate(self, session: LearningModelSession, make_input: Callable[[str], Any]) -> dict[str, Any]:
        """Evaluates a session of the model or of a part. Parts get the engine that has evaluated the whole model."""
        inputs = {feature.name: make_input(feature.name) for feature in session.model.input_features}
        results = evaluate_to_arrays(session, inputs)
        if session.model is self._model:
            self._engine, self.half = session.explain().engine, session.explain().number_type
        return results

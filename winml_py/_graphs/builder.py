"""LearningModelBuilder: a model of operators, inputs, outputs and constants."""

from __future__ import annotations

import os
from collections.abc import Iterable
from graphlib import CycleError
from typing import Any, overload

from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, checker, defs, helper, shape_inference

from .. import __version__
from ..core.base.arguments import is_text, require_member, require_type, require_whole_number
from ..core.base.atomic_files import require_folder, write_atomically
from ..core.base.collections import Vector
from ..core.base.messages import type_name
from ..core.base.winrt_object import Object
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import sort_places
from ..enums import TensorKind
from ..errors import InvalidArgumentError
from .model_file import to_bytes
from .node import LearningModelOperator, as_constant, build_node, require_name

Shape = Iterable[int | str]

OLDEST = 7
"""The first operator set that Windows ML and ONNX Runtime support."""


class LearningModelBuilder(Object):
    """Builds a model: add its inputs, outputs and operators in any order, then call `create_model` or `save`.

    Each `add` returns the builder, so that calls can be chained. A builder stays usable after `create_model`: later
    additions appear in later models. Do not share a builder between threads.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModelSession, TensorKind
        >>> from winml_py.experimental import LearningModelBuilder, LearningModelOperator
        >>> tensor = LearningModelBuilder.create_tensor_feature_descriptor
        >>> double = LearningModelOperator("Mul").set_input("A", "x").set_constant("B", 2.0).set_output("C", "y")
        >>> model = (
        ...     LearningModelBuilder.create(17)
        ...     .inputs.add(tensor("x", TensorKind.FLOAT, [-1, 4]))
        ...     .outputs.add(tensor("y", TensorKind.FLOAT, [-1, 4]))
        ...     .operators.add(double)
        ...     .create_model()
        ... )
        >>> result = LearningModelSession(model).evaluate_features({"x": np.float32([[1, 2, 3, 4]])})
        >>> result.outputs["y"].to_numpy().tolist()
        [[2.0, 4.0, 6.0, 8.0]]
    """

    def __init__(self, opset: int, /) -> None:
        """Use `create`."""
        self._draft = _Draft(require_whole_number(opset, "The operator set", OLDEST, defs.onnx_opset_version()))
        self._inputs = LearningModelInputs(self, self._draft)
        self._outputs = LearningModelOutputs(self, self._draft)
        self._operators = LearningModelOperatorSet(self, self._draft)

    @classmethod
    def create(cls, opset: int, /) -> LearningModelBuilder:
        """A builder of an empty model.

        Args:
            opset: the version of ONNX's operator set, at least 7. Other sets, such as `ai.onnx.ml`, follow it.

        Raises:
            InvalidArgumentError: the installed `onnx` does not have that version.
        """
        return cls(opset)

    @overload
    @staticmethod
    def create_tensor_feature_descriptor(name: str, kind: TensorKind, shape: Shape, /) -> TensorFeatureDescriptor: ...

    @overload
    @staticmethod
    def create_tensor_feature_descriptor(
        name: str, description: str, kind: TensorKind, shape: Shape, /
    ) -> TensorFeatureDescriptor: ...

    @staticmethod
    def create_tensor_feature_descriptor(name: str, /, *rest: Any) -> TensorFeatureDescriptor:
        """Describes an input or output: `(name, kind, shape)` or `(name, description, kind, shape)`.

        A size of -1 is free, and text is a free size with a name, which `options.override_named_dimension` fixes.

        Raises:
            InvalidArgumentError: an argument has the wrong type.
        """
        if len(rest) not in (2, 3):
            raise InvalidArgumentError(
                f"Expected 2 or 3 arguments after the name {name!r}, got {len(rest)}.",
                hint="Pass (name, kind, shape) or (name, description, kind, shape).",
            )
        description, kind, shape = rest if len(rest) == 3 else ("", *rest)
        return make_tensor_descriptor(name, description, kind, shape)

    @property
    def inputs(self) -> LearningModelInputs:
        """The model's inputs and constants."""
        return self._inputs

    @property
    def outputs(self) -> LearningModelOutputs:
        """The model's outputs."""
        return self._outputs

    @property
    def operators(self) -> LearningModelOperatorSet:
        """The model's operators."""
        return self._operators

    def create_model(self) -> LearningModel:
        """The model as built so far.

        Raises:
            InvalidArgumentError: ONNX's checker refuses it: an undefined name, or a type or shape that an operator does
                not take. The message names the operator and its input.
            NotSupportedError: it would be larger than 2 GB.
        """
        return LearningModel.load(self._draft.to_bytes())

    def save(self, file_name: str | os.PathLike[str], /) -> None:
        """Writes the model as built so far. The file appears complete or not at all.

        Raises:
            InvalidArgumentError: as in `create_model`, and likewise NotSupportedError.
            StorageNotFoundError: the folder does not exist.
            StorageAccessError: the file cannot be written.
        """
        require_folder(file_name)
        write_atomically(file_name, self._draft.to_bytes())


class _Draft:
    """The model under construction, which a builder and its collections share."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.graph = GraphProto(name="model")  # ONNX's checker requires a name
        self.nodes: dict[str, NodeProto] = {}
        self.metadata: dict[str, str] = {}

    def make_value_info(self, feature: FeatureDescriptor | str) -> ValueInfoProto:
        """An input or output; raises if its contract differs from the others', because a model states only one."""
        info = make_value_info(feature)
        if isinstance(feature, ImageFeatureDescriptor):
            metadata = feature.contract.to_metadata()
            if self.metadata and self.metadata != metadata:
                raise InvalidArgumentError(
                    f"The image {feature.name} has a different contract from the images before it.",
                    hint="Describe it as a tensor with create_tensor_feature_descriptor.",
                )
            self.metadata = dict(metadata)
        return info

    def add_constants(self, *constants: TensorProto) -> None:
        """Adds constants, whose names no input and no other constant has."""
        for constant in constants:
            require_free(constant.name, (*self.graph.input, *self.graph.initializer))
        self.graph.initializer.extend(constants)

    def to_bytes(self) -> bytes:
        """The model as built so far, after ONNX's checker has accepted it."""
        graph = GraphProto()
        graph.CopyFrom(self.graph)
        nodes = list(self.nodes.values())
        try:
            graph.node.extend(nodes[place] for place in sort_places(nodes, [node.input for node in nodes]))
        except CycleError as error:
            circle = ", ".join(f"{nodes[place].name} ({nodes[place].op_type})" for place in error.args[1])
            raise InvalidArgumentError(
                f"The operators form a cycle: {circle}.", hint="Remove a connection to break the cycle."
            ) from error
        domains = sorted({"", *(node.domain for node in nodes)})
        imports = [helper.make_opsetid(domain, _find_version(domain, self.opset)) for domain in domains]
        model = helper.make_model(
            graph,
            opset_imports=imports,
            # The oldest that has all that is written here, so that most runtimes read it.
            ir_version=max(7, helper.find_min_ir_version_for(imports, ignore_unknown=True)),
            producer_name="winml-py",
            producer_version=__version__,
        )
        helper.set_model_props(model, self.metadata)
        data = to_bytes(model)
        try:
            checker.check_model(data, full_check=True)
        except (checker.ValidationError, shape_inference.InferenceError) as error:
            raise InvalidArgumentError(
                f"The model is invalid: {' '.join(str(error).split()).rstrip('.')}.",
                hint="Compare the types and shapes with the list of operators at https://onnx.ai/onnx/operators.",
            ) from error
        return data


def require_free(name: str, named: Iterable[Any]) -> None:
    """Refuses a name that another feature, constant or node has."""
    if any(message.name == name for message in named):
        raise InvalidArgumentError(f"The name {name!r} is already in use.")


class _BuilderPart(Object):
    """A part of a builder, whose methods return the builder."""

    def __init__(self, builder: LearningModelBuilder, draft: _Draft) -> None:
        """Use the builder's property."""
        self._builder, self._draft = builder, draft


class LearningModelInputs(_BuilderPart):
    """A model's inputs, inputs with a default, and constants."""

    def add(
        self, feature: FeatureDescriptor | str, input_description: str = "", default_value: object = None, /
    ) -> LearningModelBuilder:
        """Adds an input: `(descriptor)`, or `(name, description, default_value)`. Returns the builder.

        A descriptor comes from `create_tensor_feature_descriptor`, or from another model's features. A default is a
        tensor, an array, a number or a list, and determines the input's type and shape.

        Raises:
            InvalidArgumentError: wrong type of arguments, or the name is taken.
        """
        graph = self._draft.graph
        default = None
        if default_value is not None:
            default = as_constant(default_value, require_name(feature, "The input name"))
            kind = TensorKind(default.data_type)
            feature = make_tensor_descriptor(default.name, input_description, kind, default.dims)
        info = self._draft.make_value_info(feature)
        require_free(info.name, (*graph.input, *graph.initializer))
        graph.input.append(info)
        if default is not None:
            graph.initializer.append(default)
        return self._builder

    def add_constant(self, input_name: str, value: object, /) -> LearningModelBuilder:
        """Adds a constant, which operators use by its name; it cannot be bound. Returns the builder.

        The value, a tensor, array, number or list, is copied; Python's floats become float32.

        Raises:
            InvalidArgumentError: the name is taken, or ONNX has no tensor of such elements.
        """
        self._draft.add_constants(as_constant(value, require_name(input_name, "The constant name")))
        return self._builder


class LearningModelOutputs(_BuilderPart):
    """A model's outputs."""

    def add(self, output: FeatureDescriptor, /) -> LearningModelBuilder:
        """Adds an output: a descriptor with the name of an operator's output. Returns the builder.

        Raises:
            InvalidArgumentError: it is not a descriptor, or its name is taken.
        """
        info = self._draft.make_value_info(output)
        require_free(info.name, self._draft.graph.output)
        self._draft.graph.output.append(info)
        return self._builder


class LearningModelOperatorSet(_BuilderPart):
    """A model's operators."""

    def add(self, operator: LearningModelOperator, /) -> LearningModelBuilder:
        """Adds an operator as it is connected now, and names it if it has no name, in any order. Returns the builder.

        Raises:
            InvalidArgumentError: the operator set has no such operator; the operator has no such input, output or
                attribute; a required one is missing; or a value has the wrong type.
        """
        hint = 'Create an operator, for example LearningModelOperator("Add").set_input("A", name).'
        require_type(operator, LearningModelOperator, hint)
        draft = self._draft
        number = len(draft.nodes)
        # A number within this model, so that the same program always builds the same bytes.
        while f"{operator.type}_{number}" in draft.nodes:
            number += 1
        name = operator.name or f"{operator.type}_{number}"
        require_free(name, draft.nodes.values())
        node, constants = build_node(operator, name, _find_version(operator.domain, draft.opset))
        draft.add_constants(*constants)
        operator.set_name(name)
        draft.nodes[name] = node
        return self._builder


def _find_version(domain: str, opset: int) -> int:
    """The version of a domain's operator set that belongs to a version of ONNX's own; 1 for unknown domains."""
    if domain == "":
        return opset
    if domain != "ai.onnx.ml":
        return 1
    # A row of the table is a release of onnx, its IR version, and its versions of ai.onnx and ai.onnx.ml.
    return max((row[3] for row in helper.VERSION_TABLE if row[2] <= opset), default=1)


# Features as typed values of a graph.


def make_tensor_descriptor(name: str, description: str, kind: TensorKind, shape: Any) -> TensorFeatureDescriptor:
    """A tensor descriptor; a size of -1 is free, and a text is a free size with a name."""
    require_name(name, "The feature name")
    if not is_text(description):
        raise InvalidArgumentError(f"The description of {name} cannot be {description!r}.", hint="Pass a string.")
    kind = require_member(TensorKind, kind, f"The element type of {name}")
    sizes = [shape] if isinstance(shape, str) else list(shape)
    names = tuple(size if isinstance(size, str) else "" for size in sizes)
    numbers = Vector(
        -1 if isinstance(size, str) else require_whole_number(size, f"A size of {name}", -1) for size in sizes
    )
    return TensorFeatureDescriptor(name, description, kind, numbers, names)


def make_value_info(feature: Any) -> ValueInfoProto:
    """A feature as an input or output of a graph."""
    hint = "Create one with LearningModelBuilder.create_tensor_feature_descriptor(name, kind, shape)."
    require_type(feature, FeatureDescriptor, hint)
    info = ValueInfoProto(name=require_name(feature.name, "A feature name"), doc_string=feature.description)
    info.type.CopyFrom(_make_type(feature))
    return info


def _make_type(feature: FeatureDescriptor) -> TypeProto:
    match feature:
        case TensorFeatureDescriptor() | ImageFeatureDescriptor():
            return _make_tensor_type(feature)
        case SequenceFeatureDescriptor(element_descriptor=element):
            return helper.make_sequence_type_proto(_make_type(element))
        case MapFeatureDescriptor(key_kind=key, value_descriptor=value):
            return helper.make_map_type_proto(key.value, _make_type(value))
    raise InvalidArgumentError(f"The builder does not support {type_name(feature)}.")


def _make_tensor_type(feature: ShapedDescriptor) -> TypeProto:
    names = feature.dimension_names or ("",) * len(feature.shape)
    has_rank = not isinstance(feature, TensorFeatureDescriptor) or feature.has_rank
    sizes = [size if size >= 0 else (name or None) for size, name in zip(feature.shape, names, strict=True)]
    type_proto = helper.make_tensor_type_proto(feature.tensor_kind.value, sizes if has_rank else None)
    if isinstance(feature, ImageFeatureDescriptor):
        type_proto.denotation = "IMAGE"
    # Windows ML denotes every first dimension this way, so that a built model takes a batch size. A vector's length is
    # omitted here: default options would make it 1.
    if len(feature.shape) > 1 and feature.shape[0] == -1:
        type_proto.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    return type_proto

"""LearningModelBuilder: a model of operators, inputs, outputs and constants."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError
from typing import Any, ClassVar, overload

import onnx
from google.protobuf.message import Message
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from .. import __version__
from ..core.base.messages import did_you_mean, type_name
from ..core.base.winrt_object import Object
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import sort_places
from ..enums import TensorKind
from ..errors import InvalidArgumentError
from .model_file import save_model, to_bytes
from .node import LearningModelOperator, build_node
from .opsets import imports_of, oldest_ir_version, require_opset, version_of
from .values import as_constant, descriptor_of, require_name, tensor_descriptor, value_info

Shape = Iterable[int | str]


class LearningModelBuilder(Object):
    """Builds a model: add its inputs, outputs and operators in any order, then call `create_model` or `save`.

    Each `add` returns the builder, so that calls can be chained. A builder stays usable: what is added later is in
    models that are made later. It is not safe to share between threads.

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

    _model_class: ClassVar[type[LearningModel]] = LearningModel

    def __init__(self, opset: int, /) -> None:
        """Use `create`."""
        self._draft = Draft(opset)
        self._inputs = LearningModelInputs(self, self._draft)
        self._outputs = LearningModelOutputs(self, self._draft)
        self._operators = LearningModelOperatorSet(self, self._draft)

    @classmethod
    def create(cls, opset: int, /) -> LearningModelBuilder:
        """A builder of an empty model.

        Args:
            opset: the version of ONNX's operator set, from 7 on. Others' sets, such as `ai.onnx.ml`, follow it.

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

        Args:
            name: the feature's name.
            rest: a description, which may be left out; the element type; the sizes: -1 for a free one, text for a free
                one with a name, which `options.override_named_dimension` then fixes.

        Raises:
            InvalidArgumentError: if an argument is of another type.
        """
        if len(rest) not in (2, 3):
            raise InvalidArgumentError(
                f"A descriptor of {name!r} was given {len(rest)} arguments after the name.",
                hint="Write (name, kind, shape) or (name, description, kind, shape).",
            )
        description, kind, shape = rest if len(rest) == 3 else ("", *rest)
        return tensor_descriptor(name, description, kind, shape)

    @property
    def inputs(self) -> LearningModelInputs:
        """What the model takes, and its constants."""
        return self._inputs

    @property
    def outputs(self) -> LearningModelOutputs:
        """What the model gives."""
        return self._outputs

    @property
    def operators(self) -> LearningModelOperatorSet:
        """What the model computes."""
        return self._operators

    def create_model(self) -> LearningModel:
        """The model as it is built so far.

        Raises:
            InvalidArgumentError: it does not hold together: a name that nothing gives, a type or shape that an operator
                does not take. The message names the operator and its input.
            NotSupportedError: it would be larger than 2 GB.
        """
        return self._model_class.load(to_bytes(self._draft.to_model_proto()))

    def save(self, file_name: str | os.PathLike[str], /) -> None:
        """Writes the model as it is built so far. The file appears whole or not at all.

        Weights of more than 2 GB go to a file beside it, with `.data` at the end of its name.

        Raises:
            InvalidArgumentError: as `create_model`.
            StorageNotFoundError: there is no folder to write to.
            StorageAccessError: the file cannot be written.
        """
        save_model(self._draft.to_model_proto(), file_name, lambda _: None)

    def __repr__(self) -> str:
        return f"<LearningModelBuilder of operator set {self._draft.opset}>"


class _Part(Object):
    """What belongs to a builder, and returns it."""

    def __init__(self, builder: LearningModelBuilder, draft: Draft) -> None:
        """Use the builder's property."""
        self._builder, self._draft = builder, draft


class LearningModelInputs(_Part):
    """What a model takes: inputs, inputs with a default, and constants."""

    @overload
    def add(self, descriptor: FeatureDescriptor, /) -> LearningModelBuilder: ...

    @overload
    def add(self, input_name: str, input_description: str, default_value: object, /) -> LearningModelBuilder: ...

    def add(self, *feature: Any) -> LearningModelBuilder:
        """Adds an input: `(descriptor)`, or `(name, description, default_value)` for one with a default.

        Args:
            feature: a descriptor, made by `create_tensor_feature_descriptor` or taken from another model's features; or
                the name of the input, what it is for, and a tensor, an array, a number or a list, whose type and shape
                it has.

        Returns:
            The builder.

        Raises:
            InvalidArgumentError: another number of arguments, something of another type, or a name that is taken.
        """
        match feature:
            case (descriptor,):
                self._draft.add_input(descriptor)
            case (name, description, default_value):
                self._draft.add_default(name, description, default_value)
            case _:
                raise InvalidArgumentError(
                    f"An input was given as {len(feature)} arguments.",
                    hint="Write add(descriptor) or add(name, description, default_value).",
                )
        return self._builder

    def add_constant(self, input_name: str, value: object, /) -> LearningModelBuilder:
        """Adds a constant, which operators refer to by its name, and nothing is bound to.

        Args:
            input_name: its name.
            value: a tensor, an array, a number or a list; Python's floats become float32. It is copied.

        Returns:
            The builder.

        Raises:
            InvalidArgumentError: the name is taken, or ONNX has no tensor of such elements.
        """
        self._draft.add_constant(input_name, value)
        return self._builder


class LearningModelOutputs(_Part):
    """What a model gives."""

    def add(self, output: FeatureDescriptor, /) -> LearningModelBuilder:
        """Adds an output.

        Args:
            output: a descriptor with the name of an operator's output.

        Returns:
            The builder.

        Raises:
            InvalidArgumentError: it is no descriptor, or its name is taken.
        """
        self._draft.add_output(output)
        return self._builder


class LearningModelOperatorSet(_Part):
    """What a model computes."""

    def add(self, operator: LearningModelOperator, /) -> LearningModelBuilder:
        """Adds an operator as it is connected now, and names it, if it has no name. The order does not matter.

        Returns:
            The builder.

        Raises:
            InvalidArgumentError: the operator set has no such operator; the operator has no such input, output or
                attribute; one that it needs is missing; or a value is of another type.
        """
        self._draft.add_operator(operator)
        return self._builder


# Draft: what a builder and its collections share, and the checks of what is built.


_GRAPH_NAME = "model"  # ONNX's checker asks for one


class Draft:
    """A model that is being built: its graph, and the nodes in the order in which they were added."""

    def __init__(self, opset: int) -> None:
        self.opset = require_opset(opset)
        self._graph = GraphProto(name=_GRAPH_NAME)
        self._nodes: dict[str, NodeProto] = {}
        self._metadata: dict[str, str] = {}

    def add_input(self, feature: FeatureDescriptor) -> None:
        """Adds an input.

        Raises:
            InvalidArgumentError: it is no descriptor, or its name is taken.
        """
        self._graph.input.append(self._feature(feature, self._names()))

    def add_output(self, feature: FeatureDescriptor) -> None:
        """Adds an output; raises as `add_input` does."""
        self._graph.output.append(self._feature(feature, {info.name for info in self._graph.output}))

    def add_constant(self, name: str, value: object) -> None:
        """Adds a constant; raises as `add_input` does, and where ONNX has no tensor of the value."""
        self._require_free(require_name(name, "The name of the constant"), self._names())
        self._graph.initializer.append(as_constant(value, name))

    def add_default(self, name: str, description: str, value: object) -> None:
        """Adds an input with a value that it has where nothing is bound; raises as `add_constant` does."""
        constant = as_constant(value, require_name(name, "The name of the input"))
        self.add_input(descriptor_of(name, description, constant))
        self._graph.initializer.append(constant)

    def add_operator(self, operator: LearningModelOperator) -> None:
        """Adds an operator, and names it where it has no name.

        Raises:
            InvalidArgumentError: it does not fit its schema, or its name is taken.
        """
        if not isinstance(operator, LearningModelOperator):
            raise InvalidArgumentError(
                f"An operator is a LearningModelOperator, not {type_name(operator)}.",
                hint='Write LearningModelOperator("Add").set_input("A", name) and so on.',
            )
        name = operator.name or self._number(operator.type)
        self._require_free(name, set(self._nodes))
        node, constants = build_node(operator, name, version_of(operator.domain, self.opset))
        for constant in constants:
            self._require_free(constant.name, self._names())
        operator.set_name(name)
        self._nodes[name] = node
        self._graph.initializer.extend(constants)

    def _number(self, kind: str) -> str:
        """A name that depends on this model alone, so that the same program always builds the same bytes."""
        number = len(self._nodes)
        while f"{kind}_{number}" in self._nodes:
            number += 1
        return f"{kind}_{number}"

    def _feature(self, feature: FeatureDescriptor, used_names: set[str]) -> ValueInfoProto:
        info = value_info(feature)
        self._require_free(info.name, used_names)
        if isinstance(feature, ImageFeatureDescriptor):
            self._take_metadata(feature.name, feature.contract.to_metadata())
        return info

    def _take_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        if self._metadata and self._metadata != metadata:
            raise InvalidArgumentError(
                f"The image {name} has another contract than the images before it, and a model states one for all.",
                hint="Describe it as a tensor: create_tensor_feature_descriptor.",
            )
        self._metadata = dict(metadata)

    def _names(self) -> set[str]:
        return {item.name for item in (*self._graph.input, *self._graph.initializer)}

    @staticmethod
    def _require_free(name: str, used_names: Iterable[str]) -> None:
        if name in used_names:
            raise InvalidArgumentError(f"The name {name!r} is taken already.", hint="Give each its own name.")

    def to_model_proto(self) -> ModelProto:
        """The model as it is so far; the draft stays as it is.

        Raises:
            InvalidArgumentError: if the model does not hold together.
        """
        if not self._graph.output:
            raise InvalidArgumentError("The model has no output.", hint="Call builder.outputs.add(descriptor).")
        graph = GraphProto()
        graph.CopyFrom(self._graph)
        graph.node.extend(sorted_nodes(list(self._nodes.values()), graph))
        imports = imports_of((node.domain for node in graph.node), self.opset)
        model = helper.make_model(graph, opset_imports=imports, producer_name="winml-py", producer_version=__version__)
        model.ir_version = oldest_ir_version(model)
        helper.set_model_props(model, self._metadata)
        require_consistent(model)
        return model


# Whether a graph that was built holds together: names, order, types and shapes.


_SMALL = 1024  # bytes; shapes and scalars, whose values the inference of shapes needs


def sorted_nodes(nodes: Sequence[NodeProto], graph: GraphProto) -> list[NodeProto]:
    """The nodes so that each stands after those whose outputs it reads.

    Args:
        nodes: in any order.
        graph: with the inputs, outputs and constants.

    Raises:
        InvalidArgumentError: a name is made twice or not at all, or operators wait for each other.
    """
    makers = _makers(nodes, graph)
    for node in nodes:
        for name in filter(None, node.input):
            if name not in makers:
                raise _unknown_name_error(f"The {_describe_node(node)} reads {name!r}", makers, name)
    for info in graph.output:
        if info.name not in makers:
            raise _unknown_name_error(f"The output {info.name!r} of the model is read", makers, info.name)
    try:
        return [nodes[place] for place in sort_places(nodes, [node.input for node in nodes])]
    except CycleError as error:
        circle = ", ".join("the " + _describe_node(nodes[index]) for index in error.args[1])
        raise InvalidArgumentError(
            f"Operators wait for each other: {circle}.", hint="Connect them in one direction."
        ) from error


def _makers(nodes: Iterable[NodeProto], graph: GraphProto) -> dict[str, int | None]:
    """Which node makes each name; None for what is there from the start."""
    makers: dict[str, int | None] = {item.name: None for item in (*graph.input, *graph.initializer)}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers:
                raise InvalidArgumentError(
                    f"The {_describe_node(node)} makes {name!r}, and that name is taken already.",
                    hint="Give each output its own.",
                )
            makers[name] = index
    return makers


def _unknown_name_error(what: str, makers: Iterable[str], name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what}, and no input, constant or operator gives it.", hint=did_you_mean(name, makers)
    )


def _describe_node(node: NodeProto) -> str:
    return f"operator {node.name} ({node.op_type})"


def require_consistent(model: ModelProto) -> None:
    """Runs ONNX's checker, and infers types and shapes.

    Raises:
        InvalidArgumentError: they found something; the message names the operator and its input.
    """
    light = _without_weights(model)
    try:
        onnx.checker.check_model(light)
        onnx.shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InvalidArgumentError(
            f"The model does not hold together: {_plain(str(error))}.",
            hint="Compare the types and shapes with https://onnx.ai/onnx/operators.",
        ) from error


def _without_weights(model: ModelProto) -> ModelProto:
    """The model with inputs in place of large constants, which checks would copy, and which may exceed 2 GB."""
    light = ModelProto()
    for field, value in model.ListFields():
        if field.name != "graph":
            _copy(light, field.name, value)
    for field, value in model.graph.ListFields():
        if field.name != "initializer":
            _copy(light.graph, field.name, value)
    listed = {info.name for info in model.graph.input}
    for weight in model.graph.initializer:
        if len(weight.raw_data) <= _SMALL:
            light.graph.initializer.append(weight)
        elif weight.name not in listed:
            light.graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    return light


def _copy(message: Message, field: str, value: object) -> None:
    message.MergeFrom(type(message)(**{field: value}))


def _plain(text: str) -> str:
    """What ONNX says, without its own error classes and line breaks."""
    text = re.sub(r"\[\w+Error\]|Inference error\(s\):|==> Context:", " ", text)
    text = re.sub(r"\(op_type:(\w+), node name: ([^)]*)\)", r"\2 (\1)", text)
    return re.sub(r"\s+", " ", text).strip().rstrip(".")

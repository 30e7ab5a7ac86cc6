"""LearningModelBuilder: a model of operators, inputs, outputs and constants."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, ClassVar, overload

from ..core.base.winrt_object import Object
from ..core.features.descriptors import FeatureDescriptor, TensorFeatureDescriptor
from ..core.model.model import LearningModel
from ..enums import TensorKind
from ..errors import InvalidArgumentError
from .draft import Draft
from .model_file import save_model, to_bytes
from .operator import LearningModelOperator
from .values import tensor_descriptor

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
            InvalidArgumentError: one of them is something else.
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
        return self._model_class.load(to_bytes(self._draft.finished()))

    def save(self, file_name: str | os.PathLike[str], /) -> None:
        """Writes the model as it is built so far. The file appears whole or not at all.

        Weights of more than 2 GB go to a file beside it, with `.data` at the end of its name.

        Raises:
            InvalidArgumentError: as `create_model`.
            StorageNotFoundError: there is no folder to write to.
            StorageAccessError: the file cannot be written.
        """
        save_model(self._draft.finished(), file_name)

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
    def add(self, input_name: str, input_description: str, default_value: Any, /) -> LearningModelBuilder: ...

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

    def add_constant(self, input_name: str, value: Any, /) -> LearningModelBuilder:
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

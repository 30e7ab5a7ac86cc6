"""Draft: what a builder and its collections share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from .. import __version__
from ..core.base.type_names import type_name
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..errors import InvalidArgumentError
from .checks import require_consistent, sorted_nodes
from .node import built_node
from .operator import LearningModelOperator
from .opsets import imports_of, oldest_ir_version, require_opset, version_of
from .values import as_constant, descriptor_of, require_name, value_info

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

    def add_constant(self, name: str, value: Any) -> None:
        """Adds a constant; raises as `add_input` does, and where ONNX has no tensor of the value."""
        self._require_free(require_name(name, "The name of the constant"), self._names())
        self._graph.initializer.append(as_constant(value, name))

    def add_default(self, name: str, description: str, value: Any) -> None:
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
        name = operator.name or self._numbered(operator.type)
        self._require_free(name, set(self._nodes))
        node, constants = built_node(operator, name, version_of(operator.domain, self.opset))
        for constant in constants:
            self._require_free(constant.name, self._names())
        operator.set_name(name)
        self._nodes[name] = node
        self._graph.initializer.extend(constants)

    def _numbered(self, kind: str) -> str:
        """A name that depends on this model alone, so that the same program always builds the same bytes."""
        number = len(self._nodes)
        while f"{kind}_{number}" in self._nodes:
            number += 1
        return f"{kind}_{number}"

    def _feature(self, feature: FeatureDescriptor, taken: set[str]) -> ValueInfoProto:
        info = value_info(feature)
        self._require_free(info.name, taken)
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
    def _require_free(name: str, taken: Iterable[str]) -> None:
        if name in taken:
            raise InvalidArgumentError(f"The name {name!r} is taken already.", hint="Give each its own name.")

    def finished(self) -> ModelProto:
        """The model as it is so far; the draft stays as it is.

        Raises:
            InvalidArgumentError: it does not hold together.
        """
        if not self._graph.output:
            raise InvalidArgumentError("The model has no output.", hint="Call builder.outputs.add(descriptor).")
        graph = GraphProto()
        graph.CopyFrom(self._graph)
        graph.node.extend(sorted_nodes(list(self._nodes.values()), graph))
        imports = imports_of((node.domain for node in graph.node), self.opset)
        made = helper.make_model(graph, opset_imports=imports, producer_name="winml-py", producer_version=__version__)
        made.ir_version = oldest_ir_version(made)
        helper.set_model_props(made, self._metadata)
        require_consistent(made)
        return made

"""Joining two models with `onnx.compose`: outputs of the first become inputs of the second."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from onnx import ModelProto, TensorShapeProto, compose, helper, inliner

from ..core.base.arguments import is_text, require_bool
from ..core.base.messages import did_you_mean
from ..core.base.winrt_object import Object, private_state
from ..core.contracts.exporters import CONTRACT_KEYS
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.imaging.contract import METADATA_KEYS
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import walk_messages
from ..errors import InvalidArgumentError, NotSupportedError
from .model_file import list_names, read_model
from .node import require_name


def join_models(first: LearningModel, second: LearningModel, options: LearningModelJoinOptions) -> ModelProto:
    """A model that evaluates two models in sequence: see `LearningModelExperimental.join_model`.

    Its name, version and description are the first's.
    """
    _require_links(first, second, options.links)
    joined, added = read_model(first), read_model(second)
    metadata = _join_metadata(joined, added, first, second, options)
    _join_opsets(joined, added)
    if added.functions:  # they may have the names of the first model's
        added = inliner.inline_local_functions(added)

    prefix = options.joined_node_prefix or _find_free_prefix(list_names(added) - set(options.links), list_names(joined))
    if prefix:
        # The weights come first: otherwise `onnx` does not rename their uses in subgraphs.
        weights = {weight.name: prefix + weight.name for weight in added.graph.initializer}
        compose.add_prefix_graph(added.graph, prefix, inplace=True, name_map=weights)
    _rename_free_sizes(added, joined)

    graph = compose.merge_graphs(
        joined.graph,
        added.graph,
        [(source, prefix + target) for target, source in options.links.items()],
        name=joined.graph.name,
        doc_string=joined.graph.doc_string,
    )
    if not options.promote_unlinked_outputs_to_fused_outputs:
        del graph.output[:]
        graph.output.extend(added.graph.output)
    joined.graph.CopyFrom(graph)
    helper.set_model_props(joined, metadata)
    return joined


def list_sizes(model: ModelProto) -> list[TensorShapeProto.Dimension]:
    """The sizes in all types of a model's graph."""
    return [size for size in walk_messages(model.graph) if isinstance(size, TensorShapeProto.Dimension)]


def _require_links(first: LearningModel, second: LearningModel, links: Mapping[str, str]) -> None:
    outputs = {feature.name: feature for feature in first.output_features}
    inputs = {feature.name: feature for feature in second.input_features}
    passed_on = {feature.name for feature in second.output_features} & set(links)
    if passed_on:
        raise InvalidArgumentError(
            f"The input {min(passed_on)!r} is also an output of the second model, so it cannot be linked.",
            hint="Insert an Identity node between the input and the output.",
        )
    for target, source in links.items():
        if source not in outputs:
            hint = did_you_mean(source, outputs)
            raise InvalidArgumentError(f"The first model has no output {source!r} to link.", hint=hint)
        if target not in inputs:
            hint = did_you_mean(target, inputs)
            raise InvalidArgumentError(f"The second model has no input {target!r} to link.", hint=hint)
        if not _can_link(outputs[source], inputs[target]):
            raise InvalidArgumentError(
                f"The output {source!r} is {outputs[source].describe()}, but the input {target!r} takes "
                f"{inputs[target].describe()}.",
                hint="Insert a model with a Cast, Reshape or Transpose between them.",
            )


def _can_link(output: FeatureDescriptor, linked_input: FeatureDescriptor) -> bool:
    """Whether the type of an output, and its sizes as far as they are fixed, are those of an input."""
    shaped = (TensorFeatureDescriptor, ImageFeatureDescriptor)
    if not (isinstance(output, shaped) and isinstance(linked_input, shaped)):
        return type(output) is type(linked_input)
    if output.tensor_kind is not linked_input.tensor_kind:
        return False
    if not all(getattr(feature, "has_rank", True) for feature in (output, linked_input)):
        return True
    if len(output.shape) != len(linked_input.shape):
        return False
    return all(-1 in sizes or sizes[0] == sizes[1] for sizes in zip(output.shape, linked_input.shape, strict=True))


def _join_opsets(joined: ModelProto, added: ModelProto) -> None:
    """Gives the first model the operator sets and the format of both; NotSupportedError for two versions of a set."""
    opsets: dict[str, int] = {}
    for item in (*joined.opset_import, *added.opset_import):
        domain = "" if item.domain == "ai.onnx" else item.domain
        if opsets.setdefault(domain, item.version) != item.version:
            raise NotSupportedError(
                f"The models use operator sets {opsets[domain]} and {item.version} of {domain or 'ai.onnx'}.",
                hint="Export both models with the same operator set, or convert one with onnx.version_converter.",
            )
    del joined.opset_import[:]
    joined.opset_import.extend(helper.make_opsetid(*item) for item in opsets.items())
    joined.ir_version = max(4, joined.ir_version, added.ir_version)  # up to 3, weights had to be listed as inputs


def _rename_free_sizes(added: ModelProto, joined: ModelProto) -> None:
    """Keeps the names of the second model's free sizes apart: one name in both would mean that they are equal."""
    used_names = {size.dim_param for size in list_sizes(joined)} - {""}
    free_sizes = [size for size in list_sizes(added) if size.dim_param]
    prefix = _find_free_prefix({size.dim_param for size in free_sizes}, used_names)
    for size in free_sizes:
        size.dim_param = prefix + size.dim_param


def _find_free_prefix(names: set[str], used_names: set[str]) -> str:
    """A prefix that keeps names apart from others; "" if they differ anyway."""
    number, prefix = 0, ""
    while any(prefix + name in used_names for name in names):
        number += 1
        prefix = f"joined{number}."
    return prefix


# The metadata of a joined model.


_CONTRACT_KEYS = frozenset((*METADATA_KEYS, *CONTRACT_KEYS))
"""Keys for image contracts: Windows ML's, ours, and those of exporters."""


def _join_metadata(
    joined: ModelProto,
    added: ModelProto,
    first: LearningModel,
    second: LearningModel,
    options: LearningModelJoinOptions,
) -> dict[str, str]:
    """The metadata of both models; where they differ, those of the first. The pictures of both have one contract."""
    content, added_content = private_state(first), private_state(second)
    remaining: list[FeatureDescriptor] = [*content.inputs]
    if options.promote_unlinked_outputs_to_fused_outputs:
        linked = set(options.links.values())
        remaining += [feature for feature in content.outputs if feature.name not in linked]
    added_remaining = [feature for feature in added_content.inputs if feature.name not in options.links]
    contracts, added_contracts = (
        {feature.contract for feature in features if isinstance(feature, ImageFeatureDescriptor)}
        for features in (remaining, [*added_remaining, *added_content.outputs])
    )
    if contracts and added_contracts and contracts != added_contracts:
        raise NotSupportedError(
            "The models specify different image contracts, but the joined model can specify only one.",
            hint="Remove the IMAGE denotation from the inputs and outputs of one model.",
        )
    # Without a remaining picture, a model's contract would be taken for the other's.
    left_out = set() if contracts else _CONTRACT_KEYS
    added_left_out = set() if added_contracts else _CONTRACT_KEYS
    metadata = {entry.key: entry.value for entry in added.metadata_props if entry.key not in added_left_out}
    return metadata | {entry.key: entry.value for entry in joined.metadata_props if entry.key not in left_out}


class LearningModelJoinOptions(Object):
    """Which outputs of a first model become inputs of a second one, and other settings of a join.

    Example:
        >>> from winml_py.experimental import LearningModelJoinOptions
        >>> options = LearningModelJoinOptions()
        >>> options.link("scaled", "image")
        >>> options.joined_node_prefix = "classifier."
        >>> dict(options.links)
        {'image': 'scaled'}
    """

    def __init__(self) -> None:
        self._links: dict[str, str] = {}
        self._promotes = True
        self._prefix = ""
        self._closes = False

    def link(self, first_model_output: str, second_model_input: str, /) -> None:
        """Connects an output of the first model to an input of the second; one output may go to several inputs.

        Raises:
            InvalidArgumentError: a name is empty, or the input is linked already.
        """
        source = require_name(first_model_output, "The output of the first model")
        target = require_name(second_model_input, "The input of the second model")
        if self._links.setdefault(target, source) != source:
            raise InvalidArgumentError(f"The input {target!r} is already linked to {self._links[target]!r}.")

    @property
    def links(self) -> Mapping[str, str]:
        """The links: inputs of the second model, and the outputs they come from."""
        return MappingProxyType(self._links)

    @property
    def promote_unlinked_outputs_to_fused_outputs(self) -> bool:
        """Whether unlinked outputs of the first model become outputs of the joined one. Default True.

        Linked outputs never do.
        """
        return self._promotes

    @promote_unlinked_outputs_to_fused_outputs.setter
    def promote_unlinked_outputs_to_fused_outputs(self, value: bool) -> None:
        self._promotes = require_bool(value, "promote_unlinked_outputs_to_fused_outputs")

    @property
    def joined_node_prefix(self) -> str:
        """The prefix of the second model's names in the joined one: nodes, weights, inputs and outputs.

        Default "": they keep their names, unless the first model has one of them; then a prefix such as `joined1.` is
        chosen.
        """
        return self._prefix

    @joined_node_prefix.setter
    def joined_node_prefix(self, value: str) -> None:
        if not is_text(value):
            raise InvalidArgumentError(f"The prefix cannot be {value!r}.", hint='Pass text, for example "classifier.".')
        self._prefix = value

    @property
    def close_model_on_join(self) -> bool:
        """Whether both models are disposed of after they are joined. Default False."""
        return self._closes

    @close_model_on_join.setter
    def close_model_on_join(self, value: bool) -> None:
        self._closes = require_bool(value, "close_model_on_join")

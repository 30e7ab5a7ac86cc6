"""Joining two models: outputs of the first become inputs of the second. Uses `onnx.compose`, and adds what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from onnx import (
    ModelProto,
    compose,
    helper,
    inliner,
)

from .._inputs.copies import convert_opset, names_in, sizes_in
from ..core.base.arguments import is_text, require_bool
from ..core.base.messages import did_you_mean
from ..core.base.winrt_object import Object
from ..core.contracts.exporters import CONTRACT_KEYS, exporters_contract
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.imaging.contract import METADATA_KEYS
from ..core.model.model import LearningModel
from ..errors import InvalidArgumentError, NotSupportedError
from .model_file import read_model
from .values import require_name


def join_models(first: LearningModel, second: LearningModel, options: LearningModelJoinOptions) -> ModelProto:
    """A model that evaluates two models in sequence: see `LearningModelExperimental.join_model`.

    Its name, version and description are the first's.
    """
    _require_links(first, second, options.links)
    first_proto, second_proto = _align_opsets(read_model(first), read_model(second))
    if first_proto.functions and second_proto.functions:  # they may have the same names
        second_proto = inliner.inline_local_functions(second_proto)
    names = names_in(second_proto) - set(options.links)
    prefix = options.joined_node_prefix or _find_free_prefix(names, names_in(first_proto))
    # One name of two free sizes would mean that they are equal.
    used_sizes, free_sizes = (
        [size for size in sizes_in(model) if size.dim_param] for model in (first_proto, second_proto)
    )
    size_prefix = _find_free_prefix({size.dim_param for size in free_sizes}, {size.dim_param for size in used_sizes})
    for size in free_sizes:
        size.dim_param = size_prefix + size.dim_param
    if prefix:
        # The weights come first: otherwise `onnx` does not rename their uses in subgraphs.
        weights = {weight.name: prefix + weight.name for weight in second_proto.graph.initializer}
        compose.add_prefix_graph(second_proto.graph, prefix, inplace=True, name_map=weights)
    graph = compose.merge_graphs(
        first_proto.graph,
        second_proto.graph,
        [(source, prefix + target) for target, source in options.links.items()],
        name=first_proto.graph.name,
        doc_string=first_proto.graph.doc_string,
    )
    if not options.promote_unlinked_outputs_to_fused_outputs:
        del graph.output[:]
        graph.output.extend(second_proto.graph.output)
    first_proto.graph.CopyFrom(graph)
    first_proto.functions.extend(second_proto.functions)
    helper.set_model_props(first_proto, _join_metadata(first, second, options))
    return first_proto


def _require_links(first: LearningModel, second: LearningModel, links: Mapping[str, str]) -> None:
    outputs = {feature.name: feature for feature in first.output_features}
    inputs = {feature.name: feature for feature in second.input_features}
    for target, source in links.items():
        for name, known, what in (
            (source, outputs, "The first model has no output"),
            (target, inputs, "The second model has no input"),
        ):
            if name not in known:
                raise InvalidArgumentError(f"{what} {name!r} to link.", hint=did_you_mean(name, known))
        if not _can_link(outputs[source], inputs[target]):
            raise InvalidArgumentError(
                f"The output {source!r} is {outputs[source].describe()}, but the input {target!r} takes "
                f"{inputs[target].describe()}.",
                hint="Put a model with a Cast, Reshape or Transpose between them.",
            )


def _can_link(output: FeatureDescriptor, taken: FeatureDescriptor) -> bool:
    shaped = (TensorFeatureDescriptor, ImageFeatureDescriptor)
    if not (isinstance(output, shaped) and isinstance(taken, shaped)):
        return type(output) is type(taken)
    if output.tensor_kind is not taken.tensor_kind:
        return False
    if not all(getattr(feature, "has_rank", True) for feature in (output, taken)):
        return True
    sizes = list(zip(output.shape, taken.shape, strict=False))
    return len(output.shape) == len(taken.shape) and all(-1 in pair or pair[0] == pair[1] for pair in sizes)


def _align_opsets(first: ModelProto, second: ModelProto) -> tuple[ModelProto, ModelProto]:
    """Both models with the newer operator sets and format of the two; raises if `onnx` cannot convert one."""
    models = [first, second]
    versions = [
        {"" if item.domain == "ai.onnx" else item.domain: item.version for item in model.opset_import}
        for model in models
    ]
    newest = {domain: max(old.get(domain, 0) for old in versions) for domain in versions[0] | versions[1]}
    for place, old in enumerate(versions):
        differing = {domain for domain in old if old[domain] != newest[domain]}
        try:
            if differing - {""}:
                raise ValueError(f"onnx converts only its own operators, not those of {', '.join(differing - {''})}")
            if differing:
                models[place] = convert_opset(models[place], newest[""])
        except ValueError as error:
            raise NotSupportedError(
                f"The {'first' if place == 0 else 'second'} model cannot be converted to the newer operator set of the "
                f"two: {error}",
                hint="Export both models with one operator set.",
            ) from error
    for model in models:
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*item) for item in newest.items())
        model.ir_version = max(4, first.ir_version, second.ir_version)  # up to 3, weights had to be listed as inputs
    return models[0], models[1]


# Names: a prefix for the second model's.


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


def _join_metadata(first: LearningModel, second: LearningModel, options: LearningModelJoinOptions) -> dict[str, str]:
    """The metadata of both models; where they conflict, those of the first."""
    promotes, linked = options.promote_unlinked_outputs_to_fused_outputs, set(options.links.values())
    outputs = [feature for feature in first.output_features if promotes and feature.name not in linked]
    inputs = [feature for feature in second.input_features if feature.name not in options.links]
    texts = [
        _select_metadata(first, [*first.input_features, *outputs]),
        _select_metadata(second, [*inputs, *second.output_features]),
    ]
    stated = [{key: text[key] for key in _CONTRACT_KEYS & text.keys()} for text in texts]
    exported = [exporters_contract(text) for text in texts]
    if all(stated) and (stated[0] != stated[1] or exported[0] != exported[1]):
        raise NotSupportedError(
            "The models state different image contracts, but a model states only one.",
            hint="Remove the denotation IMAGE from the inputs and outputs of one of them.",
        )
    return texts[1] | texts[0]


def _select_metadata(model: LearningModel, remaining: Iterable[FeatureDescriptor]) -> dict[str, str]:
    """Without a contract that concerns no remaining feature, and would be taken for the other model's."""
    has_images = any(isinstance(feature, ImageFeatureDescriptor) for feature in remaining)
    return {key: text for key, text in model.metadata.items() if has_images or key not in _CONTRACT_KEYS}


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
        self._promotes, self._prefix, self._closes = True, "", False

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
            raise InvalidArgumentError(f"The prefix is {value!r}.", hint='Expected text, such as "classifier.".')
        self._prefix = value

    @property
    def close_model_on_join(self) -> bool:
        """Whether both models are disposed of after they are joined. Default False."""
        return self._closes

    @close_model_on_join.setter
    def close_model_on_join(self, value: bool) -> None:
        self._closes = require_bool(value, "close_model_on_join")

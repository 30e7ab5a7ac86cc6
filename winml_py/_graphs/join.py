"""Joining two models: outputs of the first become inputs of the second. Uses `onnx.compose`, and adds what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    compose,
    defs,
    helper,
    inliner,
)

from .._inputs.copies import convert_opset
from ..core.base.arguments import is_text, truth
from ..core.base.messages import did_you_mean
from ..core.base.winrt_object import Object
from ..core.contracts.exporters import CONTRACT_KEYS, exporters_contract
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.imaging.contract import METADATA_KEYS
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import messages
from ..errors import InvalidArgumentError, NotSupportedError
from .model_file import read_model
from .values import require_name


def join_models(first: LearningModel, second: LearningModel, options: LearningModelJoinOptions) -> ModelProto:
    """A model that evaluates two models in sequence: see `LearningModelExperimental.join_model`.

    Its name, version and description are the first's.
    """
    _require_links(first, second, options.links)
    first_proto, second_proto = _align_opsets(read_model(first), read_model(second))
    if {function.name for function in first_proto.functions} & {function.name for function in second_proto.functions}:
        try:
            second_proto = inliner.inline_local_functions(second_proto, convert_version=False)
        except Exception as error:  # the inliner raises errors of many classes, including RuntimeError
            raise NotSupportedError(
                f"Both models have a function of the same name, and the second's cannot be inlined: {error}",
                hint="Inline the functions of one of them with onnx.inliner.",
            ) from error
    for model in (first_proto, second_proto):  # files of the oldest formats list weights among the inputs
        listed = {weight.name for weight in model.graph.initializer}
        for info in [info for info in model.graph.input if info.name in listed]:
            model.graph.input.remove(info)
    prefix = options.joined_node_prefix or _free_prefix(first_proto, second_proto, set(options.links))
    _rename_free_sizes(first_proto, second_proto, options.links)
    if prefix:
        # The weights come first: otherwise `onnx` does not rename their uses in subgraphs.
        weights = [weight.name for weight in second_proto.graph.initializer]
        names = {name: prefix + name for name in weights}
        compose.add_prefix_graph(second_proto.graph, prefix, inplace=True, name_map=names)
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
    helper.set_model_props(first_proto, _join_metadata(first, second, options, prefix or "joined."))
    return first_proto


def _require_links(first: LearningModel, second: LearningModel, links: Mapping[str, str]) -> None:
    outputs = {feature.name: feature for feature in first.output_features}
    inputs = {feature.name: feature for feature in second.input_features}
    for target, source in links.items():
        if source not in outputs:
            raise InvalidArgumentError(
                f"The first model has no output {source!r} to link.", hint=did_you_mean(source, outputs)
            )
        if target not in inputs:
            raise InvalidArgumentError(
                f"The second model has no input {target!r} to link.", hint=did_you_mean(target, inputs)
            )
        if not _fits(outputs[source], inputs[target]):
            raise InvalidArgumentError(
                f"The output {source!r} is {outputs[source].describe()}, but the input {target!r} takes "
                f"{inputs[target].describe()}.",
                hint="Put a model with a Cast, Reshape or Transpose between them.",
            )


def _fits(output: FeatureDescriptor, taken: FeatureDescriptor) -> bool:
    shaped = (TensorFeatureDescriptor, ImageFeatureDescriptor)
    if not (isinstance(output, shaped) and isinstance(taken, shaped)):
        return type(output) is type(taken)
    if output.tensor_kind is not taken.tensor_kind:
        return False
    if not all(getattr(feature, "has_rank", True) for feature in (output, taken)):
        return True
    sizes = list(zip(output.shape, taken.shape, strict=False))
    return len(output.shape) == len(taken.shape) and all(-1 in pair or pair[0] == pair[1] for pair in sizes)


# Operator sets: both models are converted to the newer ones.


def _align_opsets(first: ModelProto, second: ModelProto) -> tuple[ModelProto, ModelProto]:
    """Both models with the newer imports and format of the two; raises if `onnx` cannot convert an operator."""
    models, imported = [first, second], [_imported_opsets(first), _imported_opsets(second)]
    newest = {domain: max(part.get(domain, 0) for part in imported) for domain in imported[0] | imported[1]}
    for place, opsets in enumerate(imported):
        for domain, version in opsets.items():
            changed = _changed_operator(models[place], domain, version, newest[domain])
            if not changed:
                continue
            try:
                if domain:
                    raise ValueError("only ONNX's own operators can be")
                models[place] = convert_opset(models[place], newest[domain])
            except ValueError as error:
                raise NotSupportedError(
                    f"{changed} differs between the operator sets {version} and {newest[domain]} of the two models, "
                    f"and cannot be converted: {error}",
                    hint="Export both models with one operator set.",
                ) from error
    imports = [helper.make_opsetid(*item) for item in newest.items()]
    ir_version = max(4, *(model.ir_version for model in models))  # up to 3, weights had to be listed as inputs
    for model in models:
        del model.opset_import[:]
        model.opset_import.extend(imports)
        model.ir_version = ir_version
    return models[0], models[1]


def _imported_opsets(model: ModelProto) -> dict[str, int]:
    imports = [*model.opset_import, *(item for function in model.functions for item in function.opset_import)]
    newest: dict[str, int] = {}
    for item in imports:
        domain = _without_alias(item.domain)
        newest[domain] = max(newest.get(domain, 0), item.version)
    return newest


def _without_alias(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _changed_operator(model: ModelProto, domain: str, old: int, new: int) -> str:
    """An operator in the model's graph that the newer version changes; "" if there is none."""
    nodes = (part for part in messages(model.graph) if isinstance(part, NodeProto))
    operators = dict.fromkeys(node.op_type for node in nodes if _without_alias(node.domain) == domain)
    for operator in operators if old != new else ():
        since = [
            defs.get_schema(operator, version, domain).since_version if defs.has(operator, version, domain) else 0
            for version in (old, new)
        ]
        if 0 in since or since[0] != since[1]:
            return operator
    return ""


# Names: a prefix for the second model's, and one name for sizes that are equal.


def names_in(model: ModelProto) -> set[str]:
    """Every name of a value, weight or node in a model's graphs, including subgraphs."""
    names = set()
    for part in messages(model.graph):
        if isinstance(part, NodeProto):
            names |= {part.name, *part.output}
        elif isinstance(part, (TensorProto, ValueInfoProto)):
            names.add(part.name)
    return names - {""}


def _free_prefix(first: ModelProto, second: ModelProto, linked: set[str]) -> str:
    """A prefix that keeps the names of two models apart; "" if they differ anyway."""
    used_names, names = names_in(first), names_in(second) - linked
    number, prefix = 0, ""
    while any(prefix + name in used_names for name in names):
        number += 1
        prefix = f"joined{number}."
    return prefix


def sizes_in(part: GraphProto | ValueInfoProto) -> list[TensorShapeProto.Dimension]:
    """The sizes in all types of a graph, or of one input or output."""
    return [size for size in messages(part) if isinstance(size, TensorShapeProto.Dimension)]


def _rename_free_sizes(first: ModelProto, second: ModelProto, links: Mapping[str, str]) -> None:
    """Gives a second model's free sizes the names of the sizes they are linked to, or else unused names."""
    outputs = {info.name: info for info in first.graph.output}
    used_names = {size.dim_param for size in sizes_in(first.graph)}
    renamed = {}
    for size in sizes_in(second.graph):
        name, number = size.dim_param, 0
        while name in used_names:
            number += 1
            name = f"joined{number}.{size.dim_param}"
        renamed[size.dim_param] = name
    for info in second.graph.input:
        if info.name in links:
            pairs = zip(sizes_in(outputs[links[info.name]]), sizes_in(info), strict=False)
            renamed |= {size.dim_param: source.dim_param for source, size in pairs if source.dim_param}
    for size in sizes_in(second.graph):
        if size.dim_param:
            size.dim_param = renamed[size.dim_param]


# The metadata of a joined model.


_CONTRACT_KEYS = frozenset((*METADATA_KEYS, *CONTRACT_KEYS))
"""Keys for image contracts: Windows ML's, ours, and those of exporters."""


def _join_metadata(
    first: LearningModel, second: LearningModel, options: LearningModelJoinOptions, prefix: str
) -> dict[str, str]:
    """The metadata of both models; where they conflict, the second's key gets a prefix."""
    promotes, linked = options.promote_unlinked_outputs_to_fused_outputs, set(options.links.values())
    outputs = [feature for feature in first.output_features if promotes and feature.name not in linked]
    inputs = [feature for feature in second.input_features if feature.name not in options.links]
    texts = [
        _metadata_of(first, [*first.input_features, *outputs]),
        _metadata_of(second, [*inputs, *second.output_features]),
    ]
    stated = [{key: text[key] for key in _CONTRACT_KEYS & text.keys()} for text in texts]
    exported = [exporters_contract(text) for text in texts]
    if all(stated) and (stated[0] != stated[1] or exported[0] != exported[1]):
        raise NotSupportedError(
            "The models state different image contracts, but a model states only one.",
            hint="Remove the denotation IMAGE from the inputs and outputs of one of them.",
        )
    differing = {key for key in texts[0].keys() & texts[1].keys() if texts[0][key] != texts[1][key]}
    return {**{f"{prefix}{key}" if key in differing else key: text for key, text in texts[1].items()}, **texts[0]}


def _metadata_of(model: LearningModel, remaining: Iterable[FeatureDescriptor]) -> dict[str, str]:
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
        self._promotes = truth(value, "promote_unlinked_outputs_to_fused_outputs")

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
        self._closes = truth(value, "close_model_on_join")

"""Joining two models, or model files: outputs of the first become inputs of the second."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from onnx import ModelProto, ValueInfoProto, compose, helper

from ..core.base.agreement import FLOAT_TOLERANCE
from ..core.base.arguments import is_text, truth
from ..core.base.atomic_files import require_folder
from ..core.base.messages import Facts, did_you_mean
from ..core.base.winrt_object import Object
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..core.imaging.contract import OUR_KEYS, WINDOWS_KEYS
from ..core.model.contracts import EXPORTERS, exporters_contract
from ..core.model.model import LearningModel
from ..errors import InvalidArgumentError, NotSupportedError
from ..inputs.examples import example_inputs
from ..inputs.files import given_values
from ..inputs.model import evaluate_all_outputs, require_same_results
from .join_names import add_prefix, free_prefix, rename_free_sizes, share_functions
from .model_file import read_model, save_model
from .opsets import align_opsets
from .values import require_name


def join_models(first: LearningModel, second: LearningModel, options: LearningModelJoinOptions) -> ModelProto:
    """A model that evaluates two, one after the other.

    Its inputs are those of the first, and those of the second that are not linked; its outputs those of the first that
    are not linked, if they are promoted, and those of the second. Its name, version and description are the first's.

    Args:
        first: whose outputs are linked.
        second: whose inputs they become.
        options: what is linked, and how names begin.

    Raises:
        InvalidArgumentError: a link names what is not there, or values that do not fit.
        NotSupportedError: the models' operator sets or contracts cannot be brought together.
        ModelDisposedError: one of them has been disposed of.
    """
    _require_links(first, second, options.links)
    first_proto, second_proto = read_model(first), read_model(second)
    _require_fitting(first_proto, second_proto, options.links)
    metadata = _metadata(first, second, options)
    first_proto, second_proto = align_opsets(first_proto, second_proto)
    second_proto = share_functions(first_proto, second_proto)
    _hide_constants(first_proto)
    _hide_constants(second_proto)
    prefix = options.joined_node_prefix or free_prefix(first_proto, second_proto, set(options.links))
    rename_free_sizes(first_proto, second_proto, options.links)
    if prefix:
        add_prefix(second_proto, prefix)
    links = {prefix + target: source for target, source in options.links.items()}
    model = _merge(first_proto, second_proto, links, options.promote_unlinked_outputs_to_fused_outputs)
    helper.set_model_props(model, join_metadata(*metadata, prefix))
    return model


def _require_links(first: LearningModel, second: LearningModel, links: Mapping[str, str]) -> None:
    outputs = [feature.name for feature in first.output_features]
    inputs = [feature.name for feature in second.input_features]
    for target, source in links.items():
        if source not in outputs:
            raise InvalidArgumentError(
                f"The first model has no output {source!r} to link.", hint=did_you_mean(source, outputs)
            )
        if target not in inputs:
            raise InvalidArgumentError(
                f"The second model has no input {target!r} to link.", hint=did_you_mean(target, inputs)
            )


def _require_fitting(first: ModelProto, second: ModelProto, links: Mapping[str, str]) -> None:
    outputs_by_name = {info.name: info for info in first.graph.output}
    inputs_by_name = {info.name: info for info in second.graph.input}
    for target, source in links.items():
        if not _fits(outputs_by_name[source], inputs_by_name[target]):
            raise InvalidArgumentError(
                f"The output {source!r} is {_describe_type(outputs_by_name[source])}, and the input {target!r} takes "
                f"{_describe_type(inputs_by_name[target])}.",
                hint="Put a model with a Cast, Reshape or Transpose between them.",
            )


def _fits(output: ValueInfoProto, input_info: ValueInfoProto) -> bool:
    kinds = output.type.WhichOneof("value"), input_info.type.WhichOneof("value")
    if kinds != ("tensor_type", "tensor_type"):
        return None in kinds or kinds[0] == kinds[1]
    output_type, input_type = output.type.tensor_type, input_info.type.tensor_type
    if output_type.elem_type != input_type.elem_type:
        return False
    if not (output_type.HasField("shape") and input_type.HasField("shape")):
        return True
    # 0 where a size is free
    sizes = [tuple(size.dim_value for size in part.shape.dim) for part in (output_type, input_type)]
    return len(sizes[0]) == len(sizes[1]) and all(a == b or not a or not b for a, b in zip(*sizes, strict=True))


def _describe_type(info: ValueInfoProto) -> str:
    if info.type.WhichOneof("value") != "tensor_type":
        return f"a {info.type.WhichOneof('value').removesuffix('_type')}"
    kind = info.type.tensor_type
    sizes = tuple(size.dim_value or -1 for size in kind.shape.dim)
    return f"{helper.tensor_dtype_to_string(kind.elem_type).removeprefix('TensorProto.').lower()}{list(sizes)}"


def _metadata(
    first: LearningModel, second: LearningModel, options: LearningModelJoinOptions
) -> tuple[dict[str, str], dict[str, str]]:
    promotes, linked = options.promote_unlinked_outputs_to_fused_outputs, set(options.links.values())
    promoted = [feature for feature in first.output_features if promotes and feature.name not in linked]
    unlinked = [feature for feature in second.input_features if feature.name not in options.links]
    return (
        metadata_for_join(first.metadata, [*first.input_features, *promoted]),
        metadata_for_join(second.metadata, [*unlinked, *second.output_features]),
    )


def _hide_constants(model: ModelProto) -> None:
    """Takes weights out of the inputs, where files of the oldest formats list them."""
    weights = {weight.name for weight in model.graph.initializer}
    for info in [info for info in model.graph.input if info.name in weights]:
        model.graph.input.remove(info)


def _merge(first: ModelProto, second: ModelProto, links: Mapping[str, str], promotes: bool) -> ModelProto:
    """One model of two, by ONNX's own rules; everything but the graph is the first's."""
    graph = compose.merge_graphs(
        first.graph,
        second.graph,
        [(source, target) for target, source in links.items()],
        name=first.graph.name,
        doc_string=first.graph.doc_string,
    )
    for info in second.graph.output:
        if info.name in links:  # an input that the second model gives on as it is
            graph.node.append(
                helper.make_node("Identity", [links[info.name]], [info.name], name=f"{info.name}.identity")
            )
    if not promotes:
        del graph.output[:]
        graph.output.extend(second.graph.output)
    model = _without_graph(first)
    model.graph.CopyFrom(graph)
    model.functions.extend(second.functions)
    return model


def _without_graph(model: ModelProto) -> ModelProto:
    return ModelProto(**{field.name: value for field, value in model.ListFields() if field.name != "graph"})


# Metadata of two models that are joined.


CONTRACT_KEYS = frozenset((*WINDOWS_KEYS, *OUR_KEYS)).union(*(exporter.KEYS for exporter in EXPORTERS))
"""Keys that say how pictures become tensors: Windows ML's, ours, and those of exporters."""


def metadata_for_join(metadata: Mapping[str, str], remaining: Iterable[FeatureDescriptor]) -> dict[str, str]:
    """What a model says of itself in a joined one.

    Args:
        metadata: what it says alone.
        remaining: its features that are features of the joined model. The keys of a contract say something of images
            among them, and without any would be taken for the other model's.
    """
    if any(isinstance(feature, ImageFeatureDescriptor) for feature in remaining):
        return dict(metadata)
    return {key: value for key, value in metadata.items() if key not in CONTRACT_KEYS}


def join_metadata(first: Mapping[str, str], second: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The metadata of both models; what they state differently stands under the key, and for the second one under
    the key with the prefix of its names.

    Raises:
        NotSupportedError: both state a contract for images, and another one.
    """
    stated = [{key: metadata[key] for key in CONTRACT_KEYS & metadata.keys()} for metadata in (first, second)]
    exported = [exporters_contract(metadata) for metadata in (first, second)]
    if all(stated) and (stated[0] != stated[1] or exported[0] != exported[1]):
        raise NotSupportedError(
            "Both models state how their pictures become tensors, and differently; a model states it once.",
            hint="Write one of them without: take the denotations of its images away with onnx.",
        )
    differing = {key for key in first.keys() & second.keys() if first[key] != second[key]}
    prefix = prefix or "joined."
    return {**{f"{prefix}{key}" if key in differing else key: text for key, text in second.items()}, **first}


# LearningModelJoinOptions: how a model is put after another.


class LearningModelJoinOptions(Object):
    """Which outputs of a first model become inputs of a second one, and what else is done.

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
            raise InvalidArgumentError(
                f"The input {target!r} is linked to {self._links[target]!r} already.", hint="Link each input once."
            )

    @property
    def links(self) -> Mapping[str, str]:
        """What was linked: inputs of the second model, and the outputs they come from."""
        return MappingProxyType(self._links)

    @property
    def promote_unlinked_outputs_to_fused_outputs(self) -> bool:
        """Whether outputs of the first model that nothing is linked to are outputs of the joined one. Default True.

        Linked outputs never are.
        """
        return self._promotes

    @promote_unlinked_outputs_to_fused_outputs.setter
    def promote_unlinked_outputs_to_fused_outputs(self, value: bool) -> None:
        self._promotes = truth(value, "promote_unlinked_outputs_to_fused_outputs")

    @property
    def joined_node_prefix(self) -> str:
        """What the names of the second model begin with in the joined one: nodes, weights, inputs and outputs.

        Default "": they keep their names, unless one is in the first model, too; then a prefix such as `joined1.` is
        chosen.
        """
        return self._prefix

    @joined_node_prefix.setter
    def joined_node_prefix(self, value: str) -> None:
        if not is_text(value):
            raise InvalidArgumentError(f"The prefix is {value!r}.", hint='It is text, "classifier." say.')
        self._prefix = value

    @property
    def close_model_on_join(self) -> bool:
        """Whether both models are disposed of once they are joined. Default False."""
        return self._closes

    @close_model_on_join.setter
    def close_model_on_join(self, value: bool) -> None:
        self._closes = truth(value, "close_model_on_join")


# Joining two model files, with a check of the results.


@dataclass(frozen=True)
class JoinReport:
    """What a join made.

    Attributes:
        inputs: the names of the joined model's inputs.
        outputs: those of its outputs.
        error: the largest difference of an output from what the two models give one after the other, over the largest
            magnitude of its channel.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    error: float

    def to_json(self) -> Facts:
        """The figures."""
        return asdict(self)

    def __str__(self) -> str:
        names = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"
        return f"{names}; the results of the two models differ from it by {self.error:.1e}"


def join_files(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: LearningModelJoinOptions,
    *,
    inputs: Sequence[str] = (),
    tolerance: float = FLOAT_TOLERANCE,
) -> JoinReport:
    """Writes a model that evaluates two, one after the other, once its results were compared with theirs.

    Args:
        first: the path of the model that comes first.
        second: the path of the model that comes after it.
        out: the path to write to; above 2 GB, the weights go to a file beside it.
        options: which outputs become inputs.
        inputs: files to compare with, as `winml-py run` takes them, by the names of the joined model's inputs; floats
            and pictures that are not given get example values.
        tolerance: the largest difference in an output, over its largest magnitude.

    Returns:
        What it takes and gives, and how far its results are from those of the two models.

    Raises:
        ConversionError: the results differ by more than the tolerance.
        InvalidArgumentError: a link names what is not there, or an input whose values cannot be made up.
        NotSupportedError: the operator sets or contracts cannot be brought together.
        WinMLError: a model cannot be used, or the file cannot be written.
    """
    require_folder(out)
    models = LearningModel.load_from_file_path(first), LearningModel.load_from_file_path(second)
    return save_model(
        join_models(*models, options),
        out,
        lambda model: _compare_with_parts(*models, model, options, inputs, tolerance),
    )


def _compare_with_parts(
    first: LearningModel,
    second: LearningModel,
    model: LearningModel,
    options: LearningModelJoinOptions,
    inputs: Sequence[str],
    tolerance: float,
) -> JoinReport:
    values, _ = example_inputs(model.input_features, given_values(model, inputs))
    actual = evaluate_all_outputs(model, values)
    in_order = [values[feature.name] for feature in model.input_features]
    expected = _evaluate_in_turn(first, second, options, in_order)
    what = "The joined model does not give what the two models give"
    hint = "Give inputs that the first model is meant for: NAME=FILE.npy."
    error = require_same_results(dict(zip(actual, expected, strict=True)), actual, tolerance, what, hint)
    return JoinReport(tuple(feature.name for feature in model.input_features), tuple(actual), error)


def _evaluate_in_turn(
    first: LearningModel, second: LearningModel, options: LearningModelJoinOptions, values: Sequence[object]
) -> list[Any]:
    """The outputs of the joined model, in its order, from the two models; its inputs are in the order of theirs."""
    first_inputs = [feature.name for feature in first.input_features]
    outputs = evaluate_all_outputs(first, dict(zip(first_inputs, values, strict=False)))
    unlinked = [feature.name for feature in second.input_features if feature.name not in options.links]
    linked = {target: outputs[source] for target, source in options.links.items()}
    results = evaluate_all_outputs(second, dict(zip(unlinked, values[len(first_inputs) :], strict=True)) | linked)
    promoted = [value for name, value in outputs.items() if name not in options.links.values()]
    return [*(promoted if options.promote_unlinked_outputs_to_fused_outputs else []), *results.values()]

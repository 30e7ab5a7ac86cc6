"""Editing a model file's names, sizes, denotations, descriptions and metadata, with a check of the results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._inputs.copies import names_in, read_for_copy, replace_metadata, require_same_results, sizes_in
from .._inputs.examples import example_inputs, has_example
from .._inputs.model import evaluate_all_outputs
from ..core.base.agreement import FLOAT_TOLERANCE
from ..core.base.arguments import is_text
from ..core.base.atomic_files import require_folder, write_whole
from ..core.base.messages import did_you_mean
from ..core.contracts.labels import LABELS_KEY
from ..core.features.descriptors import ShapedDescriptor
from ..core.model.model import LearningModel
from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def fix_sizes(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Fixes free sizes of inputs (-1 leaves one free), and all free sizes of the same name in the graph."""
    inputs = {info.name: info for info in model.graph.input}
    for name, shape in shapes.items():
        if name not in inputs:
            raise InvalidArgumentError(f"The model has no input {name!r}.", hint=did_you_mean(name, inputs))
        sizes = inputs[name].type.tensor_type.shape.dim
        fits = len(sizes) == len(shape)
        for size, fixed in zip(sizes, shape, strict=False):
            if fixed != -1 and size.dim_param:
                for same in [part for part in sizes_in(model) if part.dim_param == size.dim_param]:
                    same.dim_value = fixed
            elif fixed != -1 and not size.HasField("dim_value"):
                size.dim_value = fixed
            fits &= fixed in (-1, size.dim_value)
        if not fits:
            raise InvalidArgumentError(
                f"The input {name!r} cannot have the shape {list(shape)}.",
                hint="Fix only free sizes, write -1 for the others, and give sizes of one name one value.",
            )


def denote_features(model: ModelProto, denotations: Mapping[str, str], dimensions: Mapping[str, Sequence[str]]) -> None:
    """Denotes inputs and outputs (IMAGE, AUDIO, TEXT, TENSOR) and their sizes (DATA_BATCH...); "" removes one."""
    for name, word in denotations.items():
        _feature(model, name).type.denotation = word
    for name, words in dimensions.items():
        sizes = _feature(model, name).type.tensor_type.shape.dim
        if len(sizes) != len(words):
            raise InvalidArgumentError(f"{name} has {len(sizes)} sizes, got {len(words)} denotations.")
        for size, word in zip(sizes, words, strict=True):
            size.denotation = word


def _feature(model: ModelProto, name: str) -> ValueInfoProto:
    features: dict[str, ValueInfoProto] = {info.name: info for info in (*model.graph.output, *model.graph.input)}
    if name not in features:
        raise InvalidArgumentError(f"The model has no input or output {name!r}.", hint=did_you_mean(name, features))
    return features[name]


def rename_features(model: ModelProto, names: Mapping[str, str]) -> None:
    """Renames inputs and outputs, by their old names, everywhere in the graph."""
    from onnx import compose

    for old in names:
        _feature(model, old)
    used_names = names_in(model) - set(names)
    for new in names.values():
        if not is_text(new) or not new:
            raise InvalidArgumentError(f"The new name is {new!r}.", hint="Pass non-empty text.")
        if new in used_names or list(names.values()).count(new) > 1:
            raise InvalidArgumentError(f"The name {new!r} is already taken.")
    if names:
        compose.add_prefix_graph(
            model.graph,
            "",  # the names only, including those in subgraphs
            rename_edges=False,
            rename_inputs=False,
            rename_outputs=False,
            rename_initializers=False,
            rename_value_infos=False,
            inplace=True,
            name_map=dict(names),
        )


# The whole edit: the changes, the new file, and the comparison of its results.


@dataclass(frozen=True)
class Edits:
    """Changes to a model. Inputs and outputs go by their names before the edit.

    Attributes:
        rename: new names of inputs and outputs, by the old ones.
        shapes: sizes of inputs, -1 for those that stay as they are.
        denotations: of inputs and outputs: IMAGE, AUDIO, TEXT, TENSOR; "" removes one.
        dimensions: denotations of their sizes: DATA_BATCH, DATA_CHANNEL and so on; "" removes one.
        name: of the graph; None leaves it unchanged, and likewise for all below.
        description: of the model.
        domain: its namespace, a reversed DNS name.
        author: who or what made it.
        version: its own version.
        metadata: values by keys; "" removes a key.
        labels: the class names.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    denotations: Mapping[str, str] = field(default_factory=dict)
    dimensions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    domain: str | None = None
    author: str | None = None
    version: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class EditReport:
    """The result of an edit: the names of inputs and outputs, and the largest difference of an output.

    The difference is relative to the largest magnitude of its channel; None if the model was not run, because only
    texts have changed and its inputs have no example values.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    error: float | None

    def __str__(self) -> str:
        run = "not run" if self.error is None else f"results differ by {self.error:.1e}"
        return f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}; {run}"


def edit_model(source: str | os.PathLike[str], destination: str | os.PathLike[str], edits: Edits) -> EditReport:
    """Writes an edited copy of a model, after comparing its results with the model's.

    The copy may replace the source; a model with external data must stay in its folder.

    Raises:
        ConversionError: the results differ.
        InvalidArgumentError: a name is unknown or taken, a size is not free, or an input has no example values.
        ValueError: a text cannot be encoded in UTF-8.
        WinMLError: the model cannot be used, or the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from winml_py import LearningModel
        >>> from winml_py.authoring import Edits, edit_model
        >>> target = os.path.join(tempfile.mkdtemp(), "digits.onnx")
        >>> report = edit_model("models/digits.onnx", target, Edits(rename={"image": "digit"}, author="me"))
        >>> report.inputs, report.error
        (('digit',), 0.0)
        >>> LearningModel.load(target).author
        'me'
    """
    require_folder(destination)
    before = LearningModel.load_from_file_path(source)
    _require_label_for_each_score(before, edits.labels or ())
    proto = read_for_copy(source, destination)
    fix_sizes(proto, edits.shapes)
    denote_features(proto, edits.denotations, edits.dimensions)
    rename_features(proto, edits.rename)
    _write_words(proto, edits)
    data = proto.SerializeToString()
    # In the same folder, because the runtime looks for external weights there.
    path = os.path.join(os.path.dirname(os.path.abspath(destination)), f".{os.urandom(8).hex()}.onnx")
    try:
        write_whole(path, data)
        report = _compare_with_original(before, LearningModel.load(path), edits)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
    write_whole(destination, data)
    return report


def _require_label_for_each_score(model: LearningModel, labels: Sequence[str]) -> None:
    """Refuses labels if a classifier has another number of scores: results would then have no labels at all."""
    shapes = [tuple(feature.shape) for feature in model.output_features if isinstance(feature, ShapedDescriptor)]
    shape = shapes[0] if len(model.output_features) == len(shapes) == 1 else ()
    # With other shapes, such as those of detectors, the scores are a part of the output.
    is_row = len(shape) == 2 and shape[0] in (-1, 1) and shape[1] != -1
    if labels and is_row and shape[1] != len(labels):
        raise InvalidArgumentError(f"Expected {shape[1]} labels, one for each score, got {len(labels)}.")


def _write_words(proto: ModelProto, edits: Edits) -> None:
    if edits.name is not None:
        proto.graph.name = edits.name
    fields = {"doc_string": edits.description, "domain": edits.domain, "producer_name": edits.author}
    for key, value in {**fields, "model_version": edits.version}.items():
        if value is not None:
            setattr(proto, key, value)
    metadata = {key: value for key, value in edits.metadata.items() if value}
    if edits.labels is not None:
        # JSON takes others, too, but no reader of labels does.
        if isinstance(edits.labels, str) or not all(map(is_text, edits.labels)):
            raise InvalidArgumentError(f"Expected a sequence of texts as labels, got {edits.labels!r:.80}.")
        metadata[LABELS_KEY] = json.dumps(edits.labels, ensure_ascii=False)
    replace_metadata(proto, [key for key, value in edits.metadata.items() if not value], metadata)


def _compare_with_original(before: LearningModel, after: LearningModel, edits: Edits) -> EditReport:
    names = tuple(feature.name for feature in after.input_features), tuple(f.name for f in after.output_features)
    if not (edits.rename or edits.shapes) and not all(map(has_example, after.input_features)):
        return EditReport(*names, None)
    values, _ = example_inputs(after.input_features, {})
    actual = evaluate_all_outputs(after, values)
    originals = {feature.name: values[name] for feature, name in zip(before.input_features, names[0], strict=True)}
    expected = dict(zip(actual, evaluate_all_outputs(before, originals).values(), strict=True))
    what, hint = "The edited model does not give what the model gives", "Check the sizes that you fixed."
    return EditReport(*names, require_same_results(expected, actual, FLOAT_TOLERANCE, what, hint))

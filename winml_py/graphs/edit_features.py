"""Editing a graph's inputs and outputs: their names, their sizes, what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ModelProto, ValueInfoProto, compose

from ..core.base.suggestions import did_you_mean
from ..errors import InvalidArgumentError
from .join_names import names_in, sizes_in
from .values import require_name


def fixed(model: ModelProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Fixes free sizes of inputs, and wherever else the graph has a free size of that name.

    Args:
        model: is changed.
        shapes: sizes by inputs; -1 for those that stay as they are.

    Raises:
        InvalidArgumentError: there is no such input, or it has another rank or another size.
    """
    inputs = {info.name: info for info in model.graph.input}
    named: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise InvalidArgumentError(f"The model has no input {name!r}.", hint=did_you_mean(name, inputs))
        _fix(inputs[name], shape, named)
    for size in sizes_in(model.graph):
        if size.dim_param in named:
            size.dim_value = named[size.dim_param]


def _fix(info: ValueInfoProto, shape: Sequence[int], named: dict[str, int]) -> None:
    own = info.type.tensor_type.shape.dim
    words = ", ".join(size.dim_param or (str(size.dim_value) if size.HasField("dim_value") else "?") for size in own)
    taken = [named.get(size.dim_param, size.dim_value or wanted) for size, wanted in zip(own, shape, strict=False)]
    if len(own) != len(shape) or any(wanted not in (-1, size) for size, wanted in zip(taken, shape, strict=True)):
        raise InvalidArgumentError(
            f"The input {info.name!r} is of shape [{words}], and cannot be {list(shape)}.",
            hint="Fix the sizes that it leaves free, and write -1 for the others.",
        )
    for size, wanted in zip(own, shape, strict=True):
        if wanted != -1 and size.dim_param:
            named[size.dim_param] = wanted
        elif wanted != -1:
            size.dim_value = wanted


def denoted(model: ModelProto, denotations: Mapping[str, str], dimensions: Mapping[str, Sequence[str]]) -> None:
    """Says what inputs and outputs are, and what their sizes are.

    Args:
        model: is changed.
        denotations: IMAGE, AUDIO, TEXT or TENSOR by inputs and outputs; "" takes one away.
        dimensions: DATA_BATCH, DATA_CHANNEL and so on, one for each size; "" takes one away.

    Raises:
        InvalidArgumentError: there is no such input or output, or another number of sizes.
    """
    for name, word in denotations.items():
        _feature(model, name).type.denotation = word
    for name, words in dimensions.items():
        sizes = _feature(model, name).type.tensor_type.shape.dim
        if len(sizes) != len(words):
            raise InvalidArgumentError(
                f"{name} has {len(sizes)} sizes, and {len(words)} denotations came.", hint="Give one for each size."
            )
        for size, word in zip(sizes, words, strict=True):
            size.denotation = word


def _feature(model: ModelProto, name: str) -> ValueInfoProto:
    features: dict[str, ValueInfoProto] = {info.name: info for info in (*model.graph.output, *model.graph.input)}
    if name not in features:
        raise InvalidArgumentError(f"The model has no input or output {name!r}.", hint=did_you_mean(name, features))
    return features[name]


def renamed(model: ModelProto, names: Mapping[str, str]) -> None:
    """Gives inputs and outputs other names, wherever the graph refers to them.

    Args:
        model: is changed.
        names: the new names, by the old ones.

    Raises:
        InvalidArgumentError: there is no such input or output, or a new name is taken.
    """
    for old in names:
        _feature(model, old)
    taken = names_in(model) - set(names)
    for new in names.values():
        if require_name(new, "The new name") in taken or list(names.values()).count(new) > 1:
            raise InvalidArgumentError(f"The name {new!r} is taken already.", hint="Choose another one.")
    if names:
        compose.add_prefix_graph(
            model.graph,
            "",  # the names alone, those inside of other nodes included
            rename_edges=False,
            rename_inputs=False,
            rename_outputs=False,
            rename_initializers=False,
            rename_value_infos=False,
            inplace=True,
            name_map=dict(names),
        )
    for note in model.graph.quantization_annotation:
        note.tensor_name = names.get(note.tensor_name, note.tensor_name)

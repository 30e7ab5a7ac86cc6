"""Names of two models that are joined: a prefix for those of the second, and one name for what is one size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    compose,
    inliner,
)

from ..core.onnx_file.nodes import messages, require_bounded
from ..errors import NotSupportedError


def names_in(model: ModelProto) -> set[str]:
    """Every name in a model's graphs: values, weights and nodes, those inside of other nodes included."""
    return set(filter(None, _names(model.graph)))


def _names(graph: GraphProto) -> Iterator[str]:
    for part in messages(graph):
        if isinstance(part, NodeProto):
            yield part.name
            yield from part.output
        elif isinstance(part, (TensorProto, ValueInfoProto)):
            yield part.name


def free_prefix(first: ModelProto, second: ModelProto, linked: set[str]) -> str:
    """A prefix that keeps the names of a second model from those of a first one; "" where they differ anyway.

    Args:
        first: whose names are kept.
        second: whose names may get a prefix.
        linked: inputs of the second model that will be gone.
    """
    used_names, names = names_in(first), names_in(second) - linked
    number, prefix = 0, ""
    while any(prefix + name in used_names for name in names):
        number += 1
        prefix = f"joined{number}."
    return prefix


def add_prefix(model: ModelProto, prefix: str) -> None:
    """Puts a prefix before every name in a model's graph."""
    # The weights come first: without them, `onnx` leaves what inner graphs call them as it was.
    weights = [weight.name for weight in model.graph.initializer]
    weights += [part.name for sparse in model.graph.sparse_initializer for part in (sparse.values, sparse.indices)]
    compose.add_prefix_graph(model.graph, prefix, inplace=True, name_map={name: prefix + name for name in weights})


def rename_free_sizes(first: ModelProto, second: ModelProto, links: Mapping[str, str]) -> None:
    """Renames the free sizes of a second model: those that a link makes one with the first's get its names.

    Others that have the name of a free size of the first model are another size, and get another name.

    Args:
        first: whose names are kept.
        second: is changed.
        links: inputs of the second model, and outputs of the first.
    """
    outputs = {info.name: info for info in first.graph.output}
    first_names = {size.dim_param for size in sizes_in(first.graph) if size.dim_param}
    second_names = {size.dim_param for size in sizes_in(second.graph) if size.dim_param}
    renamed = {name: _unused_size_name(name, first_names | second_names) for name in second_names & first_names}
    for info in second.graph.input:
        if info.name in links:
            pairs = zip(sizes_in(outputs[links[info.name]]), sizes_in(info), strict=False)
            renamed |= {
                size.dim_param: source.dim_param for source, size in pairs if size.dim_param and source.dim_param
            }
    for size in sizes_in(second.graph):
        if size.dim_param in renamed:
            size.dim_param = renamed[size.dim_param]


def _unused_size_name(name: str, used_names: set[str]) -> str:
    number = 1
    while f"joined{number}.{name}" in used_names:
        number += 1
    return f"joined{number}.{name}"


def sizes_in(part: GraphProto | ValueInfoProto) -> list[TensorShapeProto.Dimension]:
    """The sizes in all types of a graph, or of one input or output."""
    return [size for size in messages(part) if isinstance(size, TensorShapeProto.Dimension)]


def share_functions(first: ModelProto, second: ModelProto) -> ModelProto:
    """A second model without functions that a first one has, too: equal ones are shared, others are written out.

    Raises:
        NotSupportedError: `onnx` cannot write them out, or they would become too many nodes.
    """
    first_functions = {_key(function): function for function in first.functions}
    same = [function for function in second.functions if first_functions.get(_key(function)) == function]
    if len(same) < sum(_key(function) in first_functions for function in second.functions):
        require_bounded(second.SerializeToString())
        try:
            return inliner.inline_local_functions(second, convert_version=False)
        except Exception as error:  # the inliner raises errors of many classes, RuntimeError among them
            raise NotSupportedError(
                f"Both models have a function of one name, and the second's cannot be written out: {error}",
                hint="Inline the functions of one of them with onnx.inliner.",
            ) from error
    for function in same:
        second.functions.remove(function)
    return second


def _key(function: FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, getattr(function, "overload", "")

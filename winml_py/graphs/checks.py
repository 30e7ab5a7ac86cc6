"""Whether a graph that was built holds together: names, order, types and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import GraphProto, ModelProto, NodeProto, helper

from ..core.base.suggestions import did_you_mean
from ..errors import InvalidArgumentError

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
                raise _unknown(f"The {_words(node)} reads {name!r}", makers, name)
    for info in graph.output:
        if info.name not in makers:
            raise _unknown(f"The output {info.name!r} of the model is read", makers, info.name)
    waits_for = {
        index: [maker for name in node.input if (maker := makers.get(name)) is not None]
        for index, node in enumerate(nodes)
    }
    try:
        return [nodes[index] for index in TopologicalSorter(waits_for).static_order()]
    except CycleError as error:
        circle = ", ".join("the " + _words(nodes[index]) for index in error.args[1])
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
                    f"The {_words(node)} makes {name!r}, and that name is taken already.",
                    hint="Give each output its own.",
                )
            makers[name] = index
    return makers


def _unknown(what: str, makers: Iterable[str], name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what}, and no input, constant or operator gives it.", hint=did_you_mean(name, makers)
    )


def _words(node: NodeProto) -> str:
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


def _copy(message: Message, field: str, value: Any) -> None:
    message.MergeFrom(type(message)(**{field: value}))


def _plain(text: str) -> str:
    """What ONNX says, without its own error classes and line breaks."""
    text = re.sub(r"\[\w+Error\]|Inference error\(s\):|==> Context:", " ", text)
    text = re.sub(r"\(op_type:(\w+), node name: ([^)]*)\)", r"\2 (\1)", text)
    return re.sub(r"\s+", " ", text).strip().rstrip(".")

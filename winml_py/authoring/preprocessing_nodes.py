"""From a picture's bytes to a model's tensor: nodes in front of a model, equivalent to `imaging/tensorize.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._graphs.model_file import list_names
from ..core.base.arrays import ScalarType
from ..core.imaging.contract import BitmapBounds, ImageContract, Placement, place
from ..core.imaging.contract_nodes import write_tensor
from ..core.imaging.pixels import find_layout
from ..core.onnx_file.expressions import Expression, GraphWriter
from ..core.onnx_file.nodes import walk_messages
from ..enums import BitmapPixelFormat
from ..errors import NotSupportedError
from .scaling_nodes import move_channels_first, scale_to_planes, to_bytes

if TYPE_CHECKING:
    import onnx

Shape = list[str | int | None]
"""The sizes of a value in a model; a text names a free one."""


class Preprocessing(NamedTuple):
    """How pictures of a format become a tensor of a type.

    Attributes:
        contract: the contract.
        source: the format of the pictures.
        sides: height and width of the tensor; None if it is free.
        dtype: the tensor's type.
        is_batch: whether the pictures have an axis before height, width and channels.
    """

    contract: ImageContract
    source: BitmapPixelFormat
    sides: tuple[int | None, int | None]
    dtype: ScalarType
    is_batch: bool = False

    def write(self, graph: GraphWriter, picture: str, tensor: str) -> Placement | None:
        """Writes the nodes between two values. Returns the picture's placement, or None for a batch."""
        pictures = Expression(graph, picture, np.uint8)
        if self.is_batch:
            tensors = graph.loop(pictures.size(0), lambda index: [self._write_tensor(pictures.take(index, 0))[0]])
            graph.node("Identity", *tensors, dtype=self.dtype, output=tensor)
            return None
        numbers, placement = self._write_tensor(pictures)
        graph.node("Unsqueeze", numbers, graph.vector(0), dtype=self.dtype, output=tensor)
        return placement

    def _write_tensor(self, pixels: Expression) -> tuple[Expression, Placement]:
        """The tensor of one picture, of rank 3, and where the picture goes in it."""
        size: Any = (pixels.size(0), pixels.size(1))  # the rules use these as numbers
        placement = place(BitmapBounds(0, 0, size[1], size[0]), size, self.sides, self.contract.scaling)
        scale = move_channels_first if placement.is_identity else partial(_scale, placement, self.contract)
        pad = partial(_pad, placement) if placement.has_padding else None
        numbers = write_tensor(pixels, self.contract, self.source, scale, pad)
        return to_bytes(numbers) if self.dtype is np.uint8 else numbers.cast(self.dtype), placement


def _scale(placement: Placement, contract: ImageContract, pixels: Expression) -> Expression:
    x, y, width, height = placement.cut
    return scale_to_planes(pixels, placement, contract).slice((y, x), (height, width), (1, 2))


def _pad(placement: Placement, planes: Expression, colour: Expression) -> Expression:
    """Adds the padding around the planes."""
    x, y, width, height = placement.target
    tensor_height, tensor_width = placement.tensor
    pads = planes.graph.vector(0, y, x, 0, tensor_height - height - y, tensor_width - width - x)
    # Pad has one number for all planes, so the levels are subtracted before it and added after it.
    planes = planes.cast(np.float32)
    return planes.graph.node("Pad", planes - colour, pads, dtype=np.float32) + colour


class WrittenInput(NamedTuple):
    """What writes nodes after a model's own, and a picture's `Placement` as values of its graph; None for a batch."""

    graph: GraphWriter
    placement: Any


def put_before(model: onnx.ModelProto, name: str, steps: Preprocessing) -> WrittenInput:
    """Turns an input into a picture: writes its preprocessing in front of the model's nodes."""
    from onnx import NodeProto

    if any(output.name == name for output in model.graph.output):
        raise NotSupportedError(
            f"The input {name} is also an output of the model, so it cannot become a picture.",
            hint="Insert an Identity node between the input and the output.",
        )
    prefix, names = f"{name}/picture", list_names(model)
    while any(used.startswith(prefix) for used in names):
        prefix += "_"
    graph = GraphWriter(prefix)
    tensor = graph.make_name("tensor")
    for part in walk_messages(model.graph):  # including subgraphs
        if isinstance(part, NodeProto):
            part.input[:] = [tensor if read == name else read for read in part.input]
    placement = steps.write(graph, name, tensor)
    nodes = list(model.graph.node)
    model.graph.ClearField("node")
    model.graph.node.extend([*graph.nodes, *nodes])
    graph.nodes.clear()
    _declare_picture(model, name, tensor, steps)
    return WrittenInput(graph, placement)


def _declare_picture(model: onnx.ModelProto, name: str, tensor: str, steps: Preprocessing) -> None:
    """Gives an input the type of a picture, and the value inside the model the input's old type."""
    from onnx import TensorProto, helper

    value = next(value for value in model.graph.input if value.name == name)
    model.graph.value_info.append(value)
    inner = model.graph.value_info[-1]
    inner.name, inner.type.denotation = tensor, ""
    size = value.type.tensor_type.shape.dim[0]
    batch: Shape = [size.dim_value or size.dim_param or None] if steps.is_batch else []
    shape: Shape = [*batch, f"{name}_height", f"{name}_width", find_layout(steps.source).channels]
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.UINT8, shape))
    pictures = "Pictures of one size: pictures x" if batch else "One picture of any size:"
    value.doc_string = f"{pictures} height x width x channels, {steps.source.name}."

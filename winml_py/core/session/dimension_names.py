"""The names of a model's dimensions that options override."""

from __future__ import annotations

from ...errors import InvalidArgumentError
from ..base.suggestions import did_you_mean
from ..onnx_file.header import Header, TensorType
from .options import LearningModelSessionOptions


def require_known(options: LearningModelSessionOptions, header: Header) -> None:
    """Refuses options that override a dimension which no input has.

    Raises:
        InvalidArgumentError: they do.
    """
    types = [info.type for info in header.inputs]
    shapes = [kind.dimensions or () for kind in types if isinstance(kind, TensorType)]
    known = dict.fromkeys(dimension.name for shape in shapes for dimension in shape if dimension.name)
    for name in options.named_dimension_overrides:
        if name not in known:
            raise InvalidArgumentError(
                f"The options override the dimension {name!r}, and no input of the model has it.",
                hint=did_you_mean(name, known),
            )

"""ONNX Runtime's optimizer of transformers, and what its float16 converter knows of operators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

# The converter to float16 knows the operators without float16 kernels, inputs that are float32 in any model, and how to
# round so that the smallest numbers are kept: taken from there, all of it stays true.
from onnxruntime.transformers import float16 as float16_converter

from ....errors import InvalidArgumentError, MissingPackageError, NotSupportedError

__all__ = ["float16_converter", "fuse_layers"]

if TYPE_CHECKING:
    import onnx


def fuse_layers(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """A model with the layers of its kind fused.

    Raises:
        InvalidArgumentError: there is no optimizer for this kind.
        MissingPackageError: if the optimizer lacks a package.
        NotSupportedError: if the optimizer fails.
    """
    from onnxruntime.transformers import optimizer

    kinds = sorted(optimizer.MODEL_TYPES)
    if kind not in kinds:
        raise InvalidArgumentError(f"There is no optimizer for {kind!r}.", hint=f"There is one for {', '.join(kinds)}.")
    logger = logging.getLogger("onnxruntime.transformers")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        fused: onnx.ModelProto = optimizer.optimize_model(model, kind, opt_level=0).model
    except ImportError as error:
        raise MissingPackageError(
            f"ONNX Runtime's optimizer of {kind} lacks a package: {error}.",
            hint="Install it: pip install 'winml-py[tools]'.",
        ) from None
    except Exception as error:  # it was written for the models it knows, and trips over others in every way
        raise NotSupportedError(
            f"ONNX Runtime's optimizer of {kind} failed: {error}.",
            hint="Leave the transformer out.",
        ) from error
    finally:
        logger.setLevel(before)
    return fused

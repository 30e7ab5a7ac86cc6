"""ONNX Runtime's optimizer for transformers, and its float16 converter's knowledge of operators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

# The converter to float16 knows the operators without float16 kernels, inputs that are always float32, and how to round
# so that the smallest numbers are kept: imported from there, all of this stays up to date.
from onnxruntime.transformers import float16 as float16_converter

from ....errors import InvalidArgumentError, MissingPackageError, NotSupportedError

__all__ = ["float16_converter", "fuse_layers"]

if TYPE_CHECKING:
    import onnx


def fuse_layers(model: onnx.ModelProto, kind: str) -> onnx.ModelProto:
    """A model with the layers of its kind fused.

    Raises:
        InvalidArgumentError: there is no optimizer for this kind.
        MissingPackageError: the optimizer needs a package that is not installed.
        NotSupportedError: the optimizer failed.
    """
    from onnxruntime.transformers import optimizer

    kinds = sorted(optimizer.MODEL_TYPES)
    if kind not in kinds:
        raise InvalidArgumentError(f"There is no optimizer for {kind!r}.", hint=f"Known: {', '.join(kinds)}.")
    logger = logging.getLogger("onnxruntime.transformers")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        fused: onnx.ModelProto = optimizer.optimize_model(model, kind, opt_level=0).model
    except ImportError as error:
        raise MissingPackageError(
            f"ONNX Runtime's optimizer for {kind} needs a package that is not installed: {error}.",
            hint="Install it: pip install 'winml-py[tools]'.",
        ) from None
    except Exception as error:  # for other models than those it was written for, it fails in many ways
        raise NotSupportedError(
            f"ONNX Runtime's optimizer for {kind} failed: {error}.",
            hint="Leave the transformer out.",
        ) from error
    finally:
        logger.setLevel(before)
    return fused

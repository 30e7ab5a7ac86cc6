"""ONNX Runtime's optimizer of transformers, and what its float16 converter knows of operators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

# What ONNX Runtime's own float16 converter knows of operators, taken from there so that it stays true: inputs that are
# float32 in any model, by operator; operators without float16 kernels; the rounding that keeps the smallest numbers.
from onnxruntime.transformers.float16 import ALWAYS_FLOAT_INPUTS as ALWAYS_FLOAT_INPUTS
from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST as DEFAULT_OP_BLOCK_LIST
from onnxruntime.transformers.float16 import convert_np_to_float16 as convert_np_to_float16

from ....errors import InvalidArgumentError, MissingPackageError, NotSupportedError

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

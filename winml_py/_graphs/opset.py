"""Converting a model to another version of ONNX's operator set."""

from __future__ import annotations

import onnx
from onnx import shape_inference, version_converter


def convert_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A copy of a model converted to a version of ONNX's operator set, by onnx's converter.

    The converter loses denotations, functions and metadata, and makes inferred types invalid. So only its nodes and
    weights are taken, and the rest is the model's.

    Raises:
        ValueError: the converter cannot convert the model, or its result is invalid; in the converter's words.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    # Before version 4 of the format all weights are also inputs. Runtimes accept models where they are not; the
    # converter does not.
    result.ir_version = max(result.ir_version, 4)
    try:
        converted = version_converter.convert_version(result, version)
        onnx.checker.check_model(converted)
        shape_inference.infer_shapes(converted, strict_mode=True)
    except Exception as error:  # of many classes, including RuntimeError and IndexError
        raise ValueError((str(error).strip().splitlines() or ["no reason given"])[0]) from error
    for field in ("node", "initializer"):
        result.graph.ClearField(field)
        getattr(result.graph, field).extend(getattr(converted.graph, field))
    result.graph.ClearField("value_info")
    del result.opset_import[:]
    result.opset_import.extend(converted.opset_import)
    return result

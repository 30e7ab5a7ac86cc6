"""Model files that are changed and copied: reading them, converting their operator set, comparing results."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ..core.base.agreement import compare_outputs
from ..core.contracts.published.folder import find_model
from ..core.onnx_file.nodes import messages
from ..errors import ConversionError, InvalidArgumentError

if TYPE_CHECKING:
    import onnx

MAX_PROTOBUF_BYTES = 1_900_000_000
"""From this many bytes on, weights go to a file beside the model: protobuf's own limit is 2 GiB."""


def read_for_copy(source: str | os.PathLike[str], destination: str | os.PathLike[str]) -> onnx.ModelProto:
    """Reads a model without its external weights, for a copy in the same folder that refers to the same files."""
    import onnx

    source = find_model(source)
    model = onnx.load(source, load_external_data=False)
    folders = {os.path.dirname(os.path.abspath(path)) for path in (source, destination)}
    if len(folders) > 1 and has_external_weights(model):
        raise InvalidArgumentError(
            f"The weights of {os.fspath(source)} are in files beside it, but the copy would be in another folder.",
            hint="Write the copy into the same folder.",
        )
    return model


def replace_metadata(model: onnx.ModelProto, removed: Collection[str], added: Mapping[str, str]) -> None:
    """Removes some of a model's metadata, and adds others."""
    from onnx import helper

    left = {entry.key: entry.value for entry in model.metadata_props if entry.key not in removed}
    helper.set_model_props(model, left | dict(added))


def has_external_weights(model: onnx.ModelProto) -> bool:
    """Whether a weight of any graph is in another file."""
    from onnx import TensorProto

    tensors = (part for part in messages(model) if isinstance(part, TensorProto))
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors)


def names_in(model: onnx.ModelProto) -> set[str]:
    """Every name of a value, weight or node in a model's graphs, including subgraphs."""
    from onnx import NodeProto, TensorProto, ValueInfoProto

    names = set()
    for part in messages(model.graph):
        if isinstance(part, NodeProto):
            names |= {part.name, *part.output}
        elif isinstance(part, (TensorProto, ValueInfoProto)):
            names.add(part.name)
    return names - {""}


def sizes_in(model: onnx.ModelProto) -> list[onnx.TensorShapeProto.Dimension]:
    """The sizes in all types of a model's graph."""
    from onnx import TensorShapeProto

    return [size for size in messages(model.graph) if isinstance(size, TensorShapeProto.Dimension)]


def convert_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A copy of a model converted to a version of ONNX's operator set, by onnx's converter.

    The converter loses denotations, functions and metadata, and makes inferred types invalid. So only its nodes and
    weights are taken, and the rest is the model's.

    Raises:
        ValueError: the converter cannot convert the model, or its result is invalid; in the converter's words.
    """
    import onnx
    from onnx import shape_inference, version_converter

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


def require_same_results(
    expected: Mapping[str, object], actual: Mapping[str, object], tolerance: float, what: str, hint: str
) -> float:
    """Refuses a model whose results differ from those of its original models. Returns the largest difference.

    Args:
        expected: the originals' results.
        actual: the model's results, by the same names.
        tolerance: the largest difference in an output, over its largest magnitude.
        what: the models, as subject and object: "The joined model does not give what the two models give".
        hint: what the user can try.

    Raises:
        ConversionError: they differ by more than the tolerance.
    """
    agreement = compare_outputs(expected, actual, tolerance)
    if not agreement.is_good:
        raise ConversionError(f"{what}: {agreement}; nothing was written.", hint=hint)
    return agreement.error

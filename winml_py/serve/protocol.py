"""KServe's Open Inference Protocol, version 2, over HTTP: requests and answers in JSON, tensors also as bytes.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol; `binary_tensor_data` is Triton's
extension: the bytes of tensors follow the JSON, whose length a header states.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from starlette.responses import Response

from .._http import read_length
from .._values import make_output_tensors
from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array, DType
from ..core.base.cancellation import Stop
from ..core.base.collections import Vector
from ..core.base.messages import Facts, as_json, type_name
from ..core.base.winrt_object import private_state
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue, PreprocessPlan
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.session.result import LearningModelEvaluationResult
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import InvalidArgumentError
from .models import Evaluate, ServedModel

HEADER = "Inference-Header-Content-Length"
"""The length of the JSON, where bytes of tensors follow it."""

MAX_JSON_BYTES = 4 << 20
"""The most bytes of JSON in a request. Python reads them in one go, and all other threads wait until it has."""

_MAX_JSON_PARTS = 100_000
"""The most lists, objects and keys in it, which take many times the memory and the time of numbers."""

_MAX_TEXTS = 1 << 17
"""The most elements of a BYTES tensor: each is an object."""

_PART = 1 << 16
"""Numbers that become JSON in one go."""

_reading = threading.Lock()
"""JSON becomes objects of many times its size, so one request at a time is read."""

_DTYPES: dict[str, DType] = {
    "BOOL": np.dtype(np.bool_),
    **{f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits}") for sign in ("INT", "UINT") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "BYTES": np.dtype(object),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ELEMENTS: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}, "O": {str}}
"""The types of JSON's elements, for each kind of dtype; floats may also be "NaN", "Infinity" or "-Infinity"."""


def _require(is_right: bool, message: str) -> None:
    if not is_right:
        raise InvalidArgumentError(message)


def infer(served: ServedModel, header: str | None, most: int, stop: Stop, body: bytes, evaluate: Evaluate) -> Response:
    """The answer to a request; no output is rounded to a picture.

    Args:
        served: the model.
        header: the value of `HEADER`.
        most: the most pixels of a picture, and of all pictures of an input as the model takes them.
        stop: ends the work between two pictures.
        body: the request.
        evaluate: evaluates it.

    Raises:
        WinMLError: it is no request, a picture cannot be decoded, a value cannot be bound, or the model fails.
    """
    with _reading:
        facts, arrays = read_request(body, header)
    features = {feature.name: feature for feature in served.model.input_features}
    values = dict[str, Any]()
    for name, array in arrays.items():
        _require(name in features, f"There is no input {name!r}; inputs: {', '.join(features)}.")
        values[name] = _convert_input(served.model, features[name], array, most, stop)
    missing = ", ".join(sorted(features.keys() - values.keys()))
    _require(not missing, f"Expected each of the inputs {', '.join(features)}; the request has no {missing}.")
    return _make_response(served, facts, evaluate(make_output_tensors(served.model) | values))


def read_request(body: bytes, header: str | None) -> tuple[Facts, dict[str, Array]]:
    """A request's JSON, and an array for each of its tensors; that of BYTES has objects of bytes.

    Raises:
        InvalidArgumentError: it is no request of this protocol.
    """
    length = len(body) if header is None else read_length(header)
    _require(0 <= length <= len(body), f"{HEADER}: Expected at most {len(body)}, got {header!r}.")
    limit = f"at most {MAX_JSON_BYTES:,} bytes of JSON, got {length:,}. Send pictures as files, or tensors as bytes"
    _require(length <= MAX_JSON_BYTES, f"Expected {limit} (binary_data_size).")
    parts = sum(body.count(mark, 0, length) for mark in (b"[", b"{", b":"))
    _require(parts <= _MAX_JSON_PARTS, f"Expected at most {_MAX_JSON_PARTS:,} lists, objects and keys, got {parts:,}.")
    try:
        facts = json.loads(body[:length])
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"The request is not JSON: {error}.") from None
    arrays: dict[str, Array] = {}
    rest = memoryview(body)[length:]
    for tensor in _read_objects(facts, "inputs"):
        name = tensor["name"]
        datatype = str(tensor.get("datatype"))
        shape = tensor.get("shape")
        size = _read_parameter(tensor, "binary_data_size")
        is_shape = isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)
        _require(name not in arrays, f"{name}: Expected each input once.")
        _require(is_shape, f"{name}: Expected the shape as a list of sizes, got {shape!r}.")
        _require(datatype in _DTYPES, f"{name}: There is no datatype {datatype}.")
        try:
            if size is None:
                array = _decode_json(datatype, tensor.get("data"))
            else:
                _require(type(size) is int and 0 <= size <= len(rest), f"{name}: {size!r} bytes of {len(rest)}.")
                array = _decode_bytes(datatype, rest[:size])
                rest = rest[size:]
            arrays[name] = array.reshape(shape)
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidArgumentError(f"{name}: The data is not {datatype} of shape {shape}: {error}.") from None
    _require(not rest, f"{len(rest)} bytes follow the last tensor.")
    return facts, arrays


def _make_response(served: ServedModel, request: Facts, result: LearningModelEvaluationResult) -> Response:
    tensors: dict[str, Array] = {}
    for name, value in result.outputs.items():
        keys = served.map_keys.get(name)
        rows = None if keys is None else [[row[key] for key in keys] for row in value]
        tensors[name] = as_numpy(value) if rows is None else np.array(rows, np.float32).reshape(-1, len(keys or ()))
    is_binary = _read_parameter(request, "binary_data_output") is True
    requested = {
        output["name"]: _read_parameter(output, "binary_data", is_binary)
        for output in _read_objects(request, "outputs")
    }
    outputs: list[str] = []
    tail: list[bytes] = []
    for name, as_bytes in (requested or dict.fromkeys(tensors, is_binary)).items():
        _require(name in tensors, f"There is no output {name!r}; outputs: {', '.join(tensors)}.")
        array = tensors[name]
        output: Facts = {"name": name, "datatype": _NAMES.get(array.dtype, "BYTES"), "shape": list(array.shape)}
        if as_bytes:
            tail.append(_encode_bytes(array))
            output["parameters"] = {"binary_data_size": len(tail[-1])}
            outputs.append(json.dumps(output))
        else:
            outputs.append(f'{json.dumps(output)[:-1]}, "data": [{_encode_json(array.ravel())}]}}')
    answer = {"model_name": served.name, "model_version": "1"}
    answer |= {"id": str(request["id"])} if "id" in request else {}
    head = f'{json.dumps(answer)[:-1]}, "outputs": [{", ".join(outputs)}]}}'.encode()
    headers = {HEADER: str(len(head))} if tail else {}
    return Response(b"".join([head, *tail]), 200, headers, f"application/{'octet-stream' if tail else 'json'}")


def _read_objects(facts: object, key: str) -> list[dict[str, Any]]:
    objects = facts.get(key, []) if isinstance(facts, dict) else None
    have_names = isinstance(objects, list) and all(
        isinstance(item, dict) and type(item.get("name")) is str for item in objects
    )
    _require(have_names, f'Expected a JSON object with "{key}", a list of objects, each with a name.')
    return objects or []


def _read_parameter(facts: Mapping[str, Any], key: str, default: Any = None) -> Any:
    parameters = facts.get("parameters")
    return parameters.get(key, default) if isinstance(parameters, dict) else default


def _decode_json(datatype: str, data: object) -> Array:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {type_name(data)}")
    dtype = _DTYPES[datatype]
    elements = np.array(data, object).ravel()
    if dtype.kind == "f":
        finite = [element for element in elements if element not in ("NaN", "Infinity", "-Infinity")]
    else:
        finite = list(elements)
    if not set(map(type, finite)) <= _ELEMENTS[dtype.kind]:
        raise ValueError(f"not all elements are {datatype}")
    if datatype == "BYTES":
        return np.array([element.encode() for element in elements], object)
    with np.errstate(over="ignore"):
        array = elements.astype(dtype)
    if np.isfinite(array).sum() < len(finite):
        raise ValueError(f"a number is not finite in {datatype}")
    return array


def _decode_bytes(datatype: str, data: memoryview) -> Array:
    if datatype != "BYTES":
        return np.require(np.frombuffer(data, _DTYPES[datatype].newbyteorder("<")), _DTYPES[datatype], "A")
    elements: list[bytes] = []
    while data:  # four bytes for the length of each, then its bytes
        end = 4 + int.from_bytes(data[:4], "little")
        if end > len(data) or len(elements) == _MAX_TEXTS:
            raise ValueError(f"{len(data)} bytes follow {len(elements):,} elements, of at most {_MAX_TEXTS:,}")
        elements.append(bytes(data[4:end]))
        data = data[end:]
    return np.array(elements, object)


def _encode_json(array: Array) -> str:
    """The numbers or texts of a flat array, without brackets. JSON has no numbers that are not finite."""
    is_finite = array.dtype.kind != "f" or np.isfinite(array).all()
    parts = (array[start : start + _PART] for start in range(0, array.size, _PART))
    return ", ".join(json.dumps(part.tolist() if is_finite else as_json(part))[1:-1] for part in parts)


def _encode_bytes(array: Array) -> bytes:
    if array.dtype.kind in "biuf":
        return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    elements = [str(element).encode() for element in array.ravel()]
    return b"".join(len(element).to_bytes(4, "little") + element for element in elements)


def _convert_input(model: LearningModel, feature: FeatureDescriptor, array: Array, most: int, stop: Stop) -> Any:
    """A picture, or a tensor of several, if the input has four dimensions of numbers, and it is BYTES, or height x
    width x 3 of UINT8.
    """
    assert isinstance(feature, ShapedDescriptor)  # `ServedModel` refuses others
    takes_pictures = len(feature.shape) == 4 and feature.tensor_kind is not TensorKind.STRING
    if takes_pictures and array.dtype == object:
        return _read_pictures(model, feature, array.ravel().tolist(), most, stop)
    if takes_pictures and array.dtype == np.uint8 and array.ndim == 3:
        _require(array.shape[2] == 3, f"{feature.name}: Expected pixels of height x width x 3, got {array.shape}.")
        return ImageFeatureValue.from_array(array, BitmapPixelFormat.RGB8)
    if array.dtype == object:
        return np.array([data.decode() for data in array.flat], object).reshape(array.shape)
    return array


def _read_pictures(model: LearningModel, feature: ShapedDescriptor, files: list[bytes], most: int, stop: Stop) -> Any:
    """One picture; of several, the tensor: one after the other is decoded, and only its numbers are kept."""
    _require(len(files) > 0, f"{feature.name}: Expected at least one picture, got none.")
    picture = ImageFeatureValue.load(files[0], max_pixels=most)
    if len(files) == 1:
        return picture
    PreprocessPlan(picture.sizes * len(files), feature)  # refuses a wrong batch
    single = replace(feature, shape=Vector((1, *feature.shape[1:])))
    plan = PreprocessPlan(picture.sizes, single)
    pixels = len(files) * math.prod(plan.shape) // plan.contract.channels
    limit = f"at most {most:,} pixels in all pictures together, at the size that the model takes"
    _require(pixels <= most, f"{feature.name}: Expected {limit}, got {pixels:,}. Send fewer pictures.")
    tensor = np.zeros((len(files), *plan.shape[1:]), TENSOR_CLASSES[feature.tensor_kind].dtype)
    for row, file in enumerate(files):
        stop.require_not_requested()
        picture = ImageFeatureValue.load(file, max_pixels=most) if row else picture
        plan = PreprocessPlan(picture.sizes, single)
        private_state(model).missing_contracts.warn(plan)
        shapes = f"{plan.shape} after {tensor.shape}. Send them one at a time"
        _require(
            plan.shape[1:] == tensor.shape[1:],
            f"{feature.name}: The pictures produce tensors of different shapes, {shapes}.",
        )
        tensor[row] = plan.make_tensor(picture)[0]
    return tensor


# Metadata.


def describe_model(served: ServedModel) -> Facts:
    """What a model takes and gives. The `parameters` of an input that takes pictures say how, and those of an output
    that the model gives as maps of classes to scores say which column is which class.
    """
    return {
        "name": served.name,
        "versions": ["1"],
        "platform": "onnx",
        "inputs": [_describe_tensor(feature) for feature in served.model.input_features],
        "outputs": [_describe_output(served, feature) for feature in served.model.output_features],
    }


def _describe_output(served: ServedModel, feature: FeatureDescriptor) -> Facts:
    keys = served.map_keys.get(feature.name)
    if keys is None:
        return _describe_tensor(feature)
    return {"name": feature.name, "datatype": "FP32", "shape": [-1, len(keys)], "parameters": {"classes": keys}}


def _describe_tensor(feature: FeatureDescriptor) -> Facts:
    assert isinstance(feature, ShapedDescriptor)  # `ServedModel` refuses others
    kind = _NAMES[TENSOR_CLASSES[feature.tensor_kind].dtype]
    facts: Facts = {"name": feature.name, "datatype": kind, "shape": list(feature.shape)}
    if isinstance(feature, ImageFeatureDescriptor):
        accepts = "BYTES of shape [1]: a JPEG, PNG or WebP file; UINT8 of shape [height, width, 3]: RGB pixels"
        facts["parameters"] = {"picture": feature.contract.describe(), "accepts": f"{accepts}; the tensor itself"}
    return facts

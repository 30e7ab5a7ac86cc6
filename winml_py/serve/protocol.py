"""KServe's Open Inference Protocol, version 2, over HTTP: requests and answers in JSON, tensors also as bytes.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol; `binary_tensor_data` is Triton's
extension: the bytes of tensors follow the JSON, whose length a header states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.responses import Response

from .._http import read_length
from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array, DType
from ..core.base.messages import Facts, as_json, type_name
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import InvalidArgumentError
from .models import Evaluate, ServedModel

HEADER = "Inference-Header-Content-Length"
"""The length of the JSON, where bytes of tensors follow it."""

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


def infer(served: ServedModel, header: str | None, max_pixels: int, body: bytes, evaluate: Evaluate) -> Response:
    """The answer to a request; no output is rounded to a picture. `header` is the value of `HEADER`.

    Raises:
        WinMLError: it is no request, a picture cannot be decoded, a value cannot be bound, or the model fails.
    """
    facts, inputs = read_request(body, header)
    features, values = {one.name: one for one in served.model.input_features}, dict[str, Any]()
    for name, given in inputs.items():
        _require(name in features, f"There is no input {name!r}; inputs: {', '.join(features)}.")
        values[name] = _convert_input(features[name], given, max_pixels)
    missing = ", ".join(sorted(features.keys() - inputs.keys()))
    _require(not missing, f"Expected each of the inputs {', '.join(features)}; the request has no {missing}.")
    for feature in served.model.output_features:
        if isinstance(feature, ImageFeatureDescriptor):
            values[feature.name] = TENSOR_CLASSES[feature.tensor_kind].create()
    return _make_response(served.name, facts, evaluate(values))


def read_request(body: bytes, header: str | None) -> tuple[Facts, dict[str, Array]]:
    """A request's JSON, and an array for each of its tensors; that of BYTES has objects of bytes.

    Raises:
        InvalidArgumentError: it is no request of this protocol.
    """
    length = len(body) if header is None else read_length(header)
    _require(0 <= length <= len(body), f"{HEADER}: Expected at most {len(body)}, got {header!r}.")
    try:
        facts = json.loads(body[:length])
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"The request is not JSON: {error}.") from None
    inputs: dict[str, Array] = {}
    rest = memoryview(body)[length:]
    for one in _read_objects(facts, "inputs"):
        name, kind, shape = one["name"], str(one.get("datatype")), one.get("shape")
        size = _read_parameter(one, "binary_data_size")
        is_shape = isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)
        _require(name not in inputs, f"{name}: Expected each input once.")
        _require(is_shape, f"{name}: Expected the shape as a list of sizes, got {shape!r}.")
        _require(kind in _DTYPES, f"{name}: There is no datatype {kind}.")
        try:
            if size is None:
                inputs[name] = _decode_json(kind, one.get("data")).reshape(shape)
            else:
                _require(type(size) is int and 0 <= size <= len(rest), f"{name}: {size!r} bytes of {len(rest)}.")
                inputs[name], rest = _decode_bytes(kind, rest[:size]).reshape(shape), rest[size:]
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidArgumentError(f"{name}: The data are not {kind} of shape {shape}: {error}.") from None
    _require(not rest, f"{len(rest)} bytes follow the last tensor.")
    return facts, inputs


def _make_response(model: str, facts: Facts, result: LearningModelEvaluationResult) -> Response:
    arrays = {name: as_numpy(value) for name, value in result.outputs.items()}
    tensors = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    is_binary = _read_parameter(facts, "binary_data_output") is True
    wanted = {one["name"]: _read_parameter(one, "binary_data", is_binary) for one in _read_objects(facts, "outputs")}
    outputs: list[Facts] = []
    tail = b""
    for name, as_bytes in (wanted or dict.fromkeys(tensors, is_binary)).items():
        _require(name in tensors, f"There is no output {name!r}; outputs that are tensors: {', '.join(tensors)}.")
        array = tensors[name]
        one: Facts = {"name": name, "datatype": _NAMES.get(array.dtype, "BYTES"), "shape": list(array.shape)}
        if as_bytes:
            data = _encode_bytes(array)
            one["parameters"], tail = {"binary_data_size": len(data)}, tail + data
        else:
            is_finite = array.dtype.kind != "f" or np.isfinite(array).all()  # JSON has no other numbers
            one["data"] = array.ravel().tolist() if is_finite else as_json(array.ravel())
        outputs.append(one)
    answer = {"model_name": model, "model_version": "1", "outputs": outputs}
    answer |= {"id": str(facts["id"])} if "id" in facts else {}
    head = json.dumps(answer, allow_nan=False).encode()
    headers = {HEADER: str(len(head))} if tail else {}
    return Response(head + tail, 200, headers, f"application/{'octet-stream' if tail else 'json'}")


def _read_objects(facts: object, key: str) -> list[dict[str, Any]]:
    found = facts.get(key, []) if isinstance(facts, dict) else None
    is_list = isinstance(found, list) and all(isinstance(one, dict) and type(one.get("name")) is str for one in found)
    _require(is_list, f'Expected a JSON object with "{key}", a list of objects, each with a name.')
    return found or []


def _read_parameter(facts: Mapping[str, Any], key: str, otherwise: Any = None) -> Any:
    found = facts.get("parameters")
    return found.get(key, otherwise) if isinstance(found, dict) else otherwise


def _decode_json(kind: str, data: object) -> Array:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {type_name(data)}")
    elements, dtype = np.array(data, object).ravel(), _DTYPES[kind]
    plain = [one for one in elements if dtype.kind != "f" or one not in ("NaN", "Infinity", "-Infinity")]
    if not set(map(type, plain)) <= _ELEMENTS[dtype.kind]:
        raise ValueError(f"not all elements are {kind}")
    if kind == "BYTES":
        return np.array([one.encode() for one in elements], object)
    with np.errstate(over="ignore"):
        array = elements.astype(dtype)
    if np.isfinite(array).sum() < len(plain):
        raise ValueError(f"a number is not finite in {kind}")
    return array


def _decode_bytes(kind: str, data: memoryview) -> Array:
    if kind != "BYTES":
        return np.require(np.frombuffer(data, _DTYPES[kind].newbyteorder("<")), _DTYPES[kind], "A")
    elements: list[bytes] = []
    while data:  # four bytes for the length of each, then its bytes
        end = 4 + int.from_bytes(data[:4], "little")
        if end > len(data):
            raise ValueError(f"{len(data)} bytes follow {len(elements)} elements")
        elements.append(bytes(data[4:end]))
        data = data[end:]
    return np.array(elements, object)


def _convert_input(feature: FeatureDescriptor, given: Array, max_pixels: int) -> Any:
    """A picture, if the input has four dimensions of numbers, and it is BYTES, or height x width x 3 of UINT8."""
    is_text = isinstance(feature, ShapedDescriptor) and feature.tensor_kind is TensorKind.STRING
    takes_pictures = isinstance(feature, ShapedDescriptor) and len(feature.shape) == 4 and not is_text
    if takes_pictures and given.dtype == object:
        pictures = [ImageFeatureValue.load(one, max_pixels=max_pixels) for one in given.ravel()]
        return ImageFeatureValue([picture.video_frame for picture in pictures])
    if takes_pictures and given.dtype == np.uint8 and given.ndim == 3:
        _require(given.shape[2] == 3, f"{feature.name}: Expected pixels of height x width x 3, got {given.shape}.")
        return ImageFeatureValue.from_array(given, BitmapPixelFormat.RGB8)
    if given.dtype == object:
        return np.array([one.decode() for one in given.flat], object).reshape(given.shape)
    return given


def _encode_bytes(array: Array) -> bytes:
    if array.dtype.kind in "biuf":
        return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    elements = [str(one).encode() for one in array.ravel()]
    return b"".join(len(one).to_bytes(4, "little") + one for one in elements)


# Metadata.


def describe_model(served: ServedModel) -> Facts:
    """What a model takes and gives. The `parameters` of an input that takes pictures say how."""
    return {
        "name": served.name,
        "versions": ["1"],
        "platform": "onnx",
        "inputs": [_describe_tensor(one) for one in served.model.input_features if isinstance(one, ShapedDescriptor)],
        "outputs": [_describe_tensor(one) for one in served.model.output_features if isinstance(one, ShapedDescriptor)],
    }


def _describe_tensor(feature: ShapedDescriptor) -> Facts:
    tensor = TENSOR_CLASSES.get(feature.tensor_kind)
    kind = "BYTES" if tensor is None else _NAMES.get(tensor.dtype, "BYTES")
    facts: Facts = {"name": feature.name, "datatype": kind, "shape": list(feature.shape)}
    if isinstance(feature, ImageFeatureDescriptor):
        accepts = "BYTES of shape [1]: a JPEG, PNG or WebP file; UINT8 of shape [height, width, 3]: RGB pixels"
        facts["parameters"] = {"picture": feature.contract.describe(), "accepts": f"{accepts}; the tensor itself"}
    return facts

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

from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array, DType
from ..core.base.messages import Facts, as_json, type_name
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.session.session import LearningModelSession
from ..enums import BitmapPixelFormat
from ..errors import InvalidArgumentError
from .models import ServedModel

HEADER = "Inference-Header-Content-Length"
"""The length of the JSON, where bytes of tensors follow it."""

_DTYPES: dict[str, DType] = {
    "BOOL": np.dtype(np.bool_),
    **{f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits}") for sign in ("INT", "UINT") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "iufU"}
"""The kinds of arrays that JSON's numbers may become, for each kind of a tensor; U: "NaN", "Infinity"."""


def _require(is_right: bool, message: str) -> None:
    if not is_right:
        raise InvalidArgumentError(message)


class InferRequest:
    """A request, and its answer.

    Args:
        model: the name of the model.
        body: the request.
        header: the value of `HEADER`.
        max_pixels: the most pixels of a picture.

    Attributes:
        inputs: an array for each tensor; that of BYTES has objects of bytes.
    """

    def __init__(self, model: str, body: bytes, header: str | None, max_pixels: int) -> None:
        self._model, self._body, self._header, self._max_pixels = model, body, header, max_pixels
        self.inputs: dict[str, Array] = {}

    def read(self) -> None:
        """Reads the body.

        Raises:
            InvalidArgumentError: it is no request of this protocol.
        """
        body, header = self._body, self._header
        length = len(body) if header is None else int(header) if header.isdecimal() else -1
        _require(0 <= length <= len(body), f"{HEADER}: Expected at most {len(body)}, got {header!r}.")
        try:
            self._facts = facts = json.loads(body[:length])
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"The request is not JSON: {error}.") from None
        rest = memoryview(body)[length:]
        for one in _objects(facts, "inputs"):
            name, kind, shape = one["name"], str(one.get("datatype")), one.get("shape")
            size = _parameter(one, "binary_data_size")
            is_shape = isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)
            _require(is_shape, f"{name}: Expected the shape as a list of sizes, got {shape!r}.")
            _require(kind == "BYTES" or kind in _DTYPES, f"{name}: There is no datatype {kind}.")
            try:
                if size is None:
                    self.inputs[name] = _from_json(kind, one.get("data")).reshape(shape)
                else:
                    _require(type(size) is int and 0 <= size <= len(rest), f"{name}: {size!r} bytes of {len(rest)}.")
                    self.inputs[name], rest = _from_bytes(kind, rest[:size]).reshape(shape), rest[size:]
            except (ValueError, TypeError, OverflowError) as error:
                raise InvalidArgumentError(f"{name}: The data are not {kind} of shape {shape}: {error}.") from None
        _require(not rest, f"{len(rest)} bytes follow the last tensor.")

    def bind(self, session: LearningModelSession) -> LearningModelBinding:
        """Reads the body, and binds its tensors and pictures; no output is rounded to a picture.

        Raises:
            WinMLError: it is no request, a picture cannot be decoded, or a value cannot be bound.
        """
        self.read()
        binding = LearningModelBinding(session)
        features = {feature.name: feature for feature in session.model.input_features}
        for name, given in self.inputs.items():
            binding.bind(name, _value(name, features.get(name), given, self._max_pixels))
        for feature in session.model.output_features:
            if isinstance(feature, ImageFeatureDescriptor) and feature.name not in self.inputs:
                binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
        return binding

    def answer(self, result: LearningModelEvaluationResult) -> Response:
        """The answer.

        Raises:
            InvalidArgumentError: there is no such output, or it is not a tensor.
        """
        arrays = {name: as_numpy(value) for name, value in result.outputs.items()}
        tensors = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
        is_binary = _parameter(self._facts, "binary_data_output") is True
        wanted = {one["name"]: _parameter(one, "binary_data", is_binary) for one in _objects(self._facts, "outputs")}
        outputs: list[Facts] = []
        tail = b""
        for name, as_bytes in (wanted or dict.fromkeys(tensors, is_binary)).items():
            _require(name in tensors, f"There is no output {name!r}; outputs that are tensors: {', '.join(tensors)}.")
            array = tensors[name]
            one: Facts = {"name": name, "datatype": _NAMES.get(array.dtype, "BYTES"), "shape": list(array.shape)}
            if as_bytes:
                data = _to_bytes(array)
                one["parameters"], tail = {"binary_data_size": len(data)}, tail + data
            else:
                is_finite = array.dtype.kind != "f" or np.isfinite(array).all()  # JSON has no other numbers
                one["data"] = array.ravel().tolist() if is_finite else as_json(array.ravel())
            outputs.append(one)
        facts = {"model_name": self._model, "model_version": "1", "outputs": outputs}
        facts |= {"id": str(self._facts["id"])} if "id" in self._facts else {}
        head = json.dumps(facts, allow_nan=False).encode()
        headers = {HEADER: str(len(head))} if tail else {}
        return Response(head + tail, 200, headers, f"application/{'octet-stream' if tail else 'json'}")


def _objects(facts: object, key: str) -> list[dict[str, Any]]:
    found = facts.get(key, []) if isinstance(facts, dict) else None
    is_list = isinstance(found, list) and all(isinstance(one, dict) and type(one.get("name")) is str for one in found)
    _require(is_list, f'Expected a JSON object with "{key}", a list of objects, each with a name.')
    return found or []


def _parameter(facts: Mapping[str, Any], key: str, otherwise: Any = None) -> Any:
    found = facts.get("parameters")
    return found.get(key, otherwise) if isinstance(found, dict) else otherwise


def _from_json(kind: str, data: object) -> Array:
    if not isinstance(data, list):
        raise TypeError(f"expected a list, got {type_name(data)}")
    if kind == "BYTES":
        return np.array([str(one).encode() for one in np.array(data, object).ravel()], object)
    values, dtype = np.array(data), _DTYPES[kind]
    array = values.astype(dtype)
    is_right = values.dtype.kind in _KINDS[dtype.kind] and (dtype.kind == "f" or (array == values).all())
    if values.size and not is_right:
        raise ValueError(f"not all elements are {kind}")
    return array


def _from_bytes(kind: str, data: memoryview) -> Array:
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


def _value(name: str, feature: FeatureDescriptor | None, given: Array, max_pixels: int) -> Any:
    """A picture, if the input has four dimensions and the tensor is BYTES, or height x width x 3 of UINT8."""
    takes_pictures = isinstance(feature, ShapedDescriptor) and len(feature.shape) == 4
    if takes_pictures and given.dtype == object:
        pictures = [ImageFeatureValue.load(one, max_pixels=max_pixels) for one in given.ravel()]
        return ImageFeatureValue([picture.video_frame for picture in pictures])
    if takes_pictures and given.dtype == np.uint8 and given.ndim == 3:
        _require(given.shape[2] == 3, f"{name}: Expected pixels of height x width x 3, got {given.shape}.")
        return ImageFeatureValue.from_array(given, BitmapPixelFormat.RGB8)
    if given.dtype == object:
        return np.array([one.decode() for one in given.flat], object).reshape(given.shape)
    return given


def _to_bytes(array: Array) -> bytes:
    if array.dtype in _NAMES:
        return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    elements = [str(one).encode() for one in array.ravel()]
    return b"".join(len(one).to_bytes(4, "little") + one for one in elements)


# Metadata.


def metadata(served: ServedModel) -> Facts:
    """What a model takes and gives. The `parameters` of an input that takes pictures say how."""
    return {
        "name": served.name,
        "versions": ["1"],
        "platform": "onnx",
        "inputs": [_tensor_facts(one) for one in served.model.input_features if isinstance(one, ShapedDescriptor)],
        "outputs": [_tensor_facts(one) for one in served.model.output_features if isinstance(one, ShapedDescriptor)],
    }


def _tensor_facts(feature: ShapedDescriptor) -> Facts:
    tensor = TENSOR_CLASSES.get(feature.tensor_kind)
    kind = "BYTES" if tensor is None else _NAMES.get(tensor.dtype, "BYTES")
    facts: Facts = {"name": feature.name, "datatype": kind, "shape": list(feature.shape)}
    if isinstance(feature, ImageFeatureDescriptor):
        accepts = "BYTES of shape [1]: a JPEG, PNG or WebP file; UINT8 of shape [height, width, 3]: RGB pixels"
        facts["parameters"] = {"picture": feature.contract.describe(), "accepts": f"{accepts}; the tensor itself"}
    return facts

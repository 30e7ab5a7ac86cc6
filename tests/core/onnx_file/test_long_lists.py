"""Long lists in a model file, and elements that stand in it in several parts."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.models import FLOAT, model
from winml_py.core.onnx_file.header import find_external_weights, read_header
from winml_py.core.onnx_file.protobuf import encode_field, encode_varint

LONG = 5000


def find_external_locations(data: bytes) -> list[tuple[str, str]]:
    return [(weight.name, weight.location) for weight in find_external_weights(data)]


def listed(number: int, wire_type: int, values: list[bytes]) -> bytes:
    """A list of numbers or strings as protobuf 2 writes it: each with a tag."""
    return b"".join(encode_varint(number << 3 | wire_type) + value for value in values)


LISTS = {
    "varints": listed(8, 0, [encode_varint((number << number % 60) % (1 << 64)) for number in range(LONG)]),
    "int32s of fixed size": listed(7, 5, [number.to_bytes(4, "little") for number in range(LONG)]),
    "int64s of fixed size": listed(7, 1, [number.to_bytes(8, "little") for number in range(LONG)]),
    "strings": listed(9, 2, [encode_varint(number % 300) + b"\x4a" * (number % 300) for number in range(LONG)]),
    "a tag of two bytes": listed(300, 0, [encode_varint(number) for number in range(LONG)]),
}


def with_attribute(*lists: bytes) -> bytes:
    """A model of one node with one attribute, which holds lists."""
    attribute = encode_field(1, b"a") + b"".join(lists)
    return encode_field(7, encode_field(1, encode_field(4, b"Op") + encode_field(5, attribute)))


def outside(name: str) -> bytes:
    """A tensor whose elements are in another file."""
    external = onnx.TensorProto(name=name, data_type=FLOAT, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    external.external_data.add(key="location", value=f"{name}.bin")
    return external.SerializeToString()


@pytest.mark.parametrize("name", LISTS)
def test_a_file_that_is_named_behind_a_list_is_found(name: str) -> None:
    data = with_attribute(LISTS[name], encode_field(5, outside("w")), LISTS[name], encode_field(10, outside("v")))
    assert (find_external_locations(data)) == [("w", "w.bin"), ("v", "v.bin")]
    assert (find_external_locations(with_attribute(LISTS[name]))) == []


def test_a_list_of_many_tensors_is_looked_through() -> None:
    inside = onnx.numpy_helper.from_array(np.zeros(3, np.float32), "here").SerializeToString()
    data = with_attribute(*[encode_field(10, inside)] * 100, encode_field(10, outside("w")))
    assert (find_external_locations(data)) == [("w", "w.bin")]


def test_an_initializer_of_many_words_has_its_name_behind_them() -> None:
    words = helper.make_tensor("words", onnx.TensorProto.STRING, [LONG], [b"word"] * LONG)
    proto = model([], [], [])
    proto.graph.initializer.append(words)
    (weight,) = read_header(proto.SerializeToString()).weights
    assert (weight.name, weight.element, weight.data) == ("words", onnx.TensorProto.STRING, None)


@pytest.mark.parametrize("parts", [["packed", "packed"], ["packed", "alone"], ["alone", "packed"]])
def test_elements_that_stand_in_parts_stay_where_they_are(parts: list[str]) -> None:
    values = np.arange(2000, dtype="<f4")
    ways = {
        "packed": lambda half: encode_field(4, half.tobytes()),
        "alone": lambda half: listed(4, 5, [number.tobytes() for number in half]),
    }
    data = b"".join(ways[way](half) for way, half in zip(parts, np.split(values, 2), strict=True))
    head = onnx.TensorProto(name="w", data_type=FLOAT, dims=[2000]).SerializeToString()
    buffer = encode_field(7, encode_field(5, head + data))
    (parsed,) = onnx.load_model_from_string(buffer).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(parsed), values)
    (weight,) = read_header(buffer).weights
    assert weight.data is None

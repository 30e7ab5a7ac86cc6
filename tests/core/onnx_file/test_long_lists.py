"""Long lists in a model file, and messages that stand in it in several parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.models import FLOAT, model, tensor
from winml_py import LearningModel, LearningModelSession, Weights, WinMLError
from winml_py.core.onnx_file.header import external_locations, read_header
from winml_py.core.onnx_file.protobuf import Field, encode_field, encode_varint, fields, tag_of
from winml_py.core.session.options import LearningModelSessionOptions

LONG = 5000


def listed(number: int, wire_type: int, values: list[bytes]) -> bytes:
    """A list of numbers or strings as protobuf 2 writes it: each with a tag."""
    return b"".join(encode_varint(tag_of(number, wire_type)) + value for value in values)


LISTS = {
    "varints": listed(8, 0, [encode_varint((number << number % 60) % (1 << 64)) for number in range(LONG)]),
    "int32s of fixed size": listed(7, 5, [number.to_bytes(4, "little") for number in range(LONG)]),
    "int64s of fixed size": listed(7, 1, [number.to_bytes(8, "little") for number in range(LONG)]),
    "strings": listed(9, 2, [encode_varint(number % 300) + b"\x4a" * (number % 300) for number in range(LONG)]),
    "a tag of two bytes": listed(300, 0, [encode_varint(number) for number in range(LONG)]),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_passed_over_as_a_walk_over_it_would(name: str) -> None:
    data = encode_field(1, b"before") + LISTS[name] + encode_field(2, b"behind") + LISTS[name] + encode_field(2, b"end")
    whole = list(fields(data, 0, len(data)))
    wanted = {tag_of(1), tag_of(2)}
    short = list(fields(data, 0, len(data), wanted))
    assert [item for item in short if item.number in (1, 2)] == [item for item in whole if item.number in (1, 2)]
    assert len(whole) == 2 * LONG + 3
    assert set(short) <= set(whole)
    assert len(short) < 100 if name != "strings" else len(short) < 1.2 * LONG  # long strings are walked over


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_list_that_is_cut_off_is_refused_or_ends_at_a_field(name: str, cut: int) -> None:
    data = LISTS[name][:-cut]

    def walked(wanted: set[int] | None) -> Field | str:
        try:
            return list(fields(data, 0, len(data), wanted))[-1]
        except WinMLError as error:
            return str(error)

    whole, short = walked(None), walked({tag_of(1)})
    assert isinstance(whole, str) == isinstance(short, str)


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
    assert list(external_locations(data)) == [("w", "w.bin"), ("v", "v.bin")]
    assert list(external_locations(with_attribute(LISTS[name]))) == []


def test_a_list_of_many_tensors_is_looked_through() -> None:
    inside = onnx.numpy_helper.from_array(np.zeros(3, np.float32), "here").SerializeToString()
    data = with_attribute(*[encode_field(10, inside)] * 100, encode_field(10, outside("w")))
    assert list(external_locations(data)) == [("w", "w.bin")]


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


SIDE = 1500  # 2 * 1500 * 1500 * 4 bytes are 18 MB of weights


def in_parts() -> tuple[bytes, bytes]:
    """A model whose graph is one field, and the same with its nodes and weights in three."""
    rng = np.random.default_rng(0)
    weights = {f"w{index}": rng.random((SIDE, SIDE), np.float32) / SIDE for index in range(2)}
    nodes = [helper.make_node("MatMul", [f"h{index}", f"w{index}"], [f"h{index + 1}"]) for index in range(2)]
    whole = model(nodes, [tensor("h0", [1, SIDE])], [tensor("h2", [1, SIDE])], weights)
    parts = [onnx.GraphProto(name="old") for _ in range(3)]
    parts[0].node.extend(whole.graph.node[:1])
    parts[0].initializer.extend(whole.graph.initializer[:1])
    parts[1].name = whole.graph.name
    parts[1].output.extend(whole.graph.output)
    parts[2].ClearField("name")
    parts[2].node.extend(whole.graph.node[1:])
    parts[2].initializer.extend(whole.graph.initializer[1:])
    parts[2].input.extend(whole.graph.input)
    rest = onnx.ModelProto()
    rest.CopyFrom(whole)
    rest.ClearField("graph")
    fields_of_graph = [encode_field(7, part.SerializeToString()) for part in parts]
    data = fields_of_graph[0] + rest.SerializeToString() + b"".join(fields_of_graph[1:])
    assert onnx.load_model_from_string(data) == whole
    return whole.SerializeToString(), data


@pytest.mark.parametrize("weights", [Weights.SHARED, Weights.PRIVATE])
@pytest.mark.parametrize("is_file", [False, True])
def test_a_large_model_whose_graph_comes_in_parts(tmp_path: Path, is_file: bool, weights: Weights) -> None:
    whole, data = in_parts()
    path = tmp_path / "parts.onnx"
    path.write_bytes(data)
    options = LearningModelSessionOptions()
    options.weights = weights
    loaded = LearningModel.load(path if is_file else data)
    assert (loaded.name, len(loaded.input_features), len(loaded.output_features)) == ("test graph", 1, 1)
    given = {"h0": np.random.default_rng(1).random((1, SIDE), np.float32)}
    result = LearningModelSession(loaded, None, options).evaluate_features(given).outputs["h2"].to_numpy()
    expected: Any = onnxruntime.InferenceSession(whole, providers=["CPUExecutionProvider"]).run(None, given)[0]
    np.testing.assert_allclose(result, expected, rtol=1e-5)

"""The wire walk, against the onnx package's own parser."""

from __future__ import annotations

import mmap
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.corpus import CORPUS
from helpers.models import FLOAT, data, model, tensor, unary
from winml_py.core.onnx_file.header import (
    Dimension,
    MapType,
    OnnxType,
    SequenceType,
    TensorType,
    cut_weights,
    read_header,
)
from winml_py.core.onnx_file.protobuf import MAX_NESTING, encode_varint, read_fields, read_varint
from winml_py.errors import CorruptModelError


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_header_is_what_onnx_reads(path: Path) -> None:
    proto = onnx.load(path, load_external_data=False)
    header = read_header(path.read_bytes())
    assert header.ir_version == proto.ir_version
    assert header.producer_name == proto.producer_name
    assert header.domain == proto.domain
    assert header.model_version == proto.model_version
    assert header.doc_string == proto.doc_string
    assert header.graph_name == proto.graph.name
    assert header.opsets == {entry.domain: entry.version for entry in proto.opset_import}
    assert header.metadata == {entry.key: entry.value for entry in proto.metadata_props}
    assert [weight.name for weight in header.weights] == [init.name for init in proto.graph.initializer]
    for ours, theirs in ((header.inputs, proto.graph.input), (header.outputs, proto.graph.output)):
        assert [value.name for value in ours] == [value.name for value in theirs]
        for value, expected in zip(ours, theirs, strict=True):
            assert value.type == convert(expected.type)


def convert(kind: onnx.TypeProto) -> OnnxType:
    """The onnx package's reading of a type, in our classes."""
    if kind.HasField("sequence_type"):
        return SequenceType(convert(kind.sequence_type.elem_type))
    if kind.HasField("map_type"):
        return MapType(kind.map_type.key_type, convert(kind.map_type.value_type))
    dims = None
    if kind.tensor_type.HasField("shape"):
        dims = tuple(
            Dimension(
                dim.dim_value if dim.HasField("dim_value") else None,
                dim.dim_param if dim.dim_param != "?" else "",
                dim.denotation,
            )
            for dim in kind.tensor_type.shape.dim
        )
    return TensorType(kind.tensor_type.elem_type, dims, kind.denotation)


def weighty() -> onnx.ModelProto:
    weights = {
        "raw": np.arange(1000, dtype=np.float32),
        "small": np.arange(3, dtype=np.float32),
        "double": np.arange(1000, dtype=np.float64),
    }
    nodes = [helper.make_node("Add", ["x", "raw"], ["a"]), helper.make_node("Add", ["a", "packed"], ["y"])]
    proto = model(nodes, [tensor("x", [1000])], [tensor("y", [1000])], weights, doc_string="kept")
    proto.graph.initializer.append(helper.make_tensor("packed", FLOAT, [1000], np.arange(1000.0) / 7))
    return proto


def test_weights_are_found_where_they_stand() -> None:
    proto = weighty()
    buffer = proto.SerializeToString()
    found = {weight.name: weight.data for weight in read_header(buffer).weights}
    for init in proto.graph.initializer:
        place = found[init.name]
        assert place is not None
        assert buffer[place.value : place.end] == onnx.numpy_helper.to_array(init).tobytes()


def test_cut_weights_leave_a_model_that_onnx_fills_up_again(tmp_path: Path) -> None:
    proto = weighty()
    path = tmp_path / "whole.onnx"
    path.write_bytes(proto.SerializeToString())
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
        skeleton = cut_weights(buffer, read_header(buffer), "whole.onnx")
    assert len(skeleton) < 1200
    (tmp_path / "skeleton.onnx").write_bytes(skeleton)
    again = onnx.load(tmp_path / "skeleton.onnx")
    assert again.doc_string == "kept"
    assert again.graph.node == proto.graph.node
    for init, expected in zip(again.graph.initializer, proto.graph.initializer, strict=True):
        assert init.name == expected.name
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(init), onnx.numpy_helper.to_array(expected))


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 1 << 35, (1 << 64) - 1])
def test_varints_go_there_and_back(number: int) -> None:
    encoded = encode_varint(number)
    assert read_varint(encoded, 0, len(encoded)) == (number, len(encoded))


@pytest.mark.parametrize(
    ("damaged", "complaint"),
    [
        (b"", "contain no graph"),
        (b"This is a text file, not a model.", "field numbered|runs|wire type"),
        (b"\x08", "has no end"),
        (b"\x08" + b"\xff" * 12, "has no end"),
        (b"\x3a\xff\x01", "runs .* bytes past"),
        (b"\x00\x01", "field numbered 0"),
        (b"\x0b", "wire type 3"),
        (b"\x38\x01", "field 7 .* wire type 0, not 2"),
        (b"\x3a\x00\x3a\x00", "second graph"),
        (b"\x12\x02\xff\xfe\x3a\x00", "not UTF-8"),
    ],
)
def test_what_is_no_model_is_corrupt(damaged: bytes, complaint: str) -> None:
    with pytest.raises(CorruptModelError, match=complaint):
        read_header(damaged)


def test_types_nested_too_deep_are_corrupt() -> None:
    kind = helper.make_tensor_type_proto(FLOAT, [1])
    for _ in range(MAX_NESTING + 2):
        kind = helper.make_sequence_type_proto(kind)
    proto = model([], [helper.make_value_info("x", kind)], [])
    with pytest.raises(CorruptModelError, match="nested"):
        read_header(proto.SerializeToString())


def test_a_damaged_model_is_read_or_refused_and_nothing_else() -> None:
    whole = weighty().SerializeToString()
    rng = random.Random(0)
    refused = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(min(len(damaged), 600))] = rng.randrange(256)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            header = read_header(bytes(damaged))
            for weight in header.weights:
                assert 0 <= weight.size <= len(damaged)
        except CorruptModelError:
            refused += 1
    assert 500 < refused < 3000


def test_fields_touch_no_payload() -> None:
    buffer = data([], [tensor("x", [1])], [])
    places = [(field.number, field.value, field.end) for field in read_fields(buffer, 0, len(buffer))]
    assert places[-1][2] == len(buffer)
    assert [number for number, _, _ in places] == [1, 7, 8]


def test_a_negative_version_is_read_as_one() -> None:
    assert read_header(unary(model_version=-5)).model_version == -5

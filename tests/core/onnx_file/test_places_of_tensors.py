"""Wherever a model can hold a tensor, by ONNX's schema, the file that the tensor names is one that the rules allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.models import FLOAT, model, tensor
from winml_py import LearningModel, LearningModelSession
from winml_py.errors import CorruptModelError, ModelNotFoundError

Place = tuple[str, ...]


def list_places(message: Any, place: Place = ()) -> Iterator[Place]:
    """Every path of fields from a message to a tensor that takes no field more than twice."""
    if message.full_name == onnx.TensorProto.DESCRIPTOR.full_name:
        yield place
        return
    for field in message.fields:
        if field.message_type is not None and place.count(field.name) < 2:
            yield from list_places(field.message_type, (*place, field.name))


PLACES = list(list_places(onnx.ModelProto.DESCRIPTOR))


def make_model(place: Place, location: str) -> bytes:
    """A model with nothing but a tensor at a place, which names a file."""
    proto = model([], [], [])
    message: Any = proto
    for name in place:
        inner = getattr(message, name)
        message = inner.add() if hasattr(inner, "add") else inner
    assert isinstance(message, onnx.TensorProto)
    message.CopyFrom(onnx.TensorProto(name="w", data_type=FLOAT, dims=[1], data_location=onnx.TensorProto.EXTERNAL))
    message.external_data.add(key="location", value=location)
    return proto.SerializeToString()


def test_the_schema_has_the_places_that_we_know() -> None:
    ways = {".".join(place) for place in PLACES}
    assert {
        "graph.initializer",
        "graph.sparse_initializer.indices",
        "graph.node.attribute.g.node.attribute.tensors",
        "functions.attribute_proto.t",
        "functions.attribute_proto.graphs.sparse_initializer.values",
        "functions.node.attribute.sparse_tensors.values",
        "training_info.initialization.initializer",
        "training_info.algorithm.node.attribute.t",
    } <= ways


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file of weights in it and another one in the folder above."""
    folder = tmp_path / "models"
    folder.mkdir()
    for path in (tmp_path, folder):
        (path / "secret.bin").write_bytes(np.float32([7]).tobytes())
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("kind", ["in the folder", "missing", "above", "absolute", "cut at a zero"])
def test_a_tensor_anywhere_names_a_file_that_is_allowed_or_is_refused(folder: Path, kind: str) -> None:
    location = {
        "in the folder": "secret.bin",
        "missing": "missing.bin",
        "above": "../secret.bin",
        "absolute": str(folder.parent / "secret.bin"),
        "cut at a zero": "../secret.bin\0.bin",
    }[kind]
    missing = pytest.raises(ModelNotFoundError, match=r"stores the weight w in the file missing\.bin, which is not in")
    outside = pytest.raises(CorruptModelError, match=r"stores the weight w in .*, outside its folder")
    for number, place in enumerate(PLACES):
        data = make_model(place, location)
        with pytest.raises(ModelNotFoundError, match=r"stores the weight w in .* has no folder to look in"):
            LearningModelSession(LearningModel.load(data))
        if kind != "in the folder":
            path = folder / f"{number}.onnx"
            path.write_bytes(data)
            with missing if kind == "missing" else outside:
                LearningModelSession(LearningModel.load(path))
            path.unlink()


def make_function(location: str) -> bytes:
    """A model of a function that adds the default of its attribute, a tensor in a file."""
    held = onnx.TensorProto(name="w", data_type=FLOAT, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    held.external_data.add(key="location", value=location)
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.add(name="value", ref_attr_name="kept", type=onnx.AttributeProto.TENSOR)
    body = [constant, helper.make_node("Add", ["a", "c"], ["b"])]
    function = helper.make_function(
        "local", "Shift", ["a"], ["b"], body, [helper.make_opsetid("", 17)], [], [helper.make_attribute("kept", held)]
    )
    node = helper.make_node("Shift", ["x"], ["y"], domain="local")
    proto = model([node], [tensor("x", [1])], [tensor("y", [1])])
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(function)
    return proto.SerializeToString()


def test_the_default_of_a_functions_attribute_is_read_beside_the_model_alone(folder: Path) -> None:
    (folder / "m.onnx").write_bytes(make_function("secret.bin"))
    session = LearningModelSession(LearningModel.load(folder / "m.onnx"))
    assert session.evaluate_features({"x": np.float32([1])}).outputs["y"].to_numpy().tolist() == [8]
    with pytest.raises(ModelNotFoundError, match="has no folder to look in"):
        LearningModelSession(LearningModel.load(make_function("secret.bin")))


def test_a_later_empty_name_hides_no_file(folder: Path) -> None:
    proto = onnx.ModelProto.FromString(make_model(("graph", "initializer"), "../secret.bin"))
    proto.graph.initializer[0].external_data.add(key="location", value="")
    with pytest.raises(ModelNotFoundError, match="has no folder to look in"):
        LearningModelSession(LearningModel.load(proto.SerializeToString()))
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(CorruptModelError, match="outside its folder"):
        LearningModelSession(LearningModel.load(folder / "m.onnx"))

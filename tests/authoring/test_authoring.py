"""Contracts written into models."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, data, model, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    InvalidArgumentError,
    LearningModel,
    ModelNotFoundError,
    TensorKind,
    TensorLayout,
)
from winml_py.authoring import build_in, write_contract
from winml_py.float16 import convert

RGB8 = BitmapPixelFormat.RGB8


def written(source: Path, contract: ImageContract, **options: object) -> LearningModel:
    target = source.with_name("written.onnx")
    write_contract(source, target, contract, **options)
    return LearningModel.load(target)


def test_the_rest_of_the_model_stays(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    metadata = {"Author": "me", "Image.BitmapPixelFormat": "Gray8", "Image.Mean": "7"}
    source.write_bytes(unary(shape=(1, 3, 4, 4), metadata=metadata, producer_name="x", doc_string="words"))
    loaded = written(source, ImageContract.imagenet())
    assert isinstance(loaded.input_features[0], ImageFeatureDescriptor)
    assert loaded.input_features[0].contract == ImageContract.imagenet()
    assert dict(loaded.metadata) == {"Author": "me", **ImageContract.imagenet().to_metadata()}
    before, after = onnx.load(source), onnx.load(source.with_name("written.onnx"))
    del before.metadata_props[:], after.metadata_props[:]
    before.graph.input[0].type.denotation = "IMAGE"
    assert before == after


def test_the_source_is_written_over_with_force(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(unary(shape=(1, 3, 4, 4)))
    write_contract(source, source, ImageContract.clip(), force=True)
    write_contract(source, source, ImageContract.inception(), force=True)
    with pytest.raises(InvalidArgumentError, match=r"also the source, so saving would overwrite it.*force=True"):
        write_contract(source, source, ImageContract.clip())
    assert LearningModel.load(source).input_features[0].contract == ImageContract.inception()


@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.data", "preprocessor_config.json", "link"])
@pytest.mark.parametrize("function", ["write_contract", "build_in", "convert"])
def test_a_copy_replaces_no_file_that_it_is_made_from(tmp_path: Path, function: str, name: str) -> None:
    proto = onnx.load(MODELS / "digits.onnx")
    path, folder = tmp_path / "m.onnx", tmp_path
    onnx.save(proto, path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    (folder / "preprocessor_config.json").write_text("{}")
    if name == "link":
        if os.name == "nt":
            pytest.skip("Windows lets few users make links")
        (folder / "link").symlink_to("m.onnx.data")
    write = {
        "write_contract": lambda **options: write_contract(folder, folder / name, ImageContract(), **options),
        "build_in": lambda **options: build_in(folder, folder / name, pictures=BitmapPixelFormat.GRAY8, **options),
        "convert": lambda **options: convert(folder, folder / name, **options),
    }[function]
    before = {file: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(InvalidArgumentError, match=r"also the source, so saving would overwrite it.*force=True"):
        write()
    if name in ("m.onnx.data", "link") and function != "convert":  # which leaves no weights there
        with pytest.raises(InvalidArgumentError, match="The copy uses this file for its weights"):
            write(force=True)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_labels_are_not_replaced(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("0\n" * 10)
    with pytest.raises(InvalidArgumentError, match="This file is also the source"):
        build_in(MODELS / "digits.onnx", labels, labels=labels)
    assert labels.read_text() == "0\n" * 10


def test_which_inputs_become_images(tmp_path: Path) -> None:
    names = {"a": [1, 3, 4, 4], "b": ["n", 3, "h", "w"], "c": [1, 4, 4, 3], "d": [1, 3]}
    ends = [tensor(name, shape) for name, shape in names.items()]
    outputs = [tensor(f"{name}2", shape) for name, shape in names.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}2"]) for name in names]
    source = tmp_path / "model.onnx"
    source.write_bytes(data(nodes, ends, outputs))

    def images(contract: ImageContract, inputs: tuple[str, ...] = ()) -> list[str]:
        features = written(source, contract, inputs=inputs).input_features
        return [feature.name for feature in features if isinstance(feature, ImageFeatureDescriptor)]

    assert images(ImageContract(RGB8)) == ["a", "b"]
    assert images(ImageContract(RGB8), ("b",)) == ["b"]
    assert images(ImageContract(RGB8, layout=TensorLayout.NHWC)) == ["c"]
    for contract, inputs, words in (
        (ImageContract(BitmapPixelFormat.GRAY8), (), "No input is a tensor of GRAY8 pictures"),
        (ImageContract(RGB8), ("c",), "No input is"),
        (ImageContract(RGB8), ("a", "d"), r"d is Float\[1,3,\]"),
        (ImageContract(RGB8), ("x",), "The model has no input x"),
        (ImageContract(RGB8, tensor_kind=TensorKind.FLOAT16), (), "No input is"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            write_contract(source, tmp_path / "none.onnx", contract, inputs)
    assert not (tmp_path / "none.onnx").exists()


def test_bytes_are_said_to_be_bytes(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(unary(shape=(1, 4, 4, 3), element=TensorProto.UINT8))
    feature = written(source, ImageContract(RGB8, layout=TensorLayout.NHWC)).input_features[0]
    assert isinstance(feature, ImageFeatureDescriptor)
    assert feature.contract.tensor_kind is feature.tensor_kind is TensorKind.UINT8


def test_external_weights_stay_where_they_are(tmp_path: Path) -> None:
    weights = {"w": np.ones((3, 3, 1, 1), np.float32)}
    ends = [tensor(name, [1, 3, 4, 4], FLOAT) for name in "xy"]
    whole = model([helper.make_node("Conv", ["x", "w"], ["y"])], ends[:1], ends[1:], weights)
    source = tmp_path / "model.onnx"
    onnx.save(whole, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert written(source, ImageContract(RGB8)).input_features[0].contract.pixel_format is RGB8
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(InvalidArgumentError, match="stores its weights in files next to it"):
        write_contract(source, tmp_path / "elsewhere" / "model.onnx", ImageContract(RGB8))


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        write_contract(tmp_path / "none.onnx", tmp_path / "new.onnx", ImageContract())

"""Open files wherever a path may stand, and models of the package onnx."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx import helper
from PIL import Image

from helpers import reference
from helpers.models import model, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    PictureError,
    SoftwareBitmap,
    VideoReader,
    labels_of,
    read_contract,
)
from winml_py.errors import StorageNotFoundError


class Unreadable(io.BytesIO):
    def read(self, *arguments: Any) -> bytes:
        raise OSError("the cable was pulled")


class Upload:
    """As a web framework hands files out: its `read` is to be awaited."""

    async def read(self) -> bytes:
        return b"never awaited"


def png(size: tuple[int, int] = (6, 4)) -> bytes:
    file, pixels = io.BytesIO(), np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def pixels_of(data: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize(
    "load", [ImageFeatureValue.load, SoftwareBitmap.load, lambda file: ImageFeatureValue.load(file, fast_decode=True)]
)
def test_pictures_from_open_files(load: Any, tmp_path: Path) -> None:
    data, path = png(), tmp_path / "picture.png"
    path.write_bytes(data)
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
        archive.write(path, "picture.png")
    with (
        path.open("rb") as file,
        path.open("rb", buffering=0) as raw,
        zipfile.ZipFile(tmp_path / "pictures.zip") as archive,
        archive.open("picture.png") as member,
        tempfile.SpooledTemporaryFile() as spooled,
    ):
        spooled.write(data)
        spooled.seek(0)
        for source in (file, raw, member, spooled, io.BytesIO(data)):
            loaded = load(source).to_pil().convert("RGB")
            np.testing.assert_array_equal(np.asarray(loaded), pixels_of(data))
            assert not source.closed


def test_a_picture_is_read_from_where_the_stream_stands() -> None:
    data = png()
    stream = io.BytesIO(b"before" + data)
    stream.seek(6)
    np.testing.assert_array_equal(np.asarray(SoftwareBitmap.load(stream).to_pil()), pixels_of(data))
    with pytest.raises(PictureError, match=r"Expected a picture, got 0 bytes"):
        SoftwareBitmap.load(stream)


def test_streams_that_give_no_bytes() -> None:
    for load in (SoftwareBitmap.load, VideoReader, LearningModel.load):
        with pytest.raises(InvalidArgumentError, match=r"from the stream, got str\. Open the file in mode 'rb'\."):
            load(io.StringIO("words"))
        with pytest.raises(InvalidArgumentError, match=r"from the stream, got coroutine\. Await its read\(\),"):
            load(Upload())
    kinds = {SoftwareBitmap.load: PictureError, VideoReader: PictureError, LearningModel.load: ModelNotFoundError}
    for load, kind in kinds.items():
        with pytest.raises(kind, match=r"stream cannot be read: the cable was pulled\."):
            load(Unreadable())
        closed = io.BytesIO()
        closed.close()
        with pytest.raises(kind, match=r"stream cannot be read: .*closed file\. Keep it open until it has been read\."):
            load(closed)
    assert asyncio.run(Upload().read()) == b"never awaited"


def test_pictures_into_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, file = png(), io.BytesIO()
    value = ImageFeatureValue.load(data)
    value.save(file, kind="png")
    assert not file.closed
    np.testing.assert_array_equal(pixels_of(file.getvalue()), pixels_of(data))
    with (tmp_path / "picture.webp").open("wb") as named:
        value.video_frame.software_bitmap.save(named)
    with Image.open(tmp_path / "picture.webp") as image:
        assert (image.format, image.size) == ("WEBP", (6, 4))
    value.save(tmp_path / "picture", kind="BMP")
    np.testing.assert_array_equal(pixels_of((tmp_path / "picture").read_bytes()), pixels_of(data))
    monkeypatch.setitem(Image.EXTENSION, "", "SPIDER")  # as Pillow leaves it, once such a file was saved
    with pytest.raises(PictureError, match=r'^The file: Pictures cannot be saved .* save\(file, kind="PNG"\)'):
        value.save(io.BytesIO())
    with pytest.raises(PictureError, match=r"Pillow cannot write 'mp3'\."):
        value.save(io.BytesIO(), kind="mp3")


def video(path: Path) -> bytes:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (32, 16))
    for level in (0, 100, 200):
        writer.write(np.full((16, 32, 3), level, np.uint8))
    writer.release()
    return path.read_bytes()


def test_videos_from_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    data = video(tmp_path / "video.avi")
    by_path = [frame.software_bitmap.to_numpy() for frame in VideoReader(tmp_path / "video.avi")]
    reader = VideoReader(io.BytesIO(data))
    assert (reader.pixel_width, reader.pixel_height, len(list(copies.iterdir()))) == (32, 16, 1)
    np.testing.assert_array_equal([frame.software_bitmap.to_numpy() for frame in reader], by_path)
    assert list(copies.iterdir()) == []  # at the end of the video the copy is gone
    with VideoReader(io.BytesIO(data)) as reader:
        reader.read()
    assert list(copies.iterdir()) == []
    with pytest.raises(PictureError, match="The stream cannot be opened as a video"):
        VideoReader(io.BytesIO(b"words"))
    assert list(copies.iterdir()) == []


CONFIG = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 48}}
TIMM = {"pretrained_cfg": {"input_size": [3, 64, 64]}, "label_names": ["cat", "dog"]}


def as_bytes(values: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(values).encode())


def test_configs_from_open_files(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(CONFIG))
    from_path = read_contract(tmp_path / "preprocessor_config.json")
    assert from_path.size == (32, 48)
    with (tmp_path / "preprocessor_config.json").open(encoding="utf-8") as text:
        assert read_contract(text) == from_path
    assert read_contract(as_bytes(CONFIG)) == from_path
    assert read_contract(as_bytes(CONFIG)) == from_path
    assert read_contract(as_bytes(TIMM)) == read_contract(TIMM)
    assert labels_of(as_bytes(TIMM)) == ("cat", "dog")
    contract = ImageContract(BitmapPixelFormat.GRAY8, mean=(33.3,))
    assert read_contract(as_bytes(contract.to_metadata())) == contract


def test_configs_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("{")
    with (tmp_path / "wrong.json").open() as file, pytest.raises(InvalidArgumentError, match="json: Expected"):
        labels_of(file)
    with pytest.raises(InvalidArgumentError, match="The stream: Expected valid JSON"):
        labels_of(io.BytesIO(b"\xff\xfe\xff"))
    with pytest.raises(StorageNotFoundError, match="The stream"):
        labels_of(Unreadable())


def test_options_from_open_files(tmp_path: Path) -> None:
    options, path = LearningModelSessionOptions(), tmp_path / "options.json"
    options.intra_op_num_threads = 3
    options.save(path)
    with path.open("rb") as file:
        assert LearningModelSessionOptions.load(file).to_dict() == options.to_dict()
    assert LearningModelSessionOptions.load(io.StringIO(path.read_text())).intra_op_num_threads == 3
    with pytest.raises(InvalidArgumentError, match="The stream: This is not a file of session options"):
        LearningModelSessionOptions.load(io.BytesIO(b"{}"))
    with pytest.raises(StorageNotFoundError, match=r"The stream: the cable was pulled\."):
        LearningModelSessionOptions.load(Unreadable())


@pytest.mark.parametrize("read", [LearningModelSessionOptions.load, read_contract, labels_of])
@pytest.mark.parametrize("value", [3, ["a"]])
def test_what_is_no_file_is_no_missing_file(read: Callable[[Any], object], value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^Expected a path or an open file, got (int|list)\."):
        read(value)


@pytest.mark.parametrize("read", [LearningModelSessionOptions.load, read_contract, labels_of])
def test_a_folder_is_not_a_file_that_is_missing(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{re.escape(str(tmp_path))}: Expected a file, got a folder"):
        read(tmp_path)


# Models as objects of the package onnx


def negating() -> onnx.ModelProto:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    weights = {"w": np.arange(3, dtype=np.float32)}
    return model([node], [tensor("x", [3])], [tensor("y", [3])], weights, metadata={"key": "value"})


def test_a_model_proto_is_loaded() -> None:
    proto, numbers = negating(), np.float32([1, 2, 3])
    loaded = LearningModel.load(proto)
    assert dict(loaded.metadata) == {"key": "value"}
    assert loaded.size == proto.ByteSize()
    proto.graph.node[0].op_type = "Sub"  # the model was copied
    result = LearningModelSession(loaded).evaluate_features({"x": numbers}).outputs["y"].to_numpy()
    expected = reference.run_raw(negating().SerializeToString(), {"x": numbers})["y"]
    np.testing.assert_array_equal(result, expected)
    assert LearningModel.load_async(negating()).get().input_features[0].name == "x"


def test_a_model_proto_with_its_weights_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(negating(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    numbers = np.float32([1, 2, 3])
    whole = LearningModelSession(LearningModel.load(onnx.load(path)))  # onnx has read the weights
    assert whole.evaluate_features({"x": numbers}).outputs["y"].to_numpy().tolist() == [1, 3, 5]
    with pytest.raises(ModelNotFoundError, match=r"weights\.bin.* has no folder.* Load the model from its path"):
        LearningModelSession(LearningModel.load(onnx.load(path, load_external_data=False)))


def test_a_model_proto_that_is_too_large() -> None:
    def refuse(self: object) -> bytes:
        raise EncodeError("Failed to serialize proto")

    large = type("ModelProto", (), {"__module__": "onnx.onnx_ml_pb2", "SerializeToString": refuse})()
    with pytest.raises(InvalidArgumentError, match=r"Failed to serialize proto\. .* save_as_external_data=True"):
        LearningModel.load(large)


def test_what_is_no_model() -> None:
    with pytest.raises(InvalidArgumentError, match=r"or an onnx\.ModelProto, got onnx\.onnx_ml_pb2\.GraphProto"):
        LearningModel.load(negating().graph)  # type: ignore[arg-type]


def test_other_sources_import_no_onnx(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(unary())
    program = (
        "import io, sys; from winml_py import LearningModel; data = open(sys.argv[1], 'rb').read();"
        "LearningModel.load(data); LearningModel.load(io.BytesIO(data)); LearningModel.load(sys.argv[1]);"
        "assert 'onnx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "model.onnx"], check=True)

"""LearningModelAPITest, and what AdapterTest and RawApiTest ask of models."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from helpers import winml_models
from helpers.models import FLOAT16, data, tensor
from winml_py import (
    CorruptModelError,
    ImageFeatureDescriptor,
    LearningModelBinding,
    LearningModelFeatureKind,
    LearningModelPixelRange,
    LearningModelSession,
    ModelNotFoundError,
    TensorFeatureDescriptor,
    TensorKind,
)
from winml_py.errors import ModelDisposedError
from winml_py.winrt.windows.ai.machinelearning import LearningModel
from winml_py.winrt.windows.storage import StorageFile
from winml_py.winrt.windows.storage.streams import DataWriter, InMemoryRandomAccessStream, RandomAccessStreamReference


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    file.write_bytes(winml_models.squeezenet())
    return file


@pytest.fixture
def model() -> LearningModel:
    return LearningModel.load(winml_models.squeezenet())


@pytest.mark.winml(
    "LearningModelAPITest.CreateModelFromFilePath",
    "ScenarioCppWinrtTest.Sample1",
    "RawApiTest.CreateModelFromFilePath",
    "AdapterTest.CreateModelFromPath",
)
def test_create_model_from_file_path(path: Path) -> None:
    assert LearningModel.load_from_file_path(str(path)).name == "test graph"


@pytest.mark.winml("LearningModelAPITest.CreateModelFromUnicodeFilePath")
def test_create_model_from_unicode_file_path(tmp_path: Path) -> None:
    folder = tmp_path / "UnicodePath" / "こんにちは maçã"
    folder.mkdir(parents=True)
    (folder / "foo.onnx").write_bytes(winml_models.squeezenet())
    assert LearningModel.load_from_file_path(folder / "foo.onnx").author == "onnx-caffe2"


@pytest.mark.winml("LearningModelAPITest.CreateModelFileNotFound")
def test_create_model_file_not_found() -> None:
    with pytest.raises(ModelNotFoundError) as missing:
        LearningModel.load_from_file_path("missing_model.onnx")
    assert missing.value.hresult == 0x80070002


@pytest.mark.winml("LearningModelAPITest.CreateCorruptModel")
def test_create_corrupt_model(tmp_path: Path) -> None:
    (tmp_path / "corrupt-model.onnx").write_bytes(winml_models.squeezenet()[::-1])
    with pytest.raises(CorruptModelError) as corrupt:
        LearningModel.load_from_file_path(tmp_path / "corrupt-model.onnx")
    assert corrupt.value.hresult == 0x80070570


@pytest.mark.winml("LearningModelAPITest.CreateModelFromIStorage")
def test_create_model_from_istorage(path: Path) -> None:
    async def load() -> LearningModel:
        return await LearningModel.load_from_storage_file_async(await StorageFile.get_file_from_path_async(str(path)))

    assert asyncio.run(load()).author == "onnx-caffe2"


@pytest.mark.winml("LearningModelAPITest.CreateModelFromIStorageOutsideCwd")
def test_create_model_from_istorage_outside_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ModelSubdirectory").mkdir()
    (tmp_path / "ModelSubdirectory" / "ModelInSubdirectory.onnx").write_bytes(winml_models.squeezenet())
    monkeypatch.chdir(tmp_path)
    file = StorageFile.get_file_from_path_async(os.path.join("ModelSubdirectory", "ModelInSubdirectory.onnx")).get()
    assert LearningModel.load_from_storage_file_async(file).get().author == "onnx-caffe2"


@pytest.mark.winml("LearningModelAPITest.CreateModelFromIStream", "ScenarioCppWinrtTest.Scenario2LoadModelFromStream")
def test_create_model_from_istream(path: Path) -> None:
    file = StorageFile.get_file_from_path_async(path).get()
    reference = RandomAccessStreamReference.create_from_file(file)
    assert LearningModel.load_from_stream_async(reference).get().author == "onnx-caffe2"


@pytest.mark.winml(
    "LearningModelAPITest.ModelGetAuthor",
    "LearningModelAPITest.ModelGetName",
    "LearningModelAPITest.ModelGetDomain",
    "LearningModelAPITest.ModelGetDescription",
    "LearningModelAPITest.ModelGetVersion",
    "LearningModelAPITest.CheckMetadataCaseInsensitive",
    "AdapterTest.ModelGetAuthor",
    "AdapterTest.ModelGetName",
    "AdapterTest.ModelGetDomain",
    "AdapterTest.ModelGetDescription",
    "AdapterTest.ModelGetVersion",
    "AdapterTest.ModelGetMetadataCount",
    "AdapterTest.ModelGetMetadata",
    "LearningModelAPITest.CloseModelCheckMetadata",
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_what_the_header_says(model: LearningModel, is_closed: bool) -> None:
    if is_closed:
        model.close()
    assert (model.author, model.name, model.domain) == ("onnx-caffe2", "test graph", "test-domain")
    assert (model.description, model.version) == ("test-doc_string", 123456)
    assert model.metadata.size == 2
    assert dict(model.metadata) == {"thisisalongkey": "thisisalongvalue", "key2": "val2"}
    assert model.metadata.has_key("tHiSiSaLoNgKeY")
    assert model.metadata.lookup("tHiSiSaLoNgKeY") == "thisisalongvalue"
    assert model.input_features[0].name == "data_0"


@pytest.mark.winml(
    "LearningModelAPITest.EnumerateInputs",
    "AdapterTest.ModelGetInputCount",
    "AdapterTest.ModelGetInputName",
    "AdapterTest.ModelGetInputTypeInfo",
    "AdapterTest.ModelGetInputDescription",
    "LearningModelAPITest.EnumerateOutputs",
    "AdapterTest.ModelGetOutputCount",
    "AdapterTest.ModelGetOutputName",
    "AdapterTest.ModelGetOutputTypeInfo",
    "AdapterTest.ModelGetOutputDescription",
)
@pytest.mark.parametrize(
    ("ends", "name", "shape", "description"),
    [
        ("input_features", "data_0", [1, 3, 224, 224], "this is a long input description!"),
        ("output_features", "softmaxout_1", [1, 1000, 1, 1], "probabilities"),
    ],
)
def test_enumerate_features(model: LearningModel, ends: str, name: str, shape: list[int], description: str) -> None:
    for _ in range(2):  # asking again works
        features = getattr(model, ends)
        assert features.size == 1
        each = features.first()
        feature = each.current
        assert feature is features.get_at(0)
        assert (each.move_next(), each.has_current) == (False, False)
        assert isinstance(feature, TensorFeatureDescriptor)
        assert (feature.name, feature.kind, feature.is_required) == (name, LearningModelFeatureKind.TENSOR, True)
        assert (feature.tensor_kind, list(feature.shape)) == (TensorKind.FLOAT, shape)
        assert feature.description == description


@pytest.mark.winml("LearningModelAPITest.CheckLearningModelPixelRange")
@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("NominalRange_0_255", LearningModelPixelRange.ZERO_TO255),
        ("Normalized_0_1", LearningModelPixelRange.ZERO_TO_ONE),
        ("Normalized_1_1", LearningModelPixelRange.MINUS_ONE_TO_ONE),
    ],
)
def test_check_learning_model_pixel_range(stated: str, expected: LearningModelPixelRange) -> None:
    metadata = {
        "Image.BitmapPixelFormat": "Bgr8",
        "Image.ColorSpaceGamma": "SRGB",
        "Image.NominalPixelRange": stated,
    }
    model = LearningModel.load(winml_models.add(metadata=metadata))
    for feature in (*model.input_features, *model.output_features):
        assert isinstance(feature, ImageFeatureDescriptor)
        assert feature.pixel_range is expected


@pytest.mark.winml("LearningModelAPITest.CloseModelCheckEval")
def test_close_model_check_eval(model: LearningModel) -> None:
    session = LearningModelSession(model)
    model.close()
    binding = LearningModelBinding(session)
    binding.bind("data_0", winml_models.make_frame(winml_models.load_picture("cat", 224, 224)))
    scores = session.evaluate(binding, "").outputs["softmaxout_1"].to_numpy()
    np.testing.assert_allclose(scores.sum(), 1, rtol=1e-5)


@pytest.mark.winml("LearningModelAPITest.CloseModelNoNewSessions")
def test_close_model_no_new_sessions(model: LearningModel) -> None:
    model.close()
    with pytest.raises(ModelDisposedError, match=r"The model has been disposed\.") as disposed:
        LearningModelSession(model)
    assert disposed.value.hresult == 0x80070057


@pytest.mark.winml("RawApiTest.EvaluateFromModelFromBuffer", "AdapterTest.CreateModelFromData")
def test_model_from_a_buffer() -> None:
    image = winml_models.make_planes(winml_models.load_picture("fish", 224, 224))
    results = []
    for source in (
        winml_models.squeezenet(),
        bytearray(winml_models.squeezenet()),
        io.BytesIO(winml_models.squeezenet()),
    ):
        session = LearningModelSession(LearningModel.load(source))
        results.append(session.evaluate_features({"data_0": image}, "").outputs["softmaxout_1"].to_numpy())
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.winml("AdapterTest.ModelEnsureNoFloat16")
def test_a_model_says_whether_it_has_float16(model: LearningModel) -> None:
    half = LearningModel.load(data([helper.make_node("Neg", ["x"], ["y"])], *[[tensor(n, [2], FLOAT16)] for n in "xy"]))
    assert (model.precision, half.precision) == ("float32", "float16")


@pytest.mark.winml("AdapterTest.CloneModel")
def test_every_session_has_the_model(model: LearningModel) -> None:
    sessions = [LearningModelSession(model) for _ in range(2)]
    model.close()
    image = winml_models.make_planes(winml_models.load_picture("fish", 224, 224))
    results = []
    for session in sessions:  # each goes on without the model, and without the other
        results.append(session.evaluate_features({"data_0": image}, "").outputs["softmaxout_1"].to_numpy())
        session.close()
    np.testing.assert_array_equal(*results)
    assert [session.model.author for session in sessions] == ["onnx-caffe2"] * 2


@pytest.mark.winml("ScenarioCppWinrtTest.EncryptedStream")
def test_encrypted_stream() -> None:
    plain = np.frombuffer(winml_models.squeezenet(), np.uint8)
    key = np.random.default_rng(3).integers(0, 256, plain.size, np.uint8)

    def load(content: bytes) -> LearningModel:
        stream = InMemoryRandomAccessStream()
        writer = DataWriter(stream)
        writer.write_bytes(content)
        writer.store_async().get()
        return LearningModel.load_from_stream(RandomAccessStreamReference.create_from_stream(stream))

    encrypted = plain ^ key
    with pytest.raises(CorruptModelError):
        load(encrypted.tobytes())
    decrypted = load((encrypted ^ key).tobytes())
    LearningModelSession(decrypted)
    assert decrypted.author == "onnx-caffe2"

"""Models, options, contracts and values in another process; what belongs to one process says so."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers.models import data, tensor, unary
from helpers.paths import MODELS
from winml_py import (
    BitmapPixelFormat,
    CorruptModelError,
    CustomOperator,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    Precision,
    SoftwareBitmap,
    Tensor,
    TensorFloat,
    TensorString,
    Tuning,
    VideoFrame,
    Weights,
)
from winml_py.errors import IllegalCallError, ModelDisposedError, PictureNotFoundError
from winml_py.experimental import LearningModelExperimental
from winml_py.scaling import ShortestSide
from winml_py.testing import FakeDevice
from winml_py.winrt.windows.ai import machinelearning

DIGITS = MODELS / "digits.onnx"
ZEROS = np.zeros((1, 1, 28, 28), np.float32)


def there_and_back(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def answer(model: LearningModel, picture: Path) -> np.ndarray[Any, Any]:
    with LearningModelSession(model) as session:
        return session.evaluate_features({"image": ImageFeatureValue.load(picture)}).outputs["probabilities"].to_numpy()


def raw(picture: Path) -> np.ndarray[Any, Any]:
    """The answer without us: Pillow scales, and ONNX Runtime runs."""
    with Image.open(picture) as image:
        pixels = np.asarray(image.resize((28, 28), Image.Resampling.BICUBIC), np.float32)
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"image": pixels[None, None] / 255})[0])


OTHER_PROCESS = """
import pickle, sys
import numpy as np
from winml_py import LearningModelSession
model, options, value = pickle.load(sys.stdin.buffer)
result = LearningModelSession(model, None, options).evaluate_features({"image": value})
sys.stdout.buffer.write(pickle.dumps(result))
"""


@pytest.mark.parametrize("source", [DIGITS, DIGITS.read_bytes()], ids=["path", "bytes"])
def test_another_process_evaluates_what_was_sent_and_sends_the_result(source: Any, seven: Path) -> None:
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    sent = pickle.dumps((LearningModel.load(source), options, ImageFeatureValue.load(seven)))
    command = [sys.executable, "-W", "error", "-c", OTHER_PROCESS]
    done = subprocess.run(command, input=sent, capture_output=True, timeout=60, check=True)
    result = pickle.loads(done.stdout)
    np.testing.assert_allclose(result.outputs["probabilities"].to_numpy(), raw(seven), atol=1e-3)
    with Image.open(seven) as image:
        assert result.placements["image"][0].picture_width == image.width


def test_a_model_of_a_file_pickles_small_and_one_of_bytes_whole() -> None:
    assert len(pickle.dumps(LearningModel.load(DIGITS))) < 2000
    data = DIGITS.read_bytes()
    assert data in pickle.dumps(LearningModel.load(data))


def test_contracts_name_and_class_go_with_a_model(seven: Path) -> None:
    model = machinelearning.LearningModel.load_from_file_path(str(DIGITS))
    model.contracts["image"] = ImageContract(BitmapPixelFormat.GRAY8, mean=(33.3,))
    LearningModelExperimental(model).set_name("ours")
    again = there_and_back(model)
    assert type(again) is machinelearning.LearningModel
    assert (again.name, dict(again.contracts)) == ("ours", dict(model.contracts))
    np.testing.assert_array_equal(answer(again, seven), answer(model, seven))


def double(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x * np.float32(2)


def test_operators_go_with_a_model() -> None:
    node = helper.make_node("Double", ["x"], ["y"], domain="my")
    proto = data([node], [tensor("x", [2])], [tensor("y", [2])], domains={"my": 1})
    operator = CustomOperator(double, "Double", "my", outputs=[(np.float32, 1)])
    session = LearningModelSession(there_and_back(LearningModel.load(proto, operators=[operator])))
    assert session.evaluate_features({"x": np.float32([1, 2])}).outputs["y"].to_numpy().tolist() == [2, 4]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copy(DIGITS, tmp_path / "digits.onnx"))


def test_a_file_that_was_replaced_by_another_model_is_refused(copied: Path) -> None:
    pickled = pickle.dumps(LearningModel.load(copied))
    proto = onnx.load(copied)
    proto.doc_string = "another"
    os.replace(copied, copied.with_suffix(".old"))
    onnx.save(proto, copied)
    with pytest.raises(CorruptModelError, match="has changed since the model was pickled"):
        pickle.loads(pickled)


def test_a_changed_weight_is_refused_though_size_and_time_are_the_same(copied: Path) -> None:
    status, content = copied.stat(), bytearray(copied.read_bytes())
    pickled = pickle.dumps(LearningModel.load(copied))
    content[len(content) // 2] ^= 1
    copied.write_bytes(content)
    os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(CorruptModelError, match="has changed since"):
        pickle.loads(pickled)


def test_the_same_contents_are_accepted_whatever_their_times(copied: Path, seven: Path) -> None:
    """As on another machine that was given a copy."""
    pickled = pickle.dumps(LearningModel.load(copied))
    copied.unlink()
    shutil.copyfile(DIGITS, copied)
    os.utime(copied, (1, 1))
    np.testing.assert_allclose(answer(pickle.loads(pickled), seven), raw(seven), atol=1e-3)


def test_a_changed_data_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    proto = onnx.load(DIGITS)
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    pickled = pickle.dumps(LearningModel.load(path))
    pickle.loads(pickled)
    content = bytearray((tmp_path / "weights.bin").read_bytes())
    content[0] ^= 1
    (tmp_path / "weights.bin").write_bytes(content)
    with pytest.raises(CorruptModelError, match="or a file with its weights"):
        pickle.loads(pickled)


def test_what_cannot_be_sent_says_so(copied: Path) -> None:
    model = LearningModel.load(copied)
    pickled = pickle.dumps(model)
    session = LearningModelSession(model)
    for thing in (session, LearningModelBinding(session)):
        with pytest.raises(IllegalCallError, match="Pickle the model and the options"):
            pickle.dumps(thing)
    copied.unlink()
    with pytest.raises(ModelNotFoundError, match="Copy the file to this path on every machine"):
        pickle.loads(pickled)
    with pytest.raises(CorruptModelError, match="has changed since the model was loaded"):
        pickle.dumps(model)
    model.dispose()
    with pytest.raises(ModelDisposedError):
        pickle.dumps(model)


def test_options_come_back_as_they_were_and_apart() -> None:
    options = LearningModelSessionOptions()
    options.batch_size_override, options.intra_op_num_threads, options.engine = 0, 3, "openvino"
    options.override_named_dimension("batch", 4)
    options.override_input_shape("x", (1, -1, 5))
    options.provider_options, options.precision = {"a": True}, Precision.FLOAT32
    options.weights, options.tuning, options.graph_capture = Weights.PRIVATE, Tuning(memory_arena=False), True
    for again in (there_and_back(options), copy.copy(options), copy.deepcopy(options)):
        assert again.to_dict() == options.to_dict()
        assert again.tuning == Tuning(memory_arena=False)
        again.override_named_dimension("batch", 5)
    assert options.named_dimension_overrides == {"batch": 4}


def test_contracts_are_equal_to_what_was_sent() -> None:
    for contract in (ImageContract(), ImageContract.imagenet(), ImageContract.yolo(), ImageContract.clip()):
        assert there_and_back(contract) == contract
    scaling = ShortestSide(256)
    assert there_and_back(scaling) == scaling


@pytest.mark.parametrize("kind", [kind for kind in Tensor.__subclasses__() if kind is not TensorString])
def test_tensors_of_numbers(kind: type[Tensor]) -> None:
    array = np.arange(6).reshape(2, 3).astype(kind.dtype)
    again = there_and_back(kind.from_numpy(array))
    assert type(again) is kind
    np.testing.assert_array_equal(again.to_numpy(), array)
    assert tuple(there_and_back(kind.from_numpy(array[::-1, ::2])).shape) == (2, 2)


def test_tensors_without_numbers() -> None:
    words = there_and_back(TensorString.create_from_array([2], ["a", "é"]))
    assert list(words.get_as_vector_view()) == ["a", "é"]
    placeholder = there_and_back(TensorFloat.create([2, -1]))
    assert placeholder.is_placeholder
    assert tuple(placeholder.shape) == (2, -1)
    assert there_and_back(TensorFloat.create()).is_placeholder
    referenced = TensorFloat.create([2])
    with referenced.create_reference():
        assert not there_and_back(referenced).has_open_references
    referenced.close()
    with pytest.raises(IllegalCallError, match="has been closed"):
        pickle.dumps(referenced)


def test_pictures(seven: Path, cat: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    bitmap = SoftwareBitmap.from_array(pixels[:, ::2], BitmapPixelFormat.RGB8)
    again = there_and_back(bitmap)
    np.testing.assert_array_equal(again.to_numpy(), pixels[:, ::2])
    assert again.bitmap_pixel_format is BitmapPixelFormat.RGB8
    frame = there_and_back(VideoFrame.create_with_software_bitmap(bitmap))
    np.testing.assert_array_equal(frame.software_bitmap.to_numpy(), pixels[:, ::2])
    undecoded = there_and_back(ImageFeatureValue.load(cat, fast_decode=True))
    np.testing.assert_array_equal(undecoded.to_numpy(), ImageFeatureValue.load(cat).to_numpy())


def test_results_with_maps_sequences_and_errors(digits: LearningModelSession) -> None:
    key, value = TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    zipmap = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 5])
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    model = data([zipmap], [tensor("x", [1, 2])], [helper.make_value_info("y", kind)], domains={"ai.onnx.ml": 3})
    result = LearningModelSession(LearningModel.load(model)).evaluate_features({"x": np.float32([[0.25, 0.75]])})
    again = there_and_back(result)
    assert again.outputs["Y"] == [{3: 0.25, 5: 0.75}]
    assert again.outputs["y"].get_at(0).lookup(5) == 0.75

    failed = there_and_back(next(digits.evaluate_many(["missing.png"])))
    assert (failed.index, failed.source, failed.succeeded) == (0, "missing.png", False)
    assert isinstance(failed.error, PictureNotFoundError)
    assert there_and_back(LearningModel.load(unary(metadata={"A": "1"})).metadata)["a"] == "1"


def test_devices_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (LearningModelDeviceKind.DEFAULT, LearningModelDeviceKind.CPU):
        assert there_and_back(LearningModelDevice(kind)).kind is kind
    fake = there_and_back(FakeDevice(zeros))
    session = LearningModelSession(LearningModel.load(DIGITS), fake)
    assert session.evaluate_features({"image": ZEROS}).outputs["probabilities"].to_numpy().shape == (1, 10)


def zeros(_: Any) -> dict[str, Any]:
    return {"probabilities": np.zeros((1, 10), np.float32)}


def test_a_gpu_is_found_again(gpu: LearningModelDevice) -> None:
    again = there_and_back(gpu)
    assert (again.name, again.provider, again.adapter_id) == (gpu.name, gpu.provider, gpu.adapter_id)

"""Image contracts that a program attaches to a loaded model, from the library and from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.cli import require_exit
from helpers.models import INT64, data, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    TensorFeatureDescriptor,
    TensorLayout,
    read_contract,
)
from winml_py.errors import NotBoundError

SHAPE = (1, 3, 4, 6)
RGB01 = ImageContract(BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE)
PIXELS = np.random.default_rng(0).integers(0, 256, (*SHAPE[2:], 3), np.uint8)
PICTURE = ImageFeatureValue.from_array(PIXELS, BitmapPixelFormat.RGB8)
EXPECTED = (PIXELS.transpose(2, 0, 1)[None] / np.float32(255)).astype(np.float32)


def plain(shape: Any = SHAPE) -> LearningModel:
    return LearningModel.load(unary(shape=shape))


def result_of(session: LearningModelSession, value: Any = PICTURE) -> np.ndarray[Any, Any]:
    array = np.zeros(SHAPE, np.float32)
    session.evaluate_features({"x": value, "y": array})
    return array


def test_every_way_to_bind_uses_the_attached_contract(tmp_path: Path) -> None:
    model = plain()
    model.contracts["x"] = RGB01
    session = LearningModelSession(model)
    Image.fromarray(PIXELS).save(tmp_path / "picture.png")
    binding = LearningModelBinding(session)
    binding.bind("x", PIXELS, {"BitmapPixelFormat": BitmapPixelFormat.RGB8})  # an array of bytes is a picture now
    found = [
        result_of(session),
        session.evaluate(binding).outputs["y"].to_numpy(),
        *(result.outputs["y"].to_numpy() for result in session.evaluate_many([PICTURE, str(tmp_path / "picture.png")])),
    ]
    for array in found:
        np.testing.assert_array_equal(array, EXPECTED)


def test_a_session_that_is_older_than_the_contract_uses_it_from_the_next_bind_on() -> None:
    model = plain()
    session = LearningModelSession(model)
    binding = LearningModelBinding(session)
    binding.bind("x", PICTURE, {"ImageContract": ImageContract(BitmapPixelFormat.RGB8)})
    model.contracts["x"] = RGB01
    bytes_still = session.evaluate(binding).outputs["y"].to_numpy()
    np.testing.assert_array_equal(bytes_still, np.float32(PIXELS.transpose(2, 0, 1)[None]))
    binding.bind("x", PICTURE)
    np.testing.assert_array_equal(session.evaluate(binding).outputs["y"].to_numpy(), EXPECTED)


def test_the_order_of_statements() -> None:
    """What the bind says, what the program attached, what the model says."""
    metadata = {"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "Normalized_1_1"}
    model = LearningModel.load(unary(shape=SHAPE, denotation="IMAGE", metadata=metadata))
    session = LearningModelSession(model)
    by_model = result_of(session)
    np.testing.assert_array_equal(
        by_model, PIXELS[..., ::-1].transpose(2, 0, 1)[None] / np.float32(127.5) - np.float32(1)
    )
    model.contracts["x"] = RGB01
    np.testing.assert_array_equal(result_of(session), EXPECTED)
    stated = {"ImageContract": ImageContract(BitmapPixelFormat.RGB8)}
    binding = LearningModelBinding(session)
    binding.bind("x", PICTURE, stated)
    binding.bind("y", by_bind := np.zeros(SHAPE, np.float32))
    session.evaluate(binding)
    np.testing.assert_array_equal(by_bind, np.float32(PIXELS.transpose(2, 0, 1)[None]))
    model.contracts["x"] = None
    np.testing.assert_array_equal(result_of(session), by_model)


def test_the_contracts_show_what_the_model_states() -> None:
    """Also where an exporter states it in words of its own."""
    metadata = {"author": "Ultralytics", "task": "detect", "imgsz": "[8, 8]"}
    model = LearningModel.load(unary(shape=(1, 3, 8, 8), metadata=metadata))
    assert dict(model.contracts) == {}
    assert "the model specifies {'x': <ImageContract RGB8" in repr(model.contracts)
    model.contracts["x"] = ImageContract()
    assert "states" not in repr(model.contracts)


def test_the_descriptors_show_it_until_it_is_taken_away() -> None:
    model = plain((1, 3, "h", "w"))
    before = model.input_features[0]
    assert isinstance(before, TensorFeatureDescriptor)
    model.contracts["X"] = RGB01  # in any case, as at a bind
    feature = model.input_features[0]
    assert isinstance(feature, ImageFeatureDescriptor)
    assert (feature.contract, feature.shape, feature.dimension_names) == (RGB01, before.shape, before.dimension_names)
    assert dict(model.contracts) == {"x": RGB01}
    assert model.contracts["X"] is model.contracts.get("X") is RGB01
    del model.contracts["X"]
    assert model.input_features[0] is before
    model.contracts["X"] = None
    assert not model.contracts


@pytest.mark.parametrize(
    ("shape", "element", "name", "contract", "message"),
    [
        (SHAPE, 1, "xx", RGB01, r"The model has no input 'xx'\. Did you mean 'x'\?"),
        (SHAPE, 1, 3, RGB01, "The model has no input 3"),
        (SHAPE, 1, "x", "imagenet", "The contract of x cannot be 'imagenet'"),
        ((1, 3), 1, "x", RGB01, r"The input x is Float\[1,3,\], but the contract is for RGB8 pictures in NCHW"),
        ((1, 1, 4, 6), 1, "x", RGB01, r"The input x is Float\[1,1,4,6,\]"),
        (SHAPE, INT64, "x", RGB01, r"The input x is Int64\[1,3,4,6,\]"),
        (SHAPE, 1, "x", ImageContract(layout=TensorLayout.NHWC), "pictures in NHWC"),
        (SHAPE, 1, "x", replace(RGB01, size=(5, 6)), "The height of the model variable x is 4, but the .* specifies 5"),
        (
            (1, 3, "h", 6),
            1,
            "X",
            replace(RGB01, size=(5, 7)),
            r"^The width .* is 6, but .* specifies 7\. Omit the size",
        ),
    ],
)
def test_what_cannot_be_attached(shape: Any, element: int, name: Any, contract: Any, message: str) -> None:
    model = LearningModel.load(unary(shape=shape, element=element))
    with pytest.raises((InvalidArgumentError, InvalidBindingError), match=message):
        model.contracts[name] = contract
    assert not model.contracts


def test_what_is_not_attached_cannot_be_had() -> None:
    model = plain()
    for use in (lambda: model.contracts["x"], lambda: model.contracts.__delitem__("x")):
        with pytest.raises(NotBoundError, match="No contract is attached to 'x'"):
            use()


# Files of contracts


def test_a_contract_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    for contract in (RGB01, ImageContract.imagenet(), ImageContract.yolo()):
        path.write_text(json.dumps(contract.to_metadata()))
        assert read_contract(path) == contract


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expected valid JSON"),
        ("[" * 100_000, "Expected valid JSON"),
        ("[]", "Expected a JSON object"),
        ("{}", "No image contract"),
        ('{"Image.Mean": 3}', r"the value of Image\.Mean is not text"),
        ('{"Image.Meen": "3"}', r"Image contracts have no key 'Image\.Meen'\. Did you mean 'Image\.Mean'"),
        ('{"Image.Mean": "three"}', r"contract\.json: The model's metadata contains an invalid Image\.Mean: 'three'"),
    ],
)
def test_files_that_state_no_contract(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "contract.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        read_contract(tmp_path / "contract.json")


# The command line


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model without a contract, a picture, and a contract."""
    model, picture, contract = (tmp_path / name for name in ("plain.onnx", "picture.png", "contract.json"))
    model.write_bytes(unary("Sigmoid", shape=SHAPE))
    Image.fromarray(PIXELS).save(picture)
    contract.write_text(json.dumps(RGB01.to_metadata()))
    return model, picture, contract


def test_run_takes_a_contract_by_its_file_or_its_name(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, picture, contract = files
    saved = tmp_path / "out.npz"
    assert require_exit("run", model, picture, "--contract", contract, "--output", saved).stderr == ""
    np.testing.assert_allclose(np.load(saved)["y"], 1 / (1 + np.exp(-EXPECTED)), atol=1e-6)
    assert require_exit("run", model, picture, "--contract", "inception", "--output", saved).stderr == ""
    np.testing.assert_allclose(np.load(saved)["y"], 1 / (1 + np.exp(1 - 2 * EXPECTED)), atol=1e-6)
    gray = tmp_path / "gray.json"
    gray.write_text('{"Image.BitmapPixelFormat": "Gray8"}')
    assert "No input is a tensor of GRAY8 pictures" in require_exit(
        "run", model, picture, "--contract", gray, code=4
    ).stderr.replace("\n", " ")


@pytest.mark.usefixtures("short_tune")
@pytest.mark.parametrize("command", ["perf", "tune"])
def test_commands_that_measure_take_a_contract(command: str, files: tuple[Path, Path, Path]) -> None:
    model, picture, contract = files
    short = [] if command == "tune" else ["-n", "2"]
    assert "No image contract is" in require_exit(command, model, picture, *short).stderr
    assert "No image contract is" not in require_exit(command, model, picture, *short, "--contract", contract).stderr


def test_converting_checks_with_pictures_of_the_contract(tmp_path: Path) -> None:
    """Times 300, bytes leave float16's range, and numbers from 0 to 1 do not."""
    path, contract = tmp_path / "times.onnx", tmp_path / "bytes.json"
    nodes = [helper.make_node("Mul", ["x", "c"], ["z"], "times"), helper.make_node("Div", ["z", "c"], ["y"])]
    ends = [tensor(name, (1, 3, 32, 32)) for name in "xy"]
    path.write_bytes(data(nodes, ends[:1], ends[1:], {"c": np.full((32, 32), 300, np.float32)}))
    contract.write_text(json.dumps(ImageContract(BitmapPixelFormat.RGB8).to_metadata()))
    convert = ["convert", path, "--output", tmp_path / "out.onnx", "--json"]
    kept = [json.loads(require_exit(*convert, *more).stdout)["kept"] for more in ([], ["--contract", contract])]
    assert ["times" in str(report) for report in kept] == [False, True]


def test_a_contract_that_fits_no_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flat.onnx").write_bytes(unary(shape=(2, 3)))
    convert = ["convert", tmp_path / "flat.onnx", "--output", tmp_path / "out.onnx"]
    refused = require_exit(*convert, "--contract", "yolo", code=4)
    assert "No input is a tensor of RGB8 pictures" in " ".join(refused.stderr.split())


def test_the_contract_of_a_value_counts_for_it_alone(tmp_path: Path) -> None:
    """The bind's comes before it, the program's after it; each picture input may have its own."""
    model = LearningModel.load(unary(shape=SHAPE))
    model.contracts["x"] = ImageContract(BitmapPixelFormat.BGR8)
    bitmap, path = PICTURE.video_frame.software_bitmap, tmp_path / "picture.png"
    bitmap.save(path)
    with LearningModelSession(model) as session:
        binding = LearningModelBinding(session)
        for value in (
            ImageFeatureValue(PICTURE.video_frames, contract=RGB01),
            ImageFeatureValue.create_from_video_frame(PICTURE.video_frame, contract=RGB01),
            ImageFeatureValue.from_software_bitmap(bitmap, contract=RGB01),
            ImageFeatureValue.load(path, contract=RGB01),
            ImageFeatureValue.load(path, fast_decode=True, contract=RGB01),
            ImageFeatureValue.from_pil(PICTURE.to_pil(), contract=RGB01),
            ImageFeatureValue.from_array(PIXELS, BitmapPixelFormat.RGB8, contract=RGB01),
        ):
            assert value.contract == RGB01
            binding.bind("x", value)
            results = [
                session.evaluate(binding),
                session.evaluate_features({"x": value}),
                session.evaluate_features({"x": [value]}),
                session.evaluate_features_async({"x": value}).get(),
                *session.evaluate_many([value]),
                *session.evaluate_many(iter([value])),  # copied
            ]
            for result in results:
                np.testing.assert_array_equal(result.outputs["y"].to_numpy(), EXPECTED)
        # The bind's own contract, and the program's for values that state none.
        binding.bind("x", value, {"ImageContract": ImageContract(BitmapPixelFormat.RGB8)})
        np.testing.assert_array_equal(session.evaluate(binding).outputs["y"], PIXELS.transpose(2, 0, 1)[None])
        (result,) = session.evaluate_many([value], contract=ImageContract(BitmapPixelFormat.RGB8))
        np.testing.assert_array_equal(result.outputs["y"], PIXELS.transpose(2, 0, 1)[None])
        assert PICTURE.contract is None
        result = session.evaluate_features({"x": PICTURE})
        np.testing.assert_array_equal(result.outputs["y"], PIXELS[..., ::-1].transpose(2, 0, 1)[None])
        # A property replaces one field of it.
        binding.bind("x", value, {"BitmapPixelFormat": BitmapPixelFormat.BGRA8})
        np.testing.assert_array_equal(session.evaluate(binding).outputs["y"], EXPECTED[:, ::-1])


def test_the_contracts_of_the_pictures_of_a_batch() -> None:
    model = LearningModel.load(unary(shape=("n", *SHAPE[1:])))
    one = ImageFeatureValue.from_array(PIXELS, BitmapPixelFormat.RGB8, contract=RGB01)
    other = ImageFeatureValue(PICTURE.video_frames, contract=ImageContract(BitmapPixelFormat.RGB8))
    levels = PIXELS.transpose(2, 0, 1)[None]
    with LearningModelSession(model) as session:
        result = session.evaluate_features({"x": [one, one]})
        np.testing.assert_array_equal(result.outputs["y"], np.concatenate([EXPECTED] * 2))
        with pytest.raises(InvalidBindingError, match="different contracts"):
            session.evaluate_features({"x": [one, other]})
        for pictures, expected in (([one] * 4, [EXPECTED] * 4), ([one, other], [EXPECTED, levels])):
            results = list(session.evaluate_many(pictures, batch=2))
            for result, tensor_values in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result.outputs["y"], tensor_values)


def test_two_picture_inputs_have_contracts_of_their_values() -> None:
    inputs = [tensor("a", SHAPE), tensor("b", SHAPE)]
    model = data([helper.make_node("Sub", ["a", "b"], ["y"])], inputs, [tensor("y", SHAPE)])
    with LearningModelSession(LearningModel.load(model)) as session:
        values = {
            "a": ImageFeatureValue(PICTURE.video_frames, contract=ImageContract(BitmapPixelFormat.RGB8)),
            "b": ImageFeatureValue(PICTURE.video_frames, contract=RGB01),
        }
        result = session.evaluate_features(values).outputs["y"]
    np.testing.assert_allclose(result, PIXELS.transpose(2, 0, 1)[None] * np.float32(254 / 255), rtol=1e-6)


def test_an_output_picture_is_read_by_the_contract_of_its_value() -> None:
    with LearningModelSession(LearningModel.load(unary(shape=SHAPE))) as session:
        drawn = ImageFeatureValue.from_array(np.zeros_like(PIXELS), BitmapPixelFormat.RGB8, contract=RGB01)
        session.evaluate_features({"x": EXPECTED, "y": drawn})
    np.testing.assert_array_equal(drawn.to_numpy(), PIXELS)


def test_a_value_refuses_what_is_no_contract() -> None:
    with pytest.raises(InvalidArgumentError, match="ImageContract"):
        ImageFeatureValue.from_array(PIXELS, BitmapPixelFormat.RGB8, contract="imagenet")  # type: ignore[arg-type]
    wrong = ImageFeatureValue(PICTURE.video_frames, contract=ImageContract(BitmapPixelFormat.GRAY8))
    with (
        LearningModelSession(LearningModel.load(unary(shape=SHAPE))) as session,
        pytest.raises(InvalidBindingError, match="GRAY8"),
    ):
        session.evaluate_features({"x": wrong})

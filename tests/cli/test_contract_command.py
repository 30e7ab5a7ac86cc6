"""`winml-py contract` with a config of another library, and with sides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from PIL import Image

from helpers.cli import call
from helpers.models import unary
from winml_py import BitmapPixelFormat, ImageContract, ImageKernel, ImageRounding, ImageScaling, LearningModel

ROOT = Path(__file__).parents[2]
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 384, "width": 384}}


def written(path: Path, values: object) -> Path:
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_the_command_line_takes_a_config(tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    model.write_bytes(unary(shape=(1, 3, "h", "w")))
    config = written(tmp_path / "preprocessor_config.json", VIT)
    for source in (config, tmp_path):
        done = call("contract", model, "--from", source, "--output", target)
        assert done.exit_code == 0, done.output
        made = LearningModel.load(target).input_features[0].contract  # type: ignore[attr-defined]
        assert made == ImageContract.from_preprocessor_config(VIT)
    call("contract", model, "--from", config, "--kernel", "area", "--output", target)
    assert LearningModel.load(target).input_features[0].contract.kernel is ImageKernel.AREA  # type: ignore[attr-defined]
    wrong = written(tmp_path / "wrong.json", {**VIT, "sharpen": 2})
    failed = call("contract", model, "--from", wrong, "--output", target)
    assert failed.exit_code != 0
    assert f"{wrong}: sharpen is a key" in failed.output.replace("\n", "")
    both = call("contract", model, "--from", config, "--preset", "clip", "--output", target)
    assert "--preset, --from or --new" in both.output


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--kernel", "linear"], replace(ImageContract.imagenet(), kernel=ImageKernel.LINEAR)),
        (["--pixel-format", "bgr"], ImageContract.imagenet().with_pixel_format(BitmapPixelFormat.BGR8)),
        (["--new", "--kernel", "linear"], ImageContract(kernel=ImageKernel.LINEAR)),
        (["--new"], ImageContract()),
        (["--preset", "clip"], ImageContract.clip()),
    ],
)
def test_options_change_what_the_model_states(options: list[str], wanted: ImageContract, tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    metadata = ImageContract.imagenet().to_metadata()
    model.write_bytes(unary(shape=(1, 3, 8, 8), denotation="IMAGE", metadata=metadata))
    done = call("contract", model, *options, "--output", target)
    assert done.exit_code == 0, done.output
    assert LearningModel.load(target).input_features[0].contract == wanted  # type: ignore[attr-defined]


IMAGENET = ["--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"]
IN_BYTES = ["--mean", "123.675,116.28,103.53", "--std", "58.395,57.12,57.375"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([*IMAGENET, "--range", "0..255"], "Black becomes -2.118 and white 1111,"),
        (["--mean", "0.5", "--std", "0.5", "--range", "0..255"], "Black becomes -1 and white 509,"),
        (["--mean", "127.5", "--std", "0.5", "--range", "0..255"], "Black becomes -255 and white 255,"),
        ([*IN_BYTES, "--range", "0..1"], "Black becomes -2.118 and white -2.101,"),
        (["--mean", "127.5", "--range", "0..1"], "Black becomes -127.5 and white -126.5,"),
        (["--std", "255", "--range", "0..1"], "Black becomes 0 and white 0.003922,"),
        ([*IMAGENET, "--range", "0..1"], ""),
        ([*IN_BYTES, "--range", "0..255"], ""),
        (["--mean", "127.5", "--std", "127.5", "--range", "0..255"], ""),
        (["--mean", "123.68,116.78,103.94", "--range", "0..255"], ""),
        (["--mean", "0.1307", "--std", "0.3081", "--range", "0..1"], ""),
        (["--range", "-1..1"], ""),
    ],
)
def test_ranges_that_cannot_be_right_are_told(options: list[str], words: str, tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    model.write_bytes(unary(shape=(1, 3, 8, 8)))
    done = call("contract", model, "--pixel-format", "rgb", *options, "--output", target)
    assert done.exit_code == 0, done.output
    assert words in done.stderr
    assert bool(words) is bool(done.stderr)


@pytest.mark.parametrize(
    ("options", "scaling"),
    [
        (["--shortest-side", "256"], ImageScaling(shortest_side=256)),
        (["--longest-side", "640"], ImageScaling(longest_side=640)),
        (["--shortest-side", "800", "--longest-side", "1333"], ImageScaling(shortest_side=800, longest_side=1333)),
        (["--crop-ratio", "0.9"], ImageScaling(crop_ratio=0.9)),
        (
            ["--preset", "imagenet", "--shortest-side", "232"],
            ImageScaling(shortest_side=232, crop_rounding=ImageRounding.HALF_EVEN),
        ),
        (["--preset", "imagenet", "--crop", "stretch"], None),
    ],
)
def test_the_command_line_states_sides(options: list[str], scaling: ImageScaling | None, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(unary(shape=(1, 3, "h", "w")))
    done = call("contract", model, *options, "--size", "224,192", "--pixel-format", "rgb", "--output", model, "--force")
    assert done.exit_code == 0, done.output
    metadata = {entry.key: entry.value for entry in onnx.load(model).metadata_props}
    made = ImageContract.from_metadata(metadata)
    assert made.scaling == scaling
    assert made.size == (224, 192)


def test_the_command_line_builds_a_contract_in(tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    metadata = ImageContract.inception().to_metadata()
    model.write_bytes(unary(shape=(1, 3, 4, 5), denotation="IMAGE", metadata=metadata))
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4
    planes = pixels.transpose(2, 0, 1).astype(np.float32)
    cases: list[tuple[list[str], object, object]] = [
        ([], planes / 127.5 - 1, "the contract of the model"),
        (["--pictures", "bgr"], planes[::-1] / 127.5 - 1, "the contract of the model"),
        (["--range", "0..1", "--pixel-format", "rgb"], planes / 255, "RGB8, zero_to_one, antialiased_linear"),
        (["--new", "--range", "0..1", "--pixel-format", "rgb"], planes / 255, "RGB8, zero_to_one"),
    ]
    for options, wanted, words in cases:
        done = call("contract", model, "--build-in", *options, "--output", target, "--json")
        assert done.exit_code == 0, done.output
        pictures = "BGR8" if "bgr" in options else "RGB8"
        report = {"model": str(model), "output": str(target), "contract": words, "pictures": pictures}
        assert json.loads(done.output) == {"schema": 2, "kind": "contract", **report}
        np.testing.assert_allclose(ort.InferenceSession(target).run(None, {"x": pixels})[0][0], wanted, rtol=1e-6)
    done = call("contract", model, "--build-in", "--output", target)
    assert "takes RGB8 bytes, height x width x 3" in done.output.replace("\n", " ")


def test_the_command_line_wants_a_contract_or_pictures_for_it(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(unary(shape=(1, 3, 4, 5)))
    for options, words in (
        ([], "Say what the contract is"),
        (["--preset", "clip", "--pictures", "bgr"], "--pictures, --labels and --suppress go with --build-in"),
        (["--build-in"], "No input of the model is an image"),
        (["--build-in", "--kernel", "area"], "The kernel AREA cannot be built into a model"),
    ):
        failed = call("contract", model, *options, "--output", tmp_path / "made.onnx")
        assert failed.exit_code != 0
        assert words in " ".join(failed.output.replace("│", "").split())


def test_the_command_line_adds_labels(tmp_path: Path) -> None:
    target = tmp_path / "made.onnx"
    labels = ROOT / "models" / "digits.labels.txt"
    options = ["--build-in", "--pictures", "gray", "--labels", labels, "--output", target]
    done = call("contract", ROOT / "models" / "digits.onnx", *options)
    assert done.exit_code == 0, done.output
    pixels = np.array(Image.open(ROOT / "samples" / "pictures" / "seven.png").convert("L"))[..., None]
    (found,) = ort.InferenceSession(target).run(["top_labels"], {"image": pixels})
    assert found[0, 0] == labels.read_text().splitlines()[7]

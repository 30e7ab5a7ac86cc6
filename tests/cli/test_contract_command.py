"""`winml-py contract` with a config of another library, and with sides."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest
from PIL import Image

from helpers import seeing_models as seeing
from helpers.cli import call
from helpers.models import unary
from helpers.rectangles import STRETCH, make_file
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageKernel,
    LearningModel,
    read_contract,
)
from winml_py.authoring import write_contract
from winml_py.scaling import LongestSide, ShortestSide, Stretch

ROOT = Path(__file__).parents[2]
IMAGENET = ImageContract.imagenet()
YOLO_SCALED = replace(ImageContract.yolo(), scaling=LongestSide(9))
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 384, "width": 384}}


def written(path: Path, values: object) -> Path:
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_the_command_line_takes_a_config(tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    model.write_bytes(unary(shape=(1, 3, "h", "w")))
    config = written(tmp_path / "preprocessor_config.json", VIT)
    done = call("contract", model, "--from", config, "--output", target)
    assert done.exit_code == 0, done.output
    assert LearningModel.load(target).input_features[0].contract == read_contract(VIT)  # type: ignore[attr-defined]
    call("contract", model, "--from", config, "--set", "kernel=area", "--output", target)
    assert LearningModel.load(target).input_features[0].contract.kernel is ImageKernel.AREA  # type: ignore[attr-defined]
    wrong = written(tmp_path / "wrong.json", {**VIT, "sharpen": 2})
    failed = call("contract", model, "--from", wrong, "--output", target)
    assert failed.exit_code != 0
    assert f"{wrong}: sharpen is not a known key of ViTImageProcessor" in failed.output.replace("\n", "")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--set", "kernel=linear"], replace(IMAGENET, kernel=ImageKernel.LINEAR)),
        (["--set", "pixel_format=bgr8"], IMAGENET.with_pixel_format(BitmapPixelFormat.BGR8)),
        (
            ["--set", "scaling=stretch"],
            replace(IMAGENET, scaling=Stretch()),
        ),
        (
            ["--set", "scaling=shortest_side=9"],
            replace(IMAGENET, scaling=ShortestSide(9)),
        ),
        (["--set", "exact=true", "--set", "pad=1,2,3"], replace(IMAGENET, exact=True, pad=(1, 2, 3))),
        (["--from", "yolo", "--set", "scaling=longest_side=9"], YOLO_SCALED),
        (["--from", "windows", "--set", "kernel=linear"], ImageContract(kernel=ImageKernel.LINEAR)),
        (["--from", "windows"], ImageContract()),
        (["--from", "clip"], ImageContract.clip()),
    ],
)
def test_options_change_what_the_model_states(options: list[str], wanted: ImageContract, tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    metadata = ImageContract.imagenet().to_metadata()
    model.write_bytes(unary(shape=(1, 3, 8, 8), denotation="IMAGE", metadata=metadata))
    done = call("contract", model, *options, "--output", target)
    assert done.exit_code == 0, done.output
    assert LearningModel.load(target).input_features[0].contract == wanted  # type: ignore[attr-defined]


def test_the_command_line_builds_a_contract_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "made.onnx"
    metadata = ImageContract.inception().to_metadata()
    model.write_bytes(unary(shape=(1, 3, 4, 5), denotation="IMAGE", metadata=metadata))
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4
    planes = pixels.transpose(2, 0, 1).astype(np.float32)
    cases: list[tuple[list[str], object, object]] = [
        ([], planes / 127.5 - 1, "the contract of the model"),
        (["--pictures", "bgr"], planes[::-1] / 127.5 - 1, "the contract of the model"),
        (["--set", "pixel_range=zero_to_one"], planes / 255, "RGB8, zero_to_one, antialiased_linear"),
    ]
    for options, wanted, words in cases:
        done = call("contract", model, "--build-in", *options, "--output", target, "--json")
        assert done.exit_code == 0, done.output
        pictures = "BGR8" if "bgr" in options else "RGB8"
        facts = json.loads(done.output)
        built = facts.pop("built_in")
        report = {"model": str(model), "output": str(target), "contract": words, "pictures": pictures}
        assert facts == {"schema": 1, "kind": "contract", **report}
        takes = {"x": f"One picture of any size: height x width x channels, {pictures}."}
        assert (built["inputs"], built["answers"], built["outputs"]) == (takes, "", {})
        np.testing.assert_allclose(ort.InferenceSession(target).run(None, {"x": pixels})[0][0], wanted, rtol=1e-6)
    copy = shutil.copy(model, tmp_path / "copy.onnx")
    assert "height x width x channels, RGB8" in call("contract", copy, "--build-in", "--output", copy, "--force").output
    learned = SimpleNamespace(contract=ImageContract.inception())
    monkeypatch.setattr("winml_py.cli.contract._learn", lambda *_: learned)
    options = ["--build-in", "--learn", "a:b", "--pictures", "bgr", "--output", target, "--json"]
    assert json.loads(call("contract", model, *options).output)["pictures"] == "BGR8"


def test_the_command_line_wants_a_contract_or_pictures_for_it(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(unary(shape=(1, 3, 4, 5)))
    for options, words in (
        ([], "Specify the contract with"),
        (["--from", "clip", "--pictures", "bgr"], "--pictures, --labels and --answers require --build-in"),
        (["--from", "clip", "--learn", "module:function"], "Omit --from and --set"),
        (["--build-in"], "No input of the model has an image contract"),
    ):
        failed = call("contract", model, *options, "--output", tmp_path / "made.onnx")
        assert failed.exit_code != 0
        assert words in " ".join(failed.output.replace("│", "").split())


MASKED = seeing.yolo("mix") + seeing.prototypes() + "boxes = Identity(corners)\n"
SEEING: dict[str, tuple[str, dict[str, str]]] = {
    "yolo": (seeing.yolo(), {"output0": f"float[1, 7, {seeing.PLACES}]"}),
    "yolo-v5": (seeing.yolo_v5(), {"output0": f"float[1, {3 * seeing.PLACES}, 8]"}),
    "yolo with masks": (
        MASKED,
        {"output0": f"float[1, 39, {seeing.PLACES}]", "prototypes": "float[1, 32, 80, 80]", "boxes": "float[1, 4]"},
    ),
    "detr": (seeing.queries([0.0, 5.0, 0.0, 1.0]), {"logits": "float[1, 2, 4]", "pred_boxes": "float[1, 2, 4]"}),
    "masks": (seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"}),
}


@pytest.mark.parametrize("pictures", ["rgb", "bgr"])
@pytest.mark.parametrize("name", SEEING)
def test_run_finds_what_it_found_before_the_answers_were_built_in(name: str, pictures: str, tmp_path: Path) -> None:
    source, target, picture = (str(tmp_path / file) for file in ("seeing.onnx", "built.onnx", "picture.png"))
    Path(source).write_bytes(seeing.make_model(*SEEING[name], {"Labels": json.dumps(seeing.LABELS)}))
    write_contract(source, source, STRETCH, force=True)
    Path(picture).write_bytes(make_file("portrait"))
    options = ["--build-in", "--pictures", pictures, "--answers", "auto", "--output", target, "--json"]
    built = json.loads(call("contract", source, *options).output)["built_in"]
    assert built["answers"] == name.partition(" ")[0]
    assert built["outputs"].get("boxes") == {"yolo with masks": "boxes_2", "masks": None}.get(name, "boxes")
    own, made = (
        json.loads(call("run", model, picture, "--json", "--output", f"{model}.png").output)["results"][0]
        for model in (source, target)
    )
    assert made.get("regions") == own.get("regions")
    for one, other in zip(own.get("objects", []), made.get("objects", []), strict=True):
        np.testing.assert_allclose([*other["box"], other["score"]], [*one["box"], one["score"]], atol=0.05, rtol=1e-5)
        assert (other["index"], other["label"]) == (one["index"], one["label"])
    drawn = [np.array(Image.open(f"{model}.png")) for model in (source, target)]
    assert np.mean(drawn[0] != drawn[1]) < 0.001
    assert "threshold built in" in call("run", target, picture, "--threshold", "0.9").output


def test_the_command_line_adds_labels(tmp_path: Path) -> None:
    target = tmp_path / "made.onnx"
    labels = ROOT / "models" / "digits.labels.txt"
    options = ["--build-in", "--pictures", "gray", "--labels", labels, "--output", target]
    done = call("contract", ROOT / "models" / "digits.onnx", *options)
    assert done.exit_code == 0, done.output
    pixels = np.array(Image.open(ROOT / "samples" / "pictures" / "seven.png").convert("L"))[..., None]
    (found,) = ort.InferenceSession(target).run(["top_labels"], {"image": pixels})
    assert found[0, 0] == labels.read_text().splitlines()[7]
    assert "Outputs added for classes: top_classes, top_scores, top_labels" in done.output
    (made,) = json.loads(call("run", target, ROOT / "samples" / "pictures" / "seven.png", "--json").output)["results"]
    assert made["outputs"]["probabilities"]["top"][0]["label"] == found[0, 0]
    assert made["outputs"]["top_classes"]["values"][0] == 7
    assert "top" not in made["outputs"]["top_scores"]

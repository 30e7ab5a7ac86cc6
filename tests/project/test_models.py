"""Our own models: rebuilt bit for bit, right, and equal to slow references."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers import reference
from helpers.paths import MODELS, ROOT
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    LearningModel,
    LearningModelSession,
    SoftwareBitmap,
    vision,
)

pytestmark = pytest.mark.once

KERNELS = {
    "sharpen": ([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], 0),
    "blur": ((np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256).tolist(), 0),
    "emboss": ([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], 128),
    "invert": ([[-1]], 255),
}
SOBEL = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]


def test_the_models_are_rebuilt_bit_for_bit(tmp_path: Path) -> None:
    subprocess.run([sys.executable, MODELS / "build.py", tmp_path], check=True, capture_output=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_bytes() for path in MODELS.glob("*.onnx")}
    assert sum(map(len, built.values())) < 500_000


def test_the_classifier_is_right_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(MODELS)
    from digits_data import load

    _, pictures, _, labels = load()
    session = LearningModelSession(LearningModel.load(MODELS / "digits_batch.onnx"))
    frames = [SoftwareBitmap.from_array(picture, BitmapPixelFormat.GRAY8) for picture in pictures]
    batch = ImageFeatureValue(
        [ImageFeatureValue.from_software_bitmap(frame).video_frame for frame in frames],
    )
    scores = np.asarray(session.evaluate_features({"image": batch}).outputs["probabilities"])
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    right = int((scores.argmax(axis=1) == labels).sum())
    assert len(labels) == 450
    assert right >= 0.97 * len(labels)
    assert f"{right} of {len(labels)} test pictures right" in session.model.description


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """The part of two boxes that both have."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    both = float(sides.clip(0).prod())
    return both / (float((one[2:] - one[:2]).prod()) + float((other[2:] - other[:2]).prod()) - both)


def test_the_models_of_shapes_are_right_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """On pictures that they were not trained with."""
    monkeypatch.syspath_prepend(MODELS)
    from shapes_data import CLASSES, scene

    finder = LearningModelSession(LearningModel.load(MODELS / "shapes.onnx"))
    masker = LearningModelSession(LearningModel.load(MODELS / "shapes_mask.onnx"))
    random = np.random.default_rng(1)
    shapes = right = found = pixels = 0
    for each in (scene(random) for _ in range(200)):
        objects = vision.detections(finder.evaluate_features({"image": each.picture}), threshold=0.5)
        shapes, found = shapes + len(each.boxes), found + len(objects)
        right += sum(
            any(one.label == CLASSES[index] and overlap(one.box, box) > 0.5 for one in objects)
            for box, index in zip(each.boxes, each.classes, strict=True)
        )
        seen = vision.masks(masker.evaluate_features({"image": each.picture}))
        pixels += int((seen.classes == each.mask).sum())
    said = f"{right} of {shapes} shapes found, {found - right} found that are none"
    assert said in finder.model.description
    assert f"{pixels / (200 * 128 * 128):.1%} of the pixels right" in masker.model.description
    assert right > 0.95 * shapes
    assert found - right < 0.05 * shapes


def test_the_batch_model_gives_what_the_single_one_gives(digits: LearningModelSession) -> None:
    batched = LearningModelSession(LearningModel.load(MODELS / "digits_batch.onnx"))
    assert batched.model.input_features[0].dimension_names == ("batch", "", "", "")
    images = np.random.default_rng(0).random((5, 1, 28, 28), np.float32)
    together = batched.evaluate_features({"image": images}).outputs["probabilities"].to_numpy()
    for image, row in zip(images, together, strict=True):
        alone = digits.evaluate_features({"image": image[None]}).outputs["probabilities"].to_numpy()[0]
        np.testing.assert_allclose(row, alone, rtol=1e-5, atol=1e-7)


def filtered(name: str, pixels: np.ndarray) -> np.ndarray:
    """The effect, pixel by pixel, in Python's own arithmetic."""
    planes = []
    for plane in pixels.transpose(2, 0, 1):
        if name == "edges":
            across = reference.convolve(plane, SOBEL)
            down = reference.convolve(plane, np.transpose(SOBEL).tolist())
            values = np.sqrt(across**2 + down**2)
        else:
            kernel, offset = KERNELS[name]
            values = reference.convolve(plane, kernel) + offset
        planes.append([[round(min(max(value, 0), 255)) for value in row] for row in values.tolist()])
    return np.array(planes).transpose(1, 2, 0)


@pytest.mark.parametrize("name", ["edges", *KERNELS])
def test_the_effects_equal_a_slow_reference_pixel_by_pixel(name: str, cat: Path) -> None:
    model = LearningModel.load(MODELS / f"{name}.onnx")
    for feature in (*model.input_features, *model.output_features):
        assert isinstance(feature, ImageFeatureDescriptor)
        assert feature.bitmap_pixel_format is BitmapPixelFormat.BGRA8
    with Image.open(cat) as photo:
        picture = photo.crop((100, 60, 191, 121))
    result = LearningModelSession(model).evaluate_features({"image": picture}).outputs["result"]
    assert result.video_frame.software_bitmap.bitmap_pixel_format is BitmapPixelFormat.BGRA8
    expected = filtered(name, np.asarray(picture)[..., ::-1])
    np.testing.assert_array_equal(result.to_numpy()[..., :3], expected)
    assert (result.to_numpy()[..., 3] == 255).all()


def test_every_sample_picture_has_its_origin_stated() -> None:
    folder = ROOT / "samples" / "pictures"
    readme = (folder / "README.md").read_text()
    for path in folder.iterdir():
        if path.suffix in (".png", ".jpg"):
            assert f"`{path.name}`" in readme


def test_the_drawn_pictures_are_made_by_their_script(tmp_path: Path, seven: Path) -> None:
    script = tmp_path / "make.py"
    script.write_bytes((seven.parent / "make.py").read_bytes())
    subprocess.run([sys.executable, script], check=True, capture_output=True)
    for drawn in (seven, seven.with_name("shapes.png")):
        with Image.open(tmp_path / drawn.name) as made, Image.open(drawn) as committed:
            np.testing.assert_array_equal(np.asarray(made), np.asarray(committed))

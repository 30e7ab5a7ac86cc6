"""Our own models: rebuilt bit for bit, right, and equal to slow references."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw

from helpers import reference
from helpers.paths import MODELS, ROOT
from helpers.rectangles import overlap
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    LearningModel,
    LearningModelSession,
    SoftwareBitmap,
    vision,
)

pytestmark = pytest.mark.exhaustive

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


def test_the_models_of_shapes_are_right_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """On pictures that they were not trained with."""
    monkeypatch.syspath_prepend(MODELS)
    from shapes_data import CLASSES, scene

    finder = LearningModelSession(LearningModel.load(MODELS / "shapes.onnx"))
    masker = LearningModelSession(LearningModel.load(MODELS / "shapes_mask.onnx"))
    random = np.random.default_rng(1)
    shapes = right = detected = pixels = 0
    for drawn in (scene(random) for _ in range(200)):
        objects = vision.detections(finder.evaluate_features({"image": drawn.picture}), threshold=0.5)
        shapes, detected = shapes + len(drawn.boxes), detected + len(objects)
        right += sum(
            any(detection.label == CLASSES[index] and overlap(detection.box, box) > 0.5 for detection in objects)
            for box, index in zip(drawn.boxes, drawn.classes, strict=True)
        )
        segmentation = vision.masks(masker.evaluate_features({"image": drawn.picture}))
        pixels += int((segmentation.classes == drawn.mask).sum())
    statement = f"{right} of {shapes} shapes found, {detected - right} found that are none"
    assert statement in finder.model.description
    assert f"{pixels / (200 * 128 * 128):.1%} of the pixels right" in masker.model.description
    assert right > 0.95 * shapes
    assert detected - right < 0.05 * shapes


def decibels(picture: Image.Image, reference: Image.Image) -> float:
    """The peak signal-to-noise ratio."""
    difference = (np.asarray(picture, np.float64) - np.asarray(reference, np.float64)) / 255
    return -10 * math.log10(np.square(difference).mean())


def measure_gain(session: LearningModelSession, whole: Image.Image, kernel: Image.Resampling) -> float:
    """Decibels by which the model's picture is nearer to the whole one than what Pillow makes of its half."""
    half = whole.resize((whole.width // 2, whole.height // 2), kernel)
    enlarged = session.evaluate_features({"image": half}).outputs["result"].to_pil().convert("RGB")
    return decibels(enlarged, whole) - decibels(half.resize(whole.size, Image.Resampling.BICUBIC), whole)


def test_the_enlarger_is_as_far_ahead_of_pillow_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """On pictures that it was not trained with."""
    monkeypatch.syspath_prepend(MODELS)
    from upscale_data import KINDS

    session = LearningModelSession(LearningModel.load(MODELS / "upscale.onnx"))
    random = np.random.default_rng(1)
    stated = dict(re.findall(r"(\w+) (\S+) dB", session.model.description))
    assert set(stated) == set(KINDS)
    for kind, draw in KINDS.items():
        gains = [measure_gain(session, draw(random), Image.Resampling.BICUBIC) for _ in range(25)]
        assert np.mean(gains) == pytest.approx(float(stated[kind]), abs=0.15), kind
        assert min(gains) > 0, kind


@pytest.mark.parametrize("kernel", [Image.Resampling.BICUBIC, Image.Resampling.LANCZOS, Image.Resampling.BOX])
def test_the_enlarger_is_ahead_of_pillow_on_pictures_of_others(cat: Path, kernel: Image.Resampling) -> None:
    """A photograph, and pictures that other scripts draw."""
    session = LearningModelSession(LearningModel.load(MODELS / "upscale.onnx"))
    with Image.open(cat) as photo, Image.open(cat.with_name("shapes.png")) as shapes:
        assert measure_gain(session, photo.crop((0, 0, 450, 300)), kernel) > 0.25
        assert measure_gain(session, shapes.convert("RGB"), kernel) > 4
    large = Image.new("RGB", (800, 800), "white")
    for angle in range(0, 180, 15):
        end = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))]) * 360
        ImageDraw.Draw(large).line([tuple(400 - end), tuple(400 + end)], "navy", 12)
    assert measure_gain(session, large.resize((200, 200), Image.Resampling.BOX), kernel) > 1


def test_the_enlarger_equals_a_slow_reference_pixel_by_pixel() -> None:
    """The trained weights in float64, and OpenCV's interpolation, on a picture that is smaller than the model sees."""
    picture = np.random.default_rng(0).random((3, 4, 7))
    weights = np.load(MODELS / "weights" / "upscale.npz")
    planes = np.pad(picture, ((0, 0), (5, 5), (5, 5)), mode="edge")
    for number in range(4):
        planes = np.maximum(planes, 0) if number else planes
        kernels = weights[f"convs.{number}.weight"].astype(np.float64)
        windows = np.lib.stride_tricks.sliding_window_view(planes, kernels.shape[2:], axis=(1, 2))
        planes = np.einsum("cyxij,ocij->oyx", windows, kernels) + weights[f"convs.{number}.bias"][:, None, None]
    details = planes.reshape(3, 2, 2, 4, 7).transpose(0, 3, 1, 4, 2).reshape(3, 8, 14)
    enlarged = cv2.resize(picture.transpose(1, 2, 0), (14, 8), interpolation=cv2.INTER_LINEAR).transpose(2, 0, 1)
    result = reference.run_first(MODELS / "upscale.onnx", picture[None].astype(np.float32))
    np.testing.assert_allclose(result[0], enlarged + details, atol=1e-5)


def test_the_batch_model_gives_what_the_single_one_gives(digits: LearningModelSession) -> None:
    batched = LearningModelSession(LearningModel.load(MODELS / "digits_batch.onnx"))
    assert batched.model.input_features[0].dimension_names == ("batch", "", "", "")
    images = np.random.default_rng(0).random((5, 1, 28, 28), np.float32)
    together = batched.evaluate_features({"image": images}).outputs["probabilities"].to_numpy()
    for image, row in zip(images, together, strict=True):
        alone = digits.evaluate_features({"image": image[None]}).outputs["probabilities"].to_numpy()[0]
        np.testing.assert_allclose(row, alone, rtol=1e-5, atol=1e-7)


def filter_slowly(name: str, pixels: np.ndarray) -> np.ndarray:
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
    expected = filter_slowly(name, np.asarray(picture)[..., ::-1])
    np.testing.assert_array_equal(result.to_numpy()[..., :3], expected)
    assert (result.to_numpy()[..., 3] == 255).all()


def test_every_sample_picture_has_its_origin_stated() -> None:
    folder = ROOT / "samples" / "pictures"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for path in folder.iterdir():
        if path.suffix in (".png", ".jpg"):
            assert f"`{path.name}`" in readme


def test_the_drawn_pictures_are_made_by_their_script(tmp_path: Path, seven: Path) -> None:
    script = tmp_path / "make.py"
    script.write_bytes((seven.parent / "make.py").read_bytes())
    subprocess.run([sys.executable, script], check=True, capture_output=True)
    for drawn in (seven, seven.with_name("shapes.png")):
        with Image.open(tmp_path / drawn.name) as rebuilt, Image.open(drawn) as committed:
            np.testing.assert_array_equal(np.asarray(rebuilt), np.asarray(committed))

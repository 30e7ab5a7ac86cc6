"""Placements: from places in the tensor back to the picture, and the other way."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers.models import unary
from winml_py import (
    BitmapPixelFormat,
    ImageAnchor,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelEvaluationResult,
    LearningModelSession,
)
from winml_py.results import PicturePlacement
from winml_py.scaling import (
    CropRatio,
    CropSquare,
    CropToAspect,
    Ends,
    Fit,
    FitHeight,
    Keep,
    LongestSide,
    Multiple,
    ShortestSide,
    Stretch,
)

RGB8 = BitmapPixelFormat.RGB8
SESSION = LearningModelSession(LearningModel.load(unary(shape=("n", 3, "h", "w"))))

SCALINGS = [
    CropToAspect(),
    Fit(),
    Stretch(),
    CropRatio(0.875, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)),
    CropSquare(0.9),
    ShortestSide(70),
    LongestSide(50),
    LongestSide(50, ends=Ends(anchor=ImageAnchor.TOP_LEFT)),
    ShortestSide(40, limit=90, multiple=Multiple(8)),
    Stretch((50, 80)),
    Keep(ends=Ends(pad_multiple=32)),
    FitHeight(),
]


def place(value: Any, contract: ImageContract, **properties: Any) -> tuple[PicturePlacement, np.ndarray[Any, Any]]:
    binding = LearningModelBinding(SESSION)
    binding.bind("x", value, {"ImageContract": contract, **properties})
    result = SESSION.evaluate(binding)
    assert result.placements == binding.placements
    (placement,) = binding.placements["x"]
    tensor = result.outputs["y"].to_numpy()[0].transpose(1, 2, 0)
    assert tensor.shape[:2] == (placement.tensor_height, placement.tensor_width)
    return placement, tensor


def painted(width: int, height: int, box: tuple[int, int, int, int]) -> Image.Image:
    """A black picture with a white rectangle."""
    image = Image.new("RGB", (width, height))
    image.paste((255, 255, 255), box)
    return image


def found(tensor: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rectangle that is bright in a tensor: edges by how much light there is along each axis."""
    light = np.clip(tensor[..., 0] / 255, 0, 1)
    edges = []
    for axis in (0, 1):
        profile = light.max(axis=axis)
        inside = np.flatnonzero(profile > 0.5)
        edges.append((inside[0], inside[-1] + 1))
    (left, right), (top, bottom) = edges
    return np.array([left, top, right, bottom], float)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_a_painted_rectangle_is_found_where_the_placement_says(data: st.DataObject) -> None:
    width, height = data.draw(st.integers(40, 300)), data.draw(st.integers(40, 300))
    scaling = data.draw(st.sampled_from(SCALINGS))
    size = data.draw(st.tuples(st.integers(40, 90), st.integers(40, 90)))
    left, top = width * 3 // 8, height * 3 // 8  # in the middle, so that no crop takes it away
    box = (left, top, left + max(8, width // 4), top + max(8, height // 4))
    contract = ImageContract(RGB8, kernel=ImageKernel.AREA, scaling=scaling, size=size)
    placement, tensor = place(painted(width, height, box), contract)
    expected = placement.boxes_to_tensor(box)
    limits = [placement.tensor_width, placement.tensor_height] * 2
    np.testing.assert_allclose(found(tensor), np.clip(expected, 0, limits), atol=1.01)
    np.testing.assert_allclose(placement.boxes_to_picture(expected), box, atol=1e-6)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_there_and_back_is_the_identity(data: st.DataObject) -> None:
    width, height = data.draw(st.integers(1, 3000)), data.draw(st.integers(1, 3000))
    scaling = data.draw(st.sampled_from(SCALINGS[:8]))
    contract = ImageContract(
        RGB8,
        scaling=scaling,
        size=(data.draw(st.integers(1, 64)), data.draw(st.integers(1, 64))),
    )
    placement, _ = place(Image.new("RGB", (width, height)), contract)
    points = np.random.default_rng(0).uniform(0, 3000, (20, 2))
    np.testing.assert_allclose(placement.points_to_picture(placement.points_to_tensor(points)), points, atol=1e-6)
    np.testing.assert_allclose(placement.points_to_tensor(placement.points_to_picture(points)), points, atol=1e-6)
    boxes = points.reshape(10, 4)
    np.testing.assert_allclose(placement.boxes_to_tensor(placement.boxes_to_picture(boxes)), boxes, atol=1e-6)


def test_the_arithmetic_of_a_letterbox_and_of_a_crop() -> None:
    image = Image.new("RGB", (200, 100))
    boxed, _ = place(image, ImageContract(RGB8, scaling=Fit(), size=(100, 100)))
    np.testing.assert_allclose(boxed.points_to_tensor([[0, 0], [200, 100]]), [[0, 25], [100, 75]])
    cropped, _ = place(image, ImageContract(RGB8, size=(80, 80), scaling=ShortestSide(90)))
    # 90 x 180, of which 80 x 80 from (50, 5)
    np.testing.assert_allclose(
        cropped.points_to_picture([[0, 0], [80, 80]]), [[50 / 0.9, 5 / 0.9], [130 / 0.9, 85 / 0.9]]
    )
    assert repr(cropped) == "<PicturePlacement of 200x100 in 80x80>"
    assert (cropped.picture_width, cropped.picture_height) == (200, 100)


def test_bounds() -> None:
    box = (60, 40, 100, 70)
    placement, tensor = place(painted(200, 100, box), ImageContract(RGB8, size=(64, 64)), BitmapBounds=[50, 30, 80, 50])
    np.testing.assert_allclose(found(tensor), placement.boxes_to_tensor(box), atol=1)
    np.testing.assert_allclose(placement.points_to_picture([[0, 0], [64, 64]]), [[50, 30], [130, 80]])


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_picture_that_carries_a_turn_is_mapped_upright(turn: int) -> None:
    box = (30, 20, 70, 40)
    upright = painted(160, 90, box)
    back = {2: [0], 3: [3], 4: [1], 5: [5], 6: [2], 7: [6], 8: [4]}.get(turn, [])
    stored = upright
    for step in back:  # the transposition that the turn undoes
        stored = stored.transpose(Image.Transpose(step))
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = turn
    stored.save(file, "png", exif=exif)
    contract = ImageContract(RGB8, kernel=ImageKernel.AREA, scaling=Fit(), size=(80, 80))
    placement, tensor = place(ImageFeatureValue.load(file.getvalue()), contract)
    assert (placement.picture_width, placement.picture_height) == (160, 90)
    np.testing.assert_allclose(found(tensor), placement.boxes_to_tensor(box), atol=1)


def test_a_reduced_decode_maps_to_the_whole_picture() -> None:
    box = (800, 400, 1600, 700)
    file = io.BytesIO()
    painted(3001, 1503, box).save(file, "jpeg", quality=95)
    contract = ImageContract(RGB8, size=(64, 64), scaling=ShortestSide(70))
    exact, _ = place(ImageFeatureValue.load(file.getvalue()), contract)
    fast, tensor = place(ImageFeatureValue.load(file.getvalue(), fast_decode=True), contract)
    assert exact == fast
    expected = np.clip(fast.boxes_to_tensor(box), 0, 64)
    np.testing.assert_allclose(found(tensor), expected, atol=1)


def test_batches_have_a_placement_each_also_in_streams() -> None:
    contract = ImageContract(RGB8, scaling=Fit(), size=(20, 20))
    images = [Image.new("RGB", size) for size in ((40, 20), (10, 30), (7, 7))]
    binding = LearningModelBinding(SESSION)
    binding.bind("x", [ImageFeatureValue.from_pil(image) for image in images], {"ImageContract": contract})
    sizes = [(found.picture_width, found.picture_height) for found in SESSION.evaluate(binding).placements["x"]]
    assert sizes == [(40, 20), (10, 30), (7, 7)]
    content = unary(shape=("n", 3, "h", "w"), denotation="IMAGE", metadata=contract.to_metadata())
    stream = LearningModelSession(LearningModel.load(content)).evaluate_many(images, batch=2)
    assert [result.placements["x"][0].picture_width for result in stream] == [40, 10, 7]


def test_tensors_have_no_placements() -> None:
    binding = LearningModelBinding(SESSION)
    binding.bind("x", Image.new("RGB", (4, 4)), {"ImageContract": ImageContract(RGB8)})
    binding.bind("x", np.zeros((1, 3, 4, 4), np.float32))
    assert binding.placements == SESSION.evaluate(binding).placements == {}


def test_a_result_has_the_placement_of_its_run_though_another_thread_binds(monkeypatch: pytest.MonkeyPatch) -> None:
    def make_once_bound(*arguments: Any, **options: Any) -> None:
        barrier.wait(10)  # the run is over,
        barrier.wait(10)  # and another picture bound
        make(*arguments, **options)

    make, barrier, binding = LearningModelEvaluationResult.__init__, threading.Barrier(2), LearningModelBinding(SESSION)
    binding.bind("x", Image.new("RGB", (4, 4)), {"ImageContract": ImageContract(RGB8)})
    monkeypatch.setattr(LearningModelEvaluationResult, "__init__", make_once_bound)
    operation = SESSION.evaluate_async(binding)
    barrier.wait(10)
    binding.bind("x", Image.new("RGB", (7, 7)), {"ImageContract": ImageContract(RGB8)})
    barrier.wait(10)
    assert operation.get(10).placements["x"][0].picture_width == 4


@pytest.mark.parametrize("shrink", [1, 4])
def test_masks(shrink: int) -> None:
    """Of the tensor's size, and of a quarter of its sides, as YOLO's prototypes are."""
    box = (40, 20, 120, 80)
    image = painted(160, 100, box)
    contract = ImageContract(RGB8, kernel=ImageKernel.AREA, scaling=Fit(), size=(80, 80))
    placement, tensor = place(image, contract)
    mask = tensor[::shrink, ::shrink, 0] > 127
    back = placement.mask_to_picture(mask)
    assert back.shape == (100, 160)
    assert back.dtype == bool
    expected = np.asarray(image)[..., 0] > 0
    assert (back & expected).sum() / (back | expected).sum() > (0.97 if shrink == 1 else 0.85)  # steps of 8 pixels


def test_a_mask_knows_nothing_of_what_was_cropped() -> None:
    placement, _ = place(Image.new("RGB", (200, 100)), ImageContract(RGB8, size=(50, 50)))
    back = placement.mask_to_picture(np.ones((50, 50), np.float32), outside=-1)
    assert (back[:, 50:150] == 1).all()
    assert (np.delete(back, range(50, 150), axis=1) == -1).all()


@pytest.mark.parametrize("method", ["points_to_picture", "points_to_tensor", "boxes_to_picture", "boxes_to_tensor"])
def test_arrays_of_other_shapes(method: str) -> None:
    placement, _ = place(Image.new("RGB", (4, 4)), ImageContract(RGB8))
    with pytest.raises(InvalidArgumentError, match="Its last axis must hold"):
        getattr(placement, method)(np.zeros((2, 3)))
    with pytest.raises(InvalidArgumentError, match="Pass an array of height x width"):
        placement.mask_to_picture(np.zeros((2, 3, 4)))


def test_boxes_are_clipped_where_that_is_asked_for() -> None:
    placement, _ = place(Image.new("RGB", (100, 52)), ImageContract(RGB8, scaling=Fit(), size=(50, 50)))
    np.testing.assert_allclose(placement.boxes_to_picture([-5, 0, 60, 50], clip=True), [0, 0, 100, 52])
    np.testing.assert_allclose(placement.boxes_to_picture([-5, 0, 60, 50]), [-10, -24, 120, 76])

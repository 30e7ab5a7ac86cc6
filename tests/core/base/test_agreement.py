"""Whether two results agree: channel by channel, and by what is ranked."""

from __future__ import annotations

import numpy as np
import pytest

from winml_py.core.base.agreement import (
    FLOAT_TOLERANCE,
    HALF_TOLERANCE,
    compare_outputs,
    compare_top1,
    compare_values,
    compute_relative_error,
    find_channel_axis,
)

RNG = np.random.default_rng(11)


def detections(axis: int) -> np.ndarray:
    """Boxes up to 640 and the scores of 80 classes up to 1, for 2000 positions."""
    boxes = RNG.uniform(0, 640, (4, 2000))
    scores = RNG.uniform(0, 1, (80, 2000))
    return np.moveaxis(np.concatenate([boxes, scores]), 0, axis)[None].astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1])
def test_errors_of_scores_do_not_vanish_beside_boxes(axis: int) -> None:
    expected = detections(axis)
    scores = np.moveaxis(expected, axis + 1, 0)[4:]
    came = expected.copy()
    np.moveaxis(came, axis + 1, 0)[4:] = scores + 0.1 * np.sign(0.5 - scores)
    assert abs(came - expected).max() / expected.max() < 2e-4  # as a whole, it looks right
    assert compute_relative_error(expected, came) == pytest.approx(0.1, rel=0.01)
    assert not compare_values(expected, came, HALF_TOLERANCE).is_good


@pytest.mark.parametrize("shape", [(1, 2), (2,), (1, 2, 1, 1), (1, 1, 1, 2), (1, 1, 2)])
def test_a_winner_that_changes_places_is_seen(shape: tuple[int, ...]) -> None:
    """However far apart its row is in magnitude."""
    sure, unsure = np.float32([0.97, 0.03]).reshape(shape), np.float32([0.03, 0.97]).reshape(shape)
    assert compare_top1(sure, unsure, HALF_TOLERANCE) == (0.0, 0)
    assert compare_top1(sure, sure, HALF_TOLERANCE) == (1.0, 0)


def test_what_is_tiny_beside_the_winner_may_change_its_order() -> None:
    expected = np.float32([[0.9999, 3e-12, 2e-12, 1e-12, 4e-12]])
    came = np.float32([[0.9999, 1e-12, 2e-12, 4e-12, 3e-12]])
    assert compare_values(expected, came, HALF_TOLERANCE) == (pytest.approx(0, abs=1e-11), 1.0, HALF_TOLERANCE, 0)


def test_a_winner_within_the_tolerance_may_change_and_is_counted() -> None:
    """A tolerance of 0.01 is one of 0.1 where the largest number is 10, positive or not."""
    leads = np.float32([0.09, 0.11, 0.5, 0.0])
    expected = np.stack([leads, np.zeros(4, np.float32), np.full(4, -10, np.float32)], 1)
    came = np.stack([np.zeros(4, np.float32), leads + 0.01, np.full(4, -10, np.float32)], 1)
    assert compare_top1(expected, came, 1e-2) == (0.0, 1)
    came[2] = expected[2]
    assert compare_top1(expected, came, 1e-2) == (0.5, 1)
    agreement = compare_outputs({"a": expected, "b": expected}, {"a": came, "b": expected}, 1e-2)
    assert (agreement.top1, agreement.near_ties, agreement.is_good) == (0.5, 1, False)
    assert compare_top1(expected[:1], came[:1], 1e-2) == (None, 1)


def test_a_few_winners_of_many_are_named_and_not_rounded_away() -> None:
    expected = np.zeros((1000, 3), np.float32)
    expected[:, 0] = 1
    came = expected.copy()
    came[:20] = [0, 1, 0]
    agreement = compare_values(expected, came, 0.999)._replace(error=0.0)
    assert str(agreement) == "the largest element changes in 2 % of the rows"
    assert str(agreement._replace(top1=0.0)) == "the largest element changes in 100 % of the rows"
    assert compare_top1(expected, came, HALF_TOLERANCE)[0] == pytest.approx(0.98)


def test_the_background_has_no_winners() -> None:
    """Scores of 1e-6 beside one of 0.9: half precision mixes them up."""
    expected = RNG.uniform(0, 1e-6, (1, 500, 80)).astype(np.float32)
    expected[0, 0, 7] = 0.9
    came = expected.astype(np.float16)
    assert np.mean(expected.argmax(2) != came.argmax(2)) > 0.1
    top1, near_ties = compare_top1(expected, came, HALF_TOLERANCE)
    assert top1 == 1.0
    assert near_ties == np.sum(expected.argmax(2) != came.argmax(2))


def test_what_half_precision_does_to_scores_that_differ_is_good() -> None:
    expected = detections(1)
    agreement = compare_values(expected, expected.astype(np.float16), HALF_TOLERANCE)
    assert agreement.is_good
    assert agreement.top1 == 1.0
    assert agreement.error < 1e-3


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((7,), None),
        ((), None),
        ((1, 10), 1),
        ((300, 4), 1),
        ((1, 84, 8400), 1),
        ((1, 8400, 84), 2),
        ((1, 3, 224, 224), 1),
        ((1, 224, 224, 3), 3),
        ((2, 5, 5), 1),
    ],
)
def test_the_axis_of_channels(shape: tuple[int, ...], axis: int | None) -> None:
    assert find_channel_axis(shape) == axis


def test_a_channel_of_few_numbers_has_no_magnitude_of_its_own() -> None:
    expected = np.float32([[100, 1]])
    assert compute_relative_error(expected, np.float32([[100, 2]])) == pytest.approx(0.01)
    assert compute_relative_error(
        np.repeat(expected, 16, 0), np.repeat(np.float32([[100, 2]]), 16, 0)
    ) == pytest.approx(1.0)


def test_a_channel_of_almost_nothing_counts_as_a_thousandth() -> None:
    expected = np.zeros((1, 2, 100), np.float32)
    expected[0, 0] = 1000
    came = expected.copy()
    came[0, 1] = 1e-3
    assert compute_relative_error(expected, came) == pytest.approx(1e-3)


def test_pictures_single_numbers_and_other_shapes_are_not_ranked() -> None:
    picture = RNG.random((1, 3, 8, 8))
    assert compare_top1(picture, 1 - picture, 1e-3) == (None, 0)
    assert compare_top1(picture[:, :1], 1 - picture[:, :1], 1e-3) == (None, 0)
    assert compare_top1(np.arange(8.0)[:, None], np.zeros((8, 1)), 1e-3) == (None, 0)
    assert compare_top1(np.zeros((2, 8)), np.zeros((2, 9)), 1e-3) == (None, 0)
    assert compare_top1(np.zeros((0, 8)), np.zeros((0, 8)), 1e-3) == (None, 0)


def test_the_classes_of_a_segmentation_are_ranked() -> None:
    expected = RNG.normal(size=(1, 21, 32, 32)).astype(np.float32)
    came = expected[:, ::-1]
    changed = np.mean(expected.argmax(1) != came.argmax(1))
    top1, _ = compare_top1(expected, came, FLOAT_TOLERANCE)
    assert top1 == pytest.approx(1 - changed, abs=0.02)


def test_a_missing_output_is_no_agreement() -> None:
    agreement = compare_outputs({"a": np.ones(2)}, {}, FLOAT_TOLERANCE)
    assert agreement.error == float("inf")
    assert not agreement.is_good
    assert str(agreement).startswith("the results are empty, or differ in shape, whole numbers, texts")


def test_maps_sequences_and_integers_are_compared() -> None:
    values = [{1: 0.5, 2: 0.25}, np.ones(2, np.float32)]
    assert compare_values(values, [{1: 0.5, 2: 0.25}, np.ones(2, np.float32)], FLOAT_TOLERANCE).error == 0
    assert compare_values(values, [{1: 0.5, 2: 0.5}, np.ones(2, np.float32)], FLOAT_TOLERANCE).error == 0.5
    assert compare_values(values, values[:1], FLOAT_TOLERANCE).error == float("inf")
    assert compare_values(np.array([1, 2]), np.array([1, 2]), FLOAT_TOLERANCE).error == 0
    assert compare_values(np.array([1, 2]), np.array([1, 3]), FLOAT_TOLERANCE).error == float("inf")


@pytest.mark.parametrize("tolerance", [FLOAT_TOLERANCE, HALF_TOLERANCE])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (40,), (40, 1), (1, 40), (2, 1, 5, 4), (2, 5, 4)])
def test_whole_numbers_may_be_classes_and_are_compared_as_whole_numbers(
    shape: tuple[int, ...], tolerance: float
) -> None:
    for largest in (5, 300, 5_000, 60_000):
        classes = np.asarray(RNG.integers(largest // 2, largest, shape), np.float32)
        assert compare_values(classes, np.asarray(classes * np.float32(1 + 1e-6)), tolerance).is_good
        wrong = classes.copy()
        wrong.reshape(-1)[0] += 1
        assert not compare_values(classes, wrong, tolerance).is_good
        numbers = np.asarray(classes + RNG.uniform(0.1, 0.9, shape), np.float32)
        near = np.asarray(numbers * np.float32(1 + tolerance / 2))
        assert compare_values(numbers, near, tolerance).error == pytest.approx(tolerance / 2, rel=1e-2)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("rows", [2, 3, 300])
def test_a_column_of_classes_is_compared_as_whole_numbers(rows: int, axis: int) -> None:
    boxes = RNG.uniform(0, 640, (1, rows, 5)).astype(np.float32)
    classes = RNG.integers(3000, 5000, (1, rows, 1)).astype(np.float32)
    expected, came = (np.concatenate([boxes, numbers], 2) for numbers in (classes, classes + 1))
    if axis == 1:
        expected, came = expected.transpose(0, 2, 1), came.transpose(0, 2, 1)
    assert not compare_values(expected, came, HALF_TOLERANCE).is_good
    assert compare_values(expected, expected * np.float32(1 + 1e-6), FLOAT_TOLERANCE).is_good


def test_numbers_that_are_whole_by_chance_have_a_tolerance() -> None:
    large = RNG.uniform(2e7, 4e7, (1, 40)).astype(np.float32)
    assert (large == np.rint(large)).all()
    assert compare_values(large, large * np.float32(1 + 1e-4), FLOAT_TOLERANCE).is_good
    half = RNG.uniform(1500, 3000, (1, 40)).astype(np.float16)
    assert compare_values(half, half + np.float16(2), HALF_TOLERANCE).is_good
    box = np.float32([[0, 12.3, 640, 401.7]])  # cut off at the picture's edges
    assert compare_values(box, box - np.float32([[0, 0, 2, 0]]), HALF_TOLERANCE).is_good
    saturated = np.float32([[1, 0, 0], [0, 1, 0]])
    assert compare_values(saturated, np.abs(saturated - np.float32(4e-4)), FLOAT_TOLERANCE).is_good


@pytest.mark.parametrize(
    "empty",
    [
        *(np.zeros(shape, dtype) for shape in ((0,), (1, 0, 4)) for dtype in (np.float32, np.int64, np.bool_, object)),
        *([], {}, [np.zeros(0, np.float32)], [np.ones(2, np.float32), np.zeros((0, 4), np.float32)]),
    ],
    ids=str,
)
def test_an_empty_answer_is_no_evidence(empty: object) -> None:
    assert not compare_values(empty, empty, HALF_TOLERANCE).is_good
    assert not compare_outputs({"a": np.ones(2), "b": empty}, {"a": np.ones(2), "b": empty}, HALF_TOLERANCE).is_good


def test_other_types_are_no_agreement() -> None:
    for other in (np.array(["1", "2"], object), [1.0, 2.0], {0: 1.0, 1: 2.0}, np.array([1, 3])):
        assert not compare_values(np.float32([1, 2]), other, HALF_TOLERANCE).is_good

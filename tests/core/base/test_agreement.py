"""Whether two results agree: channel by channel, and by what is ranked."""

from __future__ import annotations

import numpy as np
import pytest

from winml_py.core.base.agreement import (
    FLOAT_TOLERANCE,
    HALF_TOLERANCE,
    channel_axis,
    compare_outputs,
    compare_values,
    relative_error,
    top1_kept,
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
    assert relative_error(expected, came) == pytest.approx(0.1, rel=0.01)
    assert not compare_values(expected, came, HALF_TOLERANCE).is_good


@pytest.mark.parametrize("axis", [0, 1])
def test_a_best_class_that_changes_in_most_positions_is_seen(axis: int) -> None:
    """All scores are close to 1, where half precision has steps of 1/2048."""
    expected = np.moveaxis(detections(axis), axis + 1, 0)
    expected[4:] = 1 - expected[4:] / 1000
    came = expected.copy()
    came[4:] = expected[4:].astype(np.float16)
    expected, came = np.moveaxis(expected, 0, axis + 1), np.moveaxis(came, 0, axis + 1)
    assert relative_error(expected, came) < 1e-3
    agreement = compare_values(expected, came, HALF_TOLERANCE)
    changed = np.mean(expected[0].argmax(axis) != came[0].argmax(axis))  # boxes: never
    classes = np.moveaxis(expected, axis + 1, 0)[4:, 0].argmax(0) != np.moveaxis(came, axis + 1, 0)[4:, 0].argmax(0)
    assert changed == 0
    assert classes.mean() > 0.4
    assert agreement.top1 == pytest.approx(1 - classes.mean(), abs=0.01)
    assert not agreement.is_good
    assert str(agreement).startswith("the largest element changes in ")


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
    assert channel_axis(shape) == axis


def test_a_channel_of_few_numbers_has_no_magnitude_of_its_own() -> None:
    expected = np.float32([[100, 1]])
    assert relative_error(expected, np.float32([[100, 2]])) == pytest.approx(0.01)
    assert relative_error(np.repeat(expected, 16, 0), np.repeat(np.float32([[100, 2]]), 16, 0)) == pytest.approx(1.0)


def test_a_channel_of_almost_nothing_counts_as_a_thousandth() -> None:
    expected = np.zeros((1, 2, 100), np.float32)
    expected[0, 0] = 1000
    came = expected.copy()
    came[0, 1] = 1e-3
    assert relative_error(expected, came) == pytest.approx(1e-3)


def test_pictures_and_single_rows_of_numbers_are_not_ranked() -> None:
    assert top1_kept(np.zeros((1, 3, 8, 8)), np.ones((1, 3, 8, 8)), 1e-3) is None
    assert top1_kept(np.zeros(8), np.ones(8), 1e-3) is None
    assert top1_kept(np.zeros((2, 8)), np.zeros((2, 9)), 1e-3) is None


def test_the_classes_of_a_segmentation_are_ranked() -> None:
    expected = RNG.normal(size=(1, 21, 32, 32)).astype(np.float32)
    came = expected[:, ::-1]
    changed = np.mean(expected.argmax(1) != came.argmax(1))
    kept = top1_kept(expected, came, FLOAT_TOLERANCE)
    assert kept == pytest.approx(1 - changed, abs=0.02)


def test_a_missing_output_is_no_agreement() -> None:
    agreement = compare_outputs({"a": np.ones(2)}, {}, FLOAT_TOLERANCE)
    assert agreement.error == float("inf")
    assert not agreement.is_good
    assert str(agreement) == "the results differ by inf, and 0.001 is allowed"

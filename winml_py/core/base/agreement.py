"""Do two results agree? Differences are measured channel by channel, and the order of what is ranked is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .differences import relative_error
from .numpy_values import as_numpy
from .ranks import top1_kept

FLOAT_TOLERANCE = 1e-3
"""The largest relative error between two ways to compute in float32."""

HALF_TOLERANCE = 2e-2
"""The largest relative error of half precision against float32: it has ten bits of mantissa, and errors add up."""

TOP1_KEPT = 0.99
"""The share of the decided rows that must keep their largest element."""


class Agreement(NamedTuple):
    """How two results compare.

    Attributes:
        error: the largest difference, over the largest magnitude of its channel; infinite where types, shapes, words,
            whole numbers or the places of NaN and infinity differ.
        top1: the share of the rows that keep their largest element, of those where it leads by more than the tolerance
            allows, or of all rows where that is below `ranks.ROWS_KEPT`; None where nothing is ranked.
        tolerance: the error that is allowed.
    """

    error: float
    top1: float | None
    tolerance: float

    @property
    def is_good(self) -> bool:
        """Whether the error is within the tolerance, and rows keep their largest element."""
        return self.error <= self.tolerance and (self.top1 is None or self.top1 >= TOP1_KEPT)

    def __str__(self) -> str:
        if not self.is_good and self.error <= self.tolerance and self.top1 is not None:
            return f"the largest element changes in {1 - self.top1:.0%} of the rows"
        return f"the results differ by {self.error:.1e}, and {self.tolerance:g} is allowed"


def compare_outputs(expected: Mapping[str, Any], came: Mapping[str, Any], tolerance: float) -> Agreement:
    """The worst of `compare_values` over the outputs of two evaluations, by name; one that is missing is infinite."""
    found = [
        compare_values(value, came[name], tolerance) if name in came else Agreement(float("inf"), None, tolerance)
        for name, value in expected.items()
    ]
    return _worst(found, tolerance)


def compare_values(expected: Any, came: Any, tolerance: float) -> Agreement:
    """How one output compares: floats by their error and their ranks, other types must be equal.

    Args:
        expected: an array, a tensor with `to_numpy`, a list or a mapping of such.
        came: the same kind of value.
        tolerance: the error that is allowed.
    """
    expected, came = as_numpy(expected), as_numpy(came)
    if isinstance(expected, list) and isinstance(came, list) and len(expected) == len(came):
        return _worst([compare_values(*pair, tolerance) for pair in zip(expected, came, strict=True)], tolerance)
    if isinstance(expected, Mapping) and isinstance(came, Mapping) and list(expected) == list(came):
        return compare_values(np.array(list(expected.values())), np.array(list(came.values())), tolerance)
    if isinstance(expected, np.ndarray) and isinstance(came, np.ndarray) and expected.dtype.kind == "f":
        return Agreement(relative_error(expected, came), top1_kept(expected, came, tolerance), tolerance)
    if isinstance(expected, np.ndarray) and isinstance(came, np.ndarray):
        is_equal = np.array_equal(expected, came)
    else:
        is_equal = type(expected) is type(came) and bool(expected == came)
    return Agreement(0.0 if is_equal else float("inf"), None, tolerance)


def _worst(found: list[Agreement], tolerance: float) -> Agreement:
    ranked = [agreement.top1 for agreement in found if agreement.top1 is not None]
    error = max((agreement.error for agreement in found), default=0.0)
    return Agreement(error, min(ranked, default=None), tolerance)

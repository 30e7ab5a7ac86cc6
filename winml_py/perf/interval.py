"""A median, and how far it can be trusted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_STUDENT = {5: 2.776, 10: 2.262}
"""By the number of parts, the quantile of Student's distribution for 95 %."""


class Interval(NamedTuple):
    """A median, and the ends of its 95 % confidence interval."""

    middle: float
    low: float
    high: float


def median_interval(samples: Sequence[float]) -> Interval:
    """The median of samples in the order in which they were taken.

    Times of a machine follow each other: it slows down for a while, and other programs come and go. So the interval is
    that of the medians of ten parts of the run (five of a short one), which such times spread. Of fewer than ten
    samples, it is their range.

    Example:
        >>> median_interval([2.0, 1.0, 4.0])
        Interval(middle=2.0, low=1.0, high=4.0)
    """
    middle, count = statistics.median(samples), len(samples)
    parts = 10 if count >= 20 else 5 if count >= 10 else 0
    if not parts:
        return Interval(middle, min(samples), max(samples))
    ends = [round(part * count / parts) for part in range(parts + 1)]
    medians = [statistics.median(samples[ends[part] : ends[part + 1]]) for part in range(parts)]
    half = _STUDENT[parts] * statistics.stdev(medians) / math.sqrt(parts)
    return Interval(middle, max(0.0, middle - half), middle + half)

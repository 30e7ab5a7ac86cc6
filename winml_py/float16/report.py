"""The report of a conversion, and how accurate the result is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .._examples import FREE, ExampleShape, sizes_to_json
from ..core.base.agreement import compare_values
from ..core.base.arrays import Array
from ..core.base.messages import Facts

REASONS = {
    "asked": "you requested",
    "operators": "their operators do not support float16",
    "own": "they are the program's own operators",
    "overflow": "their numbers exceed the range of float16",
    "precision": "they lose too much precision",
}
"""Why nodes stay in float32."""


@dataclass(frozen=True)
class OutputReport:
    """How an output of the float16 model compares with the float32 model's, on the inputs of the check.

    Attributes:
        name: the output's name.
        error: the largest difference, over the largest magnitude of its channel in the float32 output, and infinite if
            whole numbers differ; for integers, strings and booleans, the share of elements that differ.
        not_finite: the number of elements that became NaN or infinite.
        top1: the share of rows whose largest element is in the same position, among those where it leads by more than
            the tolerance, over the largest magnitude of the row; None if there are no such rows, as in pictures.
        is_good: whether the error is within the tolerance, no element became infinite or NaN, and top-1 is at least
            0.99.
        near_ties: the other rows whose largest element is in another position. They count as good.
    """

    name: str
    error: float
    not_finite: int
    top1: float | None
    is_good: bool
    near_ties: int = 0


@dataclass(frozen=True)
class ConversionReport:
    """The result of `convert`.

    Attributes:
        size_before: bytes of the float32 weights and graph.
        size_after: bytes of the converted weights and graph.
        nodes: the number of the model's nodes.
        kept: the nodes that stayed in float32, by the reason: `operators` have no float16, `own` are the program's
            operators, `overflow` exceeds its range, `precision` lost too much, `asked` by the caller.
        outputs: how each output compares.
        seeded: the inputs that got example values for the check.
        tolerance: the largest error that an output may have.
        sizes: the shapes of the inputs of the check, by name.
    """

    size_before: int
    size_after: int
    nodes: int
    kept: dict[str, list[str]]
    outputs: list[OutputReport]
    seeded: list[str]
    tolerance: float
    sizes: dict[str, ExampleShape] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether every output is good."""
        return all(output.is_good for output in self.outputs)

    @property
    def kept_nodes(self) -> list[str]:
        """The nodes that stayed in float32, for any reason."""
        return [name for names in self.kept.values() for name in names]

    def to_json(self) -> Facts:
        """The report, ready for JSON."""
        return {"is_good": self.is_good, **asdict(self), "sizes": sizes_to_json(self.sizes)}

    def __str__(self) -> str:
        ratio = self.size_after / max(1, self.size_before)
        lines = [f"{self.size_before:,} bytes -> {self.size_after:,} ({ratio:.2f})"]
        for output in self.outputs:
            words = [f"relative error {output.error:.2g}"]
            if math.isinf(output.error) and not output.not_finite:
                words = ["a different shape, or different whole numbers"]
            if output.not_finite:
                words.append(f"{output.not_finite} not finite")
            if output.top1 is not None:
                changed = f"changed in {100 * (1 - output.top1):.3g} %" if output.top1 < 1 else "the same in 100 %"
                words.append(f"top-1 {changed} of the rows with a clear winner")
            if output.near_ties:
                ties = f"{output.near_ties:,} near tie{'s' * (output.near_ties > 1)}"
                words.append(f"top-1 changed in {ties}, whose lead is within the tolerance")
            lines.append(f"{'good' if output.is_good else 'BAD '} {output.name}: {', '.join(words)}")
        for reason, names in self.kept.items():
            if names:
                shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
                lines.append(f"{len(names)} of {self.nodes} nodes stay in float32, as {REASONS[reason]}: {shown}")
        if self.seeded:
            free = {name: " and ".join(size.assumed) for name, size in self.sizes.items() if size.assumed}
            words = [f"{name} ({free[name]} assumed as {FREE})" if name in free else name for name in self.seeded]
            lines.append(f"checked on example inputs: {', '.join(words)}")
        return "\n".join(lines)


# Comparing the results of two models.


def report_outputs(
    expected: Mapping[str, object], actual: Mapping[str, object], tolerance: float
) -> list[OutputReport]:
    """Reports on each output of the float32 model, in its order."""
    return [_report_output(name, value, actual[name], tolerance) for name, value in expected.items()]


def _report_output(name: str, expected: Any, actual: Any, tolerance: float) -> OutputReport:
    row, actual_row = flatten(expected), flatten(actual)
    if row.dtype.kind != "f":
        share = float(np.mean(row != actual_row)) if row.shape == actual_row.shape and row.size else 1.0
        return OutputReport(name, share, 0, None, share == 0)
    agreement = compare_values(expected, actual, tolerance)
    lost = int((np.isfinite(row) & ~np.isfinite(actual_row)).sum()) if row.shape == actual_row.shape else 0
    return OutputReport(name, agreement.error, lost, agreement.top1, agreement.is_good, agreement.near_ties)


def flatten(value: Any) -> Array:
    """An array as it is; a list of dicts or of arrays, or a dict, as one row of its numbers."""
    if isinstance(value, list):
        return np.concatenate([flatten(element).reshape(-1) for element in value] or [np.zeros(0, np.float32)])
    return np.array(list(value.values())) if isinstance(value, Mapping) else np.atleast_1d(value)

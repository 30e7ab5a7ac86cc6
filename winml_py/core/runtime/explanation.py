"""Why a session runs on the engine it runs on."""

from __future__ import annotations

from typing import NamedTuple

from ...enums import Precision


def in_megabytes(size: int) -> str:
    """A number of bytes in words."""
    return f"{size / 1e6:,.{0 if size > 1e7 else 1}f} MB"


class Candidate(NamedTuple):
    """An engine that was looked at.

    Attributes:
        engine: "onnxruntime", or a provider's name.
        precision: the arithmetic.
        milliseconds: the time of an evaluation, by the median of turns with the others; None where it was not timed.
        error: the largest difference from float32 arithmetic, over the largest magnitude; None where not compared.
        problem: why it was not taken, or "".
        number_type: what it computes half precision in: "float16" or "bfloat16"; "" where it does not, or does not say.
    """

    engine: str
    precision: Precision
    milliseconds: float | None = None
    error: float | None = None
    problem: str = ""
    number_type: str = ""

    def __str__(self) -> str:
        parts = [f"{self.engine} in {self.number_type or self.precision.name.lower()}"]
        if self.milliseconds is not None:
            parts.append(f"{self.milliseconds:.3f} ms")
        if self.error is not None:
            parts.append(f"error {self.error:.1e}")
        if self.problem:
            parts.append(self.problem)
        return ", ".join(parts)


class Explanation(NamedTuple):
    """What was taken, why, and what else was looked at. As text, one line each.

    Attributes:
        engine: what was taken.
        precision: its arithmetic.
        reason: in words.
        candidates: all that were looked at, with figures.
        is_remembered: whether the figures are from an earlier session's measurement.
        number_type: as that of a `Candidate`.
        memory: about how many bytes the session takes for the model at most, where its engine takes the weights several
            times, as OpenVINO does; 0 elsewhere.
    """

    engine: str
    precision: Precision
    reason: str
    candidates: tuple[Candidate, ...] = ()
    is_remembered: bool = False
    number_type: str = ""
    memory: int = 0

    def __str__(self) -> str:
        head = f"{self.engine} in {self.number_type or self.precision.name.lower()}: {self.reason}"
        if self.memory:
            head += f"; it takes up to about {in_megabytes(self.memory)}"
        return "\n".join([head, *(f"  {candidate}" for candidate in self.candidates)])

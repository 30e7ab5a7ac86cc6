"""Finds the first node whose output departs by more than what comes into it explains, between two evaluations.

Every node is judged on its own: both sides compute it from the first side's tensors, so that what an earlier node did
cannot be held against it. The first side computes it once more from inputs that are changed in their last bit: what
that changes is the arithmetic's. A node that departs is looked at in the whole model, too. If none departs although
results do, nodes are to blame that the engine computes as one: the shortest run of nodes that departs is searched for.
"""

from __future__ import annotations

import math
import tempfile
from bisect import bisect_left
from collections import UserDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, helper

from .._inputs.model import Case
from ..core.base.agreement import compare_values
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError
from .sides import Side

BLOCK = 1 << 15
"""Elements that are compared at once, as float64."""

FUSED = 32
"""The most nodes that an engine may compute as one. More depart together only where rounding errors add up."""

EPSILONS = {"": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number; float64 counts as float32, which engines may compute it in."""

TINY = (1.2e-38, 6.1e-5)
"""Below these, float32 and float16 lose digits, and engines may take numbers as 0."""

SUM = 2.0**-24
"""How float32's rounding errors grow in sums: by this share of the magnitude, times the root of the number of terms."""


@dataclass(frozen=True)
class Departure:
    """Where two evaluations depart.

    Attributes:
        tensor: the output that departs.
        what: "differs", "nan", "overflow" or "shape".
        side: on which side NaN or the overflow begins: "first", "second" or "".
        first: the first side's nodes that compute it, and their operators: one; several that are one on the other side,
            or that depart only where the engine computes them as one; or none, for an input.
        second: the second side's.
        difference: the largest, from the same inputs; infinite where there is none.
        explained: the difference that the arithmetic explains.
        magnitude: the largest magnitude of the first side's output.
        index: of the element that differs most.
    """

    tensor: str
    what: str
    side: str
    first: dict[str, str]
    second: dict[str, str]
    difference: float
    explained: float
    magnitude: float
    index: Sequence[int]

    def __str__(self) -> str:
        nodes = [f"{operator} {name!r}" for name, operator in self.first.items()] or [f"The input {self.tensor!r}"]
        who = nodes[0] if len(nodes) == 1 else f"From {nodes[0]} to {nodes[-1]}, {len(nodes)} nodes as one"
        differs = f"the same inputs give a difference of {self.difference:.2g} at {self.index} in numbers up to "
        how = {
            "nan": f"NaN begins here on the {self.side} side, at {self.index}.",
            "overflow": f"the {self.side} side overflows here, at {self.index}.",
            "shape": "the two sides' outputs have different shapes.",
            "differs": f"{differs}{self.magnitude:.2g}; rounding explains {self.explained:.1g}.",
        }[self.what]
        operators, others = [*self.first.values()], [*self.second.values()]
        return f"{who}: {how}" + (
            f" The second side computes it by {', '.join(others)}." if others != operators else ""
        )


def find_departure(first: Case, second: Case, values: Mapping[str, object]) -> Departure | None:
    """Finds the first node whose output departs by more than what comes into it explains.

    Nodes are matched by the names of their tensors; what lies between two tensors that both models have is one group.

    Args:
        first: a model, and how it is evaluated.
        second: the same or nearly the same model, or the same evaluated in another way.
        values: a value for each input, as `LearningModelBinding.bind` takes it.

    Returns:
        The departure, or None if rounding explains all differences.

    Raises:
        InvalidArgumentError: the models share no tensors.
        WinMLError: a model cannot be evaluated, or a part of it.

    Example:
        >>> import numpy as np
        >>> from winml_py.compare.blame import find_departure
        >>> from winml_py.perf import Case
        >>> image = {"image": np.zeros((1, 1, 28, 28), np.float32)}
        >>> find_departure(Case("models/digits.onnx"), Case("models/digits_float16.onnx"), image) is None
        True
    """
    with tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        sides = [Side(case, values, tempfile.mkdtemp(dir=folder)) for case in (first, second)]
        return _Search(sides, folder).find()


class _Search:
    """A search; each node, or group of nodes, goes by the name of the tensor that it computes on both sides."""

    def __init__(self, sides: Sequence[Side], folder: str) -> None:
        first, second = self._sides = sides
        self._tensors = _Tensors(folder, {**second.inputs, **first.inputs})  # the first side's
        shared = [
            name
            for name in (first.makers.keys() & second.makers.keys() & (first.read | second.read))
            if all(side.element(name) in TENSOR_CLASSES and name not in side.constant for side in sides)
        ]
        if not shared:
            raise InvalidArgumentError(
                "The models share no tensors: no name is in both.",
                hint="Compare a model with one that was made from it; an exporter gives each model new names.",
            )
        self._names = sorted(shared, key=first.makers.__getitem__)

    def find(self) -> Departure | None:
        """The departure; see `find_departure`."""
        first, second = self._sides
        for name in first.inputs.keys() & second.inputs.keys():  # models may make other tensors of one picture
            if found := self._departure(name, (), compare(first.inputs[name], second.inputs[name]), Gap()):
                return found
        gaps = self._compare(Side.whole)
        if not any(gap.difference for gap, _ in gaps.values()):
            return None
        do_depart = any(self._departure(name, (), *pair) for name, pair in gaps.items())
        for name in self._names:
            found = self._departure(name, self._tensors, *self._compare_parts(name, self._tensors))
            if found and self._compare_parts(name, ())[0].difference >= 0.3 * found.difference:
                return found
        return self._find_fused() if do_depart else None

    def _find_fused(self) -> Departure | None:
        """The fewest nodes in a row that depart together, if they are few: an engine computes them as one."""

        def find(start: int, end: int) -> Departure | None:
            """A tensor that departs if none between these nodes is asked for."""
            known, names = {*self._names[:start]}, self._names[start : end + 1]
            inner = {each for name in names for side in self._sides for each in side.cut(name, self._tensors)[1]}
            for name in [each for each in names if each not in inner]:
                if found := self._departure(name, known, *self._compare_parts(name, known)):
                    return found
            return None

        end = bisect_left(range(len(self._names)), True, key=lambda place: find(0, place) is not None)
        if end == len(self._names):
            return None
        start = end - bisect_left(range(end + 1), True, key=lambda length: find(end - length, end) is not None)
        found = find(start, end)
        return found if found and len(found.first) <= FUSED else None

    def _feed(self, side: Side, epsilon: float = 0) -> Callable[[str], Any]:
        """Gives the first side's tensors in a side's type, rounded to the coarser type of both.

        With an epsilon, half of their floats grow by two of them: in their mean, all are moved by one.
        """

        def feed(name: str) -> Any:
            value = self._tensors[name]
            if not isinstance(value, np.ndarray):
                return value
            elements = [each.element(name) for each in (side, *self._sides) if name in each.types]
            own, *both = [np.dtype(helper.tensor_dtype_to_np_dtype(element)) for element in elements]
            with np.errstate(over="ignore", invalid="ignore"):
                value = np.array(value).astype(min(both, key=lambda kind: kind.itemsize), copy=False)
                value = value.astype(own, copy=False)
                if epsilon and own.kind == "f":
                    are_moved = np.random.default_rng(0).integers(0, 2, value.shape, np.bool_)
                    np.multiply(value, own.type(1 + 2 * epsilon), out=value, where=are_moved)
            return value

        return feed

    def _compare_parts(self, name: str, stops: Collection[str]) -> tuple[Gap, Gap]:
        return self._compare(lambda side: side.part(name, stops, self._tensors))[name]

    def _compare(self, make: Callable[[Side], LearningModelSession]) -> dict[str, tuple[Gap, Gap]]:
        """How far each output differs between the sides; and on the first, from inputs changed in their last bit."""
        first, second = self._sides
        with make(first) as session:
            self._tensors.update(first.evaluate(session, self._feed(first)))
            features = *session.model.input_features, *session.model.output_features
            shaken = first.evaluate(session, self._feed(first, self._epsilon([each.name for each in features])))
            noise = {name: compare(self._tensors[name], shaken.pop(name)) for name in [*shaken]}
        with make(second) as session:
            came = second.evaluate(session, self._feed(second))
        return {name: (compare(self._tensors[name], came[name]), noise[name]) for name in noise if name in came}

    def _epsilon(self, names: Collection[str]) -> float:
        """The distance from 1 to the next number, in the coarsest type that the sides compute some tensors in."""
        halves = [name for name in names for side in self._sides if side.element(name) == TensorProto.FLOAT16]
        return max(EPSILONS[kind] for kind in [*(side.half for side in self._sides), "float16" if halves else ""])

    def _departure(self, name: str, stops: Collection[str], gap: Gap, noise: Gap) -> Departure | None:
        """A tensor that departs; None if the arithmetic explains the difference.

        Args:
            name: of the tensor.
            stops: the tensors that it was computed from.
            gap: between both sides.
            noise: what the changed last bits of its inputs change.
        """
        (places, inputs), (others, more) = (side.cut(name, stops) for side in self._sides)
        names = [name, *inputs, *more]
        epsilon, terms = self._epsilon(names), max(np.size(self._tensors[each]) for each in names)
        is_half = epsilon > EPSILONS[""]
        share = max(1e-5, 4 * epsilon) * math.sqrt(max(1, len(places))) + SUM * math.sqrt(terms)
        explained = share * gap.magnitude + (4 if is_half else 16) * noise.difference + TINY[is_half]
        explained += gap.kind in ("i1", "u1")  # 8 bits may be rounded otherwise
        if gap.difference <= explained:
            return None
        what, side = "differs", ""
        if gap.difference == math.inf:
            what = "nan" if np.isnan(gap.values).any() else "overflow" if gap.values else "shape"
            side = "" if not gap.values else "second" if math.isfinite(gap.values[0]) else "first"
        nodes = self._sides[0].describe(places), self._sides[1].describe(others)
        return Departure(name, what, side, *nodes, gap.difference, explained, gap.magnitude, gap.position)


class Gap(NamedTuple):
    """How two values of a tensor differ.

    Attributes:
        difference: the largest; infinite between shapes, between a finite number and another, and between infinities.
        position: of the first element that differs most.
        values: the two there; empty for other shapes.
        magnitude: the largest finite one of the first value.
        kind: of its type, and the bytes of an element: "f4".
    """

    difference: float = 0.0
    position: Sequence[int] = ()
    values: tuple[float, ...] = ()
    magnitude: float = 0.0
    kind: str = ""


def compare(expected: Any, actual: Any) -> Gap:
    """Compares two values, block by block: wider copies of large tensors would exceed the memory."""
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in (expected, actual)):
        return Gap(0.0 if compare_values(expected, actual, 0).is_good else math.inf)
    if expected.shape != actual.shape:
        return Gap(math.inf)
    one, other = expected.reshape(-1), actual.reshape(-1)
    worst, place, magnitude, values = 0.0, 0, 0.0, tuple[float, ...]()
    for start in range(0, one.size, BLOCK):
        left, right = (each[start : start + BLOCK].astype(np.float64) for each in (one, other))
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(left - right), nan=math.inf, posinf=math.inf)
        apart[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
        magnitude = max(magnitude, float(np.abs(left[np.isfinite(left)]).max(initial=0)))
        found = int(apart.argmax())
        if apart[found] > worst:
            worst, place, values = float(apart[found]), start + found, (float(left[found]), float(right[found]))
    position = [int(each) for each in np.unravel_index(place, expected.shape)] if one.size else []
    return Gap(worst, position, values, magnitude, expected.dtype.str[1:])


class _Tensors(UserDict[str, Any]):
    """Tensors in files, which are mapped when they are read; values that are no arrays of numbers stay in memory."""

    def __init__(self, folder: str, values: Mapping[str, Any]) -> None:
        self._folder = folder
        super().__init__(values)

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".npy", delete=False) as file:
                np.save(file, value)
            value = Path(file.name)
        self.data[name] = value

    def __getitem__(self, name: str) -> Any:
        return np.load(found, mmap_mode="r") if isinstance(found := self.data[name], Path) else found

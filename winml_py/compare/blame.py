"""Finds the first node whose output departs by more than what comes into it explains, between two evaluations.

Every node is judged on its own: both sides compute it from the first side's tensors, so that what an earlier node did
cannot be held against it. The first side computes it once more from inputs that are changed in their last bit: what
that changes is the arithmetic's. A node that departs is looked at in the whole model, too. If none departs although
results do, nodes are to blame that the engine computes as one: the shortest run of nodes that departs is searched for.
"""

from __future__ import annotations

import math
import os
import tempfile
from bisect import bisect_left
from collections import UserDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, helper

from .._inputs.model import Case
from ..core.base.agreement import compare_values
from ..core.base.messages import Facts
from ..core.runtime.custom.operator import ModelOperators, Operators
from ..errors import InvalidArgumentError, WinMLError
from .sides import Cut, Runs, Side

LEAST_BYTES = 16 << 20
"""What the tensors of one part may take in any case; otherwise three times the largest tensor."""

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
        first: the first side's nodes that compute it, by name: one; several that are one on the other side, or that
            depart only where the engine computes them as one; or none, for an input.
        second: the second side's.
        operators: the operators of both.
        difference: the largest, from the same inputs; infinite where there is none.
        explained: the difference that the arithmetic explains.
        magnitude: the largest magnitude of the first side's output.
        index: of the element that differs most.
        reason: how the two nodes' attributes or weights differ, or "".
    """

    tensor: str
    what: str
    side: str
    first: list[str]
    second: list[str]
    operators: tuple[list[str], list[str]]
    difference: float
    explained: float
    magnitude: float
    index: list[int]
    reason: str

    def to_json(self) -> Facts:
        """The facts, ready for JSON: an infinite difference is null."""
        return asdict(self) | {"difference": self.difference if self.difference < math.inf else None}

    def __str__(self) -> str:
        nodes = [f"{operator} {name!r}" for operator, name in zip(self.operators[0], self.first, strict=True)]
        who = f"The input {self.tensor!r}:" if not nodes else f"{nodes[-1]}:"
        if len(nodes) > 1:
            who = f"From {nodes[0]} to {nodes[-1]}, {len(nodes)} nodes as one:"
        differs = f"the same inputs give a difference of {self.difference:.2g} at {self.index} in numbers up to "
        how = {
            "nan": f"NaN begins here on the {self.side} side, at {self.index}.",
            "overflow": f"the {self.side} side overflows here, at {self.index}.",
            "shape": "the two sides' outputs have different shapes.",
            "differs": f"{differs}{self.magnitude:.2g}; rounding explains {self.explained:.1g}.",
        }[self.what]
        is_same = self.operators[0] == self.operators[1]
        others = "" if is_same else f" The second side computes it by {', '.join(self.operators[1])}."
        return f"{who} {how}{others} {self.reason}".rstrip()


def find_departure(
    first: Case, second: Case, values: Mapping[str, object], operators: Operators = ()
) -> Departure | None:
    """Finds the first node whose output departs by more than what comes into it explains.

    Nodes are matched by the names of their tensors; what lies between two tensors that both models have is one group.

    Args:
        first: a model, and how it is evaluated.
        second: the same or nearly the same model, or the same evaluated in another way.
        values: a value for each input, as `LearningModelBinding.bind` takes it.
        operators: the program's own operators, of either model.

    Returns:
        The departure, or None if rounding explains all differences.

    Raises:
        InvalidArgumentError: the models share no tensors.
        WinMLError: a model cannot be evaluated.

    Example:
        >>> import numpy as np
        >>> from winml_py.compare.blame import find_departure
        >>> from winml_py.perf import Case
        >>> image = {"image": np.zeros((1, 1, 28, 28), np.float32)}
        >>> find_departure(Case("models/digits.onnx"), Case("models/digits_float16.onnx"), image) is None
        True
    """
    with tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        return _Search((first, second), values, ModelOperators.of(operators), folder).find()


class _Group(NamedTuple):
    """Nodes of each side that compute tensors which both sides have, from others which both have."""

    outputs: list[str]
    first: Cut
    second: Cut

    @property
    def inputs(self) -> set[str]:
        return self.first.inputs | self.second.inputs


class _Search:
    def __init__(
        self, cases: Sequence[Case], values: Mapping[str, Any], operators: ModelOperators, folder: str
    ) -> None:
        folders = [os.path.join(folder, name) for name in ("first", "second")]
        for each in folders:
            os.mkdir(each)
        first, second = (Side(case, operators, values, where) for case, where in zip(cases, folders, strict=True))
        self._sides, self._folder = (first, second), folder
        for side, where in zip(self._sides, folders, strict=True):
            side.inputs = _Tensors(f"{where}/inputs", side.inputs)
        self._tensors = _Tensors(f"{folder}/tensors", {**second.inputs, **first.inputs})
        shared = first.makers.keys() & second.makers.keys() & first.types.keys() & second.types.keys()
        shared = (shared & (first.read | second.read)) - (first.constant | second.constant)
        if not shared:
            raise InvalidArgumentError(
                "The models share no tensors: no name is in both.",
                hint="Compare a model with one that was made from it; an exporter gives each model new names.",
            )
        by_place: dict[int, list[str]] = {}
        for name in sorted(shared, key=first.makers.__getitem__):
            by_place.setdefault(first.makers[name], []).append(name)
        self._groups, known = list[_Group](), set[str]()
        for names in by_place.values():
            known.update(names)
            cuts = [Cut.union(side.cut([name], known - {name}) for name in names) for side in self._sides]
            self._groups.append(_Group(names, *cuts))
        sizes = {name: _static_bytes(kind.tensor_type) for name, kind in first.types.items()}
        largest = max(sizes.values())
        self._bytes = {name: size or largest for name, size in sizes.items()}  # an unknown size counts as the largest
        self._limit = max(LEAST_BYTES, 3 * largest)

    def find(self) -> Departure | None:
        """The departure; see `find_departure`."""
        first, second = self._sides
        for name in first.inputs.keys() & second.inputs.keys():  # models may make other tensors of one picture
            gap = compare(first.inputs[name], second.inputs[name])
            if gap.exceeds(explained := self._explained(gap, Gap(), [name], 1)):
                return self._departure(name, gap, explained, [], [])
        shaken = {name: shake(value, self._epsilon([name])) for name, value in first.inputs.items()}
        outputs = self._compare_runs(first.whole(first.inputs, shaken), second.whole(second.inputs))
        if not any(gap.exceeds(0) for gap, _ in outputs.values()):
            return None
        count = len(first.nodes)
        do_depart = any(
            gap.exceeds(self._explained(gap, noise, [name], count)) for name, (gap, noise) in outputs.items()
        )
        return self._judge(self._groups) or (self._find_fused() if do_depart else None)

    def _judge(self, groups: Sequence[_Group]) -> Departure | None:
        """The first of some groups that departs, on its own and in the whole model."""
        names, half = [name for group in groups for name in group.outputs], len(groups) // 2
        made = sum(self._bytes[name] for name in names)
        read = sum(self._bytes.get(name, 0) for name in {name for group in groups for name in group.inputs})
        if half and made + max(read, made) > self._limit:  # what is made is held twice to be compared
            return self._judge(groups[:half]) or self._judge(groups[half:])
        cuts = Cut.union(group.first for group in groups), Cut.union(group.second for group in groups)
        try:
            self._advance(names)
            gaps = self._compare_cuts(*cuts, names, "/apart")
        except WinMLError:  # an engine that takes the whole model may refuse a part of it
            if half:
                return self._judge(groups[:half]) or self._judge(groups[half:])
            if names[0] not in self._tensors:
                raise
            return None
        for group in groups:
            for name in group.outputs:
                gap, noise = gaps[name]
                explained = self._explained(gap, noise, [name, *group.inputs], self._sides[0].count(group.first))
                if gap.exceeds(explained) and self._is_in_whole(name, gap):
                    return self._departure(name, gap, explained, group.first.places, group.second.places)
        return None

    def _advance(self, names: Sequence[str]) -> None:
        """Computes the first side's tensors, from those that are known."""
        asked = [name for name in names if name not in self._tensors]
        cut = self._sides[0].cut(asked, self._tensors)
        for made in self._sides[0].part(cut, asked, "", lambda: {name: self._tensors[name] for name in cut.inputs}):
            self._tensors.update(made)

    def _compare_cuts(
        self, first: Cut, second: Cut, asked: Sequence[str], suffix: str = ""
    ) -> dict[str, tuple[Gap, Gap]]:
        """Compares parts of both sides, with the same inputs."""
        epsilon = self._epsilon([*first.inputs, *second.inputs, *asked])

        def feed(side: Side, cut: Cut, epsilon: float = 0) -> dict[str, Any]:
            return {name: shake(self._fed(side, name), epsilon) for name in cut.inputs}

        one, other = self._sides
        return self._compare_runs(
            one.part(first, asked, suffix, lambda: feed(one, first), lambda: feed(one, first, epsilon)),
            other.part(second, asked, suffix, lambda: feed(other, second)),
        )

    def _compare_runs(self, first: Runs, second: Runs) -> dict[str, tuple[Gap, Gap]]:
        """How far each output differs between the sides; and on the first, from inputs changed in their last bit."""
        with closing(first), closing(second):
            kept = _Tensors(f"{self._folder}/came", next(first))
            noise = {name: compare(kept[name], value) for name, value in next(first).items()}
            first.close()  # its memory is free before the other runs
            gaps = {name: compare(kept[name], value) for name, value in next(second).items() if name in noise}
        return {name: (gap, noise[name]) for name, gap in gaps.items()}

    def _fed(self, side: Side, name: str) -> Any:
        """The first side's tensor in a side's type, rounded to the coarser type of both."""
        if not isinstance(value := self._tensors[name], np.ndarray):
            return value
        elements = [side.element(name), *(each.element(name) for each in self._sides)]
        own, *both = [np.dtype(helper.tensor_dtype_to_np_dtype(each)) for each in elements if each]
        coarser = min(both, key=lambda kind: kind.itemsize) if value.dtype.kind == "f" else value.dtype
        with np.errstate(over="ignore"):
            return np.array(value).astype(coarser, copy=False).astype(own, copy=False)

    def _epsilon(self, names: Collection[str]) -> float:
        """The distance from 1 to the next number, in the coarsest type that the sides compute some tensors in."""
        has_halves = any(side.element(name) == TensorProto.FLOAT16 for name in names for side in self._sides)
        kinds = {side.half for side in self._sides} | ({"float16"} if has_halves else set())
        return max(EPSILONS[kind] for kind in kinds)

    def _explained(self, gap: Gap, noise: Gap, names: Sequence[str], count: int) -> float:
        """The difference that the arithmetic explains; infinite if changed last bits change the shape, or add a NaN.

        Args:
            gap: of the tensor that is judged.
            noise: what the changed last bits of its inputs change.
            names: of the tensor, and of these inputs.
            count: of the nodes that compute it.
        """
        if noise.has_other_shape or noise.lost is not None:
            return math.inf
        if gap.kind != "f":
            return 16 * noise.difference + (gap.kind in "iu" and gap.itemsize == 1)  # 8 bits may be rounded otherwise
        epsilon, terms = self._epsilon(names), max(self._bytes.get(name, 4) for name in names) / 4
        is_half = epsilon > EPSILONS[""]
        share = max(1e-5, 4 * epsilon) * math.sqrt(count) + SUM * math.sqrt(terms)
        return share * gap.magnitude + (4 if is_half else 16) * noise.difference + TINY[is_half]

    def _is_in_whole(self, name: str, apart: Gap) -> bool:
        """Whether a tensor departs alike where each side computes all that leads to it, as the user's run does."""
        first, second = self._sides
        gap, _ = self._compare_runs(
            first.part(first.cut([name], ()), [name], "", lambda: first.inputs, lambda: first.inputs),
            second.part(second.cut([name], ()), [name], "", lambda: second.inputs),
        )[name]
        return gap.has_other_shape or gap.lost is not None or gap.difference > 0.3 * apart.difference

    def _find_fused(self) -> Departure | None:
        """The fewest nodes in a row that depart together, if they are few: an engine computes them as one."""
        read_last = {name: place for place, group in enumerate(self._groups) for name in group.inputs}
        read_last |= dict.fromkeys(self._sides[0].outputs, len(self._groups))
        found: dict[tuple[int, int], Departure] = {}

        def departs(start: int, end: int) -> bool:
            """Whether a tensor that later nodes read departs, if none between these nodes is asked for."""
            known = {name for group in self._groups[:start] for name in group.outputs}
            for name in [name for group in self._groups[start : end + 1] for name in group.outputs]:
                if read_last.get(name, 0) > end and self._tensors[name].dtype.kind == "f":
                    first, second = (side.cut([name], known) for side in self._sides)
                    gap, noise = self._compare_cuts(first, second, [name])[name]
                    explained = self._explained(gap, noise, [name, *first.inputs], self._sides[0].count(first))
                    if gap.exceeds(explained):
                        found[start, end] = self._departure(name, gap, explained, first.places, second.places)
                        return True
            return False

        end = bisect_left(range(len(self._groups)), True, key=lambda place: departs(0, place))
        if end == len(self._groups):
            return None
        start = end - bisect_left(range(end + 1), True, key=lambda length: departs(end - length, end))
        return found[start, end] if len(found[start, end].first) <= FUSED else None

    def _departure(self, name: str, gap: Gap, explained: float, first: list[int], second: list[int]) -> Departure:
        one, other = (
            [node for node in (side.nodes[place] for place in places) if not side.constant & {*node.output}]
            for side, places in zip(self._sides, (first, second), strict=True)
        )
        what, side = "shape" if gap.has_other_shape else "differs", ""
        if gap.lost is not None:
            side = "second" if math.isfinite(gap.lost[0]) else "first"
            what = "nan" if np.isnan(gap.lost).any() else "overflow"
        names = [[node.name or node.output[0] for node in nodes] for nodes in (one, other)]
        operators = [node.op_type for node in one], [node.op_type for node in other]
        reason = self._reason(one[0], other[0]) if len(one) == len(other) == 1 else ""
        far = gap.difference if what == "differs" else math.inf
        return Departure(
            name, what, side, names[0], names[1], operators, far, explained, gap.magnitude, gap.position, reason
        )

    def _reason(self, first: NodeProto, second: NodeProto) -> str:
        """The first attribute or weight in which two nodes differ."""
        one, other = ({item.name: item for item in node.attribute} for node in (first, second))
        for name in sorted(one.keys() & other.keys() if first.op_type == second.op_type else ()):
            if one[name] != other[name]:
                values = [f"{helper.get_attribute_value(each[name])}"[:60] for each in (one, other)]
                return f"Its attribute {name} is {values[0]} on the first side, {values[1]} on the second."
        for names in zip(first.input, second.input, strict=False):
            weights = [side.weight(name) for side, name in zip(self._sides, names, strict=True)]
            if not any(weight is None for weight in weights) and (gap := compare(*weights)).exceeds(0):
                return f"Its weight {names[0]!r} differs by {gap.difference:.2g} at {gap.position}."
        return ""


class Gap(NamedTuple):
    """How two values of a tensor differ.

    Attributes:
        has_other_shape: whether their shapes differ; or values that are no arrays of numbers.
        lost: the first pair of which only one is finite, or which are different infinities; None if there is none.
        difference: the largest between finite elements.
        position: of that pair, or of the largest difference.
        magnitude: the largest of the first value.
        kind: the kind of its type, as in numpy.
        itemsize: the bytes of an element.
    """

    has_other_shape: bool = False
    lost: tuple[float, float] | None = None
    difference: float = 0.0
    position: list[int] = []  # noqa: RUF012 - never changed
    magnitude: float = 0.0
    kind: str = ""
    itemsize: int = 0

    def exceeds(self, explained: float) -> bool:
        """Whether the values differ by more than what is explained."""
        return explained < math.inf and (self.has_other_shape or self.lost is not None or self.difference > explained)


def compare(expected: Any, actual: Any) -> Gap:
    """Compares two values, block by block: wider copies of large tensors would exceed the memory."""
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in (expected, actual)):
        return Gap(not compare_values(expected, actual, 0).is_good)
    if expected.shape != actual.shape:
        return Gap(True)
    one, other = expected.reshape(-1), actual.reshape(-1)
    lost, worst, place, magnitude = None, 0.0, 0, 0.0
    for start in range(0, one.size, BLOCK):
        left, right = (each[start : start + BLOCK].astype(np.float64) for each in (one, other))
        are_finite = np.isfinite(left) & np.isfinite(right)
        are_lost = ~are_finite & (left != right) & ~(np.isnan(left) & np.isnan(right))
        apart = np.abs(np.subtract(left, right, out=np.zeros(left.size), where=are_finite))
        magnitude = max(magnitude, float(np.abs(left[np.isfinite(left)]).max(initial=0)))
        if lost is None and are_lost.any():
            found = int(are_lost.argmax())
            lost, place = (float(left[found]), float(right[found])), start + found
        if lost is None and apart.max() > worst:
            worst, place = float(apart.max()), start + int(apart.argmax())
    position = [int(each) for each in np.unravel_index(place, expected.shape)] if one.size else []
    return Gap(False, lost, worst, position, magnitude, expected.dtype.kind, expected.dtype.itemsize)


def shake(value: Any, epsilon: float) -> Any:
    """Moves each float by an epsilon, up or down; in place where it may."""
    if epsilon and isinstance(value, np.ndarray) and value.dtype.kind == "f":
        value = value if value.flags.writeable and value.flags.c_contiguous else np.array(value)
        flat, rng = value.reshape(-1), np.random.default_rng(0)
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK]
            with np.errstate(over="ignore", invalid="ignore"):
                block *= 1 + value.dtype.type(epsilon) * rng.choice(np.array([-1, 1], value.dtype), block.size)
    return value


class _Tensors(UserDict[str, Any]):
    """Tensors in files, which are mapped when they are read; values that are no arrays of numbers stay in memory."""

    def __init__(self, folder: str, values: Mapping[str, Any]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(exist_ok=True)
        super().__init__(values)

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            path = self._folder / f"{len(self.data)}.npy"
            np.save(path, value)
            value = path
        self.data[name] = value

    def __getitem__(self, name: str) -> Any:
        return np.load(found, mmap_mode="r") if isinstance(found := self.data[name], Path) else found


def _static_bytes(tensor: TypeProto.Tensor) -> int:
    """The bytes of a tensor; 0 if a size is free."""
    itemsize = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).itemsize
    return math.prod(each.dim_value for each in tensor.shape.dim) * itemsize if tensor.HasField("shape") else 0

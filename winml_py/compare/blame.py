"""Finds the first node whose output departs by more than what comes into it explains, between two evaluations.

Every node is judged on its own: both sides compute it from the first side's tensors, so that what an earlier node did
cannot be held against it. The first side computes it once more from inputs that are changed in their last bit: what
that changes is the arithmetic's. A node that departs is looked at in the whole model, too. Nodes that depart only where
the engine computes several as one are not found, nor are weights, and what is computed from weights alone: their
differences show in the nodes that read them.
"""

from __future__ import annotations

import math
import tempfile
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

KEPT = 0.3
"""A node is to blame if the whole model, whose engine may compute it otherwise, shows this share of its difference."""

# What rounding explains. `tests/tools/blame.py` tries it: no node may be named without a fault, and all with one.

EPSILONS = {"": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number; float64 counts as float32, which engines may compute it in."""

ROUNDINGS = 4
"""How many epsilons a node loses: both sides round an intermediate and the result, by up to one if they truncate."""

APPROXIMATION = 1e-5
"""The least share in float32, because engines approximate exp, tanh and erf by polynomials. Chosen by trial."""

SUM = 2.0**-24
"""A rounding error in float32, half an epsilon. In a sum of n terms, errors of chance add up to root n of them."""

MOVED = {False: 16, True: 4}
"""How many times what moved last bits change is explained, in float32 and in narrower types: an engine that reorders a
sum rounds more than once, and more often in float32, in which narrower types are summed. Chosen by trial."""

TINY = {False: 1.2e-38, True: 6.1e-5}
"""The least normal numbers of float32 and float16. Below, digits are lost, and engines may take numbers as 0."""

EIGHT_BITS = 1
"""A number of 8 bits that lies in the middle may be rounded up or down."""


@dataclass(frozen=True)
class Departure:
    """Where two evaluations depart.

    Attributes:
        tensor: the output that departs.
        what: "differs", "nan", "overflow" or "shape".
        side: on which side NaN or the overflow begins: "first", "second" or "".
        first: the first side's nodes that compute it, and their operators: one; several that are one on the other side;
            or none, for an input.
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
            if all(side.element_type(name) in TENSOR_CLASSES and name not in side.constant for side in sides)
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
            if found := self._judge(name, (), measure_gap(first.inputs[name], second.inputs[name]), Gap()):
                return found
        if not any(gap.difference for gap, _ in self._compare(Side.open_whole).values()):
            return None
        for name in self._names:
            found = self._judge(name, self._tensors, *self._compare_parts(name, self._tensors))
            if found and self._compare_parts(name, ())[0].difference >= KEPT * found.difference:
                return found
        return None

    def _compare_parts(self, name: str, stops: Collection[str]) -> tuple[Gap, Gap]:
        return self._compare(lambda side: side.open_part(name, stops, self._tensors))[name]

    def _compare(self, make: Callable[[Side], LearningModelSession]) -> dict[str, tuple[Gap, Gap]]:
        """How far each output differs between the sides; and on the first, from inputs changed in their last bit."""
        first, second = self._sides
        with make(first) as session:
            self._tensors.update(first.evaluate(session, lambda name: self._feed(first, name)))
            features = *session.model.input_features, *session.model.output_features
            epsilon = self._find_epsilon([feature.name for feature in features])
            moved = first.evaluate(session, lambda name: self._feed(first, name, epsilon))
            noise = {name: measure_gap(self._tensors[name], moved.pop(name)) for name in [*moved]}
        with make(second) as session:
            results = second.evaluate(session, lambda name: self._feed(second, name))
        return {
            name: (measure_gap(self._tensors[name], results[name]), noise[name]) for name in noise if name in results
        }

    def _feed(self, side: Side, name: str, epsilon: float = 0) -> Any:
        """One of the first side's tensors in a side's type, rounded to the coarser type of both.

        With an epsilon, half of its floats grow by two of them: in their mean, all are moved by one.
        """
        value = self._tensors[name]
        if not isinstance(value, np.ndarray):
            return value
        elements = [known.element_type(name) for known in (side, *self._sides) if name in known.types]
        own, *both = [np.dtype(helper.tensor_dtype_to_np_dtype(element)) for element in elements]
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.array(value).astype(min(both, key=lambda kind: kind.itemsize), copy=False)
            value = value.astype(own, copy=False)
            if epsilon and own.kind == "f":
                are_moved = np.random.default_rng(0).integers(0, 2, value.shape, np.bool_)
                np.multiply(value, own.type(1 + 2 * epsilon), out=value, where=are_moved)
        return value

    def _find_epsilon(self, names: Collection[str]) -> float:
        """The distance from 1 to the next number, in the coarsest type that the sides compute some tensors in."""
        kinds = {side.half for side in self._sides} | {""}
        if any(side.element_type(name) == TensorProto.FLOAT16 for side in self._sides for name in names):
            kinds.add("float16")
        return max(EPSILONS[kind] for kind in kinds)

    def _judge(self, name: str, stops: Collection[str], gap: Gap, noise: Gap) -> Departure | None:
        """A tensor that departs; None if the arithmetic explains the difference.

        Args:
            name: of the tensor.
            stops: the tensors that it was computed from.
            gap: between both sides.
            noise: what the changed last bits of its inputs change.
        """
        first, second = self._sides
        places, inputs = first.cut(name, stops)
        second_places, second_inputs = second.cut(name, stops)
        explained = self._bound_rounding({name, *inputs, *second_inputs}, len(places), gap, noise)
        if gap.difference <= explained:
            return None
        nodes, second_nodes = first.describe(places), second.describe(second_places)
        what, side = gap.describe()
        place = gap.position
        return Departure(name, what, side, nodes, second_nodes, gap.difference, explained, gap.magnitude, place)

    def _bound_rounding(self, names: Collection[str], node_count: int, gap: Gap, noise: Gap) -> float:
        """The difference that rounding explains in nodes that read and make these tensors."""
        epsilon = self._find_epsilon(names)
        is_narrow = epsilon > EPSILONS[""]
        terms = max(np.size(self._tensors[name]) for name in names)
        rounded = max(APPROXIMATION, ROUNDINGS * epsilon) * math.sqrt(max(1, node_count))  # as errors of chance add up
        explained = (rounded + SUM * math.sqrt(terms)) * gap.magnitude
        explained += MOVED[is_narrow] * noise.difference + TINY[is_narrow]
        return explained + EIGHT_BITS if gap.kind in ("i1", "u1") else explained


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

    def describe(self) -> tuple[str, str]:
        """What `Departure` says of it: `what` and `side`."""
        if self.difference < math.inf:
            return "differs", ""
        if not self.values:
            return "shape", ""
        side = "second" if math.isfinite(self.values[0]) else "first"
        return "nan" if np.isnan(self.values).any() else "overflow", side


def measure_gap(expected: Any, actual: Any) -> Gap:
    """Compares two values, block by block: wider copies of large tensors would exceed the memory."""
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in (expected, actual)):
        return Gap(0.0 if compare_values(expected, actual, 0).is_good else math.inf)
    if expected.shape != actual.shape:
        return Gap(math.inf)
    expected_flat, actual_flat = expected.reshape(-1), actual.reshape(-1)
    worst, place, magnitude, values = 0.0, 0, 0.0, tuple[float, ...]()
    for start in range(0, expected.size, BLOCK):
        left = expected_flat[start : start + BLOCK].astype(np.float64)
        right = actual_flat[start : start + BLOCK].astype(np.float64)
        with np.errstate(invalid="ignore"):
            differences = np.nan_to_num(np.abs(left - right), nan=math.inf, posinf=math.inf)
        differences[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
        magnitude = max(magnitude, float(np.abs(left[np.isfinite(left)]).max(initial=0)))
        found = int(differences.argmax())
        if differences[found] > worst:
            worst, place, values = float(differences[found]), start + found, (float(left[found]), float(right[found]))
    position = np.array(np.unravel_index(place, expected.shape)).tolist() if expected.size else []
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

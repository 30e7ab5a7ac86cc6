"""Finds the first node whose output differs between two evaluations by more than rounding explains.

Every node is judged alone: both sides compute it from the first side's tensors, so that differences of earlier nodes do
not count. The first side computes it again from inputs whose last bits are changed; rounding may cause a difference of
that size. A node that departs alone must also depart in the whole model, where the engine may fuse it with others.

Not found are differences that appear only where an engine fuses nodes. Weights, and what is computed from weights
alone, are not judged: their differences appear in the nodes that read them.
"""

from __future__ import annotations

import math
import tempfile
from collections import UserDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from .._cases.case import Case
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError
from .gap import Gap, measure_gap
from .model_parts import ComparedModel

MIN_SHARE_IN_MODEL = 0.3
"""A node is named only if the whole model, whose engine may fuse it, shows this share of its difference."""

# What rounding explains. `tests/tools/find_planted_faults.py` shows that with these numbers every planted
# fault is named, and no node without one.

EPSILONS = {"": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number. Engines may compute float64 in float32, so it has the same."""

ROUNDINGS = 4
"""How many epsilons a node may lose: both sides round an intermediate and the result, by one each if they truncate."""

APPROXIMATION = 1e-5
"""The least relative difference: engines approximate exp, tanh and erf by polynomials. Found by experiment."""

SUM_ROUNDING = 2.0**-24
"""The rounding error of an addition in float32. Errors are random: a sum of n terms has root n times as much."""

NOISE_FACTORS = {False: 16, True: 4}
"""How many times the effect of changed last bits is explained: in float32, and in narrower types (True). An engine that
reorders a sum rounds several times; it adds up narrower types in float32, and rounds once. Found by experiment."""

LEAST_NORMALS = {False: 1.2e-38, True: 6.1e-5}
"""The least normal numbers of float32 and of float16 (True). Below, digits are lost, and engines may flush to 0."""

EIGHT_BIT_ROUNDING = 1
"""Engines may round an 8-bit number up or down if it lies halfway."""


@dataclass(frozen=True)
class Departure:
    """The first node, or group of nodes, whose output differs by more than rounding explains.

    Attributes:
        tensor: the output.
        what: "differs", "nan", "overflow" or "shape".
        side: the side on which NaN or the overflow begins, "first" or "second"; "" for other differences.
        first: the first side's nodes, and the operator of each; several if the second side has one node for them; none
            if the tensor is an input.
        second: the second side's nodes.
        difference: the largest difference for the same inputs; infinite for NaN, overflow and shapes.
        explained: the largest difference that rounding explains.
        magnitude: the largest magnitude of the first side's output.
        index: the position of the element that differs most.
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
        text = nodes[0] if len(nodes) == 1 else f"From {nodes[0]} to {nodes[-1]}, {len(nodes)} nodes as one"
        if self.what == "nan":
            text += f": NaN begins here on the {self.side} side, at {self.index}."
        elif self.what == "overflow":
            text += f": the {self.side} side overflows here, at {self.index}."
        elif self.what == "shape":
            text += ": the two sides' outputs have different shapes."
        else:
            text += f": the same inputs give a difference of {self.difference:.2g} at {self.index} in numbers up to "
            text += f"{self.magnitude:.2g}; rounding explains {self.explained:.1g}."
        operators = list(self.second.values())
        if operators != list(self.first.values()):
            text += f" The second side computes it by {', '.join(operators)}."
        return text


def find_departure(first: Case, second: Case, values: Mapping[str, object]) -> Departure | None:
    """Finds the first node whose output differs by more than rounding explains.

    Nodes are matched by the names of their outputs. The nodes between two tensors that both models have are one group.

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
        >>> from winml_py.compare.first_departure import find_departure
        >>> from winml_py.perf import Case
        >>> image = {"image": np.zeros((1, 1, 28, 28), np.float32)}
        >>> find_departure(Case("models/digits.onnx"), Case("models/digits_float16.onnx"), image) is None
        True
    """
    with tempfile.TemporaryDirectory(prefix="winml-py-") as folder:
        sides = [ComparedModel(case, values, tempfile.mkdtemp(dir=folder)) for case in (first, second)]
        return _Search(sides, folder).find()


class _Search:
    """A search. A node, or a group of nodes, is known by the name of the tensor that it computes on both sides."""

    def __init__(self, sides: Sequence[ComparedModel], folder: str) -> None:
        first, second = self._sides = sides
        self._tensors = _TensorFiles(folder, {**second.inputs, **first.inputs})  # the first side's
        shared = first.makers.keys() & second.makers.keys() & (first.read | second.read)
        names = [name for name in shared if first.can_compare(name) and second.can_compare(name)]
        if not names:
            raise InvalidArgumentError(
                "The models share no tensors: no name is in both.",
                hint="Compare a model with one that was made from it; an exporter gives each model new names.",
            )
        self._names = sorted(names, key=first.makers.__getitem__)

    def find(self) -> Departure | None:
        """The departure; see `find_departure`."""
        first, second = self._sides
        for name in first.inputs.keys() & second.inputs.keys():  # models may make other tensors of one picture
            gap = measure_gap(first.inputs[name], second.inputs[name])
            if departure := self._judge(name, (), gap, Gap()):
                return departure
        if not any(gap.difference for gap, _ in self._compare(ComparedModel.open_whole).values()):
            return None
        for name in self._names:
            gap, noise = self._compare_part(name, self._tensors)
            departure = self._judge(name, self._tensors, gap, noise)
            if departure is not None:
                gap_in_model, _ = self._compare_part(name, ())
                if gap_in_model.difference >= MIN_SHARE_IN_MODEL * departure.difference:
                    return departure
        return None

    def _compare_part(self, name: str, stops: Collection[str]) -> tuple[Gap, Gap]:
        """Compares the nodes that compute a tensor from those at which they stop; see `_compare`."""
        return self._compare(lambda side: side.open_part(name, stops, self._tensors))[name]

    def _compare(self, open_session: Callable[[ComparedModel], LearningModelSession]) -> dict[str, tuple[Gap, Gap]]:
        """Evaluates both sides on the first side's tensors.

        Returns:
            For each output the gap between the sides, and the gap on the first side to inputs with changed last bits.
        """
        first, second = self._sides
        with open_session(first) as session:
            self._tensors.update(first.evaluate(session, lambda name: self._make_input(first, name)))
            features = *session.model.input_features, *session.model.output_features
            epsilon = self._find_epsilon([feature.name for feature in features])
            moved = first.evaluate(session, lambda name: self._make_input(first, name, epsilon))
            noise = {name: measure_gap(self._tensors[name], value) for name, value in moved.items()}
            del moved
        with open_session(second) as session:
            results = second.evaluate(session, lambda name: self._make_input(second, name))
        names = noise.keys() & results.keys()
        return {name: (measure_gap(self._tensors[name], results[name]), noise[name]) for name in names}

    def _make_input(self, side: ComparedModel, name: str, epsilon: float = 0) -> Any:
        """One of the first side's tensors in a side's type, rounded to the coarser type of both sides.

        With an epsilon, half of its floats grow by two epsilons: on average, each changes by one.
        """
        value = self._tensors[name]
        if not isinstance(value, np.ndarray):
            return value
        dtype = side.get_dtype(name)
        types = [known.get_dtype(name) for known in self._sides if name in known.types]
        coarsest = min(types, key=lambda kind: kind.itemsize)
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.array(value).astype(coarsest, copy=False).astype(dtype, copy=False)
            if epsilon and dtype.kind == "f":
                is_moved = np.random.default_rng(0).integers(0, 2, value.shape, np.bool_)
                np.multiply(value, dtype.type(1 + 2 * epsilon), out=value, where=is_moved)
        return value

    def _find_epsilon(self, names: Collection[str]) -> float:
        """The epsilon of the coarsest type in which a side computes one of these tensors."""
        types = {side.half for side in self._sides} | {""}
        if any(side.get_element_type(name) == TensorProto.FLOAT16 for side in self._sides for name in names):
            types.add("float16")
        return max(EPSILONS[kind] for kind in types)

    def _judge(self, name: str, stops: Collection[str], gap: Gap, noise: Gap) -> Departure | None:
        """The departure of a tensor; None if rounding explains the difference.

        Args:
            name: the tensor's name.
            stops: the tensors from which it was computed.
            gap: the gap between the sides.
            noise: the gap that changed last bits of its inputs cause.
        """
        first, second = self._sides
        places, inputs = first.find_part(name, stops)
        second_places, second_inputs = second.find_part(name, stops)
        explained = self._bound_rounding({name, *inputs, *second_inputs}, len(places), gap, noise)
        if gap.difference <= explained:
            return None
        what, side = gap.classify()
        return Departure(
            tensor=name,
            what=what,
            side=side,
            first=first.list_operators(places),
            second=second.list_operators(second_places),
            difference=gap.difference,
            explained=explained,
            magnitude=gap.magnitude,
            index=gap.position,
        )

    def _bound_rounding(self, names: Collection[str], node_count: int, gap: Gap, noise: Gap) -> float:
        """The difference that rounding explains in nodes that read and make these tensors."""
        epsilon = self._find_epsilon(names)
        is_narrow = epsilon > EPSILONS[""]
        relative = max(APPROXIMATION, ROUNDINGS * epsilon) * math.sqrt(max(1, node_count))
        relative += SUM_ROUNDING * math.sqrt(max(np.size(self._tensors[name]) for name in names))
        explained = relative * gap.magnitude + NOISE_FACTORS[is_narrow] * noise.difference + LEAST_NORMALS[is_narrow]
        return explained + EIGHT_BIT_ROUNDING if gap.kind in ("i1", "u1") else explained


class _TensorFiles(UserDict[str, Any]):
    """Tensors in files, which are mapped into memory when they are read. Values of other types stay in memory."""

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
        value = self.data[name]
        return np.load(value, mmap_mode="r") if isinstance(value, Path) else value

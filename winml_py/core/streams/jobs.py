"""Jobs: what one thread of a stream does for a batch of items: load, evaluate, split."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import ClosedError, DeviceLostError, InvalidArgumentError, WinMLError
from ..base.collections import NameMap
from ..base.type_names import type_name
from ..evaluation.result import LearningModelEvaluationResult, ModelFacts, completed
from ..features.descriptors import FeatureDescriptor
from ..imaging.contract import ImageContract
from ..model.contract_fit import fits, spell_type
from .batches import count, joined, require_free_batch, split
from .file_values import read_value
from .runners import Features, Runner
from .sources import Item
from .taken import taken


class Loading:
    """How the items of a stream become the values of a model's inputs.

    Args:
        inputs: the model's, by name.
        fast_decode: whether large JPEGs are decoded only as large as the model needs.
        copies: whether values are copied that the source of the items may write again.

    Attributes:
        inputs: the model's, by name.
        copies: see above.
    """

    def __init__(self, inputs: Mapping[str, FeatureDescriptor], fast_decode: bool, copies: bool = True) -> None:
        self.inputs, self._fast_decode, self.copies = inputs, fast_decode, copies
        self._spelling = spelling(inputs)

    def taken(self, item: Item) -> Item:
        """The item with values that its source can no longer write; outputs to be written are left as they are."""
        value = item.value
        try:
            if isinstance(value, Mapping):
                value = {name: taken(each) if name in self._spelling else each for name, each in value.items()}
            elif not isinstance(value, WinMLError):
                value = taken(value)
        except WinMLError as error:  # it stays with its item
            value = error
        return item._replace(value=value)

    def features(self, item: Item) -> Features:
        """The item's values by name, with files read.

        Raises:
            WinMLError: there are none.
        """
        value = item.value
        if isinstance(value, WinMLError):
            raise value
        named = value if isinstance(value, Mapping) else {self._only_input(value): value}
        return {name: self._value(name, value) for name, value in named.items()}

    def _only_input(self, value: Any) -> str:
        if len(self.inputs) != 1:
            raise InvalidArgumentError(
                f"The model has {len(self.inputs)} inputs, and a {type_name(value)} came for all of them.",
                hint=f"Write {{name: value}}; the names: {', '.join(self.inputs)}.",
            )
        return next(iter(self.inputs))

    def _value(self, name: str, value: Any) -> Any:
        if not isinstance(value, (str, os.PathLike, bytes, bytearray)) or name not in self._spelling:
            return value
        return read_value(self.inputs[self._spelling[name]], value, self._fast_decode)


def spelling(names: Iterable[str]) -> NameMap[str]:
    """The names of features, found in any case."""
    return NameMap({name: name for name in names})


class Jobs:
    """Evaluates items, several at once where a batch is asked for.

    Args:
        loading: reads the items.
        outputs: the model's, by name.
        runner: evaluates values.
        batch: how many items to evaluate together, at most.

    Attributes:
        loading, runner, batch: see above.

    Raises:
        InvalidArgumentError: a batch below 1, or one for a model that has none.
    """

    def __init__(
        self,
        loading: Loading,
        outputs: Mapping[str, FeatureDescriptor],
        runner: Runner,
        batch: int,
    ) -> None:
        self.batch, self.runner, self.loading = batch, runner, loading
        if batch > 1:
            for feature in (*loading.inputs.values(), *outputs.values()):
                require_free_batch(feature)

    def run(self, items: list[Item]) -> list[LearningModelEvaluationResult]:
        """The items' results, in their order; those that failed say so."""
        loaded = [self._load(item) for item in items]
        good = [features for features in loaded if not isinstance(features, WinMLError)]
        results = iter(self._together(good) if len(good) > 1 else map(self._alone, good))
        return [
            completed(_failed(entry) if isinstance(entry, WinMLError) else next(results), item.source, item.number)
            for entry, item in zip(loaded, items, strict=True)
        ]

    def _load(self, item: Item) -> Features | WinMLError:
        try:
            return self.loading.features(item)
        except WinMLError as error:
            return error

    def _alone(self, features: Features) -> LearningModelEvaluationResult:
        try:
            return self.runner.run(features)
        except WinMLError as error:
            return _failed(error)

    def _together(self, items: Sequence[Features]) -> list[LearningModelEvaluationResult]:
        """One evaluation for all; if that fails, one for each, so that an error stays with its item."""
        inputs = self.loading.inputs
        if any(features.keys() != items[0].keys() or not features.keys() <= inputs.keys() for features in items):
            return [self._alone(features) for features in items]  # values of outputs, or names that the model lacks
        try:
            whole = self.runner.run({name: joined([features[name] for features in items]) for name in items[0]})
            counts = [count(next(iter(features.values()))) for features in items]
            parts = {name: split(name, value, counts) for name, value in whole.outputs.items()}
        except (WinMLError, KeyError, ValueError):
            return [self._alone(features) for features in items]
        return [
            LearningModelEvaluationResult(
                "",
                {name: values[index] for name, values in parts.items()},
                placements={name: found[start:end] for name, found in whole.placements.items()},
                facts=ModelFacts(whole.labels, whole.metadata),
            )
            for index, (start, end) in enumerate(pairwise(np.cumsum([0, *counts])))
        ]


def require_fitting(contract: ImageContract, inputs: Mapping[str, FeatureDescriptor]) -> frozenset[str]:
    """The names of the inputs that a contract fits.

    Raises:
        InvalidArgumentError: there are none.
    """
    if not isinstance(contract, ImageContract):
        raise InvalidArgumentError(
            f"The contract is {contract!r}.", hint="Write ImageContract.imagenet(), say, or make one."
        )
    fitting = frozenset(name for name, feature in inputs.items() if fits(feature, contract))
    if not fitting:
        are = "; ".join(f"{name} is {spell_type(feature)}" for name, feature in inputs.items())
        raise InvalidArgumentError(
            f"The contract is of {contract.pixel_format.name} pictures in {contract.layout.name}, and fits no input: "
            f"{are}.",
            hint="Such an input has four dimensions, of which one is the channels; check pixel_format and layout.",
        )
    return fitting


def _failed(error: WinMLError) -> LearningModelEvaluationResult:
    if isinstance(error, (ClosedError, DeviceLostError)):  # all items after this one would fail as well
        raise error
    return LearningModelEvaluationResult("", {}, error)

"""Compares the results of two cases: the numbers, the answers read from them, and how far answers are from changing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._inputs.files import generated, jobs, read_pictures, with_bytes
from .._inputs.interpretation import Classes
from .._inputs.model import EXAMPLE, Case, evaluate_to_tensors
from ..authoring.check_samples import flatten_outputs, read_stored_answers
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, TOP1_KEPT, Agreement, compare_values
from ..core.base.arguments import require_type
from ..core.base.arrays import Array
from ..core.base.messages import Facts, Progress
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.tensor_classes import FLOAT_KINDS, TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..enums import Precision
from ..errors import InvalidArgumentError, InvalidBindingError, MissingInputError, SizeMismatchError, WinMLError
from ..vision.detections import Detections, detections, may_be_detections
from ..vision.outputs import find_placement
from ..vision.segmentation import is_segmentation, require_one_map

OVERLAP = 0.5
"""Two boxes are the same if their intersection is at least this share of their union."""


@dataclass(frozen=True)
class OutputDifference:
    """How the numbers of an output differ, over all inputs. Two texts differ by 1.

    Attributes:
        name: the output's name.
        largest: the largest difference; infinite for other shapes, and if numbers became NaN or infinite.
        relative: the largest difference over the largest magnitude of its channel; infinite where numbers that are not
            floats differ, and with NaN or infinity.
        not_finite: how many numbers are NaN or infinite, in the first and in the second.
    """

    name: str
    largest: float
    relative: float
    not_finite: tuple[int, int]

    def join(self, more: OutputDifference) -> OutputDifference:
        """This and the difference for more inputs."""
        not_finite = self.not_finite[0] + more.not_finite[0], self.not_finite[1] + more.not_finite[1]
        largest, relative = max(self.largest, more.largest), max(self.relative, more.relative)
        return OutputDifference(self.name, largest, relative, not_finite)


@dataclass(frozen=True)
class Answer:
    """What the results for one input mean, in both.

    Attributes:
        input: the input's name.
        output: the output's name; "" for objects, which several outputs may give.
        kind: "classes", "mask", "objects", or "values" for numbers without such a meaning.
        first: the first answer, in words.
        second: the second answer.
        is_same: whether they are the same: at least 99 % of rows or pixels keep their best class; objects of the same
            class overlap by half; values are within the tolerance.
        changed: the share of rows, pixels or objects that differ; of values 0 or 1.
        lead: by how much the winner leads the runner-up, in the side where it leads by less; of many rows or pixels,
            by how much 99 % of them do. For objects also twice the distance of a score from the threshold; for values,
            twice the tolerance.
        difference: the largest difference of these scores, over all inputs; for values, the largest relative error.
        position: the input's, from 0.
    """

    input: str
    output: str
    kind: str
    first: str
    second: str
    is_same: bool
    changed: float
    lead: float
    difference: float = 0.0
    position: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether no difference up to the measured one can change it: two scores may each move by as much."""
        return self.is_same and self.lead > 2 * self.difference


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`; its text is one line.

    Attributes:
        sides: of the first and the second, the model, the device, the engine and the precision.
        outputs: the differences of each output.
        answers: the answers for each input.
    """

    sides: tuple[Mapping[str, str], ...]
    outputs: tuple[OutputDifference, ...]
    answers: tuple[Answer, ...]

    @property
    def is_same(self) -> bool:
        """Whether all answers are the same."""
        return all(answer.is_same for answer in self.answers)

    @property
    def doubtful(self) -> list[Answer]:
        """The answers that change, the surest first; and then those that are not settled, the least sure first."""
        doubtful = [answer for answer in self.answers if not answer.is_settled]
        return sorted(doubtful, key=lambda answer: (answer.is_same, answer.lead if answer.is_same else -answer.lead))

    def to_json(self) -> Facts:
        """The comparison, ready for JSON."""
        answers = [asdict(answer) | {"is_settled": answer.is_settled} for answer in self.answers]
        return {"is_same": self.is_same, "summary": str(self), **asdict(self), "answers": answers}

    def __str__(self) -> str:
        count, changed = len(self.answers), sum(not answer.is_same for answer in self.answers)
        same = "The answer is the same" if count == 1 else f"All {count:,} answers are the same"
        words = f"{changed:,} of {count:,} answers change" if changed else same
        words += f", {count - len(self.doubtful):,} settled"
        if self.doubtful:
            worst = self.doubtful[0]
            words += f"; first look at {worst.input}: "
            lead = f"its lead of {worst.lead:.2g} is not above twice the difference, {worst.difference:.2g}"
            words += lead if worst.is_same else f"{worst.first} became {worst.second}"
        lost = [output.name for output in self.outputs if any(output.not_finite)]
        return words + (f"; NaN or infinity in {', '.join(lost)}." if lost else ".")


def compare(first: Case, second: Case, progress: Progress = lambda done, what: None) -> Comparison:
    """Evaluates two cases on the same inputs, and compares their numbers and their answers.

    Args:
        first: the model, device and session options to compare with, and the inputs. Without inputs, the samples stored
            in its model, or else example inputs.
        second: the others. Its own inputs do not count.
        progress: called with the finished share and the name of the input.

    Raises:
        InvalidArgumentError: the models have no output in common.
        InvalidBindingError: the models take different inputs.
        WinMLError: a model, a device or an input cannot be used, or an evaluation failed.

    Example:
        >>> from winml_py.compare import compare
        >>> from winml_py.perf import Case
        >>> compared = compare(Case("models/digits.onnx"), Case("models/digits_float16.onnx"))
        >>> compared.outputs[0].name, compared.outputs[0].largest < 1e-2
        ('probabilities', True)
    """
    for case in (first, second):
        require_type(case, Case, 'Write Case("model.onnx").')
    model, second_model = first.load(), second.load()
    items = list(make_inputs(model, first))
    comparer = Comparer(model)
    with (
        LearningModelSession(model, first.find_device(), first.options(model)) as session,
        LearningModelSession(second_model, second.find_device(), second.options(second_model)) as second_session,
    ):
        is_half = Precision.HALF in (session.precision, second_session.precision)
        is_half = is_half or model.precision != second_model.precision
        for index, (label, make) in enumerate(items):
            progress(index / len(items), label)
            values = make()
            result = evaluate_to_tensors(session, fit_values(model, values))
            try:
                second_result = evaluate_to_tensors(second_session, fit_values(second_model, values))
            except (InvalidBindingError, MissingInputError, SizeMismatchError) as error:
                raise InvalidBindingError(
                    f"The models take different inputs; the second refuses what the first took: {error.message}",
                    hint=error.hint,
                ) from error
            comparer.add(label, (result, second_result), HALF_TOLERANCE if is_half else FLOAT_TOLERANCE)
        return comparer.comparison((_describe_side(first, session), _describe_side(second, second_session)))


def make_inputs(model: LearningModel, case: Case) -> Iterator[tuple[str, Callable[[], Mapping[str, Any]]]]:
    """For each evaluation a name, and what makes its values: from files, the model's samples, or examples."""
    if case.inputs:
        yield from ((label, partial(read_pictures, model, files)) for label, files in jobs(model, case.inputs))
    elif answers := read_stored_answers(model):
        yield from ((str(known), known.make_values) for known in answers)
    else:
        yield EXAMPLE, partial(generated, model, case.sizes)


def fit_values(model: LearningModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a model takes them: an only input by any name, names in the model's case, floats in its type, pictures
    perhaps as bytes.
    """
    features = list(model.input_features)
    names = {feature.name.casefold(): feature.name for feature in features}
    kinds = {feature.name: getattr(feature, "tensor_kind", None) for feature in features}
    is_only = len(features) == len(values) == 1
    found = {}
    for given_name, value in values.items():
        name = features[0].name if is_only else names.get(given_name.casefold(), given_name)
        kind = kinds.get(name)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and kind in FLOAT_KINDS:
            value = value.astype(TENSOR_CLASSES[kind].dtype, copy=False)
        found[name] = value
    return with_bytes(model, found)


def _describe_side(case: Case, session: LearningModelSession) -> dict[str, str]:
    precision = session.precision.name.lower()
    return {"model": case.model, "device": session.device.name, "engine": session.engine, "precision": precision}


Results = tuple[LearningModelEvaluationResult, LearningModelEvaluationResult]


class Comparer:
    """Takes the results of two sides for each input, and makes the comparison.

    Args:
        model: the first model, whose labels name the classes.
    """

    def __init__(self, model: LearningModel) -> None:
        self._classes = Classes(None, model.labels)
        self._outputs: dict[str, OutputDifference] = {}
        self._answers: list[Answer] = []
        self._count = 0
        self._largest_of_objects = 0.0  # the largest difference of their scores

    def add(self, label: str, results: Results, tolerance: float) -> None:
        """Compares the results of an input. The tolerance is that of numbers which have no other meaning.

        Raises:
            InvalidArgumentError: the results have no output in common.
        """
        first, second = (flatten_outputs(result.outputs) for result in results)
        values, ranked = list[Answer](), list[Answer]()
        for name in [name for name in first if name in second]:
            pair = first[name], second[name]
            agreement = compare_values(*pair, tolerance)
            difference = measure_difference(name, *pair, agreement)
            self._outputs[name] = self._outputs[name].join(difference) if name in self._outputs else difference
            words = [str(array.tolist()) if array.size < 4 else "numbers" for array in pair]
            is_same = agreement.is_good or np.array_equal(*pair, equal_nan=pair[0].dtype.kind == "f")
            if not is_same and words[1] == "numbers":
                words[1] = f"others: {agreement}"
            values.append(Answer(label, name, "values", words[0], words[1], is_same, float(not is_same), 2 * tolerance))
            ranked += self._rank(label, name, *pair)
        if not values:
            names = f"{', '.join(first)}, and {', '.join(second)}"
            raise InvalidArgumentError(f"Expected outputs of the same names, got {names}.", hint="Rename the outputs.")
        answers = self._read_picture(label, results) or ranked or values
        self._answers += [replace(answer, position=self._count) for answer in answers]
        self._count += 1

    def comparison(self, sides: tuple[Mapping[str, str], ...]) -> Comparison:
        """The comparison of all results so far, of sides with these descriptions."""
        answers = []
        for answer in self._answers:
            difference = self._largest_of_objects
            if answer.kind != "objects":
                output = self._outputs[answer.output]
                difference = output.relative if answer.kind == "values" else output.largest
            answers.append(replace(answer, difference=difference))
        return Comparison(sides, tuple(self._outputs.values()), tuple(answers))

    def _rank(self, label: str, name: str, first: Array, second: Array) -> list[Answer]:
        """An answer for each entry of a batch of rows of scores; none if nothing marks them as scores."""
        if first.shape != second.shape or first.dtype.kind != "f" or not first.size:
            return []
        answers = list[Answer]()
        entries = list(zip(np.atleast_2d(first), np.atleast_2d(second), strict=True))
        for index, (entry, second_entry) in enumerate(entries):
            width = entry.size if entry.size in entry.shape else entry.shape[-1]
            rows, second_rows = entry.reshape(-1, width), second_entry.reshape(-1, width)
            are_scores = self._classes.best(name, rows[0]) or self._classes.best(name, second_rows[0])
            if are_scores and (entry.ndim < 3 or len(rows) == 1):
                entry_label = f"{label}[{index}]" if len(entries) > 1 else label
                answers.append(self._compare_rows(entry_label, name, "classes", rows, second_rows))
        return answers

    def _compare_rows(self, label: str, name: str, kind: str, *sides: Array) -> Answer:
        """The answer of rows of scores: their best classes."""
        (words, winners, lead), (other_words, others, other_lead) = map(self._find_winners, sides)
        changed = float((winners != others).mean())
        is_same = changed <= 1 - TOP1_KEPT
        return Answer(label, name, kind, words, other_words, is_same, changed, min(lead, other_lead))

    def _find_winners(self, rows: Array) -> tuple[str, Array, float]:
        """The best class in words, that of each row or -1, and the least lead, without the lowest 1 % of many rows."""
        two = np.partition(rows.astype(np.float64), -2, axis=1)[:, -2:]
        has_order = np.isfinite(two[:, 1])  # not of NaN and infinity; models use -inf to exclude a class
        winners = np.where(has_order, rows.argmax(axis=1), -1)
        leads = np.sort(np.subtract(two[:, 1], two[:, 0], where=has_order, out=np.zeros(len(two))))
        labels = self._classes.labels if len(self._classes.labels) == rows.shape[1] else range(rows.shape[1])
        words = f"{[*labels, 'NaN'][winners[0]]} ({two[0, 1]:.4g})" if len(rows) == 1 else f"{len(rows):,} classes"
        return words, winners, float(leads[int((1 - TOP1_KEPT) * len(rows))])

    def _read_picture(self, label: str, results: Results) -> list[Answer]:
        """The answer of a detector or of a segmentation model; none of others."""
        labels = self._classes.labels
        if any(len(result.placements) != 1 for result in results):
            return []
        if all(is_segmentation(result, labels) for result in results):
            (name, pixels), (_, second_pixels) = map(_find_seen_pixels, results)
            return [self._compare_rows(label, name, "mask", pixels, second_pixels)]
        try:
            if not all(may_be_detections(result, labels) for result in results):
                return []
            threshold = detections(results[0], labels=labels).threshold
            # From half the threshold on: with another score they may appear.
            found, second_found = (detections(result, threshold=threshold / 2, labels=labels) for result in results)
        except WinMLError:  # of several possible layouts, or of NaN: the numbers count
            return []
        return [self._compare_objects(label, threshold, found, second_found)]

    def _compare_objects(self, label: str, threshold: float, *sides: Detections) -> Answer:
        """The answer of a detector: its objects above the threshold."""
        pairs = np.array(match_objects(*sides), int).reshape(-1, 2)
        words, leads, lost, count = list[str](), [threshold], 0, 0
        for place, side in enumerate(sides):
            scores_there = np.full(len(side), threshold / 2)  # at most, of an object that the other side did not find
            scores_there[pairs[:, place]] = sides[1 - place].scores[pairs[:, 1 - place]]
            difference = np.abs(side.scores - scores_there).max(initial=0)
            self._largest_of_objects = max(self._largest_of_objects, float(difference))
            is_found = side.scores > threshold
            leads += (2 * np.abs(side.scores - threshold)).tolist()
            if side.runners_up is not None:
                leads += (side.scores - side.runners_up)[is_found].tolist()
            alone = np.flatnonzero(is_found & (scores_there <= threshold))
            names = [f"{side[i].label or side[i].index} {side[i].score:.3f}" for i in alone[:3]]
            words.append(f"{is_found.sum()} objects" + f", here alone {', '.join(names)}" * bool(names))
            lost += len(alone)
            count += int(is_found.sum())
        return Answer(label, "", "objects", words[0], words[1], not lost, lost / max(1, count), min(leads))


def match_objects(first: Detections, second: Detections) -> list[tuple[int, int]]:
    """Pairs of objects of one class whose boxes overlap by `OVERLAP`, those of the best scores first."""
    left_top = np.maximum(first.boxes[:, None, :2], second.boxes[:, :2])
    # A pixel more, as Pascal VOC counts: boxes at the picture's edge may have no area.
    inner = (np.minimum(first.boxes[:, None, 2:], second.boxes[:, 2:]) - left_top + 1).clip(0).prod(axis=2)
    areas = [(side.boxes[:, 2:] - side.boxes[:, :2] + 1).prod(axis=1) for side in (first, second)]
    overlaps = inner / (areas[0][:, None] + areas[1] - inner)
    are_alike, pairs = (first.indices[:, None] == second.indices) & (overlaps >= OVERLAP), []
    for index in np.flatnonzero(are_alike.any(axis=1)):
        if are_alike[index].any():
            pairs.append((int(index), int(are_alike[index].argmax())))
            are_alike[:, pairs[-1][1]] = False
    return pairs


def _find_seen_pixels(result: LearningModelEvaluationResult) -> tuple[str, Array]:
    """The name of a map of classes, and its scores where the model saw the picture: pixels x classes."""
    name, stack = require_one_map(result, None)
    place = find_placement(result, 0, None)
    pixels = stack[0].reshape(stack.shape[1], -1).T
    numbers = place.mask_to_picture(np.arange(len(pixels)).reshape(stack.shape[2:]), outside=-1)
    return name, pixels[np.unique(numbers[numbers >= 0])]


def measure_difference(name: str, first: Array, second: Array, agreement: Agreement) -> OutputDifference:
    """The difference of an output for one input, whose agreement is known."""
    if first.shape != second.shape:
        return OutputDifference(name, math.inf, math.inf, (0, 0))
    if first.dtype.kind not in "fiub":
        first, second = np.zeros(first.shape), np.asarray(first != second)
    first, second = first.astype(np.float64), second.astype(np.float64)
    is_lost, is_lost_in_second = ~np.isfinite(first), ~np.isfinite(second)
    are_finite = ~(is_lost | is_lost_in_second)
    is_kept = np.array_equal(first[~are_finite], second[~are_finite], equal_nan=True)
    largest = float(np.abs(first[are_finite] - second[are_finite]).max(initial=0))
    not_finite = int(is_lost.sum()), int(is_lost_in_second.sum())
    relative = agreement.error if are_finite.all() else math.inf
    return OutputDifference(name, largest if is_kept else math.inf, relative, not_finite)

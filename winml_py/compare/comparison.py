"""Compares the results of two sessions: numbers, the answers read from them, and how far these are from changing."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._examples import EXAMPLE, list_inputs, make_examples, tell_assumed_sizes
from .._interpretation import Classes
from .._values import convert_pictures_to_bytes, evaluate_to_tensors, flatten_outputs, match_inputs, open_session
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, TOP1_KEPT, Agreement, compare_values
from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.features.tensor_classes import FLOAT_KINDS, TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.session.result import LearningModelEvaluationResult
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..vision.detections import Detections, detections, read_facts
from ..vision.layouts import DetectionLayout, recognise_layout
from ..vision.masks import find_segmentation, require_one_map
from ..vision.outputs import find_placement, read_arrays, select_picture

OVERLAP = 0.5
"""Two boxes, or masks, are the same if their intersection is at least this share of their union."""

POINT_REACH = 0.1
"""A point is the same if it moved by at most this share of its box's longer side, as in the measure PCK."""

BLOCK = 1 << 15
"""Elements that are compared at once, floats as float64."""

_NOTHING = np.zeros((0,) * 9)  # a shape that no output has


@dataclass(frozen=True)
class OutputDifference:
    """How the numbers of an output differ, over all inputs. Texts that are not equal differ by 1.

    Attributes:
        name: the output's name.
        largest: the largest difference; infinite for other shapes, and if numbers became NaN or infinite.
        relative: the largest difference over the largest magnitude of its channel; infinite where whole numbers, also
            as floats, differ, and with NaN or infinity.
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
        input: the input's name; of several pictures or rows, each with its number: `input 0[1]`.
        output: the output's name; of objects, the names of all outputs that they were read from.
        kind: "classes", "mask", "objects", or "values" for numbers without such a meaning.
        first: the first answer, in words.
        second: the second answer.
        is_same: whether they are the same: at least 99 % of rows or pixels keep their best class; objects of the same
            class, and their masks, overlap by half, and points move by at most a tenth of the box's longer side; values
            are within the tolerance, and whole numbers and texts are equal.
        changed: the share of rows, pixels or objects that differ; of values 0 or 1.
        lead: by how much the winner leads the runner-up, in the side where it leads by less; of many rows or pixels,
            by how much 99 % of them do. For objects also twice the distance of a score from the threshold; for values,
            twice the tolerance, and 0 for an empty output, which shows nothing.
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
        sides: of the first and the second, the device, the engine and the precision.
        outputs: the differences of each output.
        answers: the answers for each input.
        unshared: the names of outputs that only one model has. They are not compared.
    """

    sides: tuple[Mapping[str, str], ...]
    outputs: tuple[OutputDifference, ...]
    answers: tuple[Answer, ...]
    unshared: tuple[str, ...] = ()

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
        if changed:
            text = f"{changed:,} of {count:,} answers change"
        else:
            text = "The answer is the same" if count == 1 else f"All {count:,} answers are the same"
        text += f", {count - len(self.doubtful):,} settled"
        if self.doubtful:
            worst = self.doubtful[0]
            output = f", {worst.output}" if worst.output and len(self.outputs) > 1 else ""
            text += f"; check {worst.input}{output} first: "
            if worst.is_same:
                text += f"its lead of {worst.lead:.2g} is not more than twice the difference of {worst.difference:.2g}"
            else:
                text += f"{worst.first} became {worst.second}"
        lost = [output.name for output in self.outputs if any(output.not_finite)]
        text += f"; NaN or infinity in {', '.join(lost)}" if lost else ""
        return text + (f"; only one model has {', '.join(self.unshared)}." if self.unshared else ".")


def compare(
    first: LearningModelSession | LearningModel,
    second: LearningModelSession | LearningModel,
    inputs: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    *,
    names: Sequence[str] = (),
) -> Comparison:
    """Evaluates two sessions on the same inputs, and compares their numbers and their answers.

    Args:
        first: a session; or a model, which runs on the CPU.
        second: the other.
        inputs: values by the names of inputs, each as `LearningModelBinding.bind` takes it, or several of these, which
            are taken one by one; by default the samples next to the first model, or else example values.
        names: what the answers call the inputs, one for each of several; by default their numbers.

    Raises:
        InvalidArgumentError: there are no inputs, a name is no input's, there are fewer or more names, or the models
            have no output in common.
        InvalidBindingError: the models take different inputs.
        WinMLError: an input cannot be used, or an evaluation failed.

    Example:
        >>> from winml_py import LearningModel
        >>> from winml_py.compare import compare
        >>> models = LearningModel.load("models/digits.onnx"), LearningModel.load("models/digits_float16.onnx")
        >>> compared = compare(*models)
        >>> compared.outputs[0].name, compared.outputs[0].largest < 1e-2
        ('probabilities', True)
    """
    with open_session(first) as session, open_session(second) as second_session:
        model, second_model = session.model, second_session.model
        comparer = Comparer(model)
        is_half = session.precision.is_half or second_session.precision.is_half
        is_half = is_half or model.precision != second_model.precision
        for name, values in list_compared_inputs(session, inputs, names):
            values = match_inputs(model, values, any_name=True)
            with tell_assumed_sizes(list_inputs(session) if name == EXAMPLE else ()):
                result = evaluate_to_tensors(session, fit_values(model, values))
            try:
                second_result = evaluate_to_tensors(second_session, fit_values(second_model, values))
            except (InvalidArgumentError, InvalidBindingError, SizeMismatchError) as error:
                raise InvalidBindingError(
                    f"The models take different inputs: the second rejects an input of the first: {error.message}",
                    hint=error.hint,
                ) from error
            comparer.add(name, (result, second_result), HALF_TOLERANCE if is_half else FLOAT_TOLERANCE)
        return comparer.make_comparison((_describe_side(session), _describe_side(second_session)))


def list_compared_inputs(
    session: LearningModelSession,
    inputs: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
    names: Sequence[str] = (),
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The values of each evaluation and their name; arguments as for `compare`."""
    if isinstance(inputs, Mapping):
        inputs = [inputs]
    if inputs is not None:
        count = 0
        for count, values in enumerate(inputs, 1):
            if names and count > len(names):
                break
            yield names[count - 1] if names else f"input {count - 1}", values
        if names and count != len(names):
            raise InvalidArgumentError(
                f"Expected one input for each of the {len(names)} names.", hint="Pass a name for each input, or none."
            )
        return

    from ..authoring.samples import find_samples, read_inputs  # here, because it imports all of `authoring`

    if samples := find_samples(session.model):
        yield from ((os.path.basename(sample), read_inputs(session.model, sample)) for sample in samples)
    else:
        yield EXAMPLE, make_examples(list_inputs(session))


def fit_values(model: LearningModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a model takes them. Both sides get the same values, though their models may differ a little.

    A value for the only input may have any name, and names may differ in case. Floats get the input's type, and
    pictures become bytes where a contract is built in.
    """
    kinds = {feature.name: getattr(feature, "tensor_kind", None) for feature in model.input_features}
    fitted = {}
    for name, value in match_inputs(model, values, any_name=True).items():
        kind = kinds[name]
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and kind in FLOAT_KINDS:
            value = value.astype(TENSOR_CLASSES[kind].dtype, copy=False)
        fitted[name] = value
    return convert_pictures_to_bytes(model, fitted)


def _describe_side(session: LearningModelSession) -> dict[str, str]:
    precision = session.precision.name.lower()
    return {"device": session.device.name, "engine": session.engine, "precision": precision}


Results = tuple[LearningModelEvaluationResult, LearningModelEvaluationResult]


class Comparer:
    """Compares the results of two sides, input by input.

    Args:
        model: the first model, whose labels name the classes.
    """

    def __init__(self, model: LearningModel) -> None:
        self._classes = Classes(None, model.labels)
        self._outputs: dict[str, OutputDifference] = {}
        self._answers: list[Answer] = []
        self._unshared: tuple[str, ...] = ()
        self._count = 0
        self._largest_of_objects = 0.0  # the largest difference of their scores

    def add(self, input_name: str, results: Results, tolerance: float) -> None:
        """Compares the results of an input. The tolerance is that of numbers which have no other meaning.

        Raises:
            InvalidArgumentError: the results have no output in common.
        """
        outputs, second_outputs = (result.outputs for result in results)
        shared = [name for name in outputs if name in second_outputs]
        if not shared:
            names = f"{', '.join(outputs)}, and {', '.join(second_outputs)}"
            raise InvalidArgumentError(f"Expected the same output names, got {names}.", hint="Rename the outputs.")
        self._unshared = tuple(name for name in (*outputs, *second_outputs) if name not in shared)
        first, second = (flatten_outputs({name: result.outputs[name] for name in shared}) for result in results)
        answers, names_read = self._compare_pictures(input_name, results)
        for name in first | second:  # an element of a sequence may be on one side alone
            pair = first.get(name, _NOTHING), second.get(name, _NOTHING)
            values = self._compare_values(input_name, name, *pair, tolerance)
            if name not in names_read:  # numbers count where nothing says what they mean
                answers += self._compare_classes(input_name, name, *pair) or [values]
        self._answers += [replace(answer, position=self._count) for answer in answers]
        self._count += 1

    def make_comparison(self, sides: tuple[Mapping[str, str], ...]) -> Comparison:
        """The comparison of all results so far, of sides with these descriptions; InvalidArgumentError if none."""
        if not self._count:
            raise InvalidArgumentError("No inputs were passed.", hint="Pass a list of inputs: [{name: value}].")
        answers = []
        for answer in self._answers:
            if answer.kind == "objects":
                difference = self._largest_of_objects
            elif answer.kind == "values":
                difference = self._outputs[answer.output].relative
            else:
                difference = self._outputs[answer.output].largest
            answers.append(replace(answer, difference=difference))
        return Comparison(sides, tuple(self._outputs.values()), tuple(answers), self._unshared)

    def _compare_values(self, input_name: str, name: str, first: Array, second: Array, tolerance: float) -> Answer:
        """Compares an output as numbers, and adds its difference to that of earlier inputs."""
        agreement = compare_values(first, second, tolerance)
        difference = measure_difference(name, first, second, agreement)
        self._outputs[name] = self._outputs[name].join(difference) if name in self._outputs else difference
        is_same = agreement.is_good or np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
        text, second_text = (str(array.tolist()) if array.size < 4 else "numbers" for array in (first, second))
        if not is_same and second_text == "numbers":
            second_text = f"others: {agreement}"
        lead = 2 * tolerance if first.size else 0
        return Answer(input_name, name, "values", text, second_text, is_same, float(not is_same), lead)

    def _compare_classes(self, input_name: str, name: str, first: Array, second: Array) -> list[Answer]:
        """Compares the best classes in each entry of a batch of scores; no answers if nothing marks them as scores."""
        if first.shape != second.shape or first.dtype.kind != "f" or not first.size:
            return []
        batch, second_batch = np.atleast_2d(first), np.atleast_2d(second)
        pairs = [(_as_rows(entry), _as_rows(other)) for entry, other in zip(batch, second_batch, strict=True)]
        if not any(rows is not None and self._classes.find_best(name, rows[0]) for pair in pairs for rows in pair):
            return []
        answers = []
        for entry_name, (rows, second_rows) in zip(_name_entries(input_name, len(pairs)), pairs, strict=True):
            if rows is not None and second_rows is not None:  # all or none: their shapes are the same
                answers.append(self._compare_rows(entry_name, name, "classes", rows, second_rows))
        return answers

    def _compare_rows(self, input_name: str, name: str, kind: str, rows: Array, second_rows: Array) -> Answer:
        """Compares the best class of each row of scores."""
        text, winners, lead = self._find_winners(rows)
        second_text, second_winners, second_lead = self._find_winners(second_rows)
        changed = float((winners != second_winners).mean())
        is_same = changed <= 1 - TOP1_KEPT
        return Answer(input_name, name, kind, text, second_text, is_same, changed, min(lead, second_lead))

    def _find_winners(self, rows: Array) -> tuple[str, Array, float]:
        """The best class of a single row as text; that of each row, or -1; and the least lead over a runner-up.

        The least lead leaves out the lowest 1 % of many rows.
        """
        runners_up, best = np.partition(rows.astype(np.float64), -2, axis=1)[:, -2:].T
        has_winner = np.isfinite(best)  # a runner-up may be -inf: so do models exclude a class
        winners = np.where(has_winner, rows.argmax(axis=1), -1)
        leads = np.zeros(len(rows))
        np.subtract(best, runners_up, out=leads, where=has_winner)
        least_lead = float(np.sort(leads)[int((1 - TOP1_KEPT) * len(rows))])
        if len(rows) > 1:
            return f"{len(rows):,} classes", winners, least_lead
        labels = self._classes.labels if len(self._classes.labels) == rows.shape[1] else range(rows.shape[1])
        name = labels[winners[0]] if has_winner[0] else "NaN"
        return f"{name} ({best[0]:.4g})", winners, least_lead

    def _compare_pictures(self, input_name: str, results: Results) -> tuple[list[Answer], list[str]]:
        """Compares what a detector or a segmentation model found in each picture; no answers of other models.

        Returns:
            The answers, and the names of the outputs that they were read from.
        """
        labels = self._classes.labels
        if any(len(result.placements) != 1 for result in results):
            return [], []
        (batch,) = results[0].placements.values()
        maps = {find_segmentation(result, labels) for result in results}
        has_entries = True  # an entry of each output for each picture
        try:
            if len(maps) == 1 and any(maps):
                names_read = list(maps)
                compare_picture = partial(self._compare_masks, results, names_read[0])
            else:
                facts = read_facts(results[0], batch[0], labels)
                layout, found = recognise_layout(facts), detections(results[0], labels=labels)
                has_entries = layout not in (DetectionLayout.TORCHVISION, DetectionLayout.SCRFD)
                names_read = facts.list_outputs(layout, found.has_masks)
                compare_picture = partial(self._compare_objects, results, ", ".join(names_read), found.threshold)
            read = [array for result in results for name, array in read_arrays(result).items() if name in names_read]
            if has_entries and any(len(array) != len(batch) for array in read):
                return [], []
            entry_names = _name_entries(input_name, len(batch))
            return [compare_picture(index, entry) for index, entry in enumerate(entry_names)], names_read
        except WinMLError:  # of no layout or of several possible ones, or of NaN: the numbers count
            return [], []

    def _compare_masks(self, results: Results, output: str, picture: int, input_name: str) -> Answer:
        """Compares the best class at the places of a picture that both models saw."""
        return self._compare_rows(input_name, output, "mask", *_find_seen_pixels(results, output, picture))

    def _compare_objects(
        self, results: Results, output: str, threshold: float, picture: int, input_name: str
    ) -> Answer:
        """Compares the objects in a picture above the threshold."""
        # From half the threshold on: with another score they may appear.
        read = partial(detections, threshold=threshold / 2, labels=self._classes.labels, picture=picture)
        first, second = map(read, results)
        pairs = [
            (index, match)
            for index, match in match_objects(first, second)
            if max(first.scores[index], second.scores[match]) <= threshold or _is_alike(first, second, index, match)
        ]
        matches = np.array(pairs, int).reshape(-1, 2)
        # An object that was found on one side alone has at most half the threshold on the other.
        scores_in_second, scores_in_first = np.full(len(first), threshold / 2), np.full(len(second), threshold / 2)
        scores_in_second[matches[:, 0]] = second.scores[matches[:, 1]]
        scores_in_first[matches[:, 1]] = first.scores[matches[:, 0]]
        objects = _summarize_objects(first, scores_in_second, threshold)
        second_objects = _summarize_objects(second, scores_in_first, threshold)
        self._largest_of_objects = max(self._largest_of_objects, objects.difference, second_objects.difference)
        changed = (objects.lost + second_objects.lost) / max(1, objects.number + second_objects.number)
        lead = min(threshold, objects.lead, second_objects.lead)
        return Answer(input_name, output, "objects", objects.text, second_objects.text, changed == 0, changed, lead)


class _Objects(NamedTuple):
    """A side's objects above the threshold.

    Attributes:
        text: how many there are, and some of those that only this side has.
        number: how many there are.
        lost: how many of them the other side does not have.
        lead: as in `Answer`.
        difference: the largest difference of a score to the other side's.
    """

    text: str
    number: int
    lost: int
    lead: float
    difference: float


def _summarize_objects(side: Detections, scores_in_other: Array, threshold: float) -> _Objects:
    """Summarizes a side's objects, whose scores on the other side are known."""
    is_above = side.scores > threshold
    lost = np.flatnonzero(is_above & (scores_in_other <= threshold))
    text = f"{is_above.sum()} objects"
    if len(lost):
        names = [f"{side[index].label or side[index].index} {side[index].score:.3f}" for index in lost[:3]]
        text += f", found only here: {', '.join(names)}"
    lead = 2 * np.abs(side.scores - threshold).min(initial=math.inf)
    if side.runners_up is not None:
        lead = min(lead, (side.scores - side.runners_up)[is_above].min(initial=math.inf))
    difference = np.abs(side.scores - scores_in_other).max(initial=0)
    return _Objects(text, int(is_above.sum()), len(lost), float(lead), float(difference))


def match_objects(first: Detections, second: Detections) -> list[tuple[int, int]]:
    """Pairs of objects of one class whose boxes overlap by at least `OVERLAP`, those that overlap most first."""
    left_top = np.maximum(first.boxes[:, None, :2], second.boxes[:, :2])
    # A pixel more, as Pascal VOC counts: boxes at the picture's edge may have no area.
    inner = (np.minimum(first.boxes[:, None, 2:], second.boxes[:, 2:]) - left_top + 1).clip(0).prod(axis=2)
    areas, second_areas = ((side.boxes[:, 2:] - side.boxes[:, :2] + 1).prod(axis=1) for side in (first, second))
    overlaps = inner / (areas[:, None] + second_areas - inner)
    overlaps[first.indices[:, None] != second.indices] = 0
    pairs = []
    while overlaps.max(initial=0) >= OVERLAP:
        index, match = divmod(int(overlaps.argmax()), len(second_areas))
        pairs.append((index, match))
        overlaps[index] = overlaps[:, match] = 0
    return pairs


def _is_alike(first: Detections, second: Detections, index: int, match: int) -> bool:
    """Whether two objects have about the same mask, and their points the same places."""
    if first.has_masks and second.has_masks:
        mask, second_mask = first.mask(index), second.mask(match)
        if (mask & second_mask).sum() < OVERLAP * (mask | second_mask).sum():
            return False
    if first.points is None or second.points is None:
        return True
    points, second_points = first.points[index], second.points[match]
    # By the confidence, if there is one.
    is_seen = np.maximum(points, second_points)[:, 2:].min(axis=1, initial=1) > 0.5
    distances = np.hypot(*(points - second_points)[is_seen, :2].T)
    reach = POINT_REACH * (first.boxes[index, 2:] - first.boxes[index, :2]).max()
    return bool(distances.max(initial=0) <= reach)


def _as_rows(entry: Array) -> Array | None:
    """An entry of a batch as rows of scores; None for a map or what else has more axes."""
    if entry.size in entry.shape:  # one row: all other sizes are 1, as in classes x 1 x 1
        return entry.reshape(1, -1)
    return entry if entry.ndim == 2 else None


def _name_entries(input_name: str, count: int) -> list[str]:
    return [f"{input_name}[{index}]" for index in range(count)] if count > 1 else [input_name]


def _find_seen_pixels(results: Results, name: str, picture: int) -> tuple[Array, Array]:
    """The scores of both maps of classes at the same places, where both models saw the picture: places x classes."""
    stacks = [select_picture(require_one_map(result, name)[1], picture) for result in results]
    rows, second_rows = (stack.reshape(len(stack), -1).T for stack in stacks)
    # Maps may differ in resolution, and contracts in what they crop: pixels of the picture tell which places belong
    # together, each pair once.
    numbers, second_numbers = (
        find_placement(result, picture, None).mask_to_picture(np.arange(stack[0].size).reshape(stack.shape[1:]), -1)
        for result, stack in zip(results, stacks, strict=True)
    )
    is_seen = (numbers >= 0) & (second_numbers >= 0)
    places, second_places = np.divmod(
        np.unique(numbers[is_seen] * len(second_rows) + second_numbers[is_seen]), len(second_rows)
    )
    return rows[places], second_rows[second_places]


def measure_difference(name: str, first: Array, second: Array, agreement: Agreement) -> OutputDifference:
    """The difference of an output for one input, whose agreement is known."""
    if first.shape != second.shape:
        return OutputDifference(name, math.inf, math.inf, (0, 0))
    if not {first.dtype.kind, second.dtype.kind} <= set("fiub"):  # texts
        first, second = np.zeros(first.shape), np.asarray(first != second)
    not_finite = int((~np.isfinite(first)).sum()), int((~np.isfinite(second)).sum())
    relative = math.inf if any(not_finite) else agreement.error if first.size else 0.0
    return OutputDifference(name, measure_gap(first, second).difference, relative, not_finite)


class Gap(NamedTuple):
    """How two values of a tensor differ.

    Attributes:
        difference: the largest difference; infinite between shapes, and between numbers of which one is not finite.
        magnitude: the largest finite magnitude in the first value.
    """

    difference: float = 0.0
    magnitude: float = 0.0


def measure_gap(expected: Any, actual: Any) -> Gap:
    """Compares two values, block by block: wider copies of large tensors would exceed the memory."""
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return max(map(measure_gap, expected, actual), key=lambda gap: gap.difference, default=Gap())
    if not all(isinstance(value, np.ndarray) and value.dtype.kind in "fiub" for value in (expected, actual)):
        return Gap(0.0 if np.array_equal(expected, actual) else math.inf)
    if expected.shape != actual.shape:
        return Gap(math.inf)
    expected_flat, actual_flat = expected.reshape(-1), actual.reshape(-1)
    is_float = np.result_type(expected, actual).kind == "f"
    largest = magnitude = 0.0
    for start in range(0, expected.size, BLOCK):
        left, right = (flat[start : start + BLOCK] for flat in (expected_flat, actual_flat))
        finite = left[np.isfinite(left)].astype(np.float64)
        magnitude = max(magnitude, float(np.abs(finite).max(initial=0)))
        if is_float:
            left, right = left.astype(np.float64), right.astype(np.float64)
            with np.errstate(invalid="ignore"):
                differences = np.nan_to_num(np.abs(left - right), nan=math.inf, posinf=math.inf)
            differences[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
        else:  # exactly: float64 rounds whole numbers above 2**53
            differences = np.maximum(left, right).astype(np.uint64) - np.minimum(left, right).astype(np.uint64)
        largest = max(largest, float(differences.max()))
    return Gap(largest, magnitude)

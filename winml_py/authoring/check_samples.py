"""Checking that a model still gives the known answers of its samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._values import evaluate_to_arrays, flatten_outputs, open_session
from ..core.base.agreement import HALF_TOLERANCE
from ..core.base.arrays import Array
from ..core.base.winrt_object import private_state
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..enums import Precision
from ..errors import InvalidArgumentError, WinMLError
from .known_answers import KnownAnswer, KnownInput, make_known_output, read_answers


@dataclass(frozen=True)
class AnswerCheck:
    """The check of one sample.

    Attributes:
        sample: the sample and its answer, as text.
        problems: the differences, as sentences; empty if everything is right.
        largest_difference: the largest difference of a number, relative to the largest magnitude of its channel.
    """

    sample: str
    problems: tuple[str, ...]
    largest_difference: float

    @property
    def is_right(self) -> bool:
        """Whether nothing differs."""
        return not self.problems


@dataclass(frozen=True)
class ModelCheck:
    """The result of `check_samples`.

    Attributes:
        device: the device that evaluated the model.
        engine: the provider that ran it.
        precision: the arithmetic: half precision may differ by 2 %.
        answers: the check of each sample.
    """

    device: str
    engine: str
    precision: Precision
    answers: tuple[AnswerCheck, ...]

    @property
    def is_right(self) -> bool:
        """Whether every sample has its answer."""
        return all(answer.is_right for answer in self.answers)

    @property
    def problems(self) -> tuple[str, ...]:
        """The differences of all samples, as sentences."""
        return tuple(problem for answer in self.answers for problem in answer.problems)

    @property
    def largest_difference(self) -> float:
        """The largest difference of all samples."""
        return max((answer.largest_difference for answer in self.answers), default=0.0)


def check_samples(session_or_model: LearningModelSession | LearningModel) -> ModelCheck:
    """Evaluates a model's samples, and compares the results with their known answers.

    Args:
        session_or_model: a session, or a model for the CPU; `write_samples` writes samples into a model.

    Raises:
        InvalidArgumentError: the model has no samples, or they cannot be read.
        WinMLError: no session of the model can be made there.

    Example:
        >>> import os, tempfile
        >>> from winml_py import LearningModel
        >>> from winml_py.authoring import check_samples, write_samples
        >>> target = os.path.join(tempfile.mkdtemp(), "digits.onnx")
        >>> _ = write_samples("models/digits.onnx", target, ["samples/pictures/seven.png"])
        >>> check_samples(LearningModel.load(target)).is_right
        True
    """
    with open_session(session_or_model) as session:
        answers = read_stored_answers(session.model)
        if not answers:
            raise InvalidArgumentError(
                "The model has no samples with known answers.",
                hint="To add some, call write_samples(source, destination, [picture]), or run winml-py contract "
                "--sample PICTURE.",
            )
        checks = tuple(_check_sample(session, known) for known in answers)
        return ModelCheck(session.device.name, session.engine, session.precision, checks)


def read_stored_answers(model: LearningModel) -> tuple[KnownAnswer, ...]:
    """The model's samples, or those of its folder; InvalidArgumentError if they cannot be read."""
    published = private_state(model).published.parts.get("answers", ())
    return read_answers(model.metadata) or tuple(_read_test_set(model, *files) for files in published)


def _check_sample(session: LearningModelSession, known: KnownAnswer) -> AnswerCheck:
    """Evaluates a sample with a session. Half precision has a larger tolerance."""
    sample = str(known)
    names = {feature.name for feature in session.model.input_features}
    if names != known.inputs.keys():
        problem = f"the sample was taken from a model with the inputs {', '.join(known.inputs)}"
        return AnswerCheck(sample, (problem,), math.inf)
    try:
        outputs = flatten_outputs(evaluate_to_arrays(session, known.make_values()))
    except WinMLError as error:
        return AnswerCheck(sample, (f"it cannot be evaluated: {error}",), math.inf)
    least_tolerance = HALF_TOLERANCE if session.precision.is_half else 0.0
    problems, largest = list[str](), 0.0
    for output in known.outputs:
        if output.name in outputs:
            difference, problem = output.compare(outputs[output.name], least_tolerance)
        else:
            difference, problem = math.inf, f"the output {output.name} no longer exists"
        largest = max(largest, difference)
        if problem:
            problems.append(problem)
    return AnswerCheck(sample, tuple(problems), largest)


_NUMBERS = 4096
"""How many numbers of an output of a test set are compared."""


def _read_test_set(model: LearningModel, inputs: list[str], outputs: list[str]) -> KnownAnswer:
    """An answer that ONNX's model zoo publishes beside a model: `test_data_set_0/input_0.pb` and so on."""
    if (len(inputs), len(outputs)) != (len(model.input_features), len(model.output_features)):
        raise InvalidArgumentError(f"{outputs[0]}: Expected one file beside it for each input and output of the model.")
    known_inputs = {
        feature.name: KnownInput(array=_read_tensor(path))
        for feature, path in zip(model.input_features, inputs, strict=True)
    }
    known_outputs = tuple(
        make_known_output(feature.name, _read_tensor(path), _NUMBERS)
        for feature, path in zip(model.output_features, outputs, strict=True)
    )
    return KnownAnswer(known_inputs, known_outputs, "")


def _read_tensor(path: str) -> Array:
    from google.protobuf.message import DecodeError
    from onnx import load_tensor, numpy_helper

    try:
        tensor = load_tensor(path)
        tensor.ClearField("data_location")  # its numbers are in this file, or nowhere
        return numpy_helper.to_array(tensor)
    except (DecodeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{path}: The file is not a valid ONNX tensor: {error}.") from error

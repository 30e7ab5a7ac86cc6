"""What `winml-py run` evaluates, in order: each input, or each frame of a video."""

from __future__ import annotations

import os
import re
from collections import UserDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import chain, groupby
from typing import Any, NoReturn

from .._values import convert_pictures_to_bytes
from ..core.base.messages import Facts
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.video import VideoReader
from ..core.imaging.video_files import is_video
from ..core.model.model import LearningModel
from ..core.session.result import LearningModelEvaluationResult
from ..core.session.session import LearningModelSession
from ..errors import DeviceLostError, WinMLError
from .failures import OUTPUT, Failure
from .files import read_files
from .style import to_json


def find_video(files: Mapping[str, str]) -> str:
    """The video among an evaluation's files, if it is the only file; or ""."""
    paths = list(files.values())
    return paths[0] if len(paths) == 1 and is_video(paths[0]) else ""


class Evaluation(UserDict[str, Any]):
    """The values of one evaluation, by input. The thread that evaluates them is the one that reads their files.

    Args:
        model: the model.
        facts: what identifies the evaluation in the results.
        files: the file for each input.
        target: the file to write, or "".
        read: reads the values.
        video: the video whose frames are evaluated and written to the target, or "".
    """

    def __init__(
        self, model: LearningModel, facts: Facts, files: Facts, target: str, read: Callable[[], Facts], video: str = ""
    ) -> None:
        self.facts, self.files, self.target, self.video = facts, files, target, video
        self._model, self._read = model, read

    @cached_property
    def pictures(self) -> Facts:
        """The values as they were read, before pictures become bytes where a contract is built in."""
        return self._read()

    @cached_property
    def data(self) -> Facts:  # type: ignore[override]
        """The values to bind."""
        return convert_pictures_to_bytes(self._model, self.pictures)


def list_evaluations(
    model: LearningModel, path: str, inputs: Iterable[tuple[tuple[str, dict[str, str]], str]], more: Facts
) -> Iterator[Evaluation]:
    """The evaluations of the inputs: a name and files, and a target. A video without a target has one for each frame.

    Args:
        model: the model.
        path: its path.
        inputs: the inputs.
        more: facts to add to those that identify each evaluation.
    """
    for (name, files), target in inputs:
        facts = {"model": path, "input": name}
        make = partial(Evaluation, model, files=files, target=target)
        video = find_video(files)
        if not video or target:
            yield make(facts | more, read=partial(read_files, model, files), video=video)
            continue
        try:
            with VideoReader(video) as reader:
                for number, frame in enumerate(reader):
                    values = dict.fromkeys(files, ImageFeatureValue.create_from_video_frame(frame))
                    yield make(facts | {"frame": number} | more, read=partial(dict, values))
        except WinMLError as error:
            yield make(facts | more, read=partial(_fail, error))


def _fail(error: WinMLError) -> NoReturn:
    raise error


def skip_answered(path: str, evaluations: Iterator[Evaluation]) -> tuple[Iterator[Evaluation], int]:
    """Skips the evaluations whose answers an earlier run wrote to a file. Removes the line that it was writing.

    Returns:
        The other evaluations, and the exit code of the first error in the file.

    Raises:
        Failure: a line is not the answer of the next evaluation.
    """
    code = end = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            evaluation = next(evaluations, None)
            start = to_json(evaluation.facts, is_line=True)[:-1] if evaluation is not None else "the end"
            written = line[: len(start)].decode(errors="replace")
            if evaluation is None or not start.startswith(written):
                raise Failure(
                    f"{path}, line {number}: Expected {start}, got {written}. The earlier run used a different model, "
                    "inputs or options (`run` is a hash of the model's content, the options and the folder). "
                    "Repeat its command, or specify a new file.",
                    OUTPUT,
                )
            if not line.endswith(b"\n"):
                evaluations = chain([evaluation], evaluations)
                break
            end += len(line)
            error = re.match(rb', "error": {"type": "\w*", "exit_code": (\d+)', line[len(start) :])
            code = code or (int(error[1]) if error else 0)
    os.truncate(path, end)
    return evaluations, code


Outcome = tuple[LearningModelSession, Evaluation, LearningModelEvaluationResult | WinMLError | None]
"""An evaluation with its result or error; None for a video to be written with this session."""


def evaluate_all(
    session: LearningModelSession, make_session: Callable[[], LearningModelSession], evaluations: Iterable[Evaluation]
) -> Iterator[Outcome]:
    """Evaluates all, and gives the outcomes in order. If a session's process or device is lost, a new one goes on."""
    is_isolated = session.options is not None and session.options.isolation is not None
    concurrency = 1 if is_isolated else None  # a crash would fail the others that are running

    def take(rest: Iterable[Evaluation], taken: deque[Evaluation]) -> Iterator[Evaluation]:
        for evaluation in rest:
            taken.append(evaluation)
            yield evaluation

    for is_written, group in groupby(evaluations, lambda evaluation: evaluation.video != ""):
        if is_written:
            for evaluation in group:
                session = make_session() if session.is_lost else session
                yield session, evaluation, None
            continue
        rest: Iterable[Evaluation] = group
        while rest:
            session = make_session() if session.is_lost else session
            taken: deque[Evaluation] = deque()
            try:
                with session.evaluate_many(take(rest, taken), concurrency=concurrency, copy=False) as stream:
                    for result in stream:
                        yield session, taken.popleft(), result.error or result
                rest = ()
            except DeviceLostError as error:  # of the first that has no result
                yield session, taken.popleft(), error
                rest = chain(taken, rest)

"""A job: everything in a source through an evaluator, part by part, so that it can be interrupted and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .evaluator import Evaluator
from .parts import Done, Parts
from .source import Source

Tell = Callable[[int, int | None], object]
"""Called with how many rows are done, and how many there are; None where that is not known."""


class Job(NamedTuple):
    """What is to be done.

    Attributes:
        evaluator: what is done with each row.
        source: the rows.
        parts: where the answers go.
        part_rows: rows in a part.
    """

    evaluator: Evaluator
    source: Source
    parts: Parts
    part_rows: int


class Todo:
    """The parts of a job that are not done yet: pairs of a number and the rows.

    Attributes:
        count: how many parts there are, once all have been gone through.
        before: what earlier runs did of them.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.count, self.before = 0, Done()

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for index, table in enumerate(self._job.source.tables(self._job.part_rows)):
            self.count = index + 1
            done = self._job.parts.done(index)
            if done is None:
                yield index, table
            else:
                self.before = self.before.plus(done)


Way = Callable[[Job, Todo, Tell], Iterator[Done]]
"""How parts are done: gives what there is of each, and tells how many rows are done of the next."""


class Outcome(NamedTuple):
    """What a job came to.

    Attributes:
        done: what is in the file.
        resumed: rows that earlier runs did.
        seconds: what this run took.
    """

    done: Done
    resumed: int
    seconds: float


def run(job: Job, way: Way, tell: Tell) -> Outcome:
    """Does what is left of a job, and writes its file.

    Raises:
        WinMLError: the file, or the folder of the parts, is another's; or no session can be made.
    """
    started = time.monotonic()
    finished = job.parts.finished()
    if finished is None:
        with job.parts.claimed():
            finished, resumed = _worked(job, way, tell)
    else:
        resumed = finished.rows
    job.parts.remove()
    return Outcome(finished, resumed, time.monotonic() - started)


def _worked(job: Job, way: Way, tell: Tell) -> tuple[Done, int]:
    todo, total, finished = Todo(job), job.source.rows, [Done()]

    def tell_all(more: int, _: int | None) -> None:
        tell(todo.before.rows + finished[-1].rows + more, total)

    for part in way(job, todo, tell_all):
        finished.append(finished[-1].plus(part))
        tell_all(0, None)
    job.parts.join(todo.count)
    return todo.before.plus(finished[-1]), todo.before.rows


def here(job: Job, todo: Todo, tell: Tell) -> Iterator[Done]:
    """Does the parts in this process, one after the other."""
    for index, table in todo:
        yield job.parts.write(index, job.evaluator(table, progress=tell))

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
    """What is to be done: an evaluator on the rows of a source; the answers go into parts of so many rows."""

    evaluator: Evaluator
    source: Source
    parts: Parts
    part_rows: int


class Todo:
    """The parts of a job that are not done yet, as pairs of number and table; and how many there are in all."""

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
"""How parts are done: yields what is in each, and tells how many rows of the next are done."""


class Outcome(NamedTuple):
    """What a job came to: what is in the file, rows that earlier runs did, and the seconds of this run."""

    done: Done
    resumed: int
    seconds: float


def run(job: Job, way: Way, tell: Tell) -> Outcome:
    """Does what is left of a job, and writes its file."""
    started, total, todo, done = time.monotonic(), job.source.rows, Todo(job), Done()

    def tell_all(more: int, _: int | None) -> None:
        tell(todo.before.rows + done.rows + more, total)

    with job.parts.claimed():
        for part in way(job, todo, tell_all):
            done = done.plus(part)
            tell_all(0, None)
        job.parts.join(todo.count)
    job.parts.remove()
    return Outcome(todo.before.plus(done), todo.before.rows, time.monotonic() - started)


def here(job: Job, todo: Todo, tell: Tell) -> Iterator[Done]:
    """Does the parts in this process, one after the other."""
    for index, table in todo:
        yield job.parts.write(index, job.evaluator(table, progress=tell))

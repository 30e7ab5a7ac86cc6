"""A job: everything in a source through an evaluator, part by part, so that it can be interrupted and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .evaluator import Evaluator
from .parts import Done, Parts
from .source import Source

PIECE_SECONDS = 2.0
"""How often what is done of a part is written."""

Tell = Callable[[int, int | None], object]
"""Called with how many rows are done, and how many there are; None where that is not known."""


class Job(NamedTuple):
    """What is to be done: an evaluator on the rows of a source; the answers go into parts of so many rows."""

    evaluator: Evaluator
    source: Source
    parts: Parts
    part_rows: int


class Todo:
    """What is left of a job: the number of each part, its first row that is left, and the rows from that one on.

    Attributes:
        count: how many parts there are, once all have been gone through.
        before: what earlier runs did.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.count, self.before = 0, Done()

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        for index, table in enumerate(self._job.source.tables(self._job.part_rows)):
            self.count = index + 1
            done = self._job.parts.done(index)
            self.before = self.before.plus(done or Done())
            first = done.rows if done else 0
            if done is None or first < table.num_rows:
                yield index, first, table.slice(first)


Way = Callable[[Job, Todo, Tell], Iterator[Done]]
"""How parts are done: yields what is written of them, and tells how many rows are done since."""


class Outcome(NamedTuple):
    """What a job came to: what is in the file, rows that earlier runs did, and the seconds of this run."""

    done: Done
    resumed: int
    seconds: float


def run(job: Job, way: Way, tell: Tell) -> Outcome:
    """Does what is left of a job, and writes its file."""
    started, finished = time.monotonic(), job.parts.finished()
    if finished is not None:
        return Outcome(finished, finished.rows, time.monotonic() - started)
    total, todo, done = job.source.rows, Todo(job), Done()

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
    """Does the parts in this process, one after the other, and writes what is done of them every few seconds."""
    for index, first, table in todo:
        yield from _in_pieces(job, index, first, table, tell)


def _in_pieces(job: Job, index: int, first: int, table: Any, tell: Tell) -> Iterator[Done]:
    written = 0

    def tell_since(done: int, total: int | None) -> None:
        tell(done - written, total)

    for piece in job.evaluator.pieces(table, PIECE_SECONDS, tell_since):
        yield job.parts.write(index, first + written, piece)
        written += piece.num_rows

"""A job: everything in a source through an evaluator, part by part, so that it can be interrupted and resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .evaluator import Evaluator
from .parts import Done, Parts
from .source import Source, stamp_of

PIECE_SECONDS = 2.0
"""How often what is done of a part is written, at least; a row that takes longer is written when it is done."""

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

    def stamped(self) -> Iterator[tuple[Any, str]]:
        """The rows of each part, and a stamp of the files that they are read from, as those are now."""
        for table in self.source.tables(self.part_rows):
            yield table, stamp_of(self.evaluator.paths(table))


class Part(NamedTuple):
    """What is left of a part that is to be done.

    Attributes:
        number: its place among the parts, from 0.
        first: the first of its rows that is left, from 0.
        table: the rows that are left.
        stamp: what they are read from, as it was before they were evaluated.
    """

    number: int
    first: int
    table: Any
    stamp: str


class Todo:
    """The parts of a job that are not done yet.

    Attributes:
        count: how many parts there are, once all have been gone through.
        before: what earlier runs did of them.
        anew: how many rows earlier runs did that are done again, by the reason.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.count, self.before = 0, Done()
        self.anew: dict[str, int] = {}

    def __iter__(self) -> Iterator[Part]:
        for index, (table, stamp) in enumerate(self._job.stamped()):
            self.count = index + 1
            done = self._job.parts.done(index, table.num_rows, stamp)
            if isinstance(done, str):
                self.anew[done] = self.anew.get(done, 0) + table.num_rows
                done = None
            first = 0 if done is None else done.rows
            self.before = self.before.plus(done or Done())
            if done is None or first < table.num_rows:
                self._job.parts.discard(index, first)
                yield Part(index, first, table.slice(first), stamp)


Way = Callable[[Job, Todo, Tell], Iterator[Done]]
"""How parts are done: gives what is written of them, and tells how many rows are done since."""


class Outcome(NamedTuple):
    """What a job came to.

    Attributes:
        done: what is in the file.
        resumed: rows that earlier runs did.
        seconds: what this run took.
        anew: rows that earlier runs did, and this one again, by the reason.
    """

    done: Done
    resumed: int
    seconds: float
    anew: dict[str, int]


def run(job: Job, way: Way, tell: Tell) -> Outcome:
    """Does what is left of a job, and writes its file.

    Raises:
        WinMLError: the file, or the folder of the parts, is another's; or no session can be made.
    """
    started = time.monotonic()
    finished, todo = job.parts.finished(), Todo(job)
    if finished is not None and job.parts.stamps() == [stamp for _, stamp in job.stamped()]:
        todo.before = finished
    else:
        with job.parts.claimed():
            if finished is not None:
                job.parts.split(job.part_rows)
            finished = _work(job, todo, way, tell)
    # Also where the file was finished: a run that was killed behind the join has left the folder.
    job.parts.remove()
    return Outcome(finished, todo.before.rows, time.monotonic() - started, todo.anew)


def _work(job: Job, todo: Todo, way: Way, tell: Tell) -> Done:
    total, finished = job.source.rows, [Done()]

    def tell_all(more: int, _: int | None) -> None:
        tell(todo.before.rows + finished[-1].rows + more, total)

    for part in way(job, todo, tell_all):
        finished.append(finished[-1].plus(part))
        tell_all(0, None)
    job.parts.join(todo.count)
    return todo.before.plus(finished[-1])


def here(job: Job, todo: Todo, tell: Tell) -> Iterator[Done]:
    """Does the parts in this process, one after the other, and keeps what is done of them every few seconds."""
    for part in todo:
        yield from _in_pieces(job, part, tell)


def _in_pieces(job: Job, part: Part, tell: Tell) -> Iterator[Done]:
    written = 0

    def tell_since(done: int, total: int | None) -> None:
        tell(done - written, total)

    for piece in job.evaluator.pieces(part.table, PIECE_SECONDS, tell_since):
        yield job.parts.write(part.number, part.first + written, piece, part.stamp)
        written += piece.num_rows

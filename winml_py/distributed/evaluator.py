"""Evaluator: an evaluation as a callable that other processes and machines can have."""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, BinaryIO

import numpy as np

from .._values import make_free_options
from ..core.base import child_process
from ..core.base.arguments import require_bool, require_type, require_whole_number
from ..core.base.machine import count_usable_cores
from ..core.base.messages import did_you_mean, type_name
from ..core.base.winrt_object import Closeable
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..core.session.stream import EvaluationStream
from ..errors import InvalidArgumentError, WinMLError
from .columns import ERROR, OutputColumn, convert_cell, list_output_columns


class Evaluator(Closeable):
    """Evaluates batches of columns: a class for Ray Data's `map_batches`, a function for Dask's `map_partitions`.

    It can be pickled, and makes its session in the first call. All its copies in a process share one session, and the
    processes of a machine share the weights of a large model file. The variable `OMP_NUM_THREADS`, which engines set
    for their workers, says how many rows are evaluated at once; by default one.

    A batch is a dict of arrays or a pandas DataFrame. It is returned as the same type with more columns: one for each
    output, and `error`, which has the reason if a row has no outputs, or else None. The other rows have their outputs.

    A cell of an input's column is what `evaluate_many` takes: the path to a picture or its bytes, an array, a number. A
    uint8 array of height x width x 3 is an RGB picture. A cell of an output's column has no batch dimension; a picture
    is the bytes of a PNG.

    Args:
        model: a model, with its attached contracts, or an argument of `LearningModel.load`. Use a path that all
            machines have: bytes are sent.
        device: "cpu", another name that `LearningModelDevice.find` finds, or a device. Unlike sessions, it takes a
            name, because each worker looks for the device on its own machine.
        options: how to compile. The number of threads is replaced, and the model is not closed.
        outputs: the outputs that become columns; by default all.
        columns: by the name of an input its column, or a list of columns of numbers; by default the column of the same
            name, or the only column.
        batch: how many rows to evaluate together, at most; the model's first sizes must be free.
        fast_decode: as for `ImageFeatureValue.load`.

    Raises:
        InvalidArgumentError: names that the model does not have, or an output named `error`.
        WinMLError: the model cannot be loaded.

    Example:
        >>> from winml_py.distributed import Evaluator
        >>> evaluate = Evaluator("models/digits.onnx", outputs=["probabilities"])
        >>> batch = evaluate({"image": ["samples/pictures/seven.png"]})
        >>> list(batch), int(batch["probabilities"][0].argmax())
        (['image', 'probabilities', 'error'], 7)
    """

    def __init__(
        self,
        model: LearningModel | str | os.PathLike[str] | bytes | BinaryIO,
        *,
        device: str | LearningModelDevice = "cpu",
        options: LearningModelSessionOptions | None = None,
        outputs: Sequence[str] | None = None,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        batch: int = 1,
        fast_decode: bool = False,
    ) -> None:
        # Errors are raised here, in the calling program, rather than in a worker of a cluster an hour later.
        self._model = model if isinstance(model, LearningModel) else LearningModel.load(model)
        require_type(device, str | LearningModelDevice, 'Pass "cpu", "gpu", or a name.')
        require_type(options, LearningModelSessionOptions | None, "Pass options=LearningModelSessionOptions().")
        require_type(columns, Mapping | None, _COLUMNS_HINT)
        require_type(outputs, list | tuple | None, 'Pass outputs=["scores"].')
        self._device, self._options = device, _make_single_threaded(options)
        self._inputs = {feature.name: feature for feature in self._model.input_features}
        self._columns = dict(columns or {})
        _require_known("input", self._columns, self._inputs)
        for source in self._columns.values():
            require_type(source, str | list | tuple, _COLUMNS_HINT)
        output_columns = list_output_columns(self._model)
        _require_known("output", outputs or (), output_columns)
        self._outputs = [output_columns[name] for name in (output_columns if outputs is None else outputs)]
        if ERROR in [column.name for column in self._outputs]:
            raise InvalidArgumentError(
                f"The model has an output {ERROR!r}, which is also the name of the error column.",
                hint="Rename it in the model, or omit it from outputs=[...].",
            )
        self._batch = require_whole_number(batch, "batch", 1)
        self._fast_decode, self._name = require_bool(fast_decode, "fast_decode"), uuid.uuid4().hex

    def __call__(self, batch: Any, /) -> Any:
        """Evaluates each row of a batch.

        Args:
            batch: a dict of arrays, or a `pandas.DataFrame`.

        Returns:
            A batch of the same type with the columns of `batch`, the outputs, and `error`. The outputs of failed rows
            are null; in arrays of numbers NaN or 0. An output whose sizes the model does not state becomes an array
            of arrays.

        Raises:
            InvalidArgumentError: not a batch, a missing column, or a column with the name of an output.
            WinMLError: no session can be made here, or its device is lost.
        """
        is_frame = hasattr(batch, "iloc") and hasattr(batch, "assign")
        if not is_frame and not isinstance(batch, Mapping):
            raise InvalidArgumentError(
                f"Expected a dict of arrays or a pandas.DataFrame, got {type_name(batch)}.",
                hint='In Ray, pass batch_format="numpy".',
            )
        names = list(batch)
        columns = [*self._outputs, OutputColumn(ERROR, is_batched=False)]
        for column in columns:
            if column.name in names:
                raise InvalidArgumentError(
                    f"The column {column.name!r} of the batch has the name of an output.", hint="Rename the column."
                )
        cells: dict[str, list[Any]] = {column.name: [] for column in columns}
        rows = list(self._read_rows(batch, names))
        for result in self._evaluate_rows(rows) if rows else ():  # engines pass empty batches to see the columns
            row: dict[str, Any] = dict.fromkeys(cells)
            try:
                row |= {column.name: column.make_cell(result.outputs[column.name]) for column in self._outputs}
            except WinMLError as error:
                row[ERROR] = f"{type(error).__name__}: {error}"
            for name, cell in row.items():
                cells[name].append(cell)
        if is_frame:
            return batch.assign(
                **{column.name: column.make_series(cells[column.name], batch.index) for column in columns}
            )
        return {**batch, **{column.name: column.make_array(cells[column.name]) for column in columns}}

    def close(self) -> None:
        """Closes the session in this process, if there is one; the next call makes another."""
        SESSIONS.close(self._name)

    def _read_rows(self, batch: Any, names: Sequence[str]) -> Iterator[Mapping[str, Any] | WinMLError]:
        """The values of each row by input name, or the reason why there are none."""
        cells = {name: self._read_cells(batch, name, names) for name in self._inputs}
        for row in zip(*cells.values(), strict=True):
            try:
                yield {name: convert_cell(self._inputs[name], cell) for name, cell in zip(cells, row, strict=True)}
            except WinMLError as error:
                yield error

    def _read_cells(self, batch: Any, name: str, names: Sequence[str]) -> Sequence[Any]:
        """The cells of an input's column; rows of numbers if it has several."""
        is_only = len(self._inputs) == len(names) == 1
        source = self._columns.get(name) or (names[0] if is_only else name)
        for column in [source] if isinstance(source, str) else source:
            if column not in names:
                raise InvalidArgumentError(
                    f"The input {name} needs the column {column!r}, which is not among {', '.join(map(str, names))}.",
                    hint=f"Specify its column: columns={{{name!r}: {names[0]!r}}}." if names else "",
                )
        if isinstance(source, str):
            return list(batch[source])
        return [np.array(row, object) for row in zip(*(batch[column] for column in source), strict=True)]

    def _evaluate_rows(self, rows: Sequence[Mapping[str, Any] | WinMLError]) -> EvaluationStream:
        threads = os.environ.get("OMP_NUM_THREADS", "")  # where Ray, Dask and Spark state a worker's share of threads
        concurrency = max(1, min(int(threads), count_usable_cores())) if threads.isdigit() else 1
        return SESSIONS.get(self._name, self._open_session).evaluate_many(
            rows,
            concurrency=concurrency,
            batch=self._batch,
            fast_decode=self._fast_decode,
            copy=False,  # the whole batch is in memory
        )

    def _open_session(self) -> LearningModelSession:
        device = self._device
        found = LearningModelDevice.find(device) if isinstance(device, str) else device
        return LearningModelSession(self._model, found, self._options)


_COLUMNS_HINT = 'Pass columns={"image": "path"}, or a list of columns of numbers: {"x": ["width", "height"]}.'


def _require_known(kind: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            raise InvalidArgumentError(f"The model has no {kind} {name!r}.", hint=did_you_mean(name, known))


def _make_single_threaded(options: LearningModelSessionOptions | None) -> LearningModelSessionOptions:
    """A worker's options: each row is evaluated on one thread, which does not spin on another worker's core."""
    worker_options = make_free_options() if options is None else copy(options)
    worker_options.intra_op_num_threads, worker_options.intra_op_thread_spinning = 1, False
    worker_options.close_model_on_session_creation = False
    return worker_options


# The sessions of evaluators in this process: copies of one evaluator use the same session.


MAX_SESSIONS = 4
"""How many sessions a process keeps. Engines unpickle an evaluator for each task, and drop it after the task."""


class SessionStore:
    """The most recently used sessions, by the evaluators' names."""

    def __init__(self) -> None:
        self._clear()
        child_process.watch_forks(self)

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, LearningModelSession] = OrderedDict()

    handle_fork = _clear  # the sessions of a parent process are unusable

    def get(self, name: str, open_session: Callable[[], LearningModelSession]) -> LearningModelSession:
        """The session with a name. One thread opens it, and the others wait."""
        with self._lock:
            session = self._sessions.pop(name, None)
            if session is None or session.is_lost:
                session = open_session()
            self._sessions[name] = session
            if len(self._sessions) > MAX_SESSIONS:  # not closed, because another thread may use it
                self._sessions.popitem(last=False)
            return session

    def close(self, name: str) -> None:
        """Closes the session with a name, if there is one."""
        with self._lock:
            session = self._sessions.pop(name, None)
        if session is not None:
            session.close()


SESSIONS = SessionStore()

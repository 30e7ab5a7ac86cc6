"""Evaluator: an evaluation as a callable that can be sent to other processes."""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, BinaryIO

from ..core.base import child_process
from ..core.base.arguments import require_type, truth, whole_number
from ..core.base.machine import usable_cores
from ..core.base.winrt_object import Closeable
from ..core.imaging.contract import ImageContract
from ..core.model.contracts import fitting_inputs
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, WinMLError
from .columns import ERROR, Reader, batch_of, output_columns


class Evaluator(Closeable):
    """Evaluates batches of columns: a class for Ray Data's `map_batches`, a function for Dask's `map_partitions`.

    It pickles, and makes its session in the first call. All its copies in a process share one session, and the
    processes of a machine share the weights of a large model file through its saved graph. A batch is a dict of numpy
    arrays, a pandas DataFrame, or an Arrow Table, and is returned as the same type with more columns: one for each
    output, and `error`, the reason why a row has no outputs, or None. A failed row does not end the others.

    An input's cell is an argument of `evaluate_many`: the path of a picture or its bytes, an array, a number. A uint8
    array of height x width x 3 is an RGB picture. Outputs lose the first size if it is the batch; a picture output
    becomes the bytes of a PNG.

    Args:
        model: a model, or an argument of `LearningModel.load`. Pass a path that all machines have: bytes are sent.
        device: where to run: "cpu", a name that `LearningModelDevice.find` finds on the worker's machine, or a
            device.
        options: how to compile. The threads are replaced, and the model is not closed.
        contract: the contract of the inputs that it fits, instead of the model's.
        outputs: the outputs that become columns; by default all.
        columns: for each input its column, or a list of columns of numbers; by default the column of
            its name, or the only column.
        keep: the columns of a batch to return; by default all.
        batch: how many rows to evaluate together, at most; the model's first sizes must be free.
        threads: rows that are evaluated concurrently, each on one thread. By default the engine's
            `OMP_NUM_THREADS`, or 1: engines start a worker for each core.
        fast_decode: as for `ImageFeatureValue.load`.

    Raises:
        InvalidArgumentError: names that the model does not have, or a contract that fits no input.
        WinMLError: the model cannot be loaded.

    Example:
        >>> from winml_py.scale import Evaluator
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
        contract: ImageContract | None = None,
        outputs: Sequence[str] | None = None,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        keep: Sequence[str] | None = None,
        batch: int = 1,
        threads: int | None = None,
        fast_decode: bool = False,
    ) -> None:
        # Finds all errors here, in the calling program, rather than in a worker of a cluster an hour later.
        self._model = model if isinstance(model, LearningModel) else LearningModel.load(model)
        require_type(device, str | LearningModelDevice, 'Write "cpu", "gpu", or a name.')
        require_type(options, LearningModelSessionOptions | None, "Write options=LearningModelSessionOptions().")
        self._device, self._options, self._contract = device, _single_threaded(options), contract
        inputs = {feature.name: feature for feature in self._model.input_features}
        if contract is not None:
            require_type(contract, ImageContract, "Pass an ImageContract, such as ImageContract.imagenet().")
            fitting_inputs(self._model.input_features, contract)
        self._reader = Reader(inputs, dict(columns or {}), contract)
        self._outputs = output_columns(self._model, _names(outputs, "outputs"))
        self._keep, self._batch = _names(keep, "keep"), whole_number(batch, "batch", 1)
        self._threads = None if threads is None else whole_number(threads, "threads", 1)
        self._fast_decode, self._name = truth(fast_decode, "fast_decode"), uuid.uuid4().hex

    def __call__(self, batch: object, /) -> Any:
        """Evaluates each row of a batch.

        Args:
            batch: a dict of arrays, a `pandas.DataFrame` or a `pyarrow.Table`.

        Returns:
            A batch of the same type with the columns of `batch`, or those to keep, the outputs, and `error`. The
            outputs of failed rows are null; in arrays NaN, 0 or "".

        Raises:
            InvalidArgumentError: not a batch, a missing column, or a column with the name of an output.
            WinMLError: no session can be made here, or its device is lost.
        """
        given = batch_of(batch)
        kept_columns = self._kept_columns(given.names)
        rows: list[list[Any]] = []
        errors: list[str | None] = []
        for result in self._results(self._reader.items(given)):
            try:
                rows.append([column.cell(result.outputs[column.feature.name]) for column in self._outputs])
                errors.append(None)
            except WinMLError as error:
                rows.append([None] * len(self._outputs))
                errors.append(f"{type(error).__name__}: {error}")
        filled = [(column, [row[index] for row in rows]) for index, column in enumerate(self._outputs)]
        return given.with_outputs(kept_columns, filled, errors)

    def close(self) -> None:
        """Closes the session in this process, if there is one; the next call makes another."""
        SESSIONS.close(self._name)

    def __repr__(self) -> str:
        outputs = ", ".join(column.feature.name for column in self._outputs)
        return f"<Evaluator {self._model.name!r}: {outputs}>"

    def _kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        missing = next((name for name in self._keep or () if name not in names), None)
        if missing is not None:
            raise InvalidArgumentError(f"The column {missing!r} to keep is not among {', '.join(names)}.")
        kept_columns = names if self._keep is None else self._keep
        added = (*(column.feature.name for column in self._outputs), ERROR)
        twice = next((name for name in added if name in kept_columns), None)
        if twice is not None:
            raise InvalidArgumentError(
                f"The column {twice!r} of the batch has the name of an output.",
                hint="Rename it, or select the columns to keep or the outputs.",
            )
        return kept_columns

    def _results(self, items: Sequence[Mapping[str, Any] | WinMLError]) -> Any:
        if not items:
            return []  # engines pass empty batches to see the output columns
        return SESSIONS.get(self._name, self._session).evaluate_many(
            items,
            concurrency=self._threads or _share(),
            batch=self._batch,
            contract=self._contract,
            fast_decode=self._fast_decode,
            copy=False,  # the whole batch is in memory
        )

    def _session(self) -> LearningModelSession:
        device = self._device
        if isinstance(device, str):
            device = LearningModelDevice() if device == "cpu" else LearningModelDevice.find(device)
        return LearningModelSession(self._model, device, self._options)


def _single_threaded(options: LearningModelSessionOptions | None) -> LearningModelSessionOptions:
    """A worker's options: rows run side by side, each on one thread, and none spins on another worker's core."""
    if options is None:
        worker_options = LearningModelSessionOptions()
        worker_options.batch_size_override = 0
    else:
        worker_options = copy(options)
    worker_options.intra_op_num_threads, worker_options.intra_op_thread_spinning = 1, False
    worker_options.close_model_on_session_creation = False
    return worker_options


def _share() -> int:
    said = os.environ.get("OMP_NUM_THREADS", "")  # where Ray, Dask and Spark state a worker's share of threads
    return min(int(said), usable_cores()) if said.isdigit() and int(said) else 1


def _names(names: Sequence[str] | None, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"{what} is {names!r}.", hint=f'Pass a list of names: {what}=["name"].')
    return tuple(names)


# The sessions of evaluators in this process: copies of one evaluator use the same session.


MAX_SESSIONS = 4
"""How many sessions a process keeps. Engines unpickle an evaluator for each task, and drop it after the task."""


class _Slot:
    def __init__(self) -> None:
        self.session: LearningModelSession | None = None
        self.compiling = threading.Lock()


class SessionStore:
    """The most recently used sessions, by the evaluators' names."""

    def __init__(self) -> None:
        self._clear()
        child_process.watch_forks(self)

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()

    in_child = _clear  # the sessions of a parent process are unusable

    def get(self, name: str, make: Callable[[], LearningModelSession]) -> LearningModelSession:
        """The session with a name. If threads request it at once, one makes it and the others wait."""
        with self._lock:
            slot = self._slots.pop(name, None) or _Slot()
            self._slots[name] = slot
            while len(self._slots) > MAX_SESSIONS:  # not closed, because another thread may use it
                self._slots.popitem(last=False)
        with slot.compiling:
            if slot.session is None or slot.session.is_lost:
                slot.session = make()
            return slot.session

    def close(self, name: str) -> None:
        """Closes the session with a name, if there is one."""
        with self._lock:
            slot = self._slots.pop(name, None)
        if slot is not None:
            with slot.compiling:
                if slot.session is not None:
                    slot.session.close()


SESSIONS = SessionStore()

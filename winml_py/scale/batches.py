"""Batches of columns, as engines hand them out: a dict of numpy arrays, a DataFrame of pandas, a Table of Arrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.base.type_names import type_name
from ..errors import InvalidArgumentError
from .answers import Answer
from .arrow import answer_array, cells_of, import_arrow

Cells = Sequence[Any]
"""The cells of a column, from the first row to the last."""

Answered = Sequence[tuple[Answer, Cells]]
"""The columns that come out."""

ERROR = "error"
"""The column that says of each row why it has no answers; None where it has."""


class Batch(Protocol):
    """A batch of columns."""

    names: list[str]
    rows: int

    def cells(self, name: str) -> Cells:
        """What stands in a column."""

    def answered(self, kept: Iterable[str], answers: Answered, errors: Cells) -> Any:
        """A new batch of the same kind: columns of this one, the answers, and the errors."""


def batch_of(value: Any) -> Batch:
    """What an engine passed, as a batch.

    Raises:
        InvalidArgumentError: it is no batch.
    """
    if isinstance(value, Mapping):
        return ArrayBatch(value)
    if hasattr(value, "column_names") and hasattr(value, "num_rows"):
        return ArrowBatch(value)
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return FrameBatch(value)
    raise InvalidArgumentError(
        f"A batch is a dict of arrays, a pandas.DataFrame or a pyarrow.Table, and a {type_name(value)} came.",
        hint='Ray has batch_format="pyarrow".',
    )


class ArrayBatch:
    """A dict of arrays whose first size is the number of rows."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns
        self.names = list(columns)
        counts = {len(column) for column in columns.values()}
        if len(counts) > 1:
            raise InvalidArgumentError(f"The columns of the batch have {sorted(counts)} rows.", hint="Make them equal.")
        self.rows = counts.pop() if counts else 0

    def cells(self, name: str) -> Cells:
        """What stands in a column."""
        return list(self._columns[name])

    def answered(self, kept: Iterable[str], answers: Answered, errors: Cells) -> dict[str, Any]:
        """A dict of arrays. Rows that failed hold NaN, 0 or "", where cells are arrays of one shape; else None."""
        columns = {name: self._columns[name] for name in kept}
        columns |= {answer.feature.name: _stacked(answer, cells) for answer, cells in answers}
        return columns | {ERROR: objects(errors)}


class FrameBatch:
    """A DataFrame of pandas."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names, self.rows = list(frame.columns), len(frame)

    def cells(self, name: str) -> Cells:
        """What stands in a column."""
        return list(self._frame[name])

    def answered(self, kept: Iterable[str], answers: Answered, errors: Cells) -> Any:
        """A DataFrame with the same index. Numbers and truths are columns of their type, all else is of objects."""
        import pandas

        columns = {answer.feature.name: _values(answer, cells) for answer, cells in answers} | {ERROR: objects(errors)}
        added = [pandas.Series(v, self._frame.index, v.dtype, name) for name, v in columns.items()]
        return pandas.concat([self._frame[list(kept)], *added], axis=1)


class ArrowBatch:
    """A Table or a RecordBatch of Arrow."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.names, self.rows = list(table.column_names), table.num_rows

    def cells(self, name: str) -> Cells:
        """What stands in a column."""
        return cells_of(self._table.column(name))

    def answered(self, kept: Iterable[str], answers: Answered, errors: Cells) -> Any:
        """A Table. Arrays are lists, and rows that failed have nulls."""
        arrow = import_arrow()
        columns = {name: self._table.column(name) for name in kept}
        columns |= {answer.feature.name: answer_array(answer.feature, answer.shape, c) for answer, c in answers}
        return arrow.table(columns | {ERROR: arrow.array(errors, arrow.string())})


def objects(cells: Iterable[Any]) -> np.ndarray[Any, Any]:
    """An array of the cells themselves, also where they are arrays."""
    listed = list(cells)
    array = np.empty(len(listed), object)
    for index, cell in enumerate(listed):  # numpy would look into arrays and lists
        array[index] = cell
    return array


def _stacked(answer: Answer, cells: Cells) -> np.ndarray[Any, Any]:
    """One array for all rows, where their cells have one shape."""
    dtype, shape = answer.dtype, answer.shape
    if dtype is None or shape is None:
        return objects(cells)
    shapes = {np.shape(cell) for cell in cells if cell is not None}
    if len(shapes) > 1 or (not shapes and -1 in shape):
        return objects(cells)
    sizes = shapes.pop() if shapes else shape
    array = np.full((len(cells), *sizes), _filling(dtype), dtype)
    for index, cell in enumerate(cells):
        if cell is not None:
            array[index] = cell
    return array


def _filling(dtype: np.dtype[Any]) -> Any:
    return math.nan if dtype.kind == "f" else "" if dtype.kind == "O" else 0


def _values(answer: Answer, cells: Cells) -> Any:
    """The values of a column of pandas, whose type does not depend on how many rows failed."""
    import pandas

    dtype = answer.dtype
    if answer.shape != () or dtype is None or dtype.kind == "O":
        return objects(cells)
    if dtype.kind == "f":
        return np.array([math.nan if cell is None else cell for cell in cells], dtype)
    name = "boolean" if dtype.kind == "b" else f"{'U' if dtype.kind == 'u' else ''}Int{8 * dtype.itemsize}"
    return pandas.array(list(cells), dtype=name)

"""Sources: the items of a stream, from what a program passes to `evaluate_many`; and values from files."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from decimal import Decimal
from glob import glob, has_magic
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...enums import TensorKind
from ...errors import InvalidArgumentError, WinMLError
from ..base.arguments import is_address, refuse_address, suggest_path
from ..base.arrays import Array, DType, can_export_dlpack
from ..base.messages import type_name
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..features.files import is_file, read_file, require_content
from ..features.tables import is_table
from ..features.tensor import Tensor
from ..features.tensor_classes import TENSOR_CLASSES
from ..imaging.codecs import list_endings
from ..imaging.video import VideoReader
from ..imaging.video_files import is_video


class Item(NamedTuple):
    """One thing to evaluate.

    Attributes:
        number: its position in the stream, from 0.
        source: what the result carries.
        value: what is evaluated, or the error that prevents it.
    """

    number: int
    source: Any
    value: Any


class Sources:
    """An iterator of items. Folders and patterns give one for each file, videos one for each frame.

    Args:
        inputs: as `evaluate_many` takes them.
        takes_text: whether the model's only input is a text: a `str` is then one, and not a path.

    Attributes:
        total: how many items there are, as far as known; None where unknown.
        reader: the video that is being read; None where the next item is not a frame of a video.

    Raises:
        WinMLError: `inputs` itself is a folder or a pattern without files, a video that cannot be opened, or an array.
    """

    def __init__(self, inputs: Any, takes_text: bool = False) -> None:
        is_single = _is_single_item(inputs)
        self.total: int | None = 1
        if not is_single:
            self.total = len(inputs) if isinstance(inputs, Sized) else None
        self.reader: VideoReader | None = None
        expand = _expand_no_text if takes_text else _expand
        self._values = self._iterate([(inputs, expand(inputs))] if is_single else _expand_each(inputs, expand))
        self._numbers = count()

    def __next__(self) -> Item:
        source, value = next(self._values)
        return Item(next(self._numbers), source, value)

    def close(self) -> None:
        """Closes the video that is being read, if it was opened here. A second call does nothing."""
        with suppress(ValueError):  # another thread is taking an item, and ends with it
            self._values.close()

    def _iterate(self, expansions: Iterable[tuple[Any, Any]]) -> Generator[tuple[Any, Any]]:
        for source, expansion in expansions:
            if isinstance(expansion, VideoReader):
                yield from self._read_frames(expansion, is_ours=expansion is not source)
            elif expansion is None:
                yield source, _read_content(source)
            elif isinstance(expansion, WinMLError):
                yield source, expansion
            else:
                self._grow(len(expansion) - 1)
                yield from ((file, file) for file in expansion)

    def _read_frames(self, reader: VideoReader, is_ours: bool) -> Generator[tuple[Any, Any]]:
        stated_count = reader.frame_count
        read_count = 0
        self._grow(stated_count - 1 if stated_count else None)
        self.reader = reader
        try:
            while (frame := reader.read()) is not None:
                read_count += 1
                yield frame, frame
            self._grow(read_count - stated_count)  # a header may be wrong
        finally:
            self.reader = None
            if is_ours:
                reader.close()

    def _grow(self, more: int | None) -> None:
        """Changes the number of known items; None makes it unknown."""
        self.total = None if self.total is None or more is None else self.total + more


def _is_single_item(inputs: object) -> bool:
    """Whether `inputs` is one item, or names one folder or video; otherwise it is an iterable of such."""
    single_types = str, os.PathLike, bytes, bytearray, memoryview, Mapping, VideoReader, Tensor
    if isinstance(inputs, single_types) or hasattr(inputs, "read") or is_table(inputs):
        return True
    # As a series, one picture would be its rows. An array of paths is a series.
    if can_export_dlpack(inputs) and getattr(getattr(inputs, "dtype", None), "kind", "") not in ("O", "U"):
        raise InvalidArgumentError(
            f"Expected a series of inputs, got one {type_name(inputs)} of numbers.",
            hint="For one input, pass [array]. For one input per row, pass list(array), or list(array[:, None]) if "
            "each input has a batch dimension.",
        )
    return not isinstance(inputs, Iterable) and not hasattr(inputs, "__getitem__")


def _expand_each(inputs: Iterable[object], expand: Callable[[object], Any]) -> Iterator[tuple[Any, Any]]:
    for source in inputs:
        try:
            expansion = expand(source)
        except WinMLError as error:  # the error stays with its item
            yield source, error
        else:
            yield source, expansion


def _expand(source: object) -> Sequence[Any] | VideoReader | None:
    """The files or the video that a source means; None if it is one item."""
    if isinstance(source, VideoReader):
        return source
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = os.fsdecode(source)
    files = find_files(path)
    if files is not None:
        return files if isinstance(source, str) else list(map(Path, files))
    return VideoReader(path) if is_video(path) else None


def _expand_no_text(source: object) -> Sequence[Any] | VideoReader | None:
    return None if isinstance(source, str) else _expand(source)


def _read_content(source: object) -> Any:
    """What an item is evaluated on: for an open file its bytes, read now, while the program keeps it open."""
    if isinstance(source, Mapping) or is_table(source):  # which may have a column "read"
        return source
    try:
        return require_content(source)
    except WinMLError as error:
        return error


# The files that a path stands for: those of a folder, and those that a pattern matches.


def find_files(path: str) -> list[str] | None:
    """The pictures in a folder, or the files that match a pattern, in natural order; None for the path of one item.

    Raises:
        InvalidArgumentError: there are no such files.
    """
    if os.path.isdir(path):
        return list_files(path, "picture", list_endings())
    # There may be a file called "photo[1].jpg".
    if not has_magic(path) or os.path.lexists(path) or is_address(path):
        return None
    files = [file for file in glob(path, recursive=True) if os.path.isfile(file)]
    if not files:
        raise InvalidArgumentError(f"{path}: No file matches this pattern.", hint="Check the working directory.")
    return sort_naturally(files)


def list_files(folder: str, kind: str, endings: tuple[str, ...]) -> list[str]:
    """The files of a kind directly in a folder, in natural order; hidden ones are left out.

    Raises:
        InvalidArgumentError: if the folder has no such files.
    """
    names = [name for name in os.listdir(folder) if name.lower().endswith(endings) and not name.startswith(".")]
    if not names:
        raise InvalidArgumentError(
            f"{folder}: The folder contains no {kind}.", hint=f"Expected files ending in {', '.join(sorted(endings))}."
        )
    return [os.path.join(folder, name) for name in sort_naturally(names)]


def sort_naturally(names: Iterable[str]) -> list[str]:
    """Names sorted as people do: numbers in them by their value, letters regardless of case.

    Example:
        >>> from winml_py.core.session.sources import sort_naturally
        >>> sort_naturally(["b10.png", "a.png", "B9.png"])
        ['a.png', 'B9.png', 'b10.png']
    """

    def key(name: str) -> tuple[list[str | int], str]:
        parts = re.split(r"(\d+)", name.casefold())  # words and numbers alternate, a word comes first
        # The name itself comes last, so that names that differ only in case have a fixed order.
        return [int(part) if index % 2 else part for index, part in enumerate(parts)], name

    return sorted(names, key=key)


# Tables of numbers in text files.


def read_value(feature: FeatureDescriptor, source: object, fast_decode: bool = False) -> Any:
    """The value for a feature: from a table (.csv), or a file as `bind` takes it; else the source itself.

    Raises:
        PictureError: it is not a picture, and the feature takes one.
        InvalidArgumentError: a file holds no array, or not as many numbers as the feature takes; or the path is that of
            something else.
    """
    if isinstance(source, str) and getattr(feature, "tensor_kind", None) is TensorKind.STRING:
        return source  # a text
    path = os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else ""
    is_csv = path.lower().endswith(".csv")
    if not is_csv and is_file(source, feature):
        return read_file(require_content(source), fast_decode=fast_decode)
    takes_numbers = isinstance(feature, ShapedDescriptor) and feature.tensor_kind is not TensorKind.STRING
    if not path or not (is_csv or takes_numbers):
        return source
    refuse_address(path)
    if is_csv and os.path.exists(path):
        return _read_table(feature, path)
    if is_csv:
        raise InvalidArgumentError(f"{path}: The file does not exist.", hint=suggest_path(path))
    takes = f"{feature.name} takes {feature.describe()}"
    problem = takes if os.path.exists(path) else f"No such file or folder exists, and {takes}"
    raise InvalidArgumentError(f"{path}: {problem}.", hint="Pass an array, or the path to a .npy or .csv file.")


_HOW_TO_WRITE = "Separate numbers with commas, and use decimal points (1.5,2). Write one item per row, and no header."


def _read_table(feature: FeatureDescriptor, path: str) -> Array:
    if not isinstance(feature, ShapedDescriptor) or feature.tensor_kind is TensorKind.STRING:
        raise InvalidArgumentError(f"{feature.name} takes {feature.expects()}, which a .csv file cannot hold.")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = _split_rows(file.read())
    except (OSError, ValueError, csv.Error) as error:
        raise _make_not_numbers_error(path, error) from error
    if not rows:
        raise InvalidArgumentError(f"{path}: The file is empty.", hint=_HOW_TO_WRITE)
    first, width = rows[0][0], len(rows[0][1])
    arrays = []
    for row, cells in rows:
        name = f"{path}, row {row}"
        if not all(map(str.strip, cells)):
            raise InvalidArgumentError(f"{name}: A cell is empty: {','.join(cells)[:60]}.", hint=_HOW_TO_WRITE)
        if len(cells) != width:
            problem = f"The row has {len(cells)} numbers, but row {first} has {width}"
            raise InvalidArgumentError(f"{name}: {problem}.", hint=_HOW_TO_WRITE)
        arrays.append(convert_numbers(feature, cells, name, [width]))
    return np.stack(arrays).reshape(_find_table_shape(feature, (len(rows), width), f"{path}, row {first}"))


def _split_rows(text: str) -> list[tuple[int, list[str]]]:
    """The cells of each row that is not blank, with its number: separated by commas, by tabs, or by spaces."""
    lines = io.StringIO(text, newline="").readlines()  # other marks than CR and LF are parts of cells
    if not any(mark in text for mark in ',\t"'):
        return [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
    reader = csv.reader(lines, delimiter="\t" if "," not in text and "\t" in text else ",", skipinitialspace=True)
    return [(reader.line_num, cells) for cells in reader if len(cells) > 1 or "".join(cells).strip()]


def _find_table_shape(feature: ShapedDescriptor, table: tuple[int, ...], name: str) -> list[int]:
    """The shape of a feature whose rows are those of the table: no number moves to another row.

    A row is an item. If the number of items is fixed, a row may also be one of an inner dimension, or a single number.
    """
    sizes = list(feature.shape)
    last = 1 if len(sizes) > 1 and sizes[0] < 0 else len(sizes)
    for split in range(0 if len(sizes) < 2 else 1, last + 1):
        shape = [1 if size < 0 else size for size in sizes]
        if free := [index for index in range(split) if sizes[index] < 0]:
            shape[free[-1]] = table[0] // max(1, math.prod(shape[:split]))
        if len(sizes) == split + 1 and sizes[split] < 0:
            shape[split] = table[1]
        if (math.prod(shape[:split]), math.prod(shape[split:])) == table:
            return shape
    raise InvalidArgumentError(
        f"{name}: The table has {table[0]} row{'s' * (table[0] != 1)} of {table[1]} "
        f"number{'s' * (table[1] != 1)}, but {feature.name} takes {feature.describe()}.",
        hint=_HOW_TO_WRITE,
    )


def convert_numbers(feature: ShapedDescriptor, words: Sequence[Any], path: str, shape: Sequence[int] = ()) -> Array:
    """Numbers as a user wrote them, texts or Python numbers, in a feature's type, and in a shape or the feature's own.

    Raises:
        InvalidArgumentError: more or fewer than the shape takes, or one that is not a number or that the type cannot
            hold. Messages begin with the path.
    """
    dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
    try:
        if odd := next((word for word in words if isinstance(word, str) and "_" in word), ""):
            raise ValueError(f"{odd:.60} is not a number")  # Python's numbers may have underscores
        numbers, expected = _parse_floats(words, dtype) if dtype.kind == "f" else _parse_integers(words, dtype)
    except (TypeError, ValueError, ArithmeticError) as error:  # no number, or a feature of texts
        raise _make_not_numbers_error(path, error) from error
    misfits = [word for word, number in zip(words, numbers, strict=True) if number is None]
    if misfits:
        takes = f"{feature.name} takes {feature.expects()}"
        raise InvalidArgumentError(f"{path}: {takes}: expected {expected}, got {str(misfits[0])[:60]}.")

    has_free_batch = not shape and feature.shape[:1] == (-1,)
    if not shape:
        shape = [1 if size < 0 else size for size in feature.shape]
        row_size = int(np.prod(shape[1:]))
        if has_free_batch and row_size and words and len(words) % row_size == 0:
            shape[0] = len(words) // row_size
    if len(words) != np.prod(shape):
        raise InvalidArgumentError(
            f"{path}: The file contains {len(words)} number{'s' * (len(words) != 1)}, but {feature.name} takes "
            f"{'a multiple of ' * has_free_batch}{int(np.prod(shape))} ({' x '.join(map(str, shape))}).",
            hint=_HOW_TO_WRITE,
        )
    return np.array(numbers, dtype).reshape(shape)


def _parse_floats(words: Sequence[Any], dtype: DType) -> tuple[list[float | None], str]:
    """The numbers, with None for those that the type cannot hold, and which numbers it can."""
    numbers = np.array(words, np.float64)
    with np.errstate(over="ignore"):
        is_infinite = np.isinf(numbers.astype(dtype))
    in_range = [
        None if overflows and "inf" not in str(word).lower() else float(number)
        for word, number, overflows in zip(words, numbers, is_infinite, strict=True)
    ]
    return in_range, f"numbers of at most {np.finfo(dtype).max:g}"


def _parse_integers(words: Sequence[Any], dtype: DType) -> tuple[list[int | None], str]:
    """The numbers, with None for fractions and for those that the type cannot hold, and which numbers it can."""
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    numbers = [_parse_integer(word) for word in words]
    in_range = [number if number is not None and least <= number <= most else None for number in numbers]
    return in_range, f"integers from {least} to {most}"


def _parse_integer(word: Any) -> int | None:
    """An integer, with all its digits, also of 2.0 and 1e3; None for another number."""
    if isinstance(word, bool):
        return int(word)
    number = Decimal(str(word))  # a float would round integers of more than 53 bits
    is_whole = number.is_finite() and number.adjusted() < 20 and number == number.to_integral_value()
    return int(number) if is_whole else None  # no type holds more than 20 digits


def _make_not_numbers_error(path: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path}: Expected only numbers: {error}.", hint=_HOW_TO_WRITE)

"""Tables of numbers in .csv files: rows stay rows, and what is no table is refused by the number of its row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.models import INT64, unary
from winml_py import InvalidArgumentError, LearningModel, LearningModelSession

SESSIONS: dict[Any, LearningModelSession] = {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def evaluate(folder: Path, text: str, shape: tuple[int | str, ...], element: int = 1) -> np.ndarray:
    """What a model that returns its input gets from a table."""
    key = (shape, element)
    if key not in SESSIONS:
        SESSIONS[key] = LearningModelSession(LearningModel.load(unary("Identity", shape, element)))
    path = folder / "table.csv"
    path.write_bytes(text.encode())
    (result,) = SESSIONS[key].evaluate_many(path)
    if result.error is not None:
        raise result.error
    return result.outputs["y"].to_numpy()


SEPARATORS = (",", ", ", " , ", "\t", " ", "   ")


@settings(deadline=None)
@given(st.data())
def test_rows_stay_rows_whatever_separates_the_cells(folder: Path, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    numbers = data.draw(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=rows * columns, max_size=rows * columns).map(np.float32)
    ).reshape(rows, columns)
    separator, line_end = data.draw(st.sampled_from(SEPARATORS)), data.draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    quote = data.draw(st.sampled_from(["", '"'])) if "," in separator and separator != " , " else ""
    lines = [separator.join(f"{quote}{number!r}{quote}" for number in row.tolist()) for row in numbers]
    text = line_end.join(lines) + data.draw(st.sampled_from(["", line_end]))
    for shape in (("n", columns), (rows, columns), ("n", "m"), (rows, "m")):
        np.testing.assert_array_equal(evaluate(folder, text, shape), numbers)


@settings(deadline=None)
@given(st.data())
def test_one_damaged_row_is_refused_by_its_number(folder: Path, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 5))
    cells = [[str(row * columns + column) for column in range(columns)] for row in range(rows)]
    damaged, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    damage = data.draw(st.sampled_from(["", " ", "1,5", "n/a", "1;5", "missing", "1.5.2", "1 5"]))
    if damage == "missing":
        del cells[damaged][column]
    else:
        cells[damaged][column] = damage
    named = 1 if damage in ("1,5", "missing") and damaged == 0 else damaged
    with pytest.raises(InvalidArgumentError, match=rf"table.csv, row {named + 1}: .*decimal points \(1.5,2\)"):
        evaluate(folder, "\n".join(map(",".join, cells)), data.draw(st.sampled_from([("n", columns), ("n", "m")])))


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("1,,3\n4,,6\n7,,9\n", 1),
        ("1\t\t3\n4\t\t6\n", 1),
        ("1,2\n3,4,5,6\n", 2),
        ("1,5\n2,5\n3,5\n", 1),
        ("1,5,2,5,3,5\n", 1),
        ("1,5;2,5;3,5\n", 1),
        ("1;2;3\n", 1),
        ("1\n2\n3\n", 1),
        ("1,2,3,\n4,5,6,\n", 1),
        ("a,b,c\n1,2,3\n", 1),
        (",a,b,c\n0,1,2,3\n", 1),
        ("1,2,3\n\n# a comment\n", 3),
        ('1,2,3\n"4,5,6\n7,8,9\n', 3),
        ("1,2,3\n4,5,6e500000\n", 2),
    ],
)
def test_numbers_are_not_regrouped(folder: Path, text: str, row: int) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"table.csv, row {row}: "):
        evaluate(folder, text, ("n", 3))


def test_fractions_and_large_numbers_are_refused_by_their_row(folder: Path) -> None:
    for cell in ("2.5", "nan", str(1 << 63)):
        with pytest.raises(InvalidArgumentError, match=rf"row 2: .*expected integers from .*, got {re.escape(cell)}"):
            evaluate(folder, f"1,2\n3,{cell}\n", ("n", 2), INT64)
    assert evaluate(folder, f"1,{(1 << 63) - 1}\n", ("n", 2), INT64).tolist() == [[1, (1 << 63) - 1]]


@pytest.mark.parametrize(
    ("shape", "expected", "widths"),
    [
        ((2, 3, 4), (2, 3, 4), (12, 4, 1)),
        ((1, 3, 4), (1, 3, 4), (12, 4, 1)),
        ((1, 6), (1, 6), (6, 1)),
        ((6,), (6,), (6, 1)),
        (("n",), (6,), (6, 1)),
        ((1, "n"), (1, 6), (6, 1)),
        ((1, "n", 2), (1, 3, 2), (2,)),
        (("n", 3, 2), (2, 3, 2), (6,)),
        (("n", 1), (6, 1), (1,)),
    ],
)
def test_a_row_is_an_item_or_a_row_of_it(
    folder: Path, shape: tuple[int | str, ...], expected: tuple[int, ...], widths: tuple[int, ...]
) -> None:
    numbers = np.arange(np.prod(expected), dtype=np.float32)
    for width in widths:
        text = "\n".join(",".join(map(str, row)) for row in numbers.reshape(-1, width).tolist())
        np.testing.assert_array_equal(evaluate(folder, text, shape), numbers.reshape(expected))


def test_an_empty_table_is_refused(folder: Path) -> None:
    for text in ("", "\n\n", "  \n"):
        with pytest.raises(InvalidArgumentError, match=r"table\.csv: The file is empty"):
            evaluate(folder, text, ("n", 3))


def test_integers_keep_all_their_digits(folder: Path) -> None:
    assert evaluate(folder, "9007199254740993.0,9007199254740993,1e3", (1, 3), 7).tolist() == [
        [9007199254740993, 9007199254740993, 1000]
    ]
    with pytest.raises(InvalidArgumentError, match=r"integers from -9223372036854775808 .* got 1e20000000"):
        evaluate(folder, "1e20000000,1,1", (1, 3), 7)  # at once: its digits take minutes


@pytest.mark.parametrize(("text", "element"), [("1_0,2", 1), ("1_0,2", 7), ("1\u20282,3", 1), ("1\x0c2,3", 7)])
def test_what_only_python_takes_for_numbers_or_rows_is_refused(folder: Path, text: str, element: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"table\.csv"):
        evaluate(folder, text, ("n", 2), element)

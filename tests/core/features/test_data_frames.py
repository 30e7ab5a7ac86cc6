"""Tables of pandas, polars and pyarrow, and mappings of columns, as inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from winml_py import (
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SizeMismatchError,
)
from winml_py.errors import MissingInputError

COLUMNS: dict[str, list[Any]] = {
    "age": [1.5, None, 3.0],
    "sex": ["f", "m", "ü"],
    "count": [1, 2, 3],
    "is_new": [True, False, True],
    "score": [1, 2, 3],
    "unused": ["a", None, "c"],
    "read": [0, 0, 0],
}
EXPECTED = {
    "age": [[1.5], [np.nan], [3.0]],
    "sex": [["f"], ["m"], ["ü"]],
    "count": [[1], [2], [3]],
    "is_new": [[True], [False], [True]],
    "score": [1, 2, 3],
}
LIBRARIES: dict[str, Callable[[Any], Any]] = {
    "pandas": pandas.DataFrame,
    "pandas with types that have nulls": lambda columns: pandas.DataFrame(columns).convert_dtypes(),
    "pandas with objects": lambda columns: pandas.DataFrame(columns).astype({"sex": "category", "age": object}),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "pyarrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "a mapping": dict,
    "a mapping of series": lambda columns: dict(pandas.DataFrame(columns)),
}


@pytest.fixture(scope="module")
def session() -> LearningModelSession:
    """Returns its five inputs: two of numbers, one each of text, whole numbers and booleans."""
    kinds = {"age": FLOAT, "sex": STRING, "count": INT64, "is_new": TensorProto.BOOL, "score": TensorProto.DOUBLE}
    shapes = {name: ["n"] if name == "score" else ["n", 1] for name in kinds}
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds]
    inputs, outputs = (
        [tensor(f"{name}{end}", shapes[name], kind) for name, kind in kinds.items()] for end in ("", "_out")
    )
    return LearningModelSession(LearningModel.load(data(nodes, inputs, outputs)))


def open_matrix(columns: int | str = 3, kind: int = FLOAT) -> LearningModelSession:
    """Returns its only input, a matrix."""
    return LearningModelSession(LearningModel.load(unary(shape=["n", columns], element=kind)))


@pytest.mark.parametrize("library", [name for name in LIBRARIES if not name.startswith("a mapping")])
def test_a_column_for_each_input(session: LearningModelSession, library: str) -> None:
    table = LIBRARIES[library](COLUMNS)
    results = [
        session.evaluate_features(table),
        session.evaluate_features_async(table).get(),
        *session.evaluate_many([table, table]),
        *session.evaluate_many(table),
        *session.evaluate_many(iter([table])),  # copied
    ]
    assert len(results) == 6
    binding = LearningModelBinding(session)
    for name in EXPECTED:
        binding.bind(name, table[name])
        assert binding[name] is not None
    for result in (*results, session.evaluate(binding)):
        for name, expected in EXPECTED.items():
            np.testing.assert_array_equal(result[f"{name}_out"].to_numpy(), np.array(expected))


@pytest.mark.parametrize("library", LIBRARIES)
def test_all_columns_for_a_matrix(library: str) -> None:
    columns = {"name": [1, 2], "column_names": [1.5, None], "columns": [True, False]}  # what the libraries call theirs
    if library == "pandas with objects":
        table: Any = pandas.DataFrame(columns).astype(object)
    else:
        table = LIBRARIES[library](columns)
    matrix = open_matrix()
    for result in (
        matrix.evaluate_features(table),
        *matrix.evaluate_many([table, table], batch=2),
        *matrix.evaluate_many(table),
        *([] if "mapping" in library else [matrix.evaluate_features({"x": table})]),
    ):
        np.testing.assert_array_equal(result["y"], [[1, 1.5, 1], [2, np.nan, 0]])


def test_one_column_alone() -> None:
    frame = pandas.DataFrame({"x": [1, 2, 3], "other": [4, 5, 6]})
    one = open_matrix(1)
    for value in (frame, frame[["x"]], frame[["other"]], {"x": frame["x"]}, {"X": frame["x"]}, {"x": frame[["x"]]}):
        expected = [4, 5, 6] if list(value) == ["other"] else [1, 2, 3]
        assert one.evaluate_features(value)["y"].to_numpy().ravel().tolist() == expected
    texts = open_matrix(1, STRING).evaluate_features(pandas.DataFrame({"note": ["a b", "c"]}))
    assert texts["y"].to_numpy().tolist() == [["a b"], ["c"]]
    flat = LearningModelSession(LearningModel.load(unary(shape=["n"])))
    assert flat.evaluate_features({"x": frame["x"]})["y"].to_numpy().tolist() == [1, 2, 3]


def test_rows_of_no_table_and_columns_without_rows(session: LearningModelSession) -> None:
    table = pandas.DataFrame(COLUMNS)
    assert session.evaluate_features(table[:0])["age_out"].shape == (0, 1)
    assert session.evaluate_features(table[1:])["sex_out"].to_numpy().tolist() == [["m"], ["ü"]]


def frame(**columns: list[Any]) -> pandas.DataFrame:
    return pandas.DataFrame(COLUMNS | columns)


@pytest.mark.parametrize(
    ("table", "error", "says"),
    [
        (frame().drop(columns="sex"), MissingInputError, "no column 'sex', which is an input"),
        (frame().rename(columns={"sex": "Sex"}), MissingInputError, "Did you mean 'Sex'"),
        (
            frame(sex=["f", None, "m"]),
            InvalidBindingError,
            "column sex contains nan .* in row 1, .* fill in missing cells",
        ),
        (frame(sex=[1, 2, 3]), InvalidBindingError, r"column sex contains 1 \(int\) in row 0, .* column to text"),
        (frame(age=["1", "2", "3"]), InvalidBindingError, r"column age contains '1' \(str\) in row 0"),
        (frame(age=[1.0, [2.0], 3.0]), InvalidBindingError, r"column age contains \[2.0\] \(list\) in row 1"),
        (frame(age=[1.0, 1e300, 3.0]), InvalidBindingError, r"column age contains 1e\+300 \(float\) in row 1"),
        (frame(age=pandas.to_datetime(["2020-01-01"] * 3)), InvalidBindingError, "column age contains datetime"),
        (frame(count=[1, None, 3]), InvalidBindingError, r"column count contains nan \(float\) in row 1"),
        (frame(count=[1, 2, 3.5]), InvalidBindingError, r"column count contains 3.5 \(float\) in row 2"),
        (frame(is_new=[True, None, False]), InvalidBindingError, "column is_new contains None"),
        (pandas.concat([frame(), frame()], axis=1), InvalidArgumentError, "unique names"),
        (dict(frame()), InvalidBindingError, "no variable with name unused"),
        ({"age": 30.0, "sexx": "f"}, InvalidBindingError, "no variable with name sexx"),
        (frame()["age"], InvalidArgumentError, "Expected a dict"),
    ],
)
def test_a_column_that_does_not_fit(
    session: LearningModelSession, table: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        session.evaluate_features(table)
    if not isinstance(table, pandas.Series):
        (result,) = session.evaluate_many([table])
        assert isinstance(result.error, error)


def test_a_table_that_does_not_fit_a_matrix() -> None:
    matrix = open_matrix()
    with pytest.raises(SizeMismatchError, match=r"2 columns: age, count\. .* in the same order"):
        matrix.evaluate_features(frame()[["age", "count"]])
    with pytest.raises(InvalidArgumentError, match="a with 1 values, b with 2 values"):
        matrix.evaluate_features({"a": [1], "b": [1, 2], "c": [1]})
    with pytest.raises(InvalidBindingError, match="no variable with name z"):
        matrix.evaluate_features({"x": np.zeros((1, 3), np.float32), "z": [1]})
    with pytest.raises(InvalidArgumentError, match="got none"):
        matrix.evaluate_features(pandas.DataFrame())
    with pytest.raises(InvalidArgumentError, match="a with 1 values, a with 1 values"):
        matrix.evaluate_features(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    # No value for an output: the engine would write to a copy.
    with pytest.raises(InvalidBindingError, match="cannot be bound"):
        matrix.evaluate_features({"x": np.zeros((3, 3), np.float32), "y": frame()["age"]})


def test_a_mapping_of_values_is_no_table() -> None:
    matrix, texts = open_matrix(2), open_matrix(2, STRING)
    for one, row in ((matrix, {"age": 30.0, "fare": 7.25}), (texts, {"name": "Bob", "city": "Rom"})):
        good = {"x": np.full((1, 2), "a", object) if one is texts else np.ones((1, 2), np.float32)}
        assert [result.succeeded for result in one.evaluate_many([good, row, good])] == [True, False, True]
        with pytest.raises(InvalidBindingError, match="no variable with name"):
            one.evaluate_features(row)
    columns = {"age": np.float32([1, 2]), "y": np.float32([3, 4])}  # named like the output
    assert matrix.evaluate_features(columns)["y"].to_numpy().tolist() == [[1, 3], [2, 4]]
    parts = [helper.make_node("Mul", ["x", "k"], ["y"])], [tensor("x", ["n"]), tensor("k", [1])], [tensor("y", ["n"])]
    scaled = LearningModelSession(LearningModel.load(data(*parts)))
    series = {"x": pandas.Series([1.0, 2.0, 3.0]), "k": pandas.Series([10.0])}
    assert scaled.evaluate_features(series)["y"].to_numpy().tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("kind", "cells"), [(TensorProto.UINT64, [2**63 + 1, 1]), (INT64, [2**53 + 1, 2.0]), (INT64, [-(2**63), True])]
)
def test_whole_numbers_keep_their_digits(kind: int, cells: list[Any]) -> None:
    table = pandas.DataFrame({"x": pandas.Series(cells, dtype=object)})
    assert open_matrix(1, kind).evaluate_features(table)["y"].to_numpy().ravel().tolist() == cells
    too_large = pandas.DataFrame({"x": pandas.Series([2**64], dtype=object)})
    with pytest.raises(InvalidBindingError, match="contains 18446744073709551616"):
        open_matrix(1, kind).evaluate_features(too_large)


def test_tables_are_no_pictures() -> None:
    pictures = LearningModelSession(LearningModel.load(unary(shape=(1, 1, 3, 1), denotation="IMAGE")))
    with pytest.raises(InvalidBindingError, match="Bind an ImageFeatureValue"):
        pictures.evaluate_features({"x": frame()["age"]})
    assert ImageFeatureValue.from_array(np.zeros((3, 1), np.uint8)).sizes == ((1, 3),)

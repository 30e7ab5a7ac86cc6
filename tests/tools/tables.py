"""Ten scikit-learn pipelines, converted by skl2onnx and evaluated on a table in one call, beside scikit-learn itself.

    pip install '.[test]' skl2onnx && python tests/tools/tables.py

Each line has the largest difference of a pipeline's numbers, and whether its classes are the same. Where polars is
installed, its tables are evaluated, too. Exits with 1 if a number differs by more than 1e-5 of the largest (or of 1),
or a class at all.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas

try:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
except ImportError:
    sys.exit("skl2onnx is not installed. Run pip install skl2onnx.")
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from winml_py import LearningModel, LearningModelSession

TOLERANCE = 1e-5


def make_table(rows: int = 300) -> pandas.DataFrame:
    """Passengers with text, numbers, whole numbers, missing ages, and what is to be predicted."""
    random = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "age": random.uniform(1, 80, rows).round(1),
            "fare": random.gamma(2, 20, rows).round(2),
            "siblings": random.integers(0, 5, rows),
            "sex": random.choice(["female", "male"], rows),
            "port": random.choice(["C", "Q", "S"], rows),
            "note": [" ".join(random.choice(["red", "green", "blue", "old", "new", "big"], 4)) for _ in range(rows)],
        }
    )
    noise = random.normal(0, 0.3, rows)
    table["survived"] = np.where((table.sex == "female") + noise > 0.5, "yes", "no")
    table["class"] = np.digitize(table.fare + 10 * noise, [25, 50])
    table["cost"] = table.fare * 2 + table.age + noise
    table["hours"] = table.siblings * 3 - table.age / 10 + noise
    table["is_old"] = table.note.str.contains("old").astype(int)
    table["is_red"] = table.note.str.contains("red").astype(int)
    table.loc[::7, "age"] = np.nan
    return table


NUMBERS, TEXTS = ["age", "fare"], ["sex", "port"]


def make_columns() -> ColumnTransformer:
    """The numbers with missing ones filled and scaled, and the texts as categories."""
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
            ("texts", OneHotEncoder(handle_unknown="ignore"), TEXTS),
        ]
    )


def make_pipelines() -> dict[str, tuple[Pipeline, list[str], str | list[str], dict[str, Any]]]:
    """The pipelines: each with the columns that it takes, what it predicts, and options of the converter."""
    regressor = make_pipeline(SimpleImputer(), StandardScaler(), LinearRegression())
    note = ColumnTransformer([("note", TfidfVectorizer(), "note")])
    everything = ColumnTransformer([*make_columns().transformers, ("note", TfidfVectorizer(), "note")])
    whole = ColumnTransformer([("ports", OneHotEncoder(), ["port"]), ("siblings", "passthrough", ["siblings"])])
    no_map = {"zipmap": False}
    return {
        "numbers, one matrix": (regressor, [*NUMBERS, "siblings"], "cost", {}),
        "numbers, two outputs": (make_pipeline(SimpleImputer(), Ridge()), NUMBERS, ["cost", "hours"], {}),
        "numbers, boosted trees": (
            make_pipeline(SimpleImputer(), MultiOutputRegressor(GradientBoostingRegressor(random_state=0))),
            NUMBERS,
            ["cost", "hours"],
            {},
        ),
        "text and numbers, a map": (
            make_pipeline(make_columns(), LogisticRegression()),
            NUMBERS + TEXTS,
            "survived",
            {},
        ),
        "text and numbers, a tensor": (
            make_pipeline(make_columns(), LogisticRegression()),
            NUMBERS + TEXTS,
            "survived",
            no_map,
        ),
        "three classes, forest": (
            make_pipeline(make_columns(), RandomForestClassifier(20, random_state=0)),
            NUMBERS + TEXTS,
            "class",
            no_map,
        ),
        "text alone": (make_pipeline(note, LogisticRegression()), ["note"], "is_old", no_map),
        "documents, text, numbers": (
            make_pipeline(everything, LogisticRegression(max_iter=500)),
            [*NUMBERS, *TEXTS, "note"],
            "survived",
            {},
        ),
        "whole numbers": (
            make_pipeline(whole, DecisionTreeClassifier(random_state=0)),
            ["port", "siblings"],
            "survived",
            no_map,
        ),
        "multi-label": (
            make_pipeline(note, MultiOutputClassifier(LogisticRegression())),
            ["note"],
            ["is_old", "is_red"],
            no_map,
        ),
    }


def convert(pipeline: Pipeline, table: pandas.DataFrame, options: dict[str, Any]) -> bytes:
    """The pipeline as a model: an input for each column, or a matrix for a pipeline that takes numbers alone."""
    kinds = {"f": FloatTensorType, "i": Int64TensorType}
    takes_matrix = not isinstance(pipeline[0], ColumnTransformer)
    types = [(name, kinds.get(table[name].dtype.kind, StringTensorType)([None, 1])) for name in table]
    if takes_matrix:
        types = [("X", FloatTensorType([None, table.shape[1]]))]
    documents = {TfidfVectorizer: {"locale": "C"}}  # "en_US", the default, is not on every system
    options = ({id(pipeline): options} if options else {}) | documents
    return bytes(to_onnx(pipeline, initial_types=types, options=options, target_opset=17).SerializeToString())


def read_numbers(value: Any) -> np.ndarray[Any, Any]:
    """An output's numbers: of a tensor, of a list of maps, or of a list of tensors."""
    if isinstance(value, list):
        return np.array([list(one.values()) if isinstance(one, dict) else np.asarray(one) for one in value])
    return value.to_numpy()


def list_makers() -> dict[str, Callable[[pandas.DataFrame], Any]]:
    """How the table is passed."""
    makers: dict[str, Callable[[pandas.DataFrame], Any]] = {"pandas": lambda table: table}
    try:
        import polars
    except ImportError:
        return makers
    return makers | {"polars": lambda table: polars.DataFrame(table.to_dict("list"), nan_to_null=True)}


def main() -> None:
    """Prints a line for each pipeline."""
    warnings.simplefilter("ignore")  # of scikit-learn
    table, is_bad = make_table(), False
    for title, (pipeline, names, target, options) in make_pipelines().items():
        rows = table[names]
        takes_matrix = not isinstance(pipeline[0], ColumnTransformer)
        pipeline.fit(rows.to_numpy() if takes_matrix else rows, table[target])
        asked = rows.to_numpy() if takes_matrix else rows
        expected_numbers = np.asarray(getattr(pipeline, "predict_proba", pipeline.predict)(asked))
        expected_classes = np.asarray(pipeline.predict(asked))
        session = LearningModelSession(LearningModel.load(convert(pipeline, rows, options)))
        for library, make in list_makers().items():
            result = session.evaluate_features(make(rows))
            label, *others = result.outputs.values()
            numbers = read_numbers(others[0] if others else label).reshape(expected_numbers.shape)
            difference = float(np.abs(numbers - expected_numbers).max() / max(1, np.abs(expected_numbers).max()))
            is_same = not others or np.array_equal(
                read_numbers(label).reshape(expected_classes.shape), expected_classes
            )
            is_bad |= difference > TOLERANCE or not is_same
            print(f"{title:30} {library:8} {difference:8.1e}  {'same classes' if is_same else 'OTHER CLASSES'}")
    sys.exit(is_bad)


if __name__ == "__main__":
    main()

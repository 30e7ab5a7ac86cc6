"""`winml-py map` to CSV and to lines of JSON, without pyarrow."""

from __future__ import annotations

import base64
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from onnx import TensorProto, helper
from PIL import Image

from helpers.cli import require_exit
from helpers.maps import answer, linear, pictures
from helpers.models import data, tensor
from helpers.paths import MODELS, PICTURES
from winml_py.scale import Evaluator
from winml_py.scale.lines import LineTable

DIGITS, SEVEN = str(MODELS / "digits.onnx"), PICTURES / "seven.png"


@pytest.fixture(autouse=True)
def _no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)


def run_map(*arguments: object, code: int = 0) -> Result:
    return require_exit("map", *arguments, code=code)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; in CSV, cells that are no words are JSON."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    return [
        {name: json.loads(cell) if cell[:1] in "[{" and cell else cell or None for name, cell in row.items()}
        for row in rows
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(linear(tmp_path_factory.mktemp("models") / "linear.onnx"))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_folder_becomes_lines(tmp_path: Path, model: str, kind: str) -> None:
    folder, output = pictures(tmp_path / "in", 25, {3, 11}), tmp_path / f"out.{kind}"
    result = run_map(model, folder, "--output", output)
    assert "23 of 25 rows succeeded" in result.stdout
    rows = rows_of(output)
    assert [list(row) for row in rows] == [["path", "scores", "error"]] * 25
    assert [row["path"] for row in rows] == [str(folder / f"{number}.png") for number in range(25)]
    for number, row in enumerate(rows):
        if number in {3, 11}:
            assert row["scores"] is None
            assert row["error"].startswith("PictureError: ")
        else:
            assert row["error"] is None
            np.testing.assert_allclose(row["scores"], answer(number), rtol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", f"out.{kind}"]


def table_model(tmp_path: Path) -> Path:
    path = tmp_path / "table.onnx"
    nodes = [helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0), helper.make_node("Log", ["x"], ["log"])]
    outputs = [tensor("label", ["n"], TensorProto.INT64), tensor("log", ["n", 3])]
    path.write_bytes(data(nodes, [tensor("x", ["n", 3])], outputs))
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_rows_of_a_table(tmp_path: Path, kind: str) -> None:
    source, output = tmp_path / "rows.csv", tmp_path / f"out.{kind}"
    source.write_text('\ufeffid,note,a,b,c\n007,"x, ""y""\nz",1,2.50,3\n8,,4,0,-1\n\n9,ü,,1,2\n', encoding="utf-8")
    run_map(table_model(tmp_path), source, "--output", output, "--column", "x=a,b,c")
    rows = rows_of(output)
    assert [row["note"] for row in rows] == ['x, "y"\nz', None, "ü"]
    if kind == "csv":
        assert [row["id"] for row in rows] == ["007", "8", "9"]
        assert [row["b"] for row in rows] == ["2.5", "0", "1"]
        assert [row["label"] for row in rows] == ["2", "0", None]
    else:
        assert [row["id"] for row in rows] == ["007", 8, 9]
        assert [row["b"] for row in rows] == [2.5, 0, 1]
        assert [row["label"] for row in rows] == [2, 0, None]
        assert [row["a"] for row in rows] == [1, 4, None]
    np.testing.assert_allclose(rows[0]["log"], np.log([1, 2.5, 3]), rtol=1e-6)
    assert rows[1]["log"][1:] == ["-Infinity", "NaN"]
    assert rows[2]["log"] is None
    assert rows[2]["error"].startswith("InvalidBindingError")


def test_rows_without_any(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b,c\n")
    for kind, text in {"csv": "a,b,c,label,log,error\n", "jsonl": ""}.items():
        output = tmp_path / f"out.{kind}"
        run_map(table_model(tmp_path), tmp_path / "in.csv", "--output", output, "--column", "x=a,b,c")
        assert output.read_text() == text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "must name the columns"),
        (b"a,a\n1,2\n", "must name the columns"),
        (b"1,2\n3,4\n", "Expected column names"),
        (b"a,b\n1,2\n3\n", "near line 3 has 1 cells, expected 2"),
        (b"a,b\n1,\xff\n", "utf-8"),
        (b'a,b\n1,"2\n', "unexpected end"),
    ],
)
def test_what_is_no_table(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "in.csv").write_bytes(content)
    words = [table_model(tmp_path), tmp_path / "in.csv", "--output", tmp_path / "out.csv", "--column", "x=a,b,b"]
    assert why in run_map(*words, code=4).stderr
    assert not (tmp_path / "out.csv").exists()


def test_a_picture_is_base64(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    run_map(MODELS / "invert.onnx", SEVEN, "--output", output)
    (row,) = rows_of(output)
    name = next(name for name in row if name not in ("path", "error"))
    with Image.open(io.BytesIO(base64.b64decode(row[name]))) as picture, Image.open(SEVEN) as seven:
        assert picture.size == seven.size
        np.testing.assert_array_equal(np.asarray(picture.convert("L")), 255 - np.asarray(seven.convert("L")))


def test_what_needs_pyarrow_says_so(tmp_path: Path) -> None:
    for source, output in {SEVEN: "out.parquet", tmp_path / "in.parquet": "out.csv"}.items():
        stderr = run_map(DIGITS, source, "--output", tmp_path / output, code=7).stderr
        assert "pip install pyarrow" in stderr
    assert "Use .parquet, .csv or .jsonl" in run_map(DIGITS, SEVEN, "--output", tmp_path / "out.txt", code=4).stderr


def test_the_table_is_a_batch() -> None:
    evaluate = Evaluator(DIGITS, columns={"image": "path"})
    table = evaluate(LineTable({"path": [str(SEVEN), "missing.png"]}))
    assert table.names == ["path", "probabilities", "error"]
    assert np.argmax(table.cells("probabilities")[0]) == 7
    assert table.cells("probabilities")[1] is None

"""`winml-py map`: everything in a source becomes a row, once, however often the job is interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from filelock import FileLock
from onnx import TensorProto, helper
from PIL import Image

from helpers.cli import require_exit
from helpers.maps import linear, pictures, require_right
from helpers.models import data, tensor
from helpers.paths import MODELS, PICTURES
from winml_py.scale import arrow as arrows
from winml_py.scale.output_columns import OutputColumn

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DIGITS, SEVEN = str(MODELS / "digits.onnx"), PICTURES / "seven.png"


def run_map(*arguments: object, code: int = 0) -> Result:
    return require_exit("map", *arguments, code=code)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(linear(tmp_path_factory.mktemp("models") / "linear.onnx"))


def test_a_folder_becomes_a_table(tmp_path: Path, model: str) -> None:
    folder, output = pictures(tmp_path / "in", 25, {3, 11}), tmp_path / "out.parquet"
    result = run_map(model, folder, "--output", output)
    assert "23 of 25 rows succeeded" in result.stdout
    assert "2 rows failed; the first: PictureError" in result.stderr
    require_right(parquet.read_table(output), folder, 25, {3, 11})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.parquet"]


def test_patterns_and_files_keep_their_order(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "in", 12, set())
    run_map(DIGITS, f"{folder}/1*.png", folder / "2.png", "--output", tmp_path / "out.parquet")
    names = [Path(path).name for path in parquet.read_table(tmp_path / "out.parquet").column("path").to_pylist()]
    assert names == ["1.png", "10.png", "11.png", "2.png"]


def table_model(tmp_path: Path) -> Path:
    path = tmp_path / "table.onnx"
    nodes = [helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0), helper.make_node("Neg", ["x"], ["neg"])]
    outputs = [tensor("label", ["n"], TensorProto.INT64), tensor("neg", ["n", 3])]
    path.write_bytes(data(nodes, [tensor("x", ["n", 3])], outputs))
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("batch", [1, 7])
def test_the_rows_of_a_table(tmp_path: Path, kind: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.random.default_rng(0).random((50, 3))
    table = arrow.table({"id": range(50)} | {name: numbers[:, index] for index, name in enumerate("abc")})
    source = tmp_path / f"rows.{kind}"
    if kind == "csv":
        arrow.csv.write_csv(table, source)
    else:
        parquet.write_table(table, source, row_group_size=8)
    output = tmp_path / "out.parquet"
    words = ["--column", "x=a,b,c", "--keep", "id", "--batch", batch]
    monkeypatch.setattr("winml_py.scale.job.TABLE_ROWS", 20)
    run_map(table_model(tmp_path), source, "--output", output, *words)
    answered = parquet.read_table(output)
    assert answered.column_names == ["id", "label", "neg", "error"]
    assert answered.column("id").to_pylist() == list(range(50))
    assert answered.column("label").to_pylist() == numbers.astype(np.float32).argmax(1).tolist()
    np.testing.assert_array_equal(answered.column("neg").to_pylist(), -numbers.astype(np.float32))
    assert parquet.read_metadata(output).num_row_groups == 3


def test_paths_in_a_table_and_one_answer(tmp_path: Path) -> None:
    source = tmp_path / "list.csv"
    source.write_text(f"name,file\nseven,{SEVEN}\nmissing,{tmp_path / 'no.png'}\n")
    output = tmp_path / "out.parquet"
    run_map(DIGITS, source, "--output", output, "--column", "image=file", "--answer", "probabilities")
    table = parquet.read_table(output)
    assert table.column("name").to_pylist() == ["seven", "missing"]
    assert np.argmax(table.column("probabilities")[0].as_py()) == 7
    assert "PictureNotFoundError" in table.column("error")[1].as_py()


def test_an_empty_table_is_a_table(tmp_path: Path) -> None:
    parquet.write_table(arrow.table({"x": arrow.array([], arrow.list_(arrow.float32()))}), tmp_path / "in.parquet")
    run_map(table_model(tmp_path), tmp_path / "in.parquet", "--output", tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert (table.num_rows, table.column_names) == (0, ["x", "label", "neg", "error"])


def test_when_all_fail_the_code_says_so(tmp_path: Path, model: str) -> None:
    folder = pictures(tmp_path / "in", 3, {0, 1, 2})
    facts = json.loads(run_map(model, folder, "--output", tmp_path / "out.parquet", "--json", code=1).stdout)
    assert (facts["rows"], facts["failed"], facts["resumed"]) == (3, 3, 0)
    assert "0.png" in facts["first_error"]
    require_right(parquet.read_table(tmp_path / "out.parquet"), folder, 3, {0, 1, 2})


def begun(tmp_path: Path, model: str, count: int, broken: set[int]) -> tuple[subprocess.Popen[str], list[str]]:
    """A job in a process of its own, and its arguments."""
    folder = pictures(tmp_path / "in", count, broken)
    arguments = [model, str(folder), "--output", str(tmp_path / "out.parquet"), "--workers", "1"]
    program = "from winml_py.scale import job; job.PART_SECONDS = 0.01; from winml_py.cli.main import main; main()"
    command = [sys.executable, "-W", "error", "-c", program, "map", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), arguments


def wait_for_parts(tmp_path: Path, job: subprocess.Popen[str], count: int) -> None:
    """Waits until so many parts are there."""
    folder, started = tmp_path / "out.parquet.parts", time.monotonic()
    while time.monotonic() < started + 60 and job.poll() is None:
        if len(list(folder.glob("part-*.parquet"))) >= count:
            return
        time.sleep(0.001)
    raise AssertionError(job.communicate()[1])


@pytest.mark.parametrize("word", ["SIGKILL", "SIGINT"])
@pytest.mark.one_python
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_interrupted_and_started_again_nothing_is_twice_and_nothing_missing(
    tmp_path: Path, model: str, word: str
) -> None:
    count, broken = 1600, {7, 123, 250, 1599}
    job, arguments = begun(tmp_path, model, count, broken)
    with job:
        wait_for_parts(tmp_path, job, 3)
        job.send_signal(getattr(signal, word))
        job.communicate(timeout=60)
    assert job.returncode != 0
    assert not (tmp_path / "out.parquet").exists()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out.parquet.parts").glob("part-*.parquet")}
    assert len(done) >= 3
    kept = sum(parquet.read_metadata(path).num_rows for path in done)
    seen: list[int] = []
    original = arrows.import_arrow().parquet.write_table
    with pytest.MonkeyPatch.context() as patch:

        def write_table(table: Any, file: Any, **options: Any) -> None:
            seen.append(table.num_rows)
            original(table, file, **options)

        patch.setattr(parquet, "write_table", write_table)
        facts = json.loads(run_map(*arguments, "--json").stdout)
    assert facts["resumed"] == kept
    assert sum(seen) == count - facts["resumed"]
    require_right(parquet.read_table(tmp_path / "out.parquet"), tmp_path / "in", count, broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.parquet"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_interrupted_job_goes_on_behind_the_rows_that_were_done(
    tmp_path: Path, model: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done is written after each row here, and every few seconds otherwise."""
    folder, seen, cell = pictures(tmp_path / "in", 50, {3, 11, 40}), [0], OutputColumn.cell
    whole, output = tmp_path / f"whole.{kind}", tmp_path / f"out.{kind}"
    run_map(model, folder, "--output", whole)

    def interrupted(self: OutputColumn, value: object) -> Any:
        seen[0] += 1
        if seen[0] == 30:  # of the row 31: two before it are broken
            raise KeyboardInterrupt
        return cell(self, value)

    with monkeypatch.context() as patch:
        patch.setattr("winml_py.scale.job.PART_SECONDS", 0.0)
        patch.setattr(OutputColumn, "cell", interrupted)
        run_map(model, folder, "--output", output, code=1)
    result = run_map(model, folder, "--output", output, "--json")
    assert json.loads(result.stdout)["resumed"] == 31
    if kind == "parquet":
        assert parquet.read_table(output).equals(parquet.read_table(whole))
        assert parquet.read_metadata(output).num_row_groups == 1
    else:
        assert output.read_bytes() == whole.read_bytes()


def test_done_already_is_done(tmp_path: Path, model: str) -> None:
    folder, output = pictures(tmp_path / "in", 5, {2}), tmp_path / "out.parquet"
    run_map(model, folder, "--output", output)
    before = output.stat().st_mtime_ns
    told = run_map(model, folder, "--output", output).stdout
    assert "4 of 5 rows succeeded" in told
    assert "a second" not in told
    facts = json.loads(run_map(model, folder, "--output", output, "--json").stdout)
    assert (facts["rows"], facts["failed"], facts["resumed"]) == (5, 1, 5)
    assert output.stat().st_mtime_ns == before
    assert "already exists" in run_map(model, folder, "--output", output, "--batch", 2, code=5).stderr


def left(tmp_path: Path, model: str) -> list[object]:
    """What a job that ended between its parts and its file leaves behind, and its arguments."""
    arguments = [model, pictures(tmp_path / "in", 9, {1}), "--output", tmp_path / "out.parquet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winml_py.scale.job.TABLE_ROWS", 4)
        patch.setattr("winml_py.scale.job.ParquetParts.join", lambda self: sys.exit(9))
        run_map(*arguments, code=9)
    return arguments


def test_a_job_that_was_begun_with_something_else_is_refused(tmp_path: Path, model: str) -> None:
    arguments = left(tmp_path, model)
    for more, word in [
        (["--batch", 5], "batch"),
        (["--answer", "scores"], "answers"),
        (["--fast-decode"], "fast_decode"),
    ]:
        assert f"with another {word}" in " ".join(run_map(*arguments, *more, code=4).stderr.split())
    Image.new("L", (28, 28)).save(tmp_path / "in" / "100.png")
    assert "with another source" in " ".join(run_map(*arguments, code=4).stderr.split())
    os.unlink(tmp_path / "in" / "100.png")
    before = (tmp_path / "in" / "6.png").stat()
    os.utime(tmp_path / "in" / "6.png", ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    assert "with another source" in " ".join(run_map(*arguments, code=4).stderr.split())
    os.utime(tmp_path / "in" / "6.png", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert json.loads(run_map(*arguments, "--json").stdout)["resumed"] == 9


def test_leftovers_of_a_run_that_was_killed_do_no_harm(tmp_path: Path, model: str) -> None:
    arguments, folder = left(tmp_path, model), tmp_path / "out.parquet.parts"
    (folder / ".part-000000000004.parquet.0123456789abcdef").write_bytes(b"half a part")
    os.unlink(folder / "part-000000000008.parquet")
    shutil.copytree(folder, tmp_path / "copy")
    assert json.loads(run_map(*arguments, "--json").stdout)["resumed"] == 8
    require_right(parquet.read_table(tmp_path / "out.parquet"), tmp_path / "in", 9, {1})
    os.rename(tmp_path / "copy", folder)  # as after a kill between the file and the end
    run_map(*arguments)
    require_right(parquet.read_table(tmp_path / "out.parquet"), tmp_path / "in", 9, {1})
    assert not folder.exists()
    os.unlink(tmp_path / "out.parquet")
    folder.mkdir()  # as after a kill at the very beginning
    (folder / "lock").touch()
    run_map(*arguments)
    require_right(parquet.read_table(tmp_path / "out.parquet"), tmp_path / "in", 9, {1})


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    folder, parts = pictures(tmp_path / "in", 2, set()), tmp_path / "out.parquet.parts"
    parts.mkdir()
    (parts / "notes.txt").write_text("mine")
    assert "has no unfinished job" in run_map(DIGITS, folder, "--output", tmp_path / "out.parquet", code=5).stderr
    assert [path.name for path in parts.iterdir()] == ["notes.txt"]
    shutil.rmtree(parts)
    (tmp_path / "out.parquet").write_text("mine")
    assert "already exists" in run_map(DIGITS, folder, "--output", tmp_path / "out.parquet", code=5).stderr
    assert (tmp_path / "out.parquet").read_text() == "mine"


def test_two_processes_do_not_do_the_same_job(tmp_path: Path, model: str) -> None:
    arguments = left(tmp_path, model)
    with FileLock(tmp_path / "out.parquet.parts" / "lock"):
        assert "Another process works on the job" in run_map(*arguments, code=5).stderr
    run_map(*arguments)


def test_wrong_usage(tmp_path: Path) -> None:
    folder, output = pictures(tmp_path / "in", 2, set()), tmp_path / "out.parquet"
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n")
    for arguments, word in [
        ([DIGITS, tmp_path / "nothing*", "--output", output], "No file matches"),
        ([DIGITS, rows, folder, "--output", output], "Expected one table, or pictures"),
        ([DIGITS, folder, "--output", output, "--answer", "probability"], "no output 'probability'"),
        ([DIGITS, folder, "--output", output, "--column", "picture=path"], "no input 'picture'"),
        ([DIGITS, rows, "--output", output], "needs the column 'image'"),
        ([DIGITS, folder, "--output", output, "--keep", "name"], "'name' to keep"),
    ]:
        assert word in " ".join(run_map(*arguments, code=4).stderr.split())
    run_map(DIGITS, folder, "--output", tmp_path / "nowhere" / "out.parquet", code=5)
    assert not list(tmp_path.glob("out*"))

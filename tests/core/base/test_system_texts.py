"""Text as other systems have it: marks and line breaks of Windows, and consoles that lack characters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from helpers.models import FLOAT, data, tensor, unary
from winml_py import LearningModel, LearningModelSessionOptions, labels_of, read_contract
from winml_py.cli import files
from winml_py.cli.main import main

MARK = b"\xef\xbb\xbf"
"""What programs on Windows put before UTF-8."""


@pytest.mark.parametrize("mark", [b"", MARK], ids=["plain", "marked"])
@pytest.mark.parametrize("line_break", [b"\n", b"\r\n"], ids=["unix", "windows"])
def test_texts_as_windows_writes_them(mark: bytes, line_break: bytes, tmp_path: Path) -> None:
    def written(name: str, *lines: str) -> str:
        (tmp_path / name).write_bytes(mark + line_break.join(line.encode() for line in lines) + line_break)
        return str(tmp_path / name)

    for blank_lines in range(3):
        path = written("labels.txt", "tench", "caf\u00e9", *[""] * blank_lines)
        assert labels_of(path) == ("tench", "caf\u00e9"), blank_lines
    contract = read_contract(written("contract.json", "{", '"Image.Mean": "0.5,0.5,0.5"', "}"))
    assert contract.mean == (0.5, 0.5, 0.5)
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 3
    options.save(tmp_path / "saved.json")
    settings = written("settings.json", *(tmp_path / "saved.json").read_text(encoding="utf-8").splitlines())
    assert LearningModelSessionOptions.load(settings).intra_op_num_threads == 3
    model = LearningModel.load(unary(shape=(2, 2)))
    table = files.read_inputs(model, {"x": written("table.csv", "1,2.5", "3,4")})["x"]
    np.testing.assert_array_equal(table, [[1, 2.5], [3, 4]])


EMOJI = "\U0001f600"


@pytest.fixture
def odd_model(tmp_path: Path) -> Path:
    """A model whose names no code page of Windows has all of."""
    from onnx import helper

    node = helper.make_node("Relu", ["caf\u00e9"], [EMOJI], name="\u0436")
    path = tmp_path / f"caf\u00e9 {EMOJI}.onnx"
    path.write_bytes(data([node], [tensor("caf\u00e9", [1, 2], FLOAT)], [tensor(EMOJI, [1, 2], FLOAT)]))
    return path


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "utf-8"])
@pytest.mark.parametrize("command", ["info", "run", "perf"])
def test_a_console_that_lacks_characters(
    encoding: str, command: str, odd_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing fails: a table spells them out, and JSON means the same for whoever reads it."""
    more = {"info": [], "run": ["caf\u00e9=1,-2"], "perf": ["-n", "1"]}[command]
    runner = CliRunner(charset=encoding)
    environment = {"COLUMNS": "100"}
    table = runner.invoke(main, [command, str(odd_model), *more], env=environment)
    assert table.exit_code == 0, table.output
    table.stdout_bytes.decode(encoding)
    report = runner.invoke(main, [command, str(odd_model), *more, "--json"], env=environment)
    assert report.exit_code == 0, report.output
    text = report.stdout_bytes.decode("utf-8" if encoding == "utf-8" else "ascii")
    assert odd_model.name in json.dumps(json.loads(text), ensure_ascii=False)
    assert EMOJI in text if encoding == "utf-8" else "\\ud83d\\ude00" in text
    missing = runner.invoke(main, ["info", f"{odd_model} no"], env=environment)
    assert missing.exit_code == 3
    missing.stderr_bytes.decode(encoding)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_help_on_such_a_console(encoding: str) -> None:
    for name in (None, *main.commands):
        result = CliRunner(charset=encoding).invoke(main, [*([name] if name else []), "--help"])
        assert result.exit_code == 0, result.output
        assert result.stdout_bytes.decode(encoding).startswith("Usage:")

"""Names, labels and file names that command a terminal: no command and no log line sends them, and JSON is JSON."""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from onnx import helper, numpy_helper

from helpers.models import data, tensor
from helpers.paths import ROOT
from winml_py import LearningModel, LearningModelSession, TensorString
from winml_py.cli import style
from winml_py.cli.main import main
from winml_py.errors import InvalidArgumentError, WinMLError
from winml_py.serve.server import ModelServer
from winml_py.view.server import PageServer

pytestmark = pytest.mark.one_python

# One of each kind: C0 with an escape sequence, DEL, C1, directions of text.
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x7f\x9b31m\u202egnp\u2066x\u2069\u200f"
NAMED = HOSTILE if os.name == "posix" else re.sub(r'[\x00-\x1f<>:"/\\|?*]', "", HOSTILE)
"""What a file may be named."""
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def hostile_model() -> bytes:
    """A model of one hidden layer, all of whose words are hostile."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), f"{name}{HOSTILE}")
        for name, shape in (("w", (4, 8)), ("v", (8, 3)), ("unused", (2,)))
    ]
    x, y, h, r = (f"{name}{HOSTILE}" for name in "xyhr")
    nodes = [
        helper.make_node("MatMul", [x, weights[0].name], [h], f"first{HOSTILE}", HOSTILE),
        helper.make_node("Relu", [h], [r], f"second{HOSTILE}"),
        helper.make_node("MatMul", [r, weights[1].name], [y], f"third{HOSTILE}"),
    ]
    ends = [tensor(x, [1, 4]), tensor(y, [1, 3])]
    ends[0].doc_string = ends[1].doc_string = f"end{HOSTILE}"
    graph = helper.make_graph(nodes, f"graph{HOSTILE}", ends[:1], ends[1:], weights, f"about{HOSTILE}")
    model = helper.make_model(
        graph,
        producer_name=f"me{HOSTILE}",
        domain=f"net{HOSTILE}",
        doc_string=f"text{HOSTILE}",
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    helper.set_model_props(model, {f"key{HOSTILE}": f"value{HOSTILE}", "Image.Mean": HOSTILE})
    return bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a hostile name, and hostile files in it."""
    made = tmp_path / f"dir{NAMED}"
    made.mkdir()
    (made / f"model{NAMED}.onnx").write_bytes(hostile_model())
    image = data([helper.make_node("Neg", ["x"], ["y"])], [tensor("x", [1, 3, 8, 8])], [tensor("y", [1, 3, 8, 8])])
    (made / f"image{NAMED}.onnx").write_bytes(image)
    np.save(made / f"in{NAMED}.npy", np.ones((1, 4), np.float32))
    (made / f"labels{NAMED}.txt").write_text("\n".join(f"label{HOSTILE}{index}" for index in range(3)), "utf-8")
    return made


def printed(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of the program: what Python writes, and what libraries write past it."""
    capfd.readouterr()
    try:
        main(arguments, prog_name="winml-py")
    except SystemExit as end:
        code = int(end.code or 0)
    came = capfd.readouterr()
    return code, came.out, came.err


def require_harmless(*texts: str) -> None:
    for text in texts:
        found = FORBIDDEN.search(text)
        assert not found, ascii(text[max(0, found.start() - 200) : found.end() + 20])


EXTRA = {
    "contract": ["--from", "imagenet"],
    "convert": [],
    "compare": ["--precision", "float32", "--nodes"],
    "perf": ["--iterations", "2"],
    "run": ["--labels", "labels.txt"],
    "serve": ["--port", "0"],
    "view": ["--no-browser"],
}


def arguments_of(command: click.Command, folder: Path, input_file: str) -> list[str]:
    """A call of any command, made from what it declares: models, inputs, outputs and what it must have."""
    words = {"model": "image" if command.name == "contract" else "model", "models": "model"}
    arguments = [
        str(folder / f"labels{NAMED}.txt") if word == "labels.txt" else word
        for word in EXTRA.get(command.name or "", [])
    ]
    for option in command.params:
        if isinstance(option, click.Argument):
            if option.name in words:
                arguments.append(str(folder / f"{words[option.name]}{NAMED}.onnx"))
            if option.name == "inputs" or command.name in ("compare", "perf"):
                arguments.append(str(folder / input_file))
        elif option.required and option.opts[0] not in arguments:
            is_flag = isinstance(option, click.Option) and option.is_flag
            arguments += [option.opts[0]] if is_flag else [option.opts[0], str(folder / f"out{NAMED}.onnx")]
    return arguments


@pytest.mark.usefixtures("short_tune")
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", main.commands)
def test_no_command_sends_what_a_terminal_obeys(
    name: str, as_json: bool, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [name, *arguments_of(main.commands[name], folder, f"in{NAMED}.npy")]
    monkeypatch.setattr(PageServer, "run", PageServer.close)  # a page that ends at once
    monkeypatch.setattr(ModelServer, "run", lambda self, *_: self._socket.close())
    code, out, error = printed([*arguments, *(["--json"] if as_json else [])], capfd)
    require_harmless(out, error)
    assert code == 0 or name == "doctor", error
    if as_json:
        parse(out)
    elif name in ("info", "run", "perf"):
        assert r"\x1b[2J" in "".join(out.split())  # shown, and not left out


@pytest.mark.parametrize("name", main.commands)
def test_no_error_sends_what_a_terminal_obeys(name: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = main.commands[name]
    (folder / f"model{NAMED}.onnx").write_bytes(b"no model" * 9)
    (folder / f"image{NAMED}.onnx").unlink()
    calls = [
        [name, *arguments_of(command, folder, f"missing{NAMED}\udcff.png"), *options]
        for options in ([], [HOSTILE] * 3, [f"--{HOSTILE}"], ["--json", f"--{HOSTILE}"])
    ]
    for arguments in calls:
        code, out, error = printed(arguments, capfd)
        require_harmless(out, error)
        may_work = name in ("devices", "doctor", "examples") and len(arguments) == 1
        assert code in (0, 1) if may_work else code > 0


def test_a_traceback_of_an_error_that_is_not_ours_is_harmless(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import sys
    import traceback

    before = sys.stdout, sys.stderr

    def fail(**_: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr(main.commands["devices"], "callback", fail)
    try:
        with pytest.raises(RuntimeError) as caught:
            main(["devices"])
        traceback.print_exception(caught.value)  # as the interpreter does it then
    finally:
        sys.stdout, sys.stderr = before
    error = capfd.readouterr().err
    assert "RuntimeError" in error
    require_harmless(error)


class Terminal(StringIO):
    """A stream that says it is a terminal, so that Rich draws its bar and its colours."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_terminal_gets_colours_and_a_bar_and_no_commands_of_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    with redirect_stdout(screen), redirect_stderr(screen):
        with style.show_progress(f"[/] {HOSTILE}") as advance:
            advance(0.5, f"[red]{HOSTILE}")
        style.print_line(HOSTILE, "bold red")
        style.print_pairs([(HOSTILE, HOSTILE)])
        style.print_table([[HOSTILE, "1"]], ["name", "n"])
    drawn = screen.getvalue()
    assert "\x1b[1;31m" in drawn  # Rich's own
    assert r"\x1b[2J" in drawn
    for command in ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\u202e", "\u2066", "\x7f"):
        assert command not in drawn, ascii(command)


def test_no_log_line_holds_what_a_terminal_obeys(caplog: pytest.LogCaptureFixture, folder: Path) -> None:
    logger = logging.getLogger("winml_py")
    with caplog.at_level(logging.DEBUG, "winml_py"):
        logger.warning("the file %s: %s", f"{folder}", OSError(2, HOSTILE))
        logger.warning(f"100 % {HOSTILE}")
    assert [record.name for record in caplog.records] == ["winml_py"] * 2
    require_harmless(*(record.getMessage() for record in caplog.records))
    assert "100 % " in caplog.text
    loggers = [
        path.name
        for path in (ROOT / "winml_py").rglob("*.py")
        if 'getLogger("winml_py")' in path.read_text(encoding="utf-8")
    ]
    assert loggers == ["messages.py"]


# A lone surrogate: a byte of a file name that is not UTF-8.
HALF = "a\udcff"


def parse(text: str) -> Any:
    """JSON without the words NaN and Infinity, which are Python's own."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_says_what_is_not_finite_in_words() -> None:
    facts = {"a": [float("nan"), 1.5, (float("inf"), np.float64("-inf"))], "b": {"c": HOSTILE, "d": Path("x")}, "e": 1}
    text = style.to_json(facts | {HALF: [HALF, "é"]})
    require_harmless(text)
    wanted = {"a": ["NaN", 1.5, ["Infinity", "-Infinity"]], "b": {"c": HOSTILE, "d": "x"}, "e": 1}
    assert parse(text) == wanted | {r"a\udcff": [r"a\udcff", "é"]}


def test_words_without_commands_stay(caplog: pytest.LogCaptureFixture) -> None:
    words = "caf\u00e9 \u4f60\u597d \U0001f600\ttab\nline"
    logging.getLogger("winml_py").warning(words)
    assert caplog.records[0].getMessage() == words


@pytest.mark.posix("Wine makes no files whose names are not UTF-8")
def test_file_names_that_are_no_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, picture = tmp_path / f"{HALF}.onnx", tmp_path / f"{HALF}.png"
    model.write_bytes((ROOT / "models" / "digits.onnx").read_bytes())
    picture.write_bytes((ROOT / "samples" / "pictures" / "seven.png").read_bytes())
    code, out, error = printed(["run", str(model), str(picture), "--json"], capfd)
    assert (code, r"a\udcff.onnx" in json.loads(out)["error"]["message"]) == (3, True), error
    code, out, error = printed(["run", str(ROOT / "models" / "digits.onnx"), str(picture), "--json"], capfd)
    (found,) = json.loads(out)["results"]
    assert found["input"] == str(tmp_path / r"a\udcff.png")
    assert found["outputs"]["probabilities"]["top"][0]["index"] == 7


def test_texts_that_a_model_takes_are_utf8() -> None:
    node, ends = helper.make_node("Identity", ["x"], ["y"]), [tensor(name, [1], 8) for name in "xy"]
    graph, opset = helper.make_graph([node], "g", ends[:1], ends[1:]), helper.make_opsetid("", 17)
    model = helper.make_model(graph, ir_version=8, opset_imports=[opset])
    with LearningModelSession(LearningModel.load(model.SerializeToString())) as session:
        for value in ([HALF], HALF, np.array([HALF], object)):
            with pytest.raises(WinMLError, match=r"(?i)utf-8"):
                session.evaluate_features({"x": value})
        assert session.evaluate_features({"x": ["é"]}).outputs["y"].get_as_vector_view() == ["é"]
    with pytest.raises(InvalidArgumentError, match="UTF-8 can encode"):
        TensorString.create_from_array([1], [HALF])

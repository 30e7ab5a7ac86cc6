"""One manner for every command: models and inputs are arguments, a word means the same everywhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.models import data, tensor
from helpers.paths import MODELS, PICTURES, ROOT
from winml_py.cli.arguments import OutputOption
from winml_py.cli.main import main

pytestmark = pytest.mark.one_python

DIGITS = MODELS / "digits.onnx"
ARGUMENTS = {
    "MODEL",
    "[MODEL]",
    "MODEL [INPUT]...",
    "MODEL... [INPUT]...",
    "MODEL INPUT...",
    "MODEL...",
    "[MODEL] [PICTURE]",
    "[FOLDER]",
    "",
}


def options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def words_of(command: click.Command) -> str:
    """The arguments of a command, as its help shows them."""
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    return " ".join(argument.make_metavar(click.Context(command)) for argument in arguments)


@pytest.mark.parametrize("command", main.commands.values(), ids=main.commands)
def test_models_and_inputs_are_arguments(command: click.Command) -> None:
    assert words_of(command) in ARGUMENTS
    assert "--input" not in {name for option in options(command) for name in option.opts}


def test_an_option_means_the_same_in_every_command() -> None:
    seen: dict[str, tuple[object, ...]] = {}
    for command in main.commands.values():
        for option in options(command):
            # all that may differ is what the output is
            words = "" if "--output" in option.opts else str(option.help)
            meaning = (type(option.type).__name__, option.metavar, option.is_flag, words)
            for name in option.opts:
                assert seen.setdefault(name, meaning) == meaning, f"{command.name} {name}"


@pytest.mark.parametrize("words", ["contract --from clip", "convert"])
def test_a_command_that_writes_a_model_never_writes_over_one_it_reads(words: str, tmp_path: Path) -> None:
    model, link = tmp_path / "model.onnx", tmp_path / "Model.onnx"
    shutil.copy(MODELS / "edges.onnx", model)
    if not link.exists():  # on Windows, names that differ in case are one
        link.symlink_to(model)
    before = model.read_bytes()
    name, *more = words.split()
    message = require_failure(2, name, model, *more, "--output", link)
    assert f"{link}: This is an input, and the output would overwrite it. Specify another file, or add" in message
    assert model.read_bytes() == before
    done = call(name, model, *more, "--output", link, "--force")
    assert done.exit_code == 0, done.output
    assert model.read_bytes() != before or "none" in more


@pytest.mark.parametrize("output", ["seven.png", "./"])
def test_run_does_not_write_over_its_picture(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seven: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(seven, "seven.png")
    message = require_failure(2, "run", MODELS / "invert.onnx", "seven.png", "--output", output)
    assert "This is an input, and the output would overwrite it." in message
    assert Path("seven.png").read_bytes() == seven.read_bytes()


def test_no_command_writes_over_a_setting_of_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seven: Path
) -> None:
    """Not where it finds the name of its output by itself, nor where the line names a folder."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("seven.npz", "folder/two.png"):
        Path(name).write_text("0\n" * 10)
    for words, name, option in (
        (["run", DIGITS, seven, "--labels", "seven.npz", "--output", "./"], "./seven.npz", "--labels"),
    ):
        output = [] if "--output" in words else ["--output", name]
        assert f"{name}: {option} uses this file, and the output" in require_failure(2, *words, *output)
        assert Path(name).read_text() == "0\n" * 10


def test_no_command_writes_over_a_part_of_what_its_line_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights beside a model, files that state something in its folder, and outputs that go beside the output."""
    monkeypatch.chdir(tmp_path)
    picture = (PICTURES / "seven.png").read_bytes()
    for folder in ("models", "both"):
        Path(folder).mkdir()
        proto = onnx.load(DIGITS)
        onnx.save(proto, f"{folder}/m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    Path("models/test_data_set_0").mkdir()
    for name in ("config.json", "labels.txt", "model_type.json", "test_data_set_0/input_0.pb"):
        Path("models", name).write_text("{}")
    Path("models/other.txt").write_text("of nobody")
    shutil.copy(DIGITS, "both/other.onnx")
    Path("new.onnx.data").write_bytes(picture)
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    stated = ["--set", "mean=1"]
    for words, output in (
        (["contract", "models/m.onnx", *stated], "models/m.onnx.data"),
        (["convert", "models/m.onnx"], "models/m.onnx.data"),
        (["tune", "models/m.onnx"], "models/m.onnx.data"),
        (["run", "models/m.onnx", PICTURES / "seven.png"], "models/m.onnx.data"),
        (["contract", "models", *stated], "models/m.onnx"),
        (["contract", "models", *stated], "models/m.onnx.data"),
        (["contract", "models", *stated], "models/config.json"),
        (["contract", "models", *stated], "models/labels.txt"),
        (["run", "models", PICTURES / "seven.png"], "models/model_type.json"),
        (["run", "models", PICTURES / "seven.png"], "models/test_data_set_0/input_0.pb"),
        (["convert", DIGITS, "new.onnx.data"], "new.onnx"),
        (["perf", "both", "--profile"], "both/other.onnx"),
        (["perf", "both", "--profile"], "both/m.onnx.data"),
    ):
        option = "--trace" if words[0] == "perf" else "--output"
        assert "and the output would overwrite it" in require_failure(2, *words, option, output)
        assert {path: path.read_bytes() for path in before} == before
    copy = ["contract", "models/m.onnx", *stated, "--force"]
    assert "The copy uses this file for its weights" in require_failure(4, *copy, "--output", "models/m.onnx.data")
    assert {path: path.read_bytes() for path in before} == before
    assert call("run", "models", PICTURES / "seven.png", "--output", "models/other.txt.npz").exit_code == 0
    assert call("run", "models", PICTURES / "seven.png", "--output", "models/other.txt.npz").exit_code == 0


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_outputs_whose_names_differ_in_case(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seven: Path
) -> None:
    """Where such names are of one file, they are refused."""
    monkeypatch.chdir(tmp_path)
    for name in ("a/seven.png", "b/SEVEN.png"):
        Path(name).parent.mkdir()
        shutil.copy(seven, name)
    if os.name == "posix":
        monkeypatch.setattr(sys, "platform", system)
    words = ["run", MODELS / "edges.onnx", "a/seven.png", "b/SEVEN.png", "--output", "./"]
    if sys.platform == "linux":
        assert call(*words).exit_code == 0
        assert sorted(path.name for path in tmp_path.glob("*.png")) == ["SEVEN.png", "seven.png"]
    else:
        assert "Two inputs are named seven, so their outputs would share a file." in require_failure(2, *words)


WRITING = [
    (command, option)
    for command in main.commands.values()
    for option in options(command)
    if type(option) is OutputOption
]


@pytest.mark.parametrize(("command", "output"), WRITING, ids=lambda it: it.name)
def test_no_output_is_a_file_that_another_parameter_names(
    command: click.Command, output: click.Option, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the parameter is for: it is enough that it takes words, and that a word of it names a file."""
    monkeypatch.chdir(tmp_path)
    file, link = Path("file.py"), Path("link.py")
    file.write_text("def f(picture): ...\n")
    os.link(file, link)
    for other in command.params:
        if isinstance(other, OutputOption) or not isinstance(other.type, (click.Path, type(click.STRING))):
            continue
        for word in ("file.py",) if getattr(other.type, "exists", False) else ("file.py", "NAME=file.py", "file.py:f"):
            words = line_with(command, other, word)
            message = require_failure(2, str(command.name), *words, output.opts[0], link)
            if f"link.py: {other.opts[0]} uses this file, and" not in message and "This is an input" not in message:
                assert message == require_failure(2, str(command.name), *words, output.opts[0], "other")  # a size, say
            assert file.read_text() == "def f(picture): ...\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.py", "link.py"]


def line_with(command: click.Command, parameter: click.Parameter, word: str) -> list[str]:
    """What a command needs, without an output: one word for each argument, and the word for the parameter."""
    words = []
    for one in command.params:
        if isinstance(one, click.Argument):
            words.append(word if one is parameter else "x.npy" if one.nargs < 0 else "model.onnx")
        elif one is parameter or (one.required and not isinstance(one, OutputOption)):
            words += [one.opts[0], *([] if one.is_flag else [word if one is parameter else "y=x"] * one.nargs)]
    return words


def test_pictures_are_checked_with_as_they_are_bound(tmp_path: Path, seven: Path) -> None:
    """The check of a conversion gets the tensor that bind makes of the picture."""
    from winml_py import ImageFeatureValue, LearningModel, LearningModelSession
    from winml_py.cli.files import read_single_evaluation

    session = LearningModelSession(LearningModel.load(DIGITS))
    values = read_single_evaluation(session.model, [str(seven)])
    assert values["image"].shape == (1, 1, 28, 28)
    pairs = values, {"image": ImageFeatureValue.load(seven)}
    first, bound = (session.evaluate_features(each)["probabilities"].to_numpy() for each in pairs)
    assert (first == bound).all()
    done = call("convert", DIGITS, seven, "--output", tmp_path / "half.onnx")
    assert done.exit_code == 0, done.output
    assert "checked on example inputs" not in done.stdout


# A table of every command, made from the program itself

TABLE_PAGE = ROOT / "docs" / "command-line.md"
MORE: dict[str, list[str]] = {
    "compare": ["--engine", "onnxruntime"],
    "contract": ["--from", "clip"],
    "perf": ["-n", "1"],
}
"""What a command needs beside its models, its inputs and its output."""


def probes(command: click.Command) -> dict[int, list[str]]:
    """For each exit code, a call that must end with it, made of what the command declares."""
    name, names = str(command.name), {name for option in options(command) for name in option.opts}
    words, more, given = words_of(command), MORE.get(name, []), ["x.npy"] if name == "run" else []
    output = ["--output", "out.onnx"] if any(o.required and "--output" in o.opts for o in options(command)) else []
    calls = {2: ["--nonsense"]}
    if "MODEL" in words:
        calls[3] = ["missing.onnx", *given, *more, *output]
    if "[INPUT]" in words:
        calls[4] = ["m.onnx", "missing.npy", *more, *output]
        calls[1] = ["fails.onnx", *given, *more, *output]
    if name == "examples":
        calls[5] = ["m.onnx"]  # a file in the place of the folder
    if name == "view":
        calls[4] = ["m.onnx", "missing.npy"]
    if "--output" in names:
        calls[5] = ["m.onnx", *given, *more, "--output", "nowhere/out.onnx"]
    if "--trace" in names:
        calls[5] = ["m.onnx", *more, "--trace", "nowhere/t.json"]
    if "--device" in names:
        calls[6] = ["m.onnx", *given, *more, "--device", "abacus", *output]
    return calls


@pytest.fixture
def probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that works, and one that fails when it is evaluated."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    ends = [tensor(end, ["n", 3, "h", "w"]) for end in "xy"]
    Path("m.onnx").write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    nodes = [helper.make_node("Gather", ["x", "index"], ["y"], axis=3)]
    Path("fails.onnx").write_bytes(data(nodes, ends[:1], ends[1:], {"index": np.array([10**6])}))
    return tmp_path


@pytest.mark.parametrize("command", main.commands.values(), ids=main.commands)
def test_every_command_fails_in_the_same_manner(command: click.Command, probed: Path) -> None:
    for code, words in probes(command).items():
        result = call(command.name, *words, "--json")
        assert result.exit_code == code, (words, result.output)
        facts = json.loads(result.stdout)
        assert (facts["kind"], facts["command"], facts["error"]["exit_code"]) == ("error", command.name, code), words
        message = facts["error"]["message"]
        first = "missing.npy" if code == 4 else "x.npy" if (code, command.name) == (1, "run") else words[0]
        if code in (1, 3, 4):
            assert message.startswith((f"{first}: ", f"{probed / first}: ")), message
        assert sorted(path.name for path in probed.iterdir()) == ["fails.onnx", "m.onnx", "x.npy"]


def table() -> list[str]:
    """A row for each command: its arguments, and what it writes."""
    heads = ["command", "arguments", "writes"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for name, command in sorted(main.commands.items()):
        writes = [option.opts[0] for option in options(command) if isinstance(option, OutputOption)]
        cells = [
            f"`{name}`",
            f"`{words_of(command)}`" if words_of(command) else "",
            ", ".join(f"`{option}`" for option in writes),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def test_the_page_has_the_table() -> None:
    text = TABLE_PAGE.read_text(encoding="utf-8")
    assert "\n".join(table()) in text, "the table of docs/command-line.md is now:\n" + "\n".join(table())

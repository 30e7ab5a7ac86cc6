"""One manner for every command: models and inputs are arguments, a word means the same everywhere."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.cli import call, require_failure
from helpers.models import data, tensor
from helpers.paths import MODELS, ROOT
from winml_py.cli.arguments import OutputOption
from winml_py.cli.main import main
from winml_py.perf.rival import Rival

pytestmark = pytest.mark.one_python

DIGITS = MODELS / "digits.onnx"
ARGUMENTS = {
    "MODEL",
    "[MODEL]",
    "MODEL [INPUT]...",
    "MODEL... [INPUT]...",
    "MODEL INPUT...",
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


@pytest.mark.parametrize("words", ["contract --from clip", "convert --float16", "convert --optimize none"])
def test_a_command_that_writes_a_model_never_writes_over_one_it_reads(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 0.5)  # in float16 the model is no smaller
    model, link = tmp_path / "model.onnx", tmp_path / "link.onnx"
    shutil.copy(MODELS / "edges.onnx", model)
    link.symlink_to(model)
    before = model.read_bytes()
    name, *more = words.split()
    message = require_failure(2, name, model, *more, "--output", link)
    assert f"{link}: This is an input, and the output would overwrite it. Name another, or add --force" in message
    assert model.read_bytes() == before
    done = call(name, model, *more, "--output", link, "--force")
    assert done.exit_code == 0, done.output
    assert model.read_bytes() != before or "none" in more


@pytest.mark.parametrize(
    "arguments",
    [
        ["tune", "model.onnx", "--output", "model.onnx"],
        ["perf", "model.onnx", "--html", "model.onnx"],
        ["perf", "model.onnx", "--trace", "model.onnx"],
        ["run", "model.onnx", "seven.png", "--output", "seven.png"],
        ["run", "invert.onnx", "seven.png", "--output", "./"],
    ],
)
def test_no_command_writes_over_what_it_reads(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seven: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, "model.onnx")
    shutil.copy(MODELS / "invert.onnx", "invert.onnx")
    shutil.copy(seven, "seven.png")
    assert "seven.png" in arguments or arguments[-1] == "model.onnx"
    message = require_failure(2, *arguments)
    assert "This is an input, and the output would overwrite it." in message
    assert Path("model.onnx").read_bytes() == DIGITS.read_bytes()
    assert Path("seven.png").read_bytes() == seven.read_bytes()


def test_no_command_writes_over_a_setting_of_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seven: Path
) -> None:
    """Not where it finds the name of its output by itself, nor where the line names a module or a folder."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("seven.npz", "prep.py", "folder/preprocessor_config.json", "folder/two.png"):
        Path(name).write_text("0\n" * 10)
    for words, name, option in (
        (["run", DIGITS, seven, "--labels", "seven.npz", "--output", "./"], "./seven.npz", "--labels"),
        (["contract", DIGITS, "--learn", "prep:f", "--output", "prep.py"], "prep.py", "--learn"),
        (["contract", DIGITS, "--from", "folder"], "folder/preprocessor_config.json", "--from"),
        (["contract", DIGITS, "--sample", "folder/*.png"], "folder/two.png", "--sample"),
        (["contract", DIGITS, "--sample", "folder"], "folder/two.png", "--sample"),
    ):
        output = [] if "--output" in words else ["--output", name]
        assert f"{name}: {option} names this file, and the output" in require_failure(2, *words, *output)
        assert Path(name).read_text() == "0\n" * 10


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
        for word in ("file.py", "NAME=file.py", "file.py:f", "file:f"):
            words = line_with(command, other, word)
            message = require_failure(2, str(command.name), *words, output.opts[0], link)
            if f"link.py: {other.opts[0]} names this file, and" not in message and "This is an input" not in message:
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
    from winml_py import LearningModel
    from winml_py._inputs.files import given_values
    from winml_py._inputs.model import evaluate_all_outputs
    from winml_py.core.features.pictures import ImageFeatureValue

    model = LearningModel.load(DIGITS)
    values = given_values(model, [str(seven)])
    assert values["image"].shape == (1, 1, 28, 28)
    bound = evaluate_all_outputs(model, {"image": ImageFeatureValue.load(seven)})["probabilities"]
    assert (evaluate_all_outputs(model, values)["probabilities"] == bound).all()
    done = call("convert", DIGITS, seven, "--float16", "--output", tmp_path / "half.onnx")
    assert done.exit_code == 0, done.output
    assert "checked on example inputs" not in done.stdout


def test_several_models_and_a_folder_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("digits", "digits_batch"):
        shutil.copy(MODELS / f"{name}.onnx", folder / f"{name}.onnx")
    result = call("perf", folder, MODELS / "invert.onnx", "-n", "1", "--json")
    assert result.exit_code == 0, result.output
    measured = [Path(case["model"]).name for case in json.loads(result.stdout)["cases"]]
    assert measured == ["digits.onnx", "digits_batch.onnx", "invert.onnx"]


@pytest.mark.parametrize(
    ("option", "is_smaller"), [(["--float16", "--keep-float32", "Conv"], True), (["--optimize", "extended"], False)]
)
def test_a_model_that_is_not_smaller_is_told(option: list[str], is_smaller: bool, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = call("convert", DIGITS, *option, "--output", out)
    assert done.exit_code == 0, done.output
    assert (f"{out}: The model is not smaller: " in done.stderr) is not is_smaller


TINY = ["convert", "--float16", "--keep-io-types"]


def pretend_times(monkeypatch: pytest.MonkeyPatch, before: float, *after: float) -> None:
    """Makes every evaluation take so many seconds, of the model as it was and, in turns, of the one that is written."""
    turns: dict[Rival, Iterator[float]] = {}

    def seconds(self: Rival) -> float:
        return next(turns.setdefault(self, itertools.cycle(after if turns else [before])))

    monkeypatch.setattr(Rival, "seconds", seconds)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A model that gets larger by whatever is done to it."""
    ends = [tensor(end, [2]) for end in "xy"]
    path = tmp_path / "tiny.onnx"
    path.write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    return path


@pytest.mark.parametrize("was_there", [False, True])
def test_a_float16_model_that_is_neither_smaller_nor_faster_is_not_written(
    was_there: bool, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 1.25)
    out = tiny.parent / "out.onnx"
    if was_there:
        out.write_bytes(b"what was there")
    told = " ".join(require_failure(1, *TINY, tiny, "--output", out, *["--force"] * was_there).split())
    assert "The float16 model is neither smaller nor faster (slower): 76 bytes -> 175 (2.30); " in told
    assert "nothing was written. It is 0.80 (0.80 to 0.80) times as fast on the CPU. Keep the float32 model." in told
    assert [path.name for path in tiny.parent.iterdir() if path != out] == ["tiny.onnx"]
    assert out.read_bytes() == b"what was there" if was_there else not out.exists()


def test_a_float16_model_that_is_not_smaller_but_faster_is_written(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_times(monkeypatch, 1.0, 0.5)
    out = tiny.parent / "out.onnx"
    done = call(*TINY, tiny, "--output", out)
    assert (done.exit_code, f"{out}: The model is not smaller: " in done.stderr) == (0, True)
    assert "It is 2.00 (2.00 to 2.00) times as fast on the CPU." in " ".join(done.stderr.split())
    assert onnx.load(out).graph.node


def test_a_speed_that_chance_explains_is_no_gain(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file was 1.58, 1.33 and 0.98 times as fast in turns: the interval holds them all."""
    pretend_times(monkeypatch, 1.0, *(1 / ratio for ratio in (1.58, 1.33, 0.98)))
    told = " ".join(require_failure(1, *TINY, tiny, "--output", tiny.parent / "out.onnx").split())
    assert "not measurably different" in told
    assert "1.33 (0.98 to 1.58) times as fast" in told


# A table of every command, made from the program itself

TABLE_PAGE = ROOT / "docs" / "command-line.md"
MORE: dict[str, list[str]] = {
    "contract": ["--from", "clip"],
    "convert": ["--float16"],
    "map": ["m.csv"],
    "perf": ["-n", "1"],
}
"""What a command needs beside its models, its inputs and its output."""


def probes(command: click.Command) -> dict[int, list[str]]:
    """For each exit code, a call that must end with it, made of what the command declares."""
    name, names = str(command.name), {name for option in options(command) for name in option.opts}
    words, more, given = words_of(command), MORE.get(name, []), ["x.npy"] if name == "run" else []
    written = {"map": "out.parquet"}.get(name, "out.onnx")
    output = ["--output", written] if any(o.required and "--output" in o.opts for o in options(command)) else []
    calls = {2: ["--nonsense"]}
    if "MODEL" in words:
        calls[3] = ["missing.onnx", *given, *more, *output]
    if "[INPUT]" in words:
        calls[4] = ["m.onnx", "missing.npy", *more, *output]
        calls[1] = ["fails.onnx", *given, *more, *output]
    if name == "map":
        calls[4] = ["m.onnx", "missing.csv", *output]
        calls[7] = ["m.onnx", *more, *output, "--on", "ray"]
    if name == "examples":
        calls[5] = ["m.onnx"]  # a file in the place of the folder
    if name == "view":
        calls[4] = ["m.onnx", "missing.npy"]
    if "--output" in names:
        calls[5] = ["m.onnx", *given, *more, "--output", f"nowhere/{written}"]
    if "--html" in names:
        calls[5] = ["m.onnx", *more, "--html", "nowhere/p.html"]
    if "--device" in names:
        calls[6] = ["m.onnx", *given, *more, "--device", "abacus", *output]
    return calls


@pytest.fixture
def probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that works, and one that fails when it is evaluated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    Path("m.csv").write_text("x\n1\n")
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    ends = [tensor(end, ["n", 3, "h", "w"]) for end in "xy"]
    Path("m.onnx").write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    nodes = [helper.make_node("Gather", ["x", "index"], ["y"], axis=3)]
    Path("fails.onnx").write_bytes(data(nodes, ends[:1], ends[1:], {"index": np.array([10**6])}))
    return tmp_path


@pytest.mark.parametrize("command", main.commands.values(), ids=main.commands)
def test_every_command_fails_in_the_same_manner(command: click.Command, probed: Path) -> None:
    missing = "missing.csv" if command.name == "map" else "missing.npy"
    for code, words in probes(command).items():
        result = call(command.name, *words, "--json")
        assert result.exit_code == code, (words, result.output)
        facts = json.loads(result.stdout)
        assert (facts["kind"], facts["command"], facts["error"]["exit_code"]) == ("error", command.name, code), words
        message = facts["error"]["message"]
        first = missing if code == 4 else "x.npy" if (code, command.name) == (1, "run") else words[0]
        if code in (1, 3, 4):
            assert message.startswith((f"{first}: ", f"{probed / first}: ")), message
        assert sorted(path.name for path in probed.iterdir()) == ["fails.onnx", "m.csv", "m.onnx", "x.npy"]


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

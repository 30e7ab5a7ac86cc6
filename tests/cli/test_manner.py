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
from winml_py.perf.contender import Contender
from winml_py.perf.turns import OtherPrograms

pytestmark = pytest.mark.one_python

DIGITS = MODELS / "digits.onnx"
ARGUMENTS = {
    "MODEL",
    "[MODEL]",
    "MODEL [INPUT]...",
    "[MODEL] [INPUT]...",
    "MODEL... [INPUT]...",
    "MODEL INPUT...",
    "A B [INPUT]...",
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
            # "repeat" and the number of evaluations are all that may differ, and what the output is
            words = "" if "--output" in option.opts else str(option.help).split("; ")[0].split("  [")[0].rstrip(".")
            meaning = (type(option.type).__name__, option.metavar, option.is_flag, words)
            for name in option.opts:
                assert seen.setdefault(name, meaning) == meaning, f"{command.name} {name}"


@pytest.mark.parametrize("name", ["contract", "convert", "edit", "join", "optimize"])
def test_a_command_that_writes_a_model_never_writes_over_one_it_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 0.5)  # in float16 the model is no smaller
    model, link = tmp_path / "model.onnx", tmp_path / "link.onnx"
    shutil.copy(MODELS / "edges.onnx", model)
    link.symlink_to(model)
    before = model.read_bytes()
    more = {
        "contract": ["--preset", "clip"],
        "convert": ["--float16"],
        "edit": ["--name", "other"],
        "join": [model, "--link", "result=image"],
        "optimize": ["--level", "none"],
    }[name]
    message = require_failure(2, name, model, *more, "--output", link)
    assert f"{link}: This is an input, and the output would replace it. Name another, or add --force" in message
    assert model.read_bytes() == before
    done = call(name, model, *more, "--output", link, "--force")
    assert done.exit_code == 0, done.output
    assert model.read_bytes() != before or name in ("optimize", "join")


@pytest.mark.parametrize(
    "arguments",
    [
        ["tune", "model.onnx", "--output", "model.onnx"],
        ["profile", "model.onnx", "--html", "model.onnx"],
        ["profile", "model.onnx", "--trace", "model.onnx"],
        ["perf", "model.onnx", "--csv", "model.onnx"],
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
    assert "This is an input, and the output would replace it." in message
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["convert", "m.onnx", "out.onnx", "--float16"],
            "Say where to write: winml-py convert m.onnx --output out.onnx",
        ),
        (["optimize", "m.onnx", "out.onnx"], "Say where to write: winml-py optimize m.onnx --output out.onnx"),
        (["join", "a.onnx", "b.onnx", "--link", "y=x"], "winml-py join a.onnx b.onnx --output OUT.onnx"),
    ],
)
def test_a_missing_output_is_shown_where_it_belongs(arguments: list[str], words: str) -> None:
    assert words in require_failure(2, *arguments)


def test_pictures_are_checked_with_as_they_are_bound(tmp_path: Path, seven: Path) -> None:
    """The check of a conversion gets the tensor that bind makes of the picture."""
    from winml_py import LearningModel
    from winml_py.core.features.pictures import ImageFeatureValue
    from winml_py.inputs.files import given_values
    from winml_py.inputs.model import evaluate_all_outputs

    model = LearningModel.load(DIGITS)
    values = given_values(model, [str(seven)])
    assert values["image"].shape == (1, 1, 28, 28)
    bound = evaluate_all_outputs(model, {"image": ImageFeatureValue.load(seven)})["probabilities"]
    assert (evaluate_all_outputs(model, values)["probabilities"] == bound).all()
    done = call("convert", DIGITS, seven, "--float16", "--output", tmp_path / "half.onnx")
    assert done.exit_code == 0, done.output
    assert "checked on example inputs" not in done.stdout


def test_several_models_and_a_folder_of_them(tmp_path: Path, seven: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("digits", "digits_batch"):
        shutil.copy(MODELS / f"{name}.onnx", folder / f"{name}.onnx")
    (folder / "broken.onnx").write_bytes(b"no model")
    result = call("run", folder, MODELS / "invert.onnx", seven, "--output", f"{tmp_path}/out/", "--json")
    assert result.exit_code == 3
    results = json.loads(result.stdout)["results"]
    assert [Path(one["model"]).name for one in results] == [
        "broken.onnx",
        "digits.onnx",
        "digits_batch.onnx",
        "invert.onnx",
    ]
    assert ["error" in one for one in results] == [True, False, False, False]
    assert results[0]["error"]["exit_code"] == 3
    written = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").glob("*/*"))
    assert written == ["digits/seven.npz", "digits_batch/seven.npz", "invert/seven.png"]
    assert "--output takes a folder" in require_failure(2, "run", folder, seven, "--output", tmp_path / "x.npz")


TINY = ["convert", "--float16", "--keep-io-types"]
CONVERT = ["convert", DIGITS, "--float16", "--keep-float32", "Conv"]
REWRITES = pytest.mark.parametrize("command", [CONVERT, ["optimize", DIGITS]], ids=["convert", "optimize"])
NO_GAIN = pytest.mark.parametrize(("seconds", "verdict"), [(2.0, "slower"), (1.01, "same")], ids=["slower", "same"])


def pretend_times(
    monkeypatch: pytest.MonkeyPatch, before: float, *after: float, held: float = 0.0, cores: float = 0.0
) -> None:
    """Makes every evaluation take so many seconds, of the model as it was and, in turns, of the one that is written."""
    turns: dict[Contender, Iterator[float]] = {}

    def seconds(self: Contender) -> float:
        return next(turns.setdefault(self, itertools.cycle(after if turns else [before])))

    def lap(self: OtherPrograms) -> float:
        self.cores.append(cores)
        return held

    monkeypatch.setattr(Contender, "seconds", seconds)
    monkeypatch.setattr(OtherPrograms, "lap", lap)


def require_speed(told: str, after: float, verdict: str) -> None:
    """The JSON of a command says what became of a model that took one second."""
    facts = json.loads(told)["speed"]
    assert (facts["verdict"], facts["before_ms"], facts["after_ms"]) == (verdict, 1e3, after * 1e3)
    assert facts["ratio"] == pytest.approx(1 / after)
    assert facts["ratio_range"] == pytest.approx([1 / after] * 2)


def write_tiny(path: Path) -> Path:
    """Writes a model that gets larger by whatever is done to it."""
    ends = [tensor(end, [2]) for end in "xy"]
    path.write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    return path


@REWRITES
def test_of_a_model_that_is_faster_no_warning_is_told(
    command: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 0.5)
    done = call(*command, "--output", tmp_path / "out.onnx", "--json")
    require_speed(done.stdout, 0.5, "faster")
    assert "It is not faster" not in " ".join(done.stderr.split())


@NO_GAIN
@REWRITES
def test_a_model_that_is_not_faster_is_told(
    command: list[object], seconds: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, seconds)
    done = call(*command, "--output", tmp_path / "out.onnx", "--json")
    require_speed(done.stdout, seconds, verdict)
    ratio = f"{1 / seconds:.2f}"
    told = f"{tmp_path / 'out.onnx'}: It is not faster on the CPU: {ratio} ({ratio} to {ratio}) times as fast; "
    assert told in " ".join(done.stderr.split())


@NO_GAIN
def test_half_precision_that_is_not_faster_is_to_be_tried_on_a_gpu(
    seconds: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, seconds)
    done = call(*CONVERT, "--output", tmp_path / "out.onnx", "--json")
    assert f"winml-py perf {tmp_path / 'out.onnx'} --device gpu" in done.stderr


def test_of_a_model_that_is_smaller_no_size_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_times(monkeypatch, 1.0, 1.01)
    assert "It is not smaller" not in call(*CONVERT, "--output", tmp_path / "out.onnx", "--json").stderr


def test_a_large_model_that_is_not_smaller_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By 355 bytes."""
    pretend_times(monkeypatch, 1.0, 1.01)
    assert "It is not smaller" in call("optimize", DIGITS, "--output", tmp_path / "out.onnx", "--json").stderr


def test_a_tiny_model_that_is_not_smaller_is_told(tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    assert f"{out}: It is not smaller: " in call("optimize", write_tiny(tmp_path / "tiny.onnx"), "--output", out).stderr


@pytest.mark.parametrize("was_there", [False, True])
def test_a_float16_model_that_is_neither_smaller_nor_faster_is_not_written(
    was_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 1.25)
    out = tmp_path / "out.onnx"
    if was_there:
        out.write_bytes(b"what was there")
    told = require_failure(1, *TINY, write_tiny(tmp_path / "tiny.onnx"), "--output", out, *["--force"] * was_there)
    assert "neither smaller nor faster on the CPU: 0.80 (0.80 to 0.80) times as fast; slower" in " ".join(told.split())
    assert [path.name for path in tmp_path.iterdir() if path != out] == ["tiny.onnx"]
    assert out.read_bytes() == b"what was there" if was_there else not out.exists()


def test_a_float16_model_that_is_not_smaller_but_faster_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 0.5)
    out = tmp_path / "out.onnx"
    done = call(*TINY, write_tiny(tmp_path / "tiny.onnx"), "--output", out)
    assert (done.exit_code, f"{out}: It is not smaller: " in done.stderr) == (0, True)
    assert onnx.load(out).graph.node


@pytest.mark.parametrize("command", [["convert", "--float16"], ["optimize"]], ids=lambda it: it[0])
def test_the_speed_on_the_callers_inputs_is_told(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_times(monkeypatch, 1.0, 0.5)
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    model = write_tiny(tmp_path / "tiny.onnx")
    done = call(*command, model, tmp_path / "x.npy", "--output", tmp_path / "out.onnx")
    assert done.exit_code == 0, done.output
    assert "speed on the CPU: 1,000.000 ms became 500.000 ms, 2.00 (2.00 to 2.00) times as fast" in done.stdout


def test_a_speed_that_chance_explains_is_no_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file was 1.58, 1.33 and 0.98 times as fast in turns: the interval holds them all."""
    pretend_times(monkeypatch, 1.0, *(1 / ratio for ratio in (1.58, 1.33, 0.98)))
    done = call(*CONVERT, "--output", tmp_path / "out.onnx")
    assert "1.33 (0.98 to 1.58) times as fast; equal, as far as can be told" in " ".join(done.stdout.split())
    assert "It is not faster on the CPU" in done.stderr


def test_the_load_of_other_programs_counts_against_a_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_times(monkeypatch, 1.0, 0.5, held=0.6, cores=1.2)
    told = " ".join(call(*CONVERT, "--output", tmp_path / "out.onnx").stdout.split())
    assert "2.00 (0.80 to 2.00) times as fast; other programs may be why" in told
    assert "Other programs used 1.2 cores meanwhile." in told


def test_a_model_that_was_replaced_has_no_times(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    shutil.copy(DIGITS, model)
    done = call("optimize", model, "--output", model, "--force", "--json")
    assert json.loads(done.stdout)["speed"] is None


# A table of every command, made from the program itself

TABLE_PAGE = ROOT / "docs" / "command-line.md"
OUTPUT = ["--output", "nowhere/out.onnx"]
MORE: dict[str, list[str]] = {
    "contract": ["--preset", "clip"],
    "convert": ["--float16"],
    "edit": ["--rename", "x=z"],
    "join": ["m.onnx", "--link", "y=x"],
    "map": ["m.csv"],
    "perf": ["-n", "1"],
    "profile": ["-n", "1"],
}
"""What a command needs beside its models, its inputs and its output."""


def probes(command: click.Command) -> dict[int, list[str]]:
    """For each exit code, a call that must end with it, made of what the command declares."""
    name, names = str(command.name), {name for option in options(command) for name in option.opts}
    words, more = words_of(command), MORE.get(name, [])
    written = {"map": "out.parquet"}.get(name, "out.onnx")
    output = ["--output", written] if any(o.required and "--output" in o.opts for o in options(command)) else []
    calls = {2: ["--nonsense"]}
    if "MODEL" in words or name == "join":
        calls[3] = ["missing.onnx", *more, *output, *(["--example"] if name == "run" else [])]
    if "[INPUT]" in words:
        calls[4] = ["m.onnx", *more[:1], "x=missing.npy", *more[1:], *output]
        if name != "join":
            calls[4] = ["m.onnx", "missing.npy", *more, *output]
        calls[1] = ["fails.onnx", *(["fails.onnx", *more[1:]] if name == "join" else more), *output]
        calls[1] += ["--example"] if name == "run" else []
    if name == "map":
        calls[4] = ["m.onnx", "missing.csv", *output]
        calls[7] = ["m.onnx", *more, *output, "--on", "ray"]
    if name == "examples":
        calls[5] = ["m.onnx"]  # a file in the place of the folder
    if name == "view":
        calls[4] = ["m.onnx", "missing.npy"]
    if "--output" in names and name != "run":
        calls[5] = ["m.onnx", *more, "--output", f"nowhere/{written}"]
    elif "--output" in names:
        calls[5] = ["m.onnx", "--example", *OUTPUT]
    for option, path in (("--html", "nowhere/p.html"), ("--csv", "nowhere/p.csv")):
        if option in names:
            calls[5] = ["m.onnx", *more, option, path]
    if "--device" in names:
        calls[6] = ["m.onnx", *more, "--device", "abacus", *output, *(["--example"] if name == "run" else [])]
    return calls


@pytest.fixture
def probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that works, and one that fails when it is evaluated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    Path("m.csv").write_text("x\n1\n")
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
        if "results" in facts:
            facts |= {"kind": "error", "command": "run", "error": facts["results"][0]["error"]}
        assert (facts["kind"], facts["command"], facts["error"]["exit_code"]) == ("error", command.name, code), words
        message, first = facts["error"]["message"], words[0] if code in (1, 3) else missing
        if code in (1, 3, 4):
            assert message.startswith((f"{first}: ", f"{probed / first}: ")), message
        assert sorted(path.name for path in probed.iterdir()) == ["fails.onnx", "m.csv", "m.onnx"]


def table() -> list[str]:
    """A row for each command: its arguments, what it writes, the keys of its JSON, its exit codes."""
    kinds = json.loads((TABLE_PAGE.parent / "_static" / "winml-py.schema.json").read_text())["$defs"]
    heads = ["command", "arguments", "writes", "JSON, beside `schema` and `kind`", "exit codes"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for name, command in sorted(main.commands.items()):
        writes = [option.opts[0] for option in options(command) if isinstance(option, OutputOption)]
        kind = kinds[f"kind_{name}"]
        keys = dict.fromkeys(key for one in kind.get("oneOf", [kind]) for key in one["properties"])
        # With 1, these have a report and no error: of problems, of rows that all failed, of what differs.
        codes = {0, *probes(command), *({1} if name in ("contract", "doctor", "map") else ())}
        cells = [
            f"`{name}`",
            f"`{words_of(command)}`" if words_of(command) else "",
            ", ".join(f"`{option}`" for option in writes),
            ", ".join(f"`{key}`" for key in keys if key not in ("schema", "kind")),
            ", ".join(map(str, sorted(codes))),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def test_the_page_has_the_table() -> None:
    text = TABLE_PAGE.read_text(encoding="utf-8")
    assert "\n".join(table()) in text, "the table of docs/command-line.md is now:\n" + "\n".join(table())

"""Many answers: one JSON object per line, and a file that a later run goes on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.cli import call, require_exit, require_failure
from helpers.paths import MODELS, ROOT
from helpers.pictures import write_video
from winml_py import LearningModel, LearningModelSession

pytestmark = pytest.mark.one_python

COUNT = 12
BROKEN = 5
NAMES = [str(Path("pictures", f"{index}.png")) for index in range(COUNT)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, and pictures, one of them broken."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "digits.onnx", "digits.onnx")
    Path("pictures").mkdir()
    random = np.random.default_rng(0)
    for name in NAMES:
        Image.fromarray(random.integers(0, 256, (30, 40, 3), np.uint8)).save(name)
    Path(NAMES[BROKEN]).write_text("no picture")
    return tmp_path


def parse(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def write_answers(path: str = "answers.jsonl") -> bytes:
    require_exit("run", "digits.onnx", "pictures", "--resume", path, code=4)
    return Path(path).read_bytes()


def test_lines_are_the_results_of_the_document_with_the_numbers_of_evaluate_many(folder: Path) -> None:
    done = require_exit("run", "digits.onnx", "pictures", "--json-lines", code=4)
    lines = parse(done.stdout)
    document = json.loads(require_exit("run", "digits.onnx", "pictures", "--json", code=4).stdout)
    assert lines == document["results"]
    assert [line["input"] for line in lines] == NAMES
    assert done.stderr.count("\n") == 1  # of the broken one
    assert f"{NAMES[BROKEN]} is not a picture" in done.stderr
    session = LearningModelSession(LearningModel.load("digits.onnx"))
    for line, result in zip(lines, session.evaluate_many("pictures"), strict=True):
        assert ("error" in line) == (not result.succeeded) == (line["input"] == NAMES[BROKEN])
        if result.succeeded:
            (scores,) = (value.to_numpy().reshape(-1) for value in result.outputs.values())
            (output,) = line["outputs"].values()
            best = np.argsort(-scores, kind="stable")[:5]
            assert [one["index"] for one in output["top"]] == best.tolist()
            np.testing.assert_allclose([one["value"] for one in output["top"]], scores[best], rtol=1e-6)


def test_each_line_is_of_the_schema(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "_static" / "winml-py.schema.json").read_text())
    write_video(Path("in.avi"), [0, 90])
    require_exit("run", "digits.onnx", "in.avi", "pictures", "--resume", "all.jsonl", code=4)
    lines = parse(Path("all.jsonl").read_text())
    assert len(lines) == 2 + COUNT
    for line in lines:
        jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": "#/$defs/result"}]}).validate(line)


@pytest.mark.parametrize("cut", ["at once", "after a line", "in a line", "before the end of a line", "after the error"])
def test_a_run_goes_on_where_another_was_killed(cut: str, folder: Path) -> None:
    whole = write_answers("whole.jsonl")
    lines = whole.splitlines(keepends=True)
    kept = {
        "at once": lines[0][:1],
        "after a line": b"".join(lines[:4]),
        "in a line": b"".join(lines[:4]) + lines[4][: len(lines[4]) // 2],
        "before the end of a line": b"".join(lines[:4]) + lines[4][:-1],
        "after the error": b"".join(lines[: BROKEN + 1]),
    }[cut]
    # What is already there stays as it is: here, numbers that no run would write.
    kept = kept.replace(b'"value": 0.', b'"value": 7.', 1) if b"\n" in kept else kept
    Path("answers.jsonl").write_bytes(kept)
    after = write_answers().splitlines(keepends=True)
    done = kept.count(b"\n")
    assert after[:done] == kept.splitlines(keepends=True)[:done]
    assert after[done:] == lines[done:]
    assert write_answers().splitlines(keepends=True) == after  # nothing was left to do


@pytest.mark.parametrize(
    "change",
    ["model", "picture before", "fewer pictures", "option", "labels", "other folder", "no answers", "one word"],
)
def test_a_file_of_another_run_is_refused_and_stays(change: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_answers()
    answers, more = folder / "answers.jsonl", ["--top-k", "2"] if change == "option" else []
    if change == "model":
        shutil.copy(MODELS / "digits_batch.onnx", "digits.onnx")
    elif change == "picture before":
        shutil.copy(NAMES[1], "pictures/0a.png")
    elif change == "fewer pictures":
        Path(NAMES[-1]).unlink()
    elif change == "labels":
        Path("labels.txt").write_text("\n".join("abcdefghij"))
        more = ["--labels", "labels.txt"]
    elif change == "other folder":
        shutil.copytree("pictures", "elsewhere/pictures")
        shutil.copy("digits.onnx", "elsewhere")
        monkeypatch.chdir("elsewhere")
    elif change in ("no answers", "one word"):
        answers.write_text("a diary\nof mine\n" if change == "no answers" else "diary")
    before = answers.read_bytes()
    message = require_failure(5, "run", "digits.onnx", "pictures", "--resume", answers, *more)
    number = {"picture before": 2, "fewer pictures": COUNT}.get(change, 1)
    assert f"answers.jsonl, line {number}: Expected " in message
    assert "Repeat its command, or specify a new file." in message
    assert answers.read_bytes() == before


def test_pictures_may_be_added_at_the_end(folder: Path) -> None:
    before = write_answers()
    shutil.copy(NAMES[0], "pictures/99.png")
    after = write_answers()
    assert after.startswith(before)
    assert [line["input"] for line in parse(after.decode())] == [*NAMES, str(Path("pictures", "99.png"))]


def test_a_video_has_an_answer_for_each_frame(folder: Path) -> None:
    levels = [0, 60, 120, 180, 240]
    write_video(Path("in.avi"), levels)
    words = ["run", "digits.onnx", NAMES[0], "in.avi", NAMES[1]]
    require_exit(*words, "--resume", "whole.jsonl")
    whole = Path("whole.jsonl").read_bytes().splitlines(keepends=True)
    lines = parse(b"".join(whole).decode())
    assert [(line["input"], line.get("frame")) for line in lines] == [
        (NAMES[0], None),
        *(("in.avi", number) for number in range(len(levels))),
        (NAMES[1], None),
    ]
    session = LearningModelSession(LearningModel.load("digits.onnx"))
    for line, result in zip(lines[1:-1], session.evaluate_many("in.avi"), strict=True):
        (scores,) = (value.to_numpy().reshape(-1) for value in result.outputs.values())
        (output,) = line["outputs"].values()
        np.testing.assert_allclose(output["top"][0]["value"], scores.max(), rtol=1e-6)
    Path("answers.jsonl").write_bytes(b"".join(whole[:3]) + whole[3][:40])
    require_exit(*words, "--resume", "answers.jsonl")
    assert Path("answers.jsonl").read_bytes().splitlines(keepends=True) == whole
    assert "in.avi, frame 4" in call(*words).stdout


def test_a_video_that_cannot_be_read_fails_alone(folder: Path) -> None:
    Path("in.mp4").write_bytes(b"no video")
    lines = parse(require_exit("run", "digits.onnx", "in.mp4", NAMES[0], "--json-lines", code=4).stdout)
    assert [("error" in line, line["input"]) for line in lines] == [(True, "in.mp4"), (False, NAMES[0])]


def test_lines_and_a_document_exclude_each_other(folder: Path) -> None:
    for option in (["--json-lines"], ["--resume", "answers.jsonl"]):
        assert "--json prints one document. Omit it" in require_failure(2, "run", "digits.onnx", "x", "--json", *option)
    assert "--check evaluates the samples" in require_failure(2, "run", "digits.onnx", "--check", "--json-lines")
    assert not Path("answers.jsonl").exists()
    (line,) = require_exit("run", "nope.onnx", "pictures", "--json-lines", code=3).stdout.splitlines()
    assert json.loads(line)["kind"] == "error"

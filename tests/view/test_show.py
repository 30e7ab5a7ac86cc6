"""`winml_py.view.show` in a notebook, and `winml-py view` from its first line to its end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from helpers.cli import require_failure
from helpers.pages import Page
from helpers.paths import MODELS, PICTURES
from helpers.processes import IS_WINDOWS, has_ended, interrupt, set_temporary_folder, start_program
from helpers.waiting import wait_until
from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, view
from winml_py.errors import InvalidArgumentError, MissingPackageError, PictureNotFoundError


def state_of(address: str) -> Any:
    with urllib.request.urlopen(f"{address}api/state", timeout=20) as answer:
        return json.load(answer)


def evaluate(address: str, state: Any) -> Any:
    asked = {"model": state["model"]["id"], "inputs": {"image": {"picture": state["picture"]["id"]}}}
    request = urllib.request.Request(f"{address}api/evaluate", json.dumps(asked).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class TestInANotebook:
    @pytest.mark.parametrize("kind", ["path", "bytes", "Pillow", "value"])
    def test_a_session_and_a_picture(self, kind: str, seven: Path) -> None:
        """The program's own session answers, and stays open."""
        pictures = {
            "path": seven,
            "bytes": seven.read_bytes(),
            "Pillow": ImageFeatureValue.load(seven).to_pil(),
            "value": ImageFeatureValue.load(seven),
        }
        with LearningModelSession(LearningModel.load(MODELS / "digits.onnx")) as session:
            page = view.show(session, pictures[kind])
            state = state_of(page.address)
            assert state["model"]["is_isolated"] is False
            best = evaluate(page.address, state)["answer"]["outputs"]["probabilities"]["top"][0]
            page.close()
            page.close()
            expected = session.evaluate_features({"image": seven}).top_k(1)[0]
            assert (best["index"], best["value"]) == (expected.index, pytest.approx(expected.score))
        with pytest.raises(OSError, match="refused"):
            state_of(page.address)

    def test_a_model_from_bytes(self, seven: Path) -> None:
        page = view.show(LearningModel.load((MODELS / "digits.onnx").read_bytes()), seven)
        state = state_of(page.address)
        assert state["model"]["name"] == "digits"
        asked = {"model": state["model"]["id"], "contract": {}, "inputs": ["image"]}
        assert "has no file" in Page(None, page.address).post("api/save", asked, 422)["error"]  # type: ignore[arg-type]
        assert evaluate(page.address, state)["answer"]["outputs"]["probabilities"]["top"][0]["index"] == 7
        page.close()

    def test_the_frame(self) -> None:
        page = view.show(LearningModel.load(MODELS / "digits.onnx"))
        found: list[dict[str, str | None]] = []

        class Reader(HTMLParser):
            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                found.append({"tag": tag, **dict(attrs)})

        Reader().feed(page._repr_html_())
        (frame,) = found
        assert (frame["tag"], frame["src"]) == ("iframe", page.address)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", page.address)
        assert page.address in repr(page)
        page.close()

    def test_what_cannot_be_shown(self) -> None:
        with pytest.raises(InvalidArgumentError, match="Expected a LearningModelSession, got str"):
            view.show("model.onnx")  # type: ignore[arg-type]
        model = LearningModel.load(MODELS / "digits.onnx")
        with pytest.raises(PictureNotFoundError):
            view.show(model, "nope.png")
        with pytest.raises(InvalidArgumentError, match="Expected a picture, got int"):
            view.show(model, 5)
        with pytest.raises(InvalidArgumentError, match="Expected a picture, got ndarray"):
            view.show(model, np.zeros((4, 4, 3), np.uint8))

    @pytest.mark.parametrize("package", ["starlette", "uvicorn"])
    def test_without_the_extra(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(sys.modules):
            if name.startswith(("winml_py.view.", "winml_py._http", f"{package}.")) or name == package:
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
        for name in ("server", "workbench", "app", "guard"):  # as if they had not been imported
            monkeypatch.delattr(view, name, raising=False)
        with pytest.raises(MissingPackageError, match=rf"need {package}.*pip install 'winml-py\[view\]'"):
            view.show(LearningModel.load(MODELS / "digits.onnx"))
        assert "winml-py[view]" in require_failure(7, "view", MODELS / "digits.onnx")


@pytest.mark.once
class TestTheCommand:
    def start(self, *words: object, temporary: Path | None = None) -> psutil.Popen:
        code = "from winml_py.cli.main import main; main()"
        command = [sys.executable, "-c", code, "view", *map(str, words), "--no-browser"]
        env = None if temporary is None else set_temporary_folder(temporary)
        return start_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    def first_line(self, process: psutil.Popen) -> str:
        return str(process.stdout.readline().strip())

    @pytest.mark.parametrize("name", ["SIGINT"] if IS_WINDOWS else ["SIGINT", "SIGTERM", "SIGHUP"])
    def test_it_ends_with_its_terminal_and_leaves_nothing(self, name: str, seven: Path, tmp_path: Path) -> None:
        process = self.start(MODELS / "digits.onnx", seven, temporary=tmp_path)
        address = self.first_line(process)
        state = state_of(address)
        dropped = Page(None, address)  # type: ignore[arg-type]
        dropped.post("api/pictures?name=a.png", seven.read_bytes())
        (folder,) = tmp_path.glob("winml-py-view-*")
        assert len(list(folder.iterdir())) == 1
        assert evaluate(address, state)["answer"]["outputs"]["probabilities"]["top"][0]["index"] == 7
        family = process.children(recursive=True)
        assert family
        interrupt(process, name)
        out, errors = process.communicate(timeout=20)
        assert (out, process.returncode) == ("", 0), errors
        assert "Traceback" not in errors
        wait_until(lambda: all(map(has_ended, family)))
        assert list(tmp_path.iterdir()) == []

    def test_json(self, seven: Path) -> None:
        process = self.start(MODELS / "digits.onnx", seven, "--json")
        lines: list[str] = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        facts = json.loads("".join(lines))
        assert state_of(facts["address"])["picture"]["name"] == "seven.png"
        interrupt(process)
        process.communicate(timeout=20)

    def test_without_a_model_the_page_has_none(self) -> None:
        process = self.start()
        assert "model" not in state_of(self.first_line(process))
        interrupt(process)
        process.communicate(timeout=20)

    def test_a_port_that_is_taken(self) -> None:
        first = self.start()
        port = re.search(r":(\d+)/", self.first_line(first))
        assert port
        second = self.start("--port", port[1])
        _, errors = second.communicate(timeout=20)
        assert second.returncode == 4
        assert f"The port {port[1]} is not available" in errors
        interrupt(first)
        first.communicate(timeout=20)


def test_a_model_and_a_picture_that_are_not_there() -> None:
    assert "missing.onnx: " in require_failure(3, "view", "missing.onnx")
    assert "missing.png: " in require_failure(4, "view", MODELS / "digits.onnx", "missing.png")
    assert "abacus" in require_failure(6, "view", MODELS / "digits.onnx", PICTURES / "seven.png", "--device", "abacus")


def test_a_model_with_functions_of_the_program() -> None:
    """They are in this process, and so is its engine."""
    from onnx import helper

    from helpers.models import data, tensor
    from winml_py import CustomOperator

    def twice(x: np.ndarray) -> np.ndarray:
        return x * 2

    ends = [tensor(end, [3]) for end in "xy"]
    node = helper.make_node("Twice", ["x"], ["y"], domain="test")
    model = data([node], ends[:1], ends[1:], domains={"test": 1})
    operator = CustomOperator(twice, "Twice", "test", outputs=[(np.float32, 1)])
    page = view.show(LearningModel.load(model, operators=[operator]))
    state = state_of(page.address)
    assert state["model"]["is_isolated"] is False
    facts = Page(None, page.address).post(  # type: ignore[arg-type]
        "api/evaluate", {"model": state["model"]["id"], "inputs": {"x": {"text": "1 2 3"}}}
    )
    assert facts["answer"]["outputs"]["y"]["values"] == [2, 4, 6]
    page.close()

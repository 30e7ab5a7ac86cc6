"""The page of `winml-py view` among requests, models, pictures and tabs that mean no good, or too much."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.models import data, tensor, unary
from helpers.pages import Page, serve_page
from helpers.paths import MODELS, PICTURES
from helpers.waiting import wait_until
from view.test_workbench import evaluated, opened, picture_of, processes, slow
from winml_py.errors import NotBoundError
from winml_py.view import open_model
from winml_py.view.server import PageServer
from winml_py.view.workbench import MAX_MODELS, Workbench


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with serve_page() as made:
        yield made


class TestRequests:
    @pytest.mark.parametrize(
        "inputs", [5, "image", [1], {"image": 5}, {"image": None}, {"image": "picture"}, {"image": ["picture"]}]
    )
    def test_inputs_of_another_form(self, page: Page, inputs: Any) -> None:
        asked = {"model": opened(page, MODELS / "digits.onnx"), "inputs": inputs}
        assert page.post("api/evaluate", asked, 422)["error"] == "Expected inputs to be an object of objects."

    @pytest.mark.parametrize("inputs", [5, None, "image", {"a": 1}])
    def test_inputs_to_save_of_another_form(self, page: Page, inputs: Any) -> None:
        asked = {"model": opened(page, MODELS / "digits.onnx"), "contract": {}, "inputs": inputs}
        assert "a list of names" in page.post("api/save", asked, 422)["error"]

    @pytest.mark.parametrize("address", ["api/evaluate", "api/pictures?name=x.png", "api/save"])
    def test_one_that_is_broken_off(self, page: Page, address: str, caplog: pytest.LogCaptureFixture) -> None:
        """Nothing is written to the terminal, and nothing stays."""
        before = set(os.listdir(page.bench.folder))
        host, port = page.host.split(":")
        said = logging.getLogger("uvicorn.error")  # its records go to no other logger
        said.addHandler(caplog.handler)
        with socket.create_connection((host, int(port)), 20) as sock:
            head = f"POST /{page.token}/{address} HTTP/1.1\r\nHost: {page.host}\r\nContent-Length: 5000\r\n\r\n{{"
            sock.sendall(head.encode())
            time.sleep(0.2)
            sock.close()
            page.get("api/state")
            wait_until(lambda: set(os.listdir(page.bench.folder)) == before)
        said.removeHandler(caplog.handler)
        assert caplog.records == []

    def test_a_port_is_free_for_the_next(self) -> None:
        with serve_page() as first:
            first.get("api/state")
            port = int(first.host.rpartition(":")[2])
        again = PageServer(Workbench(), port)
        assert again.port == port
        again.close()


class TestValues:
    @pytest.mark.parametrize("element", [16, 14, 17])
    def test_types_that_nothing_is_made_up_for(self, page: Page, element: int) -> None:
        answer = page.post("api/evaluate", {"model": opened(page, unary("Identity", [4], element))}, 422)
        assert "No example values can be generated" in answer["error"]

    @pytest.mark.parametrize("name", ["y", "probabilities"])
    def test_an_output_without_numbers(self, page: Page, name: str) -> None:
        node = helper.make_node("Expand", ["x", "shape"], [name])
        model = data([node], [tensor("x", [1])], [tensor(name, [1, 0])], {"shape": np.array([1, 0])})
        output = page.post("api/evaluate", {"model": opened(page, model)})["answer"]["outputs"][name]
        assert (output["shape"], output["values"]) == ([1, 0], [])


class TestPictures:
    def test_a_hundred_megapixels(self, page: Page) -> None:
        """A small file; the message says its own name, and not where it was kept."""
        file = io.BytesIO()
        Image.new("1", (10_000, 10_000)).save(file, "PNG")
        answer = page.post("api/pictures?name=large.file", file.getvalue(), 422)
        assert answer["error"] == "large.file has no pixels, or more than the limit of 50,000,000."
        assert answer["hint"] == "Choose a picture of at most 50 megapixels."

    def test_a_tensor_that_is_too_large(self, page: Page, cat: Path) -> None:
        model, picture = opened(page, MODELS / "edges.onnx"), picture_of(page, cat)
        words = {"Image.Size": "20000,20000"}
        asked = {"model": model, "inputs": {"image": {"picture": picture, "contract": words}}}
        assert "1,200,000,000 values" in page.post("api/evaluate", asked, 422)["error"]
        model = opened(page, unary("Identity", [1, 3, 30_000, 30_000]))
        asked = {"model": model, "inputs": {"x": {"picture": picture}}}
        assert "2,700,000,000 values" in page.post("api/evaluate", asked, 422)["error"]

    def test_what_is_shown_has_no_alpha_channel(self, page: Page, tmp_path: Path) -> None:
        """The model sees the colours under it, too."""
        Image.new("RGBA", (4, 4), (200, 10, 20, 0)).save(tmp_path / "clear.png")
        shown = Image.open(io.BytesIO(page.get(f"api/pictures/{picture_of(page, tmp_path / 'clear.png')}")))
        assert (shown.mode, shown.getpixel((0, 0))) == ("RGB", (200, 10, 20))


class TestTabs:
    def ask(self, page: Page, model: str) -> socket.socket:
        """A tab that evaluates a model; when it is closed, nobody waits for the answer."""
        host, port = page.host.split(":")
        sock, body = socket.create_connection((host, int(port)), 20), json.dumps({"model": model}).encode()
        head = f"POST /{page.token}/api/evaluate HTTP/1.1\r\nHost: {page.host}\r\nContent-Length: {len(body)}"
        sock.sendall(f"{head}\r\n\r\n".encode() + body)
        return sock

    def test_a_model_that_takes_long_leaves_the_others_alone(self) -> None:
        """Nor does it go on after its tab is closed; another tab of the same model waits for its turn."""
        with serve_page(seconds=600) as page:
            seven = picture_of(page, PICTURES / "seven.png")
            digits, long = opened(page, MODELS / "digits.onnx"), opened(page, slow())
            first = self.ask(page, long)
            wait_until(lambda: bool(processes(page)))
            (busy,) = processes(page)
            second = self.ask(page, long)
            facts = evaluated(page, digits, seven)
            assert facts["answer"]["outputs"]["probabilities"]["top"][0]["index"] == 7
            assert busy in processes(page)  # it had not ended
            second.close()
            first.close()
            wait_until(lambda: busy not in processes(page))

    def test_a_page_that_is_loaded_again_has_its_model_and_picture(self, seven: Path) -> None:
        with serve_page() as page:
            page.bench.first_model = page.bench.open_model(str(MODELS / "shapes.onnx"))
            key, picture = opened(page, MODELS / "digits.onnx"), picture_of(page, seven)
            state = json.loads(page.get(f"api/state?model={key}&picture={picture}"))
            assert (state["model"]["name"], state["picture"]["name"]) == ("digits.onnx", "seven.png")
            state = json.loads(page.get("api/state?model=gone&picture=gone"))
            assert (state["model"]["name"], "picture" in state) == ("shapes.onnx", False)

    def test_models_are_bounded(self) -> None:
        with serve_page() as page:
            content = (MODELS / "edges.onnx").read_bytes()
            first, *more = [page.post("api/models?name=m.onnx", content)["id"] for _ in range(MAX_MODELS)]
            page.bench.models.find(first)  # it was used since
            page.post("api/models?name=m.onnx", content)
            assert len(os.listdir(page.bench.folder)) == MAX_MODELS
            with pytest.raises(NotBoundError):
                page.bench.models.find(more[0])
            assert page.bench.models.find(first).name == "m.onnx"


@pytest.mark.posix("Windows has no limit of a process's memory")
@pytest.mark.skipif(sys.platform == "darwin", reason="the limit of memory is Linux's")
def test_a_model_that_eats_memory(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets so much of the machine's, and then an error; the page is usable."""
    monkeypatch.setattr(open_model, "read_total_memory", lambda: 2 << 30)
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["large"]),
        helper.make_node("ReduceSum", ["large"], ["y"], keepdims=0),
    ]
    model = data(nodes, [tensor("x", [1])], [tensor("y", [])], {"shape": np.array([1 << 29])})
    answer = page.post("api/evaluate", {"model": opened(page, model)}, 422)
    assert "allocate" in answer["error"] or "ended" in answer["error"]
    assert evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, PICTURES / "seven.png"))["answer"]

"""The page of `winml-py view` among requests, models, pictures and tabs that mean no good, or too much."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

from helpers.models import STRING, data, tensor, unary
from helpers.pages import Page, served
from helpers.paths import MODELS, PICTURES
from helpers.waiting import wait_until
from view.test_workbench import evaluated, opened, picture_of, processes, slow
from winml_py.errors import NotBoundError
from winml_py.view import workbench, worker
from winml_py.view.server import PageServer
from winml_py.view.workbench import Workbench


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with served() as made:
        yield made


class TestRequests:
    @pytest.mark.parametrize(
        "inputs", [5, "image", [1], {"image": 5}, {"image": None}, {"image": "picture"}, {"image": ["picture"]}]
    )
    def test_inputs_of_another_form(self, page: Page, inputs: Any) -> None:
        asked = {"model": opened(page, MODELS / "digits.onnx"), "inputs": inputs}
        assert page.post("api/evaluate", asked, 422)["error"] == "Expected the inputs as an object of objects."

    @pytest.mark.parametrize("inputs", [5, None, "image", {"a": 1}])
    def test_inputs_to_save_of_another_form(self, page: Page, inputs: Any) -> None:
        asked = {"model": opened(page, MODELS / "digits.onnx"), "contract": {}, "inputs": inputs}
        assert "a list of names" in page.post("api/save", asked, 422)["error"]

    @pytest.mark.parametrize("number", ["9" * 5000, "-1", "1.0", "%C2%B2", "99"])
    def test_numbers_of_pictures(self, page: Page, number: str, seven: Path) -> None:
        facts = evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, seven))
        assert page.ask(f"/{page.token}/api/answers/{facts['id']}/{number}")[0] == 404

    @pytest.mark.parametrize("address", ["api/evaluate", "api/pictures?name=x.png", "edit/write"])
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
        with served() as first:
            first.get("api/state")
            port = int(first.host.rpartition(":")[2])
        again = PageServer(Workbench(), port)
        assert again.port == port
        again.close()


class TestValues:
    @pytest.mark.parametrize("element", [16, 14, 17])
    def test_types_that_nothing_is_made_up_for(self, page: Page, element: int) -> None:
        answer = page.post("api/evaluate", {"model": opened(page, unary("Identity", [4], element))}, 422)
        assert "The page cannot give the input x" in answer["error"]

    def test_long_texts_are_shortened(self, page: Page) -> None:
        model = opened(page, unary("Identity", ["n"], STRING))
        facts = page.post("api/evaluate", {"model": model, "inputs": {"x": {"text": json.dumps(["x" * 5000])}}})
        assert facts["answer"]["outputs"][0]["values"] == ["x" * 1000 + "… and 4000 more letters"]

    @pytest.mark.parametrize("name", ["y", "probabilities"])
    def test_an_output_without_numbers(self, page: Page, name: str) -> None:
        node = helper.make_node("Expand", ["x", "shape"], [name])
        model = data([node], [tensor("x", [1])], [tensor(name, [1, 0])], {"shape": np.array([1, 0])})
        (output,) = page.post("api/evaluate", {"model": opened(page, model)})["answer"]["outputs"]
        assert (output["shape"], output["values"], output["numbers"]["count"]) == ([1, 0], [], 0)


class TestPictures:
    def test_a_hundred_megapixels(self, page: Page) -> None:
        """A small file; the message says its own name, and not where it was kept."""
        file = io.BytesIO()
        Image.new("1", (10_000, 10_000)).save(file, "PNG")
        answer = page.post("api/pictures?name=large.file", file.getvalue(), 422)
        assert answer["error"] == "large.file claims no pixels, or more than the 50,000,000 that are allowed."
        assert answer["hint"] == "The page takes pictures of 50 megapixels at most."

    def test_a_tensor_that_is_too_large(self, page: Page, cat: Path) -> None:
        model, picture = opened(page, MODELS / "edges.onnx"), picture_of(page, cat)
        words = {"Image.Size": "20000,20000"}
        asked = {"model": model, "inputs": {"image": {"picture": picture, "contract": words}}}
        assert "1,200,000,000 numbers" in page.post("api/evaluate", asked, 422)["error"]
        model = opened(page, unary("Identity", [1, 3, 30_000, 30_000]))
        asked = {"model": model, "inputs": {"x": {"picture": picture}}}
        assert "2,700,000,000 numbers" in page.post("api/evaluate", asked, 422)["error"]

    def test_what_is_shown_has_no_alpha_channel(self, page: Page, tmp_path: Path) -> None:
        """The model sees the colours under it, too."""
        Image.new("RGBA", (4, 4), (200, 10, 20, 0)).save(tmp_path / "clear.png")
        shown = Image.open(io.BytesIO(page.get(f"api/pictures/{picture_of(page, tmp_path / 'clear.png')}")))
        assert (shown.mode, shown.getpixel((0, 0))) == ("RGB", (200, 10, 20))


class TestTabs:
    def test_a_model_that_takes_long_leaves_the_others_alone(self) -> None:
        with served() as page:
            seven = picture_of(page, PICTURES / "seven.png")
            digits, long = opened(page, MODELS / "digits.onnx"), opened(page, slow())
            body = json.dumps({"model": long, "job": "long"}).encode()
            thread = threading.Thread(target=page.ask, args=(f"/{page.token}/api/evaluate", body))
            thread.start()
            wait_until(lambda: bool(processes(page)))
            assert evaluated(page, digits, seven)["answer"]["outputs"][0]["classes"][0]["index"] == 7
            assert page.post("api/cancel", {"job": "long"}) == {"stopped": True}  # it had not ended
            thread.join(20)

    def test_one_that_waits_for_the_same_model_is_stopped_at_once(self) -> None:
        with served() as page:
            long = opened(page, slow())
            came: list[str] = []

            def ask(job: str) -> None:
                body = json.dumps({"model": long, "job": job}).encode()
                came.append(json.loads(page.ask(f"/{page.token}/api/evaluate", body)[2])["type"])

            first, second = (threading.Thread(target=ask, args=(job,)) for job in ("first", "second"))
            first.start()
            wait_until(lambda: bool(processes(page)))
            second.start()
            wait_until(lambda: len(page.bench._jobs) == 2)
            page.post("api/cancel", {"job": "second"})
            second.join(20)
            assert came == ["CanceledError"]
            assert list(page.bench._jobs) == ["first"]
            page.post("api/cancel", {"job": "first"})
            first.join(20)

    def test_a_tab_that_is_closed_stops_what_it_asked_for(self) -> None:
        with served(seconds=600) as page:
            body = json.dumps({"model": opened(page, slow()), "job": "gone"}).encode()
            host, port = page.host.split(":")
            with socket.create_connection((host, int(port)), 20) as sock:
                head = f"POST /{page.token}/api/evaluate HTTP/1.1\r\nHost: {page.host}\r\nContent-Length: {len(body)}"
                sock.sendall(f"{head}\r\n\r\n".encode() + body)
                wait_until(lambda: bool(processes(page)))
            wait_until(lambda: not page.bench._jobs)

    def test_not_more_than_the_threads_can_take(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workbench, "MAX_JOBS", 0)
        asked = {"model": opened(page, MODELS / "digits.onnx")}
        assert "already waiting" in page.post("api/evaluate", asked, 422)["error"]

    def test_each_has_the_graph_and_the_edits_of_its_own_model(self, tmp_path: Path) -> None:
        """Also when another tab has opened or evaluated another one since."""
        with served() as page:
            names = ("digits", "edges")
            for name in names:
                (tmp_path / f"{name}.onnx").write_bytes((MODELS / f"{name}.onnx").read_bytes())
            keys = {name: page.bench.open_model(str(tmp_path / f"{name}.onnx")) for name in names}
            for name, key in keys.items():
                for address in ("graph", "edit"):
                    facts = json.loads(page.get(f"{address}/facts?model={key}"))
                    assert f"{name}.onnx" in (facts.get("name"), facts.get("file"))
                assert page.get(f"graph/model?model={key}") == (MODELS / f"{name}.onnx").read_bytes()
            asked = {"edits": {"name": "another"}, "name": "new.onnx"}
            page.post(f"edit/write?model={keys['digits']}", asked)
            digits = onnx.load(MODELS / "digits.onnx")
            assert onnx.load(tmp_path / "new.onnx").graph.node == digits.graph.node
            assert page.ask(f"/{page.token}/graph/facts?model=unknown")[0] == 404

    def test_a_page_that_is_loaded_again_has_its_model_and_picture(self, seven: Path) -> None:
        with served() as page:
            page.bench.first_model = page.bench.open_model(str(MODELS / "shapes.onnx"))
            key, picture = opened(page, MODELS / "digits.onnx"), picture_of(page, seven)
            state = json.loads(page.get(f"api/state?model={key}&picture={picture}"))
            assert (state["model"]["name"], state["picture"]["name"]) == ("digits.onnx", "seven.png")
            state = json.loads(page.get("api/state?model=gone&picture=gone"))
            assert (state["model"]["name"], "picture" in state) == ("shapes.onnx", False)

    def test_models_are_bounded_and_the_first_one_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workbench, "_MAX_OPEN", 3)
        with served() as page:
            page.bench.first_model = page.bench.open_model(str(MODELS / "digits.onnx"))
            content = (MODELS / "edges.onnx").read_bytes()
            keys = [page.post("api/models?name=m.onnx", content)["id"] for _ in range(6)]
            assert len(os.listdir(page.bench.folder)) == 2
            assert json.loads(page.get("api/state"))["model"]["name"] == "digits.onnx"
            with pytest.raises(NotBoundError):
                page.bench.find_model(keys[3])
            assert page.bench.find_model(keys[4]).name == "m.onnx"


class TestFilesBesideTheModel:
    @pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
    def test_a_link_is_not_written_through(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_bytes((MODELS / "edges.onnx").read_bytes())
        (tmp_path / "new.onnx").symlink_to(tmp_path / "elsewhere.onnx")
        with served() as page:
            model = page.bench.open_model(str(tmp_path / "m.onnx"))
            asked = {"model": model, "contract": {}, "inputs": ["image"], "name": "new.onnx", "where": "beside"}
            page.post("api/save", asked, 422)
        assert not (tmp_path / "elsewhere.onnx").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_a_model_that_eats_memory(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets so much of the machine's, and then an error; the page is usable."""
    monkeypatch.setattr(worker, "total_memory", lambda: 2 << 30)
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["large"]),
        helper.make_node("ReduceSum", ["large"], ["y"], keepdims=0),
    ]
    model = data(nodes, [tensor("x", [1])], [tensor("y", [])], {"shape": np.array([1 << 29])})
    answer = page.post("api/evaluate", {"model": opened(page, model)}, 422)
    assert answer["type"] in ("EvaluationError", "EngineLostError")
    assert "allocate" in answer["error"] or "ended" in answer["error"]
    assert evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, PICTURES / "seven.png"))["answer"]

"""The page of the graph: a table of the profile, and the drawing that Netron makes."""

from __future__ import annotations

import json
import operator
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers.pages import Page, served
from helpers.paths import MODELS
from winml_py import LearningModel
from winml_py._inputs.model import Case
from winml_py.errors import EvaluationError, EvaluationTimeoutError
from winml_py.perf.profile import profile
from winml_py.view import apart


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with served() as made:
        yield made


@pytest.mark.parametrize("name", ["shapes", "edges"])
def test_the_table_has_the_nodes_of_the_profile(page: Page, name: str) -> None:
    path = str(MODELS / f"{name}.onnx")
    key, expected = page.bench.open_model(path), profile(Case(path), 2)
    facts = json.loads(page.get(f"api/nodes/{key}"))
    rows = {(row["name"], row["operator"], row["provider"]) for row in facts["nodes"]}
    assert rows == {(node.name, node.operator, node.provider) for node in expected.nodes}
    assert (facts["device"], facts["caution"]) == (expected.device, "")
    assert page.get(f"api/models/{key}") == Path(path).read_bytes()  # which is drawn


def test_netron_has_what_the_drawing_takes_of_it(page: Page) -> None:
    pytest.importorskip("netron")
    style, *_ = page.get("netron/index.html").decode().partition("<style>")[2].partition("</style>")
    assert ".sidebar" in style
    for name in ("target", "sidebar", "sidebar-closebutton", "toolbar"):
        assert f'id="{name}"'.encode() in page.get("netron/index.html")
    assert b"BinaryStream" in page.get("netron/base.js")
    assert b"browser.js" not in page.get("netron/view.js")  # which starts Netron's telemetry


def test_a_model_without_a_file(page: Page) -> None:
    key = page.bench.take_session(LearningModel.load((MODELS / "digits.onnx").read_bytes()))
    for address in ("models", "nodes"):
        status, _, body = page.ask(f"/{page.token}/api/{address}/{key}")
        assert (status, b"This model has no file." in body) == (422, True)
        assert page.ask(f"/{page.token}/api/{address}/unknown")[0] == 404


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (os.abort, EvaluationError, "ended the process"),
        (partial(time.sleep, 60), EvaluationTimeoutError, "longer than 2 seconds"),
    ],
)
def test_what_ends_its_process_or_never_ends(
    function: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "_measure", operator.call)
    monkeypatch.setattr(apart, "_SECONDS", 2.0 if error is EvaluationTimeoutError else 60.0)
    with pytest.raises(error, match=message):
        apart.measure_nodes(function)

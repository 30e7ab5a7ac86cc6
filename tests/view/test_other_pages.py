"""The pages of the graph and of edits: a table of the profile, and what `edit_model` writes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from helpers.pages import Page, served
from helpers.paths import MODELS
from winml_py import LearningModel
from winml_py._graphs.edit_features import Edits, edit_model
from winml_py._inputs.model import Case
from winml_py.errors import EvaluationError, EvaluationTimeoutError
from winml_py.perf.profile import profile
from winml_py.view.apart import call_apart


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with served() as made:
        yield made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(MODELS / "digits.onnx", tmp_path))


# The graph.


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
    for address in ("models", "nodes", "fields"):
        status, _, body = page.ask(f"/{page.token}/api/{address}/{key}")
        assert (status, b"This model has no file." in body) == (422, True)
        assert page.ask(f"/{page.token}/api/{address}/unknown")[0] == 404


def test_what_ends_its_process_or_never_ends() -> None:
    with pytest.raises(EvaluationError, match="ended the process"):
        call_apart(60, os.abort)
    with pytest.raises(EvaluationTimeoutError, match=r"longer than 0\.5 seconds"):
        call_apart(0.5, time.sleep, 60)


# Edits.


def edit(page: Page, path: Path, edits: object, name: str | None = "new.onnx", status: int = 200) -> Any:
    request = {"model": page.bench.open_model(str(path)), "edits": edits} | ({} if name is None else {"name": name})
    return page.post("api/edit", request, status)


CASES: dict[str, tuple[dict[str, Any], Edits]] = {
    "texts": (
        {"name": "other", "description": "<b>what</b>", "author": "me", "version": "9007199254740993"},
        Edits(name="other", description="<b>what</b>", author="me", version=9007199254740993),
    ),
    "names": ({"rename": {"image": "picture"}}, Edits(rename={"image": "picture"})),
    "denotations": (
        {"denotations": {"image": ""}, "dimensions": {"probabilities": ["DATA_BATCH", ""]}},
        Edits(denotations={"image": ""}, dimensions={"probabilities": ("DATA_BATCH", "")}),
    ),
    "metadata": ({"metadata": {"key": "a = b", "Labels": ""}}, Edits(metadata={"key": "a = b", "Labels": ""})),
    "labels": ({"labels": [*"abcdefghij"]}, Edits(labels=tuple("abcdefghij"))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_file_is_the_one_of_edit_model(page: Page, name: str, model: Path, tmp_path: Path) -> None:
    posted, edits = CASES[name]
    before = hashlib.sha256(model.read_bytes()).digest()
    facts = edit(page, model, posted, "page.onnx")
    edit_model(model, tmp_path / "wanted.onnx", edits)
    assert (tmp_path / "page.onnx").read_bytes() == (tmp_path / "wanted.onnx").read_bytes()
    assert hashlib.sha256(model.read_bytes()).digest() == before
    assert page.bench.models.find(facts["id"]).path == str(tmp_path / "page.onnx")


def test_free_sizes_are_fixed(page: Page, tmp_path: Path) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
    path = tmp_path / "free.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    edit(page, path, {"shapes": {"x": ["4", ""]}}, "fixed.onnx")
    [info] = onnx.load(tmp_path / "fixed.onnx").graph.input
    assert [size.dim_value for size in info.type.tensor_type.shape.dim] == [4, 3]


def test_a_download_leaves_nothing_behind(page: Page, model: Path) -> None:
    data = model.read_bytes()
    key = page.post("api/models?name=dropped.onnx", data)["id"]
    before = set(os.listdir(page.bench.folder))
    status, _, got = page.ask(f"/{page.token}/api/edit", b'{"model": "%s", "edits": {"name": "other"}}' % key.encode())
    assert (status, onnx.load_from_string(got).graph.name) == (200, "other")
    assert set(os.listdir(page.bench.folder)) == before
    answer = page.post("api/edit", {"model": key, "edits": {"name": "other"}, "name": "new.onnx"}, 422)
    assert answer["hint"] == "Download it."  # it has no folder


@pytest.mark.parametrize(
    "edits",
    [
        {},
        [],
        5,
        {"unknown": 1},
        {"name": 1},
        {"rename": {"no such": "x"}},
        {"rename": {"image": ""}},
        {"rename": ["image"]},
        {"shapes": {"image": ["2", "1", "28", "28"]}},
        {"shapes": {"image": ["1.5"]}},
        {"shapes": {"image": ["0", "", "", ""]}},
        {"shapes": {"image": 5}},
        {"dimensions": {"image": ["DATA_BATCH"]}},
        {"denotations": {"image": 5}},
        {"version": "1.5"},
        {"version": str(1 << 63)},
        {"labels": ["one too few"] * 9},
        {"labels": [1] * 10},
        {"metadata": {"key": 1}},
        {"metadata": 5},
    ],
)
def test_changes_that_cannot_be_made(page: Page, edits: object, model: Path) -> None:
    assert edit(page, model, edits, status=422)["error"]
    assert [path.name for path in model.parent.iterdir()] == ["digits.onnx"]


def test_the_fields_begin_with_what_the_file_says(page: Page, model: Path) -> None:
    facts = json.loads(page.get(f"api/fields/{page.bench.open_model(str(model))}"))
    proto = onnx.load(model)
    assert facts["texts"]["author"] == proto.producer_name
    assert facts["metadata"] == {entry.key: entry.value for entry in proto.metadata_props if entry.key != "Labels"}
    assert facts["features"]["inputs"] == [
        {
            "name": "image",
            "denotation": "IMAGE",
            "sizes": ["1", "1", "28", "28"],
            "dimensions": [size.denotation for size in proto.graph.input[0].type.tensor_type.shape.dim],
        }
    ]

"""The page that edits a model: what it writes is what `edit_model` writes, and the model stays as it is."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("starlette")

from helpers.asgi import Client
from helpers.paths import ROOT
from view.test_graph import Bench
from winml_py._graphs.edit_features import Edits, edit_model
from winml_py.view import edit


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(ROOT / "models" / "digits.onnx", tmp_path))


def client_of(path: Path) -> Client:
    return Client(edit.routes(Bench(str(path))))


def write(path: Path, edits: dict[str, Any], name: str | None = None) -> Any:
    client = client_of(path)
    return client.post("/edit/write", json_body={"edits": edits, "name": name})


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


CASES: dict[str, tuple[dict[str, Any], Edits]] = {
    "words": (
        {
            "name": "other",
            "description": "<b>what</b>",
            "domain": "com.example",
            "author": "me",
            "version": "9007199254740993",
        },
        Edits(name="other", description="<b>what</b>", domain="com.example", author="me", version=9007199254740993),
    ),
    "names": ({"rename": {"image": "picture"}}, Edits(rename={"image": "picture"})),
    "denotations": (
        {"denotations": {"image": ""}, "dimensions": {"probabilities": ["DATA_BATCH", ""]}},
        Edits(denotations={"image": ""}, dimensions={"probabilities": ("DATA_BATCH", "")}),
    ),
    "metadata": (
        {"metadata": {"key": "a = b", "Image.BitmapPixelFormat": ""}},
        Edits(metadata={"key": "a = b", "Image.BitmapPixelFormat": ""}),
    ),
    "labels": ({"labels": [*"abcdefghij"]}, Edits(labels=tuple("abcdefghij"))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_file_is_the_one_of_edit_model(name: str, model: Path, tmp_path: Path) -> None:
    posted, edits = CASES[name]
    before = digest(model)
    answer = write(model, posted, "page.onnx")
    assert answer.status_code == 200, answer.text
    edit_model(model, tmp_path / "wanted.onnx", edits)
    assert (tmp_path / "page.onnx").read_bytes() == (tmp_path / "wanted.onnx").read_bytes()
    assert digest(model) == before
    assert answer.json()["error"] in (0, None)


def test_free_sizes_are_fixed(tmp_path: Path) -> None:
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [taken], [given])
    path = tmp_path / "free.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    answer = write(path, {"shapes": {"x": [4, -1]}}, "fixed.onnx").json()
    assert {(row["what"], row["before"], row["after"]) for row in answer["differences"]} == {
        ("input 1: size 1", "batch", "4"),
        ("output 1: size 1", "batch", "4"),
    }
    assert answer["error"] == 0
    [info] = onnx.load(tmp_path / "fixed.onnx").graph.input
    assert [size.dim_value for size in info.type.tensor_type.shape.dim] == [4, 3]


def test_what_differs_is_named_and_nothing_else(model: Path) -> None:
    answer = write(model, {"rename": {"image": "picture"}, "metadata": {"new": "<i>value</i>"}}, "new.onnx").json()
    assert answer["differences"] == [
        {"what": "input 1: name", "before": "image", "after": "picture"},
        {"what": "metadata: new", "before": "", "after": "<i>value</i>"},
    ]
    assert (answer["file"], answer["inputs"], answer["outputs"]) == ("new.onnx", ["picture"], ["probabilities"])


def test_the_file_can_be_downloaded_and_leaves_nothing_beside_the_model(model: Path) -> None:
    client = client_of(model)
    answer = client.post("/edit/write", json_body={"edits": {"name": "other"}, "name": None}).json()
    got = client.get(f"/edit/file/{answer['download']}")
    assert client.get("/edit/file/0123456789abcdef").status_code == 404
    assert client.get("/edit/file/..%2fdigits.onnx").status_code == 404
    assert onnx.load_from_string(got.content).graph.name == "other"
    assert got.headers["content-disposition"] == 'attachment; filename="digits-edited.onnx"'
    again = client.post("/edit/write", json_body={"edits": {"name": "third"}, "name": None}).json()
    assert client.get(f"/edit/file/{answer['download']}").status_code == 404
    assert onnx.load_from_string(client.get(f"/edit/file/{again['download']}").content).graph.name == "third"
    assert [path.name for path in model.parent.iterdir()] == ["digits.onnx"]


@pytest.mark.parametrize(
    "name",
    [
        "digits.onnx",
        "there.onnx",
        "../new.onnx",
        "a/new.onnx",
        "a\\new.onnx",
        "C:new.onnx",
        ".new.onnx",
        "new.txt",
        "",
        5,
        "new\n.onnx",
        "new\ud800.onnx",
    ],
)
def test_no_file_is_written_over_or_elsewhere(name: object, model: Path) -> None:
    there = model.parent / "there.onnx"
    there.write_bytes(b"something else")
    before = {path.name: digest(path) for path in model.parent.iterdir()}
    client = client_of(model)
    body = b'{"edits": {"name": "x"}, "name": "new\\ud800.onnx"}' if name == "new\ud800.onnx" else None
    answer = client.post("/edit/write", {"edits": {"name": "x"}, "name": name}, body)
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert {path.name: digest(path) for path in model.parent.iterdir()} == before
    assert not (model.parent.parent / "new.onnx").exists()


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"rename": {"no such": "x"}},
        {"rename": {"image": ""}},
        {"shapes": {"image": [2, 1, 28, 28]}},
        {"labels": ["one too few"] * 9},
        {"dimensions": {"image": ["DATA_BATCH"]}},
    ],
)
def test_what_the_command_refuses_the_page_refuses(edits: dict[str, Any], model: Path) -> None:
    answer = write(model, edits, "new.onnx")
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert not (model.parent / "new.onnx").exists()


@pytest.mark.parametrize(
    "edits",
    [
        [],
        {"unknown": 1},
        {"name": 1},
        {"rename": ["image"]},
        {"shapes": {"image": [1.5]}},
        {"shapes": {"image": [0]}},
        {"version": -1},
        {"version": "1.5"},
        {"version": str(1 << 63)},
        {"labels": [1]},
        {"metadata": None},
    ],
)
def test_changes_of_another_form_are_refused(edits: Any, model: Path) -> None:
    assert write(model, edits).status_code == 422


def test_labels_can_be_taken_away() -> None:
    assert edit.edits_of({"labels": []}) == Edits(metadata={"Labels": ""})


def test_a_model_that_was_dropped_on_the_page_lies_in_no_folder(model: Path) -> None:
    client = Client(edit.routes(Bench(str(model), is_here=False)))
    assert client.get("/edit/facts").json()["proposal"] == ""
    assert client.post("/edit/write", {"edits": {"name": "x"}, "name": "x.onnx"}).json()["hint"] == "Download it."
    assert client.post("/edit/write", {"edits": {"name": "x"}, "name": None}).status_code == 200
    assert [path.name for path in model.parent.iterdir()] == ["digits.onnx"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_request_that_is_no_object_is_refused(body: bytes, model: Path) -> None:
    client = client_of(model)
    assert client.post("/edit/write", content=body).status_code == 422


def test_the_fields_begin_with_what_the_file_says(model: Path) -> None:
    client = client_of(model)
    facts = client.get("/edit/facts").json()
    proto = onnx.load(model)
    assert facts["words"] == {
        "name": proto.graph.name,
        "description": proto.doc_string,
        "domain": proto.domain,
        "author": proto.producer_name,
        "version": str(proto.model_version),
    }
    assert facts["metadata"] == {entry.key: entry.value for entry in proto.metadata_props if entry.key != "Labels"}
    [taken] = facts["inputs"]
    assert (taken["name"], taken["kind"], taken["denotation"]) == ("image", "float", "IMAGE")
    assert [size["size"] for size in taken["sizes"]] == [1, 1, 28, 28]
    assert facts["proposal"] == "digits-edited.onnx"

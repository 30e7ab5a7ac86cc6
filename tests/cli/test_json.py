"""What commands print with --json: one schema for all of them, errors included."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.cli import call
from helpers.models import data, tensor, unary
from helpers.paths import MODELS, ROOT
from winml_py.authoring import write_samples
from winml_py.cli.main import main
from winml_py.serve.server import ModelServer
from winml_py.view.server import PageServer

pytestmark = pytest.mark.one_python

SCHEMA_FILE = ROOT / "docs" / "_static" / "winml-py.schema.json"


def validated(text: str) -> dict[str, Any]:
    """The document in a text, which the schema allows."""
    facts: dict[str, Any] = json.loads(text)
    schema = json.loads(SCHEMA_FILE.read_text())
    assert facts["schema"] == 1
    kind = schema["$defs"][f"kind_{facts['kind']}"]
    assert {"$ref": f"#/$defs/kind_{facts['kind']}"} in schema["oneOf"]
    for one in kind.get("oneOf", [kind]):
        if set(one["required"]) <= set(facts) <= set(one["properties"]):
            break
    else:
        raise AssertionError(f"the keys of {facts['kind']} are {sorted(facts)}")
    try:
        import jsonschema
    except ImportError:  # without it, the keys have been checked
        return facts
    # the definition of the kind alone: an error in "oneOf" would name no key
    jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": f"#/$defs/kind_{facts['kind']}"}]}).validate(facts)
    return facts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seven: Path, cat: Path, short_tune: None) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PageServer, "run", PageServer.close)  # a page that ends at once
    monkeypatch.setattr(ModelServer, "run", lambda self, *_: self._socket.close())
    for path in (MODELS / "digits.onnx", MODELS / "edges.onnx", seven, cat):
        shutil.copy(path, path.name)
    Path("broken.png").write_text("no picture")
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"])
    Path("list.onnx").write_bytes(data([node], [tensor("x", [2])], [helper.make_value_info("y", kind)]))
    Path("large.onnx").write_bytes(unary("Log", [4, 10]))
    shutil.copy("digits.onnx", "known.onnx")
    write_samples("known.onnx", ["seven.png"])
    np.save("x.npy", np.ones(2, np.float32))
    np.save("zeros.npy", np.zeros((4, 10), np.float32))
    return tmp_path


CALLS: dict[str, str] = {
    "compare": "compare digits.onnx known.onnx seven.png",
    "compare to infinity": "compare large.onnx zeros.npy --precision float32",
    "contract": "contract edges.onnx --from clip --output out.onnx",
    "contract built in": "contract digits.onnx --build-in --answers classes --output out.onnx",
    "convert": "convert digits.onnx --output out.onnx",
    "devices": "devices",
    "doctor": "doctor",
    "doctor that clears": "doctor --clear-cache",
    "examples": "examples new/folder",
    "info": "info digits.onnx",
    "info of a list": "info list.onnx",
    "perf": "perf digits.onnx seven.png -n 3",
    "perf with a profile": "perf digits.onnx -n 2 --profile",
    "run": "run digits.onnx seven.png",
    "run a check": "run known.onnx --check",
    "run and record": "run known.onnx seven.png --record --force",
    "run on two": "run edges.onnx seven.png broken.png",
    "run with a picture": "run edges.onnx cat.jpg --output out.png",
    "run a list": "run list.onnx x.npy",
    "run to infinity": "run large.onnx zeros.npy",
    "serve": "serve digits.onnx edges=edges.onnx --port 0",
    "tune": "tune digits.onnx --output options.json",
    "view": "view digits.onnx seven.png --no-browser",
    "view of no model": "view --no-browser",
}


@pytest.mark.parametrize("name", CALLS)
def test_every_document_is_of_the_schema(name: str, folder: Path) -> None:
    words = CALLS[name].split()
    result = call(*words, "--json")
    facts = validated(result.stdout)
    assert facts["kind"] == ("profile" if "--profile" in words else words[0])
    assert result.exit_code == (4 if name == "run on two" else result.exit_code if name == "doctor" else 0)
    if name in ("contract", "convert", "info", "perf with a profile", "tune", "view"):
        assert facts["model"] == words[1]
    if facts["kind"] in ("perf", "run"):
        assert all(one["model"].endswith(".onnx") for one in facts.get("models", facts.get("results")))


def test_every_command_has_a_kind() -> None:
    kinds = {name.removeprefix("kind_") for name in json.loads(SCHEMA_FILE.read_text())["$defs"] if "kind_" in name}
    assert kinds == set(main.commands) | {"error", "profile"}
    assert set(main.commands) == {words.split()[0] for words in CALLS.values()}


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        ("run digits.onnx nope.png", 4, "PictureNotFoundError"),
        ("run digits.onnx", 2, "UsageError"),
        ("run --nonsense digits.onnx", 2, "NoSuchOption"),
        ("info broken.png", 3, "CorruptModelError"),
        ("classify digits.onnx", 2, ""),  # NoSuchCommand, from click 8.4 on
        ("convert digits.onnx out.onnx", 2, "MissingParameter"),
        ("perf digits.onnx --device abacus", 6, "InvalidDeviceError"),
        ("convert digits.onnx --output nowhere/out.onnx", 5, "StorageNotFoundError"),
    ],
)
def test_an_error_is_a_document_too(words: str, code: int, kind: str, folder: Path) -> None:
    result = call(*words.split(), "--json")
    assert result.exit_code == code
    facts = validated(result.stdout)
    assert (facts["kind"], facts["command"]) == ("error", "" if "classify" in words else words.split()[0])
    assert facts["error"]["exit_code"] == code
    assert facts["error"]["type"].startswith(kind)
    assert result.stderr.splitlines()[0] == f"Error: {facts['error']['message']}"
    assert facts["error"]["hint"] in facts["error"]["message"]
    assert call(*words.split()).stdout == ""  # without --json, standard output stays empty


def test_a_conversion_that_failed_has_its_report(folder: Path) -> None:
    node = helper.make_node("Mul", ["x", "big"], ["y"])
    Path("big.onnx").write_bytes(data([node], [tensor("x", [1, 8])], [tensor("y", [1, 8])], {"big": np.float32(1e6)}))
    result = call("convert", "big.onnx", "--output", "out.onnx", "--json")
    facts = validated(result.stdout)
    assert (result.exit_code, facts["error"]["type"]) == (1, "ConversionError")
    assert facts["error"]["report"]["is_good"] is False


def test_a_file_named_like_the_option_asks_for_no_json(folder: Path) -> None:
    result = call("run", "digits.onnx", "--", "--json")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "--json: There is no such picture or folder." in result.stderr

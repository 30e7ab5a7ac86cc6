"""The page that edits what a model says of itself: as `edit_model` does, into a new file, compared with the old one."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..core.base.messages import Facts, shown
from ..core.contracts.labels import LABELS_KEY, read_written_labels
from ..errors import InvalidArgumentError, WinMLError
from ..graphs.edit_features import Edits, edit_model
from .graph import Model, Models, answer, own_file, refusal, require_model
from .opened import new_file_beside
from .placed_nodes import call_apart

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

SECONDS = 120.0
"""So long the edit may take, with the evaluations that compare the files."""

_MOST_BYTES = 8 << 20
_KEPT = 4
"""So many files wait for being downloaded; the oldest goes first."""

_ROWS = 300
"""So many differences are shown."""

_STATIC = Path(__file__).parent / "static" / "graph"


def routes(workbench: Models) -> list[BaseRoute]:
    """What is served under `/edit/`."""
    files = {"": "edit.html", "edit.js": "edit.js", "edit.css": "edit.css", "icon.svg": "icon.svg"}
    editor = _Editor(workbench)
    return [
        *(Route(f"/edit/{address}", own_file(_STATIC / name), methods=["GET"]) for address, name in files.items()),
        Route("/edit/facts", answer(editor.facts), methods=["GET"]),
        Route("/edit/write", editor.write, methods=["POST"]),
        Route("/edit/file/{key}", editor.file, methods=["GET"]),
    ]


class _Editor:
    """Edits models, one at a time."""

    def __init__(self, workbench: Models) -> None:
        self._workbench = workbench
        self._lock = threading.Lock()
        self._made: dict[str, tuple[str, str]] = {}

    def facts(self, request: Request) -> Facts:
        """What the fields of the page begin with."""
        model = require_model(self._workbench, request)
        proposal = shown(_free_name(model.path)) if model.is_here else ""
        return described(_read(model.path)) | {"file": shown(model.name), "proposal": proposal}

    async def write(self, request: Request) -> Response:
        """Writes the new file, and tells what differs."""
        body = await request.body()
        try:
            if len(body) > _MOST_BYTES:
                raise InvalidArgumentError(f"The changes are of {len(body)} bytes.", hint="Send 8 MB at most.")
            model = require_model(self._workbench, request)
            return JSONResponse(await run_in_threadpool(self._write, model, _object(body)))
        except WinMLError as error:
            return refusal(error)

    def _write(self, model: Model, facts: Facts) -> Facts:
        edits, name = edits_of(facts.get("edits")), facts.get("name")
        if edits == Edits():
            raise InvalidArgumentError("Nothing was changed.", hint="Change a field, and write then.")
        if name is not None and not model.is_here:
            raise InvalidArgumentError("The model was dropped on the page, and lies in no folder.", hint="Download it.")
        with self._lock:
            if name is not None:
                with new_file_beside(model.path, name) as (path, _):
                    return _edit(model, path, edits) | {"file": name}
            key, path = secrets.token_hex(8), self._workbench.new_file(".onnx")
            report = _edit(model, path, edits)
            while len(self._made) >= _KEPT:
                Path(self._made.pop(next(iter(self._made)))[0]).unlink(missing_ok=True)
            self._made[key] = path, f"{Path(model.name).stem}-edited.onnx"
            return report | {"file": self._made[key][1], "download": key}

    def file(self, request: Request) -> Response:
        """A file that was made for being downloaded."""
        path, name = self._made.get(request.path_params["key"], ("", ""))
        if not os.path.isfile(path):
            return JSONResponse({"error": "The file is gone.", "hint": "Write it once more."}, 404)
        return FileResponse(path, media_type="application/octet-stream", filename=name)


def _edit(model: Model, destination: str, edits: Edits) -> Facts:
    """Writes the copy, in a process of its own: comparing results evaluates the model."""
    report = call_apart(SECONDS, model.running, edit_model, model.path, destination, edits)
    rows = differences(_read(model.path), _read(destination))
    return asdict(report) | {"report": str(report), "differences": rows[:_ROWS], "more": max(0, len(rows) - _ROWS)}


def _free_name(path: str) -> str:
    """A name for the copy that no file beside the model has."""
    name, count = f"{Path(path).stem}-edited.onnx", 2
    while os.path.lexists(os.path.join(os.path.dirname(path), name)):
        name, count = f"{Path(path).stem}-edited-{count}.onnx", count + 1
    return name


# What the page sends, checked.


def edits_of(facts: object) -> Edits:
    """The changes that the page sends.

    Raises:
        InvalidArgumentError: they are of another form.
    """
    given = _require(facts, Mapping, "The changes", "an object")
    unknown = sorted(set(given) - set(Edits.__dataclass_fields__))
    if unknown:
        raise InvalidArgumentError(f"There is no change {unknown[0]!r}.", hint="Reload the page.")
    texts: dict[str, Any] = {
        name: _require(given[name], str, name, "text")
        for name in ("name", "description", "domain", "author")
        if name in given
    }
    tables: dict[str, Any] = {
        name: {key: _require(value, str, f"{name}: {key}", "text") for key, value in _table(given, name).items()}
        for name in ("rename", "denotations", "metadata")
    }
    shapes = {name: tuple(_lengths(sizes, name)) for name, sizes in _table(given, "shapes").items()}
    dimensions = {name: tuple(_words(words, name)) for name, words in _table(given, "dimensions").items()}
    labels = tuple(_words(given["labels"], "labels")) if "labels" in given else None
    if labels == ():
        tables["metadata"] = {**tables["metadata"], LABELS_KEY: ""}
    version = _version(given["version"]) if "version" in given else None
    return Edits(**texts, **tables, shapes=shapes, dimensions=dimensions, labels=labels or None, version=version)


def _require(value: object, kind: type, what: str, words: str) -> Any:
    if not isinstance(value, kind):
        raise InvalidArgumentError(f"{what} is {value!r:.80}, and not {words}.", hint="Reload the page.")
    return value


def _table(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = _require(given.get(name, {}), Mapping, name, "an object")
    return table


def _words(words: object, what: str) -> Iterator[str]:
    for word in _require(words, list, what, "a list"):
        yield _require(word, str, what, "text")


def _lengths(sizes: object, name: str) -> Iterator[int]:
    for size in _require(sizes, list, name, "a list"):
        if type(size) is not int or size == 0 or not -1 <= size < 1 << 63:
            raise InvalidArgumentError(f"A size of {name} is {size!r}.", hint="A size is a whole number from 1 on.")
        yield size


def _version(text: object) -> int:
    """A version comes as text: numbers of JavaScript are exact up to 2**53 only."""
    word = str(text).strip()
    if not (word.isascii() and word.isdecimal() and int(word) < 1 << 63):
        raise InvalidArgumentError(f"The version is {text!r:.80}.", hint="It is a whole number from 0 on.")
    return int(word)


def _object(body: bytes) -> Facts:
    try:
        facts: Facts = _require(json.loads(body), dict, "The request", "an object")
    except (ValueError, RecursionError) as error:
        if isinstance(error, WinMLError):
            raise
        raise InvalidArgumentError("The request is not JSON.", hint="Reload the page.") from error
    return facts


# What a file says of itself, and in what two of them differ.


def _read(path: str) -> ModelProto:
    import onnx

    return onnx.load(path, load_external_data=False)


def described(model: ModelProto) -> Facts:
    """All that an edit can change, ready for JSON."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    labels = list(read_written_labels(metadata))
    if labels:
        del metadata[LABELS_KEY]
    weights = {weight.name for weight in model.graph.initializer}
    return {
        "words": {
            "name": model.graph.name,
            "description": model.doc_string,
            "domain": model.domain,
            "author": model.producer_name,
            "version": str(model.model_version),
        },
        "metadata": metadata,
        "labels": labels,
        "inputs": [_feature(info) for info in model.graph.input if info.name not in weights],
        "outputs": [_feature(info) for info in model.graph.output],
    }


def _feature(info: ValueInfoProto) -> Facts:
    from onnx import TensorProto

    kind = info.type.WhichOneof("value") or "unknown"
    tensor = info.type.tensor_type
    name = TensorProto.DataType.Name(tensor.elem_type).lower() if kind == "tensor_type" else kind.removesuffix("_type")
    sizes = [
        {
            "size": size.dim_value if size.HasField("dim_value") else None,
            "name": size.dim_param,
            "denotation": size.denotation,
        }
        for size in tensor.shape.dim
    ]
    return {"name": info.name, "kind": name, "denotation": info.type.denotation, "sizes": sizes}


def differences(before: ModelProto, after: ModelProto) -> list[dict[str, str]]:
    """The rows of a table: what differs, what it was, and what it is; "" for what is not there."""
    old, new = dict(_lines(before)), dict(_lines(after))
    return [
        {"what": what, "before": old.get(what, ""), "after": new.get(what, "")}
        for what in {**old, **new}
        if old.get(what, "") != new.get(what, "")
    ]


def _lines(model: ModelProto) -> Iterator[tuple[str, str]]:
    facts = described(model)
    yield from facts["words"].items()
    for kind in ("input", "output"):
        for place, feature in enumerate(facts[f"{kind}s"], 1):
            yield f"{kind} {place}: name", feature["name"]
            yield f"{kind} {place}: denotation", feature["denotation"]
            yield f"{kind} {place}: type", feature["kind"]
            for axis, size in enumerate(feature["sizes"], 1):
                yield f"{kind} {place}: size {axis}", size["name"] if size["size"] is None else str(size["size"])
                yield f"{kind} {place}: denotation of size {axis}", size["denotation"]
    yield from ((f"metadata: {key}", value) for key, value in facts["metadata"].items())
    yield from ((f"label {place}", label) for place, label in enumerate(facts["labels"]))
    yield "nodes", str(len(model.graph.node))
    yield "weights", str(len(model.graph.initializer))
    yield "operator sets", ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in model.opset_import)
    yield "sizes that are free", _free_sizes(model)


def _free_sizes(model: ModelProto) -> str:
    """The names of the sizes that the graph leaves free."""
    values = chain(model.graph.value_info, model.graph.input, model.graph.output)
    names = {size.dim_param for info in values for size in info.type.tensor_type.shape.dim if size.dim_param}
    return ", ".join(sorted(names))

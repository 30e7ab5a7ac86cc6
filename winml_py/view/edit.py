"""The page that edits a model's names, sizes and metadata: uses `edit_model` to write a new file, and compares both."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from .._graphs.edit_features import Edits, edit_model
from ..core.base.messages import Facts, shown
from ..core.contracts.labels import LABELS_KEY, read_written_labels
from ..errors import InvalidArgumentError, NotBoundError, WinMLError
from .graph import json_answer, own_file, require_model
from .opened import new_file_beside
from .placed_nodes import call_apart

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

    from .opened import OpenModel
    from .workbench import Workbench

SECONDS = 120.0
"""The time limit of an edit, including the evaluations that compare the files."""

_ROWS = 300
"""The most differences shown."""

_STATIC = Path(__file__).parent / "static" / "graph"


def routes(workbench: Workbench) -> list[BaseRoute]:
    """The routes under `/edit/`."""
    files = {"": "edit.html", "edit.js": "edit.js", "edit.css": "edit.css", "icon.svg": "icon.svg"}
    editor = _Editor(workbench)
    return [
        *(Route(f"/edit/{address}", own_file(_STATIC / name), methods=["GET"]) for address, name in files.items()),
        Route("/edit/facts", editor.facts, methods=["GET"]),
        Route("/edit/write", editor.write, methods=["POST"]),
        Route("/edit/file/{key}", editor.file, methods=["GET"]),
    ]


class _Editor:
    """Edits models, one at a time."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._lock = threading.Lock()
        self._download = "", "", ""  # the key, the path and the name of the last file made for one

    def facts(self, request: Request) -> Response:
        """The initial values of the page's fields."""
        model = require_model(self._workbench, request)
        proposal = shown(f"{Path(model.path).stem}-edited.onnx") if model.is_here else ""
        return json_answer(described(_read(model.path)) | {"file": shown(model.name), "proposal": proposal})

    async def write(self, request: Request) -> Response:
        """Writes the new file, and returns the differences."""
        try:
            facts = json.loads(await request.body())
            model = require_model(self._workbench, request)
            return json_answer(await run_in_threadpool(self._write, model, facts))
        except WinMLError:
            raise
        except (AttributeError, RecursionError, TypeError, ValueError) as error:  # also from `edit_model`
            raise InvalidArgumentError(f"The changes cannot be made: {error}.", hint="Reload the page.") from error

    def _write(self, model: OpenModel, facts: Facts) -> Facts:
        edits, name = edits_of(facts.get("edits", {})), facts.get("name")
        if edits == Edits():
            raise InvalidArgumentError("Nothing was changed.")
        if name is not None and not model.is_here:
            raise InvalidArgumentError("The model was dropped on the page, so it has no folder.", hint="Download it.")
        with self._lock:
            if name is not None:
                with new_file_beside(model.path, name) as path:
                    return _edit(model, path, edits) | {"file": name}
            path, name = self._workbench.new_file(".onnx"), f"{Path(model.name).stem}-edited.onnx"
            report = _edit(model, path, edits)
            with suppress(OSError):  # there is none, or Windows still sends it
                os.remove(self._download[1])
            self._download = secrets.token_hex(8), path, name
            return report | {"file": name, "download": self._download[0]}

    def file(self, request: Request) -> Response:
        """The last new file, as a download."""
        key, path, name = self._download
        if request.path_params["key"] != key or not os.path.isfile(path):
            raise NotBoundError("The file is gone.", hint="Write it again.")
        return FileResponse(path, media_type="application/octet-stream", filename=name)


def _edit(model: OpenModel, destination: str, edits: Edits) -> Facts:
    """Writes the copy, in a separate process, because comparing results evaluates the model."""
    report = call_apart(SECONDS, model.running, edit_model, model.path, destination, edits)
    rows = differences(_read(model.path), _read(destination))
    return asdict(report) | {"report": str(report), "differences": rows[:_ROWS], "more": max(0, len(rows) - _ROWS)}


def edits_of(facts: Mapping[str, Any]) -> Edits:
    """The page's changes; InvalidArgumentError or TypeError if they have another form."""
    given = dict(facts)
    for name, sizes in facts.get("shapes", {}).items():
        for size in sizes:
            if type(size) is not int or size == 0 or not -1 <= size < 1 << 63:
                raise InvalidArgumentError(f"Invalid size of {name}: {size!r}.", hint="Expected a positive integer.")
    if "version" in given:  # as text, because JavaScript's numbers are only exact up to 2**53
        word = str(given["version"]).strip()
        if not (word.isascii() and word.isdecimal() and int(word) < 1 << 63):
            raise InvalidArgumentError(f"Invalid version: {word!r:.80}.", hint="Expected an integer of at least 0.")
        given["version"] = int(word)
    if given.get("labels") == []:
        given |= {"labels": None, "metadata": given.get("metadata", {}) | {LABELS_KEY: ""}}
    return Edits(**given)


# A file's editable fields, and the differences of two files.


def _read(path: str) -> ModelProto:
    import onnx

    return onnx.load(path, load_external_data=False)


def described(model: ModelProto) -> Facts:
    """All editable fields, ready for JSON."""
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
    """The rows of a table: the field, its old and its new value; "" for a missing one."""
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

"""The graph page: the renderer of the installed Netron package, and where each node ran."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from ..core.base.messages import Facts, as_json, shown
from ..errors import CanceledError, ModelNotFoundError, NotBoundError, WinMLError
from .placed_nodes import placed_nodes

if TYPE_CHECKING:
    from .opened import OpenModel
    from .workbench import Workbench

MODULES = (
    *("base", "dagre", "flatbuffers", "grapher", "hdf5", "json", "onnx", "onnx-proto", "onnx-schema", "protobuf"),
    *("python", "tar", "text", "view", "worker", "xml", "zip"),
)
"""Netron's modules for showing an ONNX model. Its own host, which starts its telemetry, is not used."""

FILES = frozenset([*(f"{name}.js" for name in MODULES), "grapher.css", "onnx-metadata.json"])
"""Netron's files that are served unchanged."""

STYLE = "index.css"
"""Netron's inline style, as a file: a policy of 'self' allows no inline styles."""

WHOLE_MODEL = 64 * 2**20
"""The largest model, in bytes, whose weights the page gets."""

_SMALL_WEIGHT = 4096
"""The largest tensor, in bytes, that the page of a large model still gets."""

_EXACT = 1 << 53
"""The largest integer that browsers represent exactly."""

_STATIC = Path(__file__).parent / "static" / "graph"
_OWN_NAMES = ("graph.js", "graph.css", "host.js", "icon.svg", "markup.js", "table.js")
_OWN_FILES = {"": "index.html"} | {name: name for name in _OWN_NAMES}
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_INLINE_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def routes(workbench: Workbench) -> list[BaseRoute]:
    """The routes under `/graph/`."""
    pages = [
        Route(f"/graph/{address}", own_file(_STATIC / name), methods=["GET"]) for address, name in _OWN_FILES.items()
    ]
    graph = _Graph(workbench)
    return [
        *pages,
        Route("/graph/netron/{name}", _netron_file, methods=["GET"]),
        Route("/graph/facts", graph.facts, methods=["GET"]),
        Route("/graph/model", graph.model, methods=["GET"]),
        Route("/graph/nodes", graph.nodes, methods=["GET", "POST"]),
        Route("/graph/stop", graph.stop, methods=["POST"]),
    ]


class _Graph:
    """The model's graph, and its last measurement."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        # One measurement at a time: two would measure a busy processor.
        self._lock = threading.Lock()
        self._measured: tuple[object, Facts] | None = None

    def facts(self, request: Request) -> Response:
        """The page's content before any measurement."""
        model = require_model(self._workbench, request)
        netron = netron_folder()
        is_usable = netron is not None and all((netron / name).is_file() for name in FILES)
        return json_answer(
            {
                "name": shown(model.name),
                "netron": is_usable,
                "hint": "" if is_usable else "Install it: pip install 'winml-py[view]'",
                "device": model.case.device,
                "whole": os.path.getsize(model.path) <= WHOLE_MODEL,
            }
        )

    def model(self, request: Request) -> Response:
        """The model's file; for a large one, without its large weights."""
        path = require_model(self._workbench, request).path
        if os.path.getsize(path) <= WHOLE_MODEL:
            return FileResponse(path, media_type="application/octet-stream")
        return Response(without_weights(path), media_type="application/octet-stream")

    def nodes(self, request: Request) -> Response:
        """Where each node ran, as last measured for this file and case; POST measures now."""
        model = require_model(self._workbench, request)
        case, status = model.case, os.stat(model.path)
        key = case, status.st_mtime_ns, status.st_size
        with self._lock:
            if request.method == "POST" or self._measured is None or self._measured[0] != key:
                self._measured = None  # if this fails, the last measurement is not this file's
                self._measured = key, placed_nodes(case, model.running)
            return json_answer(self._measured[1])

    def stop(self, request: Request) -> Response:
        """Stops the measurement."""
        require_model(self._workbench, request).running.stop()
        return json_answer({})


# Shared by such pages: static files, JSON, errors.


def own_file(path: Path) -> Callable[[Request], Response]:
    """An endpoint for one of our files."""

    def serve(request: Request) -> Response:
        return FileResponse(path, media_type=_TYPES[path.suffix])

    return serve


def json_answer(facts: object, status: int = 200) -> Response:
    """Facts as JSON, with any numbers and texts."""
    text = json.dumps(as_json(facts, _EXACT), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), status, media_type="application/json")


def refuse(_: Request, error: Exception) -> Response:
    """An error as JSON: the handler of every `WinMLError`."""
    assert isinstance(error, WinMLError)
    facts = {"error": error.message, "hint": error.hint, "type": type(error).__name__}
    is_missing = isinstance(error, (ModelNotFoundError, NotBoundError))
    # Stopping for newer settings is not a failure; browsers write each status from 400 on to the console.
    return json_answer(facts, 404 if is_missing else 200 if type(error) is CanceledError else 422)


def require_model(workbench: Workbench, request: Request) -> OpenModel:
    """The model in a request's address, because each tab may have another; or the one that was opened last.

    Raises:
        ModelNotFoundError: no model is open yet, or its file is gone.
    """
    model = workbench.find_model(request.query_params.get("model", ""))
    if not os.path.isfile(model.path):
        raise ModelNotFoundError("There is no model file to show.", hint="Open a model first.")
    return model


# Netron's files.


def netron_folder() -> Path | None:
    """The folder of the `netron` package; None if it is not installed."""
    spec = find_spec("netron")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _netron_file(request: Request) -> Response:
    """One of the files allowed by name; no path of a request reaches the file system."""
    name, folder = request.path_params["name"], netron_folder()
    if folder is None or name not in FILES | {STYLE}:
        raise NotBoundError("There is no such file.")
    if name == STYLE:
        page = (folder / "index.html").read_text(encoding="utf-8")
        return Response("\n".join(_INLINE_STYLE.findall(page)), media_type=_TYPES[".css"])
    return FileResponse(folder / name, media_type=_TYPES[os.path.splitext(name)[1]])


def without_weights(path: str) -> bytes:
    """A model without its large weights: it refers to a file for them, which the page does not get."""
    import onnx

    from ..core.onnx_file.nodes import messages

    model = onnx.load(path, load_external_data=False)
    for part in messages(model):
        if isinstance(part, onnx.TensorProto) and part.ByteSize() > _SMALL_WEIGHT:
            cut = onnx.TensorProto(name=part.name, data_type=part.data_type, dims=part.dims)
            cut.data_location = onnx.TensorProto.EXTERNAL
            cut.external_data.add(key="location", value="weights")
            part.CopyFrom(cut)
    data: bytes = model.SerializeToString()
    return data

"""The page of the graph: Netron's renderer from its installed package, and what ran where beside it."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from ..core.base.messages import Facts, shown
from ..errors import MissingPackageError, ModelNotFoundError, NotBoundError, WinMLError
from ..inputs.model import Case
from ..inputs.trial import Running
from .placed_nodes import placed_nodes

MODULES = (
    *("base", "dagre", "flatbuffers", "grapher", "hdf5", "json", "onnx", "onnx-proto", "onnx-schema", "protobuf"),
    *("python", "tar", "text", "view", "worker", "xml", "zip"),
)
"""Netron's modules that showing an ONNX model takes. Its own host, with telemetry and consent, is none of them."""

FILES = frozenset([*(f"{name}.js" for name in MODULES), "grapher.css", "onnx-metadata.json"])
"""Its files that are served as they are, but for the telemetry in base.js."""

STYLE = "index.css"
"""The style that Netron's page has inline, as a file: a policy of 'self' allows none inline."""

WHOLE_MODEL = 64 * 2**20
"""Bytes of a model up to which the page gets its weights, too."""

_SMALL_WEIGHT = 4096
"""Bytes of a tensor that the page of a large model gets all the same."""

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
_TELEMETRY = re.compile(r"^base\.Telemetry = class \{\n.*?^\};\n", re.MULTILINE | re.DOTALL)
_INLINE_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_TRACKERS = ("google", "sendBeacon", "ipinfo")


class Model(Protocol):
    """A model that is open.

    Attributes:
        path: of its file; "" where it has none.
        name: what it is called.
        is_here: whether the file lies in a folder of the user's: what was dropped does not.
        case: the model, where it runs, and on which inputs.
        running: stops what is evaluated of it here, when the page ends.
    """

    path: str
    name: str
    is_here: bool
    case: Case
    running: Running


class Models(Protocol):
    """What these pages need of the workbench."""

    def find_model(self, key: str = "") -> Model:
        """A model that is open; by default the one that was opened last."""

    def new_file(self, ending: str = "") -> str:
        """The path of a file that is not there yet, and goes with the workbench."""


def routes(workbench: Models) -> list[BaseRoute]:
    """What is served under `/graph/`."""
    pages = [
        Route(f"/graph/{address}", own_file(_STATIC / name), methods=["GET"]) for address, name in _OWN_FILES.items()
    ]
    graph = _Graph(workbench)
    return [
        *pages,
        Route("/graph/netron/{name}", _netron_file, methods=["GET"]),
        Route("/graph/facts", answer(graph.facts), methods=["GET"]),
        Route("/graph/model", graph.model, methods=["GET"]),
        Route("/graph/nodes", answer(graph.nodes), methods=["GET"]),
        Route("/graph/nodes", answer(graph.nodes_again), methods=["POST"]),
        Route("/graph/stop", answer(graph.stop), methods=["POST"]),
    ]


class _Graph:
    """The model's graph, and the last measurement of it."""

    def __init__(self, workbench: Models) -> None:
        self._workbench = workbench
        # One measurement at a time: the times of two would be those of a busy processor.
        self._lock = threading.Lock()
        self._measured: tuple[object, Facts] | None = None

    def facts(self, request: Request) -> Facts:
        """What the page says before anything has been measured."""
        model = require_model(self._workbench, request)
        size = os.path.getsize(model.path)
        netron = netron_folder()
        is_usable = netron is not None and is_known(netron)
        hint = "" if is_usable else "Install it: pip install 'winml-py[view]'"
        return {
            "name": shown(model.name),
            "netron": is_usable,
            "hint": hint,
            "device": model.case.device,
            "whole": size <= WHOLE_MODEL,
        }

    def model(self, request: Request) -> Response:
        """The model's file; of a large one without its large weights."""
        try:
            path = require_model(self._workbench, request).path
        except WinMLError as error:
            return refusal(error)
        if os.path.getsize(path) <= WHOLE_MODEL:
            return FileResponse(path, media_type="application/octet-stream")
        return Response(without_weights(path), media_type="application/octet-stream")

    def nodes(self, request: Request) -> Facts:
        """What ran where, as it was measured for this file and case."""
        return self._nodes(request, is_again=False)

    def nodes_again(self, request: Request) -> Facts:
        """The same, measured now."""
        return self._nodes(request, is_again=True)

    def stop(self, request: Request) -> Facts:
        """Stops the measurement."""
        require_model(self._workbench, request).running.stop()
        return {}

    def _nodes(self, request: Request, is_again: bool) -> Facts:
        model = require_model(self._workbench, request)
        case, status = model.case, os.stat(model.path)
        key = case, status.st_mtime_ns, status.st_size
        with self._lock:
            if is_again or self._measured is None or self._measured[0] != key:
                self._measured = None  # should this fail, the one before is not of this file
                self._measured = key, placed_nodes(case, model.running)
            return self._measured[1]


# What pages of this kind share: static files, JSON, errors.


def own_file(path: Path) -> Callable[[Request], Response]:
    """An endpoint for one of our files."""

    def serve(request: Request) -> Response:
        return FileResponse(path, media_type=_TYPES[path.suffix])

    return serve


def answer(facts: Callable[[Request], Facts]) -> Callable[[Request], Response]:
    """An endpoint for what a function finds out, as JSON. Its errors become answers with their hint.

    Starlette calls it on a thread of its own, because it is no coroutine.
    """

    @functools.wraps(facts)
    def serve(request: Request) -> Response:
        try:
            return JSONResponse(facts(request))
        except WinMLError as error:
            return refusal(error)

    return serve


def refusal(error: WinMLError) -> Response:
    """An error as JSON."""
    status = 404 if isinstance(error, (ModelNotFoundError, NotBoundError)) else 400
    return JSONResponse({"error": shown(error.message), "hint": shown(error.hint)}, status)


def require_model(workbench: Models, request: Request) -> Model:
    """The model that a request is about, which has a file: its address says which, for each tab has one of its own.

    Raises:
        ModelNotFoundError: there is none yet, or its file is gone.
        NotBoundError: it is not kept any more.
    """
    model = workbench.find_model(request.query_params.get("model", ""))
    if not os.path.isfile(model.path):
        raise ModelNotFoundError("There is no model file to show.", hint="Open a model first.")
    return model


# Netron's files, and what is taken out of them.


def netron_folder() -> Path | None:
    """Where the `netron` package lies; None where it is not installed."""
    spec = find_spec("netron")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def is_known(folder: Path) -> bool:
    """Whether this Netron has what the page takes, and telemetry where it can be taken out."""
    try:
        return all((folder / name).is_file() for name in FILES) and bool(_text_of(folder, "base.js"))
    except MissingPackageError:
        return False


def _netron_file(request: Request) -> Response:
    """One of the files that are allowed by name; no path of the request's reaches the file system."""
    name, folder = request.path_params["name"], netron_folder()
    if folder is None or name not in FILES | {STYLE}:
        return JSONResponse({"error": "There is no such file.", "hint": ""}, 404)
    if name not in ("base.js", STYLE):
        return FileResponse(folder / name, media_type=_TYPES[os.path.splitext(name)[1]])
    try:
        return Response(_text_of(folder, name), media_type=_TYPES[os.path.splitext(name)[1]])
    except MissingPackageError as error:
        return refusal(error)


@functools.cache
def _text_of(folder: Path, name: str) -> str:
    """The files of Netron that are not served as they are: base.js without telemetry, and the style of its page."""
    if name == STYLE:
        page = (folder / "index.html").read_text(encoding="utf-8")
        return "\n".join(_INLINE_STYLE.findall(page))
    text = _TELEMETRY.sub("", (folder / name).read_text(encoding="utf-8"))
    if any(tracker in text for tracker in _TRACKERS):
        raise MissingPackageError(
            "This version of netron has its telemetry elsewhere, and is not shown.",
            hint="Install the one that winml-py knows: pip install 'winml-py[view]'",
        )
    return text


def without_weights(path: str) -> bytes:
    """A model without its large weights: they are said to lie in a file, which the page is not given."""
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

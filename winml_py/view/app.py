"""The application: its addresses, their requests and their answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .._http import MAX_REQUEST_BYTES, TooLargeError
from ..core.base.messages import Facts
from ..errors import InvalidArgumentError, NotBoundError, WinMLError
from . import edit, graph
from .facts import OWN, READINGS
from .graph import json_answer, own_file, refuse
from .guard import Guard, too_large
from .switches import contract_facts, controls, presets
from .workbench import Workbench, removed_on_error

_STATIC = Path(__file__).parent / "static"
_FILES = ("view.css", "view.js", "parts.js", "switches.js", "answer.js", "trials.js", "icon.svg")


def make_app(workbench: Workbench, token: str, hosts: Iterable[str], in_notebooks: bool = False) -> Guard:
    """The page for a workbench.

    Every address begins with `token`; `hosts` are the names of this server, with its port. With `in_notebooks`, a
    notebook on this machine may embed the page.
    """
    pages = _Pages(workbench)
    own: list[BaseRoute] = [
        Route("/", own_file(_STATIC / "index.html")),
        *(Route(f"/static/{name}", own_file(_STATIC / name)) for name in _FILES),
        Route("/api/state", pages.state),
        Route("/api/models", pages.upload_model, methods=["POST"]),
        Route("/api/pictures", pages.upload_picture, methods=["POST"]),
        Route("/api/evaluate", pages.evaluate, methods=["POST"]),
        Route("/api/cancel", pages.cancel, methods=["POST"]),
        Route("/api/config", pages.read_config, methods=["POST"]),
        Route("/api/save", pages.save, methods=["POST"]),
        Route("/api/example", pages.example, methods=["POST"]),
        Route("/api/pictures/{key}", pages.picture),
        Route("/api/tensors/{identity}", pages.tensor),
        Route("/api/arrays/{identity}", pages.array),
        Route("/api/answers/{identity}/{number}", pages.answer),
    ]
    app = Starlette(
        routes=[*own, *graph.routes(workbench), *edit.routes(workbench)],
        exception_handlers={
            WinMLError: refuse,
            TooLargeError: lambda _, __: too_large(),
            ClientDisconnect: lambda _, __: Response(status_code=400),  # nobody reads it
        },
    )
    return Guard(app, token, hosts, in_notebooks)


async def _read(request: Request) -> Mapping[str, Any]:
    try:
        values = await request.json()
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"The request is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InvalidArgumentError("The request is not a JSON object.")
    return values


class _Pages:
    """The endpoints."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench

    async def state(self, request: Request) -> Response:
        """The page's first state: the model and picture of its address, if still open, or else the program's."""
        asked = request.query_params
        return json_answer(await run_in_threadpool(self._state, asked.get("model", ""), asked.get("picture", "")))

    def _state(self, model: str, picture: str) -> Facts:
        bench, facts = self._workbench, {}
        for name, keys, find in (
            ("model", (model, bench.first_model), bench.model_facts),
            ("picture", (picture, bench.first_picture), bench.picture_facts),
        ):
            for key in filter(None, keys):
                with suppress(NotBoundError):
                    facts[name] = find(key)
                    break
        return facts | {"controls": controls(), "presets": presets(), "most_bytes": MAX_REQUEST_BYTES}

    async def upload_model(self, request: Request) -> Response:
        """Receives an .onnx file."""
        path, name = await self._receive(request, ".onnx"), request.query_params.get("name", "")
        key = await run_in_threadpool(self._workbench.upload_model, path, name)
        return json_answer(self._workbench.model_facts(key))

    async def upload_picture(self, request: Request) -> Response:
        """Receives a picture file."""
        path, name = await self._receive(request), request.query_params.get("name", "")
        key = await run_in_threadpool(self._workbench.upload_picture, path, name)
        return json_answer(self._workbench.picture_facts(key))

    async def _receive(self, request: Request, ending: str = "") -> str:
        """Writes a request's body to a file, as it arrives; the guard counts it."""
        path = self._workbench.new_file(ending)
        with removed_on_error(path), open(path, "xb") as file:
            async for part in request.stream():
                await run_in_threadpool(file.write, part)
        return path

    async def evaluate(self, request: Request) -> Response:
        """Evaluates, as long as somebody waits for the answer."""
        asked = await _read(request)
        job = str(asked.get("job", "")) or secrets.token_hex(8)
        waiting = asyncio.create_task(self._stop_for_nobody(request, job))
        try:
            return json_answer(await run_in_threadpool(self._workbench.evaluate, {**asked, "job": job}))
        finally:
            waiting.cancel()

    async def _stop_for_nobody(self, request: Request, job: str) -> None:
        """Stops an evaluation whose page was closed or reloaded."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self._workbench.cancel(job)

    async def cancel(self, request: Request) -> Response:
        """Stops an evaluation."""
        return json_answer({"stopped": self._workbench.cancel(str((await _read(request)).get("job")))})

    async def read_config(self, request: Request) -> Response:
        """Reads another library's config."""
        return json_answer(contract_facts(self._workbench.read_config(await _read(request))))

    async def save(self, request: Request) -> Response:
        """Writes a model with the contract, beside it or as a download."""
        asked = await _read(request)
        inputs = asked.get("inputs")
        if not isinstance(inputs, list):
            raise InvalidArgumentError("Expected the picture inputs as a list of names.")
        key, data = await run_in_threadpool(
            self._workbench.save,
            str(asked.get("model")),
            asked.get("contract"),
            asked.get("name"),
            [str(name) for name in inputs],
            asked.get("where") == "beside",
        )
        if key:
            return json_answer(self._workbench.model_facts(key))
        return Response(data, media_type="application/octet-stream")

    async def example(self, request: Request) -> Response:
        """Generates an example value."""
        asked = await _read(request)
        return json_answer(
            await run_in_threadpool(self._workbench.example, str(asked.get("model")), str(asked.get("input")))
        )

    async def picture(self, request: Request) -> Response:
        """A picture, for display."""
        return _picture(await run_in_threadpool(self._workbench.picture_file, request.path_params["key"]))

    async def tensor(self, request: Request) -> Response:
        """A bound tensor, as a picture."""
        asked = request.query_params
        reading, channel = asked.get("read", OWN), asked.get("channel", "-1")
        if reading not in READINGS or channel not in ("-1", "0", "1", "2"):
            raise InvalidArgumentError("Unknown reading or channel.")
        identity, name = request.path_params["identity"], asked.get("input", "")
        return _picture(
            await run_in_threadpool(self._workbench.kept.tensor_file, identity, name, reading, int(channel))
        )

    async def array(self, request: Request) -> Response:
        """A bound tensor, as an array."""
        name = request.query_params.get("input", "")
        data = await run_in_threadpool(self._workbench.kept.array_file, request.path_params["identity"], name)
        return Response(data, media_type="application/octet-stream")

    async def answer(self, request: Request) -> Response:
        """A picture of the answer."""
        asked = request.path_params
        return _picture(await run_in_threadpool(self._workbench.kept.answer_file, asked["identity"], asked["number"]))


def _picture(data: bytes) -> Response:
    return Response(data, media_type="image/png" if data.startswith(b"\x89PNG") else "image/jpeg")

"""The application: its addresses, their requests and their answers."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .._http import MAX_REQUEST_BYTES, TooLargeError
from ..core.base.messages import Facts, as_json
from ..core.contracts.files import read_contract
from ..errors import CanceledError, InvalidArgumentError, NotBoundError, WinMLError
from .facts import READINGS, picture_file
from .guard import Guard, too_large
from .opened import Job
from .words import contract_of, presets, switches
from .workbench import Workbench, removed_on_error

T = TypeVar("T")

_EXACT = 1 << 53
"""The largest integer that browsers represent exactly."""


def make_app(
    workbench: Workbench, ending: asyncio.Event, token: str, hosts: Iterable[str], in_notebooks: bool = False
) -> Guard:
    """The page for a workbench.

    Args:
        workbench: what the page works on.
        ending: set when the server begins to end: what still runs is stopped.
        token: the beginning of every address.
        hosts: the names of this server, with its port.
        in_notebooks: whether a notebook on this machine may embed the page.
    """
    mimetypes.add_type("text/javascript", ".js")  # Windows' registry may say otherwise, and browsers refuse the script
    pages = _Pages(workbench, ending)
    routes = [
        Route("/api/state", pages.state),
        Route("/api/models", pages.upload_model, methods=["POST"]),
        Route("/api/pictures", pages.upload_picture, methods=["POST"]),
        Route("/api/pictures/{key}", pages.picture),
        Route("/api/evaluate", pages.evaluate, methods=["POST"]),
        Route("/api/tensors/{key}", pages.tensor),
        Route("/api/answers/{key}", pages.answer),
        Route("/api/config", pages.read_config, methods=["POST"]),
        Route("/api/save", pages.save, methods=["POST"]),
        Mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True)),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            WinMLError: _refuse,
            TooLargeError: lambda _, __: too_large(),
            ClientDisconnect: lambda _, __: Response(status_code=400),  # nobody reads it
        },
    )
    return Guard(app, token, hosts, in_notebooks)


def _json(facts: object, status: int = 200) -> Response:
    """Facts as JSON, with any numbers and texts."""
    text = json.dumps(as_json(facts, _EXACT), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), status, media_type="application/json")


def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, WinMLError)
    facts = {"error": error.message, "hint": error.hint}
    return _json(facts, 404 if isinstance(error, NotBoundError) else 422)


def _picture(data: bytes) -> Response:
    return Response(data, media_type="image/png" if data.startswith(b"\x89PNG") else "image/jpeg")


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

    def __init__(self, workbench: Workbench, ending: asyncio.Event) -> None:
        self._workbench, self._ending = workbench, ending

    def state(self, request: Request) -> Response:
        """The page's first state: the model and picture of its address, if still open, or else the program's."""
        bench, facts = self._workbench, Facts()
        for name, first, find in (
            ("model", bench.first_model, bench.model_facts),
            ("picture", bench.first_picture, bench.picture_facts),
        ):
            for key in (request.query_params.get(name, ""), first):
                with suppress(NotBoundError):
                    facts[name] = find(key)
                    break
        return _json(facts | {"switches": switches(), "presets": presets(), "most_bytes": MAX_REQUEST_BYTES})

    async def upload_model(self, request: Request) -> Response:
        """Receives an .onnx file."""
        return _json(await self._receive(request, self._workbench.open_model, self._workbench.model_facts, ".onnx"))

    async def upload_picture(self, request: Request) -> Response:
        """Receives a picture file."""
        return _json(await self._receive(request, self._workbench.open_picture, self._workbench.picture_facts))

    async def _receive(
        self, request: Request, keep: Callable[[str, str], str], describe: Callable[[str], Facts], ending: str = ""
    ) -> Facts:
        """Writes a request's body to a file, as it arrives; the guard counts it."""
        path = self._workbench.new_file(ending)
        name = request.query_params.get("name", "").replace("\\", "/").rpartition("/")[2][:200] or f"dropped{ending}"
        with removed_on_error(path):
            with open(path, "xb") as file:
                async for part in request.stream():
                    await run_in_threadpool(file.write, part)
            return describe(await run_in_threadpool(keep, path, name))

    async def evaluate(self, request: Request) -> Response:
        """Evaluates, as long as somebody waits for the answer."""
        values, job = await _read(request), Job(self._workbench.seconds)
        try:
            return _json(await self._wait_for(request, self._workbench.evaluate, values, job))
        finally:
            job.cancel()

    async def _wait_for(self, request: Request, function: Callable[..., T], *arguments: object) -> T:
        """The result of a function that evaluates a model, as long as somebody waits for it.

        Raises:
            CanceledError: the page was closed, or no longer wants it, or the server ends; the function goes on.
        """
        result = asyncio.wrap_future(_start(function, *arguments))
        ending, disconnect = self._ending.wait(), _wait_for_disconnect(request)
        waiting: list[asyncio.Future[Any]] = [result, asyncio.create_task(ending), asyncio.create_task(disconnect)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise CanceledError("It was stopped.")
            return await result
        finally:
            for future in waiting:
                future.cancel()

    async def read_config(self, request: Request) -> Response:
        """The contract in another library's config."""
        return _json(read_contract(await _read(request)).to_metadata())

    def picture(self, request: Request) -> Response:
        """A picture, upright, for display."""
        return _picture(picture_file(self._workbench.pictures.find(request.path_params["key"]).load().to_pil()))

    def tensor(self, request: Request) -> Response:
        """A bound tensor, as a picture."""
        name, reading = (request.query_params.get(key, "") for key in ("input", "read"))
        if reading not in READINGS:
            raise InvalidArgumentError(f"Unknown reading {reading!r}.", hint=f"Known: {', '.join(READINGS)}.")
        return _picture(self._workbench.evaluations.find(request.path_params["key"]).tensor_file(name, reading))

    def answer(self, request: Request) -> Response:
        """A picture of the answer."""
        evaluation = self._workbench.evaluations.find(request.path_params["key"])
        return _picture(evaluation.answer_file(request.query_params.get("output", "")))

    async def save(self, request: Request) -> Response:
        """Writes a copy with a contract: beside the model if the request has a `name`, or else as the answer."""
        values = await _read(request)
        contract, inputs = contract_of(values.get("contract")), values.get("inputs")
        if not isinstance(inputs, list):
            raise InvalidArgumentError("Expected the picture inputs as a list of names.")
        model = self._workbench.models.find(str(values.get("model")))
        arguments = model, values.get("name"), contract, [str(name) for name in inputs]
        made = await self._wait_for(request, self._workbench.save_contract, *arguments)
        if isinstance(made, bytes):
            return Response(made, media_type="application/octet-stream")
        return _json(self._workbench.model_facts(made))


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _start(function: Callable[..., T], *arguments: object) -> Future[T]:
    """Calls a function in a thread that the end of the program does not wait for, unlike those of pools."""
    future = Future[T]()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="winml-py view", daemon=True).start()
    return future

"""The application: who may use it, its addresses, their requests and their answers."""

from __future__ import annotations

import asyncio
import mimetypes
import secrets
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import _http
from .._values import CONTRACTS
from ..core.base.messages import Facts
from ..core.contracts.files import read_contract
from ..core.imaging.contract import METADATA_FIELDS, ImageContract
from ..errors import CanceledError, InvalidArgumentError, NotBoundError, WinMLError
from .open_model import Job
from .report import READINGS, encode_picture
from .workbench import Workbench, parse_contract, remove_on_error

T = TypeVar("T")

_EXACT = 1 << 53
"""The largest integer that browsers represent exactly."""


def make_app(
    workbench: Workbench, ending: asyncio.Event, token: str, hosts: Collection[str], in_notebooks: bool = False
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
    endpoints = _Endpoints(workbench, ending)
    routes = [
        Route("/api/state", endpoints.get_state),
        Route("/api/models", endpoints.upload_model, methods=["POST"]),
        Route("/api/pictures", endpoints.upload_picture, methods=["POST"]),
        Route("/api/pictures/{key}", endpoints.get_picture),
        Route("/api/evaluate", endpoints.evaluate, methods=["POST"]),
        Route("/api/tensors/{key}", endpoints.get_tensor),
        Route("/api/answers/{key}", endpoints.get_answer),
        Route("/api/config", endpoints.read_config, methods=["POST"]),
        Route("/api/save", endpoints.copy_with_contract, methods=["POST"]),
        Mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True)),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            WinMLError: _refuse,
            _http.TooLargeError: lambda _, __: _make_too_large_response(),
            ClientDisconnect: lambda _, __: Response(status_code=400),  # nobody reads it
        },
    )
    return Guard(app, token, hosts, in_notebooks)


_make_json_response = partial(_http.make_json_response, exact=_EXACT)


def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, WinMLError)
    facts = {"error": error.message, "hint": error.hint}
    return _make_json_response(facts, 404 if isinstance(error, NotBoundError) else 422)


def _make_picture_response(data: bytes) -> Response:
    return Response(data, media_type="image/png" if data.startswith(b"\x89PNG") else "image/jpeg")


async def _read_json(request: Request) -> Mapping[str, Any]:
    try:
        values = await request.json()
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"The request is not valid JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InvalidArgumentError("The request is not a JSON object.")
    return values


def list_contract_fields() -> list[Facts]:
    """The metadata key of each field of a contract, its default, and its choices, if it has some."""
    fields = []
    for key, (name, words) in METADATA_FIELDS.items():
        default = getattr(ImageContract(), name)
        default_words = (word for word, meaning in words.items() if meaning == default)
        fields.append({"key": key, "choices": list(words), "default": next(default_words, "")})
    return fields


class _Endpoints:
    """What each address does."""

    def __init__(self, workbench: Workbench, ending: asyncio.Event) -> None:
        self._workbench = workbench
        self._ending = ending

    def get_state(self, request: Request) -> Response:
        """The page's first state: the model and picture of its address, if still open, or else the program's."""
        bench = self._workbench
        facts: Facts = {
            "switches": list_contract_fields(),
            "presets": {name: make().to_metadata() for name, make in CONTRACTS.items()},
            "most_bytes": _http.MAX_REQUEST_BYTES,
        }
        for name, first_key, describe in (
            ("model", bench.first_model, bench.describe_model),
            ("picture", bench.first_picture, bench.describe_picture),
        ):
            for key in (request.query_params.get(name, ""), first_key):
                with suppress(NotBoundError):
                    facts[name] = describe(key)
                    break
        return _make_json_response(facts)

    async def upload_model(self, request: Request) -> Response:
        """Receives an .onnx file."""
        key = await self._receive(request, self._workbench.open_model, ".onnx")
        return _make_json_response(self._workbench.describe_model(key))

    async def upload_picture(self, request: Request) -> Response:
        """Receives a picture file."""
        key = await self._receive(request, self._workbench.open_picture)
        return _make_json_response(self._workbench.describe_picture(key))

    async def _receive(self, request: Request, open_file: Callable[[str, str], str], extension: str = "") -> str:
        """Writes a request's body to a file as it arrives, opens the file, and returns its key."""
        path = self._workbench.make_path(extension)
        file_name = request.query_params.get("name", "").replace("\\", "/").rpartition("/")[2]
        with remove_on_error(path):
            with open(path, "xb") as file:
                async for part in request.stream():
                    await run_in_threadpool(file.write, part)
            return await run_in_threadpool(open_file, path, file_name[:200] or f"dropped{extension}")

    async def evaluate(self, request: Request) -> Response:
        """Evaluates, as long as somebody waits for the answer."""
        values = await _read_json(request)
        job = Job(self._workbench.seconds)
        try:
            return _make_json_response(await self._wait_for(request, self._workbench.evaluate, values, job))
        finally:
            job.cancel()

    async def _wait_for(self, request: Request, function: Callable[..., T], *arguments: object) -> T:
        """The result of a function that works with a model, as long as somebody waits for it.

        Raises:
            CanceledError: the page was closed, or no longer wants it, or the server ends; the function goes on.
        """
        result = asyncio.wrap_future(_start_thread(function, *arguments))
        server_ends = asyncio.create_task(self._ending.wait())
        client_leaves = asyncio.create_task(_http.wait_until_gone(request))
        futures: list[asyncio.Future[Any]] = [result, server_ends, client_leaves]
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise CanceledError("The evaluation was stopped.")
            return await result
        finally:
            for future in futures:
                future.cancel()

    async def read_config(self, request: Request) -> Response:
        """The contract in another library's config."""
        return _make_json_response(read_contract(await _read_json(request)).to_metadata())

    def get_picture(self, request: Request) -> Response:
        """A picture, upright, for display."""
        picture = self._workbench.pictures.find(request.path_params["key"])
        return _make_picture_response(encode_picture(picture.load().to_pil()))

    def get_tensor(self, request: Request) -> Response:
        """A bound tensor, as a picture."""
        evaluation = self._workbench.evaluations.find(request.path_params["key"])
        reading = request.query_params.get("read", "")
        if reading not in READINGS:
            raise InvalidArgumentError(f"Unknown reading {reading!r}.", hint=f"Known readings: {', '.join(READINGS)}.")
        return _make_picture_response(evaluation.encode_tensor(request.query_params.get("input", ""), reading))

    def get_answer(self, request: Request) -> Response:
        """A picture of the answer."""
        evaluation = self._workbench.evaluations.find(request.path_params["key"])
        return _make_picture_response(evaluation.find_answer(request.query_params.get("output", "")))

    async def copy_with_contract(self, request: Request) -> Response:
        """A copy of a model with a contract, as a file."""
        values = await _read_json(request)
        contract = parse_contract(values.get("contract"))
        inputs = values.get("inputs")
        if not isinstance(inputs, list):
            raise InvalidArgumentError("Expected the picture inputs as a list of names.")
        model = self._workbench.models.find(str(values.get("model")))
        names = [str(name) for name in inputs]
        data = await self._wait_for(request, self._workbench.copy_with_contract, model, contract, names)
        return Response(data, media_type="application/octet-stream")


def _start_thread(function: Callable[..., T], *arguments: object) -> Future[T]:
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


def _make_too_large_response() -> Response:
    """The refusal of a request that is too large."""
    return PlainTextResponse(
        f"A request can have at most {_http.MAX_REQUEST_BYTES >> 20} MB. For a larger model, run winml-py view MODEL.",
        413,
    )


# Access: a token in the address, this host's names, the page's own origin; and a size limit.


_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
NOTEBOOKS = "'self' http://127.0.0.1:* http://localhost:* https://127.0.0.1:* https://localhost:* vscode-webview:"
"""Who may embed the page: notebooks on this machine. Their own page contains the address with its token; a site on
the network could not read it, and has no reason to embed the page."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), display-capture=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Only lets the page's own requests through.

    The token is the first part of every address, `/TOKEN/...`: unlike a cookie, the browser does not add it to other
    pages' requests, it works inside a notebook's page, and a reload keeps it. `hosts` are this server's possible names
    in a browser, each with its port.

    Attributes:
        tickets: one-time substitutes for the token: the browser gets one on its command line, which other
            users of the machine can read.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str], in_notebooks: bool = False) -> None:
        self._app = app
        self._token = token
        self._hosts = _http.Hosts(hosts)
        self._policy = _POLICY.format(frames=NOTEBOOKS if in_notebooks else "'self'")
        self.tickets: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or refuses."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added["Content-Security-Policy"] = self._policy
                for name, value in _HEADERS.items():
                    added[name] = value
            await send(message)

        refusal = _http.find_refusal(headers, self._hosts)
        refused = PlainTextResponse(refusal.detail, refusal.status_code) if refusal else self._enter(scope)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self._app(scope, _http.limit_body(receive, headers, _http.MAX_REQUEST_BYTES), send_with_headers)

    def _enter(self, scope: Scope) -> Response | None:
        """Removes the token from the address; refuses a request without it."""
        _, first, *rest = f"/{scope['path'].removeprefix('/')}".split("/", 2)  # "*" is also a path
        if first == "open" and rest and rest[0] in self.tickets:
            self.tickets.discard(rest[0])
            return RedirectResponse(f"/{self._token}/", 303)
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that winml-py printed, which contains a token.", 403)
        if not rest:  # relative addresses need the slash
            return RedirectResponse(f"/{self._token}/", 303)
        scope["path"] = f"/{rest[0]}"
        scope["raw_path"] = scope["path"].encode()
        return None

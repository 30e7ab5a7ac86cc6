"""The application: its addresses, the limits of a request, and what an error becomes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from .. import __version__, errors
from .._http import MAX_REQUEST_BYTES, MAX_REQUEST_PIXELS, TooLargeError, limit_body, refuse_foreign, wait_until_gone
from .._interpretation import VisionInterpreter, describe_answer
from ..core.base.arguments import require_type
from ..core.base.machine import count_usable_cores
from ..core.base.messages import REPORT_SCHEMA, Facts, as_json, suggest_fields
from ..core.features.descriptors import ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from .models import Evaluate, ServedModel, ignore_error
from .monitoring import Exchange, Metrics
from .protocol import HEADER, describe_model, infer

_STATUSES: dict[type[Exception], int] = {
    errors.PictureError: 415,
    errors.DeviceLostError: 503,
    errors.InvalidBindingError: 400,
    errors.SizeMismatchError: 400,
    errors.InvalidArgumentError: 400,
    UnicodeDecodeError: 400,
}
"""The status of an error; 500 for all others, which are the model's or ours."""

_HEADERS = {503: {"Retry-After": "1"}}


@suggest_fields
@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take.

    Attributes:
        max_bytes: the most bytes of a body.
        max_pixels: the most pixels of a picture.
        seconds: the time for a request: to receive it, to wait, and to evaluate.
        waiting: the most requests that are received, wait or run at once; others get 503. Bodies take up to
            `waiting` x `max_bytes` of memory.
        hosts: the names by which clients may call the service, with a port or for any port. Empty
            for any name: the application that this one is mounted into checks it.

    Raises:
        InvalidArgumentError: a limit that lets nothing through, or a str as hosts.
    """

    max_bytes: int = MAX_REQUEST_BYTES
    max_pixels: int = MAX_REQUEST_PIXELS
    seconds: float = 30.0
    waiting: int = 128
    hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.max_bytes, self.max_pixels, self.waiting) < 1 or not 0 < self.seconds < inf:
            raise errors.InvalidArgumentError(f"Expected limits above 0, got {self}.")
        if isinstance(self.hosts, str):
            raise errors.InvalidArgumentError(f"Expected a set of names as hosts, got {self.hosts!r}.")


class Service:
    """An ASGI application; `winml_py.serve.app` makes it.

    It has a thread for each core, and decodes, prepares and evaluates a request in one of them. More threads would not
    be faster, and each would hold a picture in memory.

    Attributes:
        models: by their names.
    """

    def __init__(self, models: Iterable[ServedModel], limits: Limits) -> None:
        self.models = {model.name: model for model in models}
        self.limits = limits
        self._requests = 0  # that are received, wait or run
        self._threads = ThreadPoolExecutor(count_usable_cores(), "winml-py serve")
        self._metrics = Metrics(lambda: sum(served.session is not None for served in self.models.values()))
        for served in self.models.values():
            served.count_loss = self._metrics.losses.labels(served.name).inc
        server = {"name": "winml-py", "version": __version__, "extensions": ["binary_tensor_data"]}
        versions = ("/v2/models/{name}", "/v2/models/{name}/versions/1")
        self._routes = Router(
            [
                Route("/", self._get_home),
                Route("/metrics", self._get_metrics),
                Route("/models/{name}", self._evaluate_picture, methods=["POST"]),
                Route("/v2", _make_json_response(server)),
                Route("/v2/health/live", _make_json_response({"live": True})),
                Route("/v2/health/ready", self._get_readiness),
                *(Route(path, self._get_metadata) for path in versions),
                *(Route(f"{path}/ready", self._get_readiness) for path in versions),
                *(Route(f"{path}/infer", self._infer, methods=["POST"]) for path in versions),
            ]
        )

    async def load(self) -> None:
        """Compiles all models, one after the other. WinMLError if one cannot be compiled."""
        for served in self.models.values():
            async with served.use():
                pass

    def close(self) -> None:
        """Closes all sessions, and ends the threads."""
        for served in self.models.values():
            served.unload()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, logs and counts it."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        headers = Headers(scope=scope)
        exchange = scope.setdefault("state", {})["exchange"] = Exchange(headers, scope["method"], scope["path"])
        scope["app"] = self  # without it, the router itself answers what it does not find

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = exchange.identity
            exchange.sent += len(message.get("body", b""))
            async with asyncio.timeout(self.limits.seconds):  # a client that reads nothing
                await send(message)

        foreign = refuse_foreign(headers, self.limits.hosts, ("http", "https")) if self.limits.hosts else None
        try:
            await (foreign or self._routes)(scope, limit_body(receive, headers, self.limits.max_bytes), send_counted)
        except Exception as error:
            if exchange.status:  # the answer had begun, and cannot be another one
                raise
            await self._refuse(exchange, error)(scope, receive, send_counted)
        finally:
            exchange.begin("")
            self._metrics.count(exchange)
            exchange.log()

    def _refuse(self, exchange: Exchange, error: Exception) -> Response:
        """The answer of an error. The log has the traceback of a fault of ours."""
        if isinstance(error, HTTPException):
            status = error.status_code
            exchange.error = f"HTTP{status}"
            text = error.detail
            if status == 405 and error.headers:
                text = f"Expected {error.headers['Allow']}, got {exchange.method}. The page / shows calls."
        else:
            status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
            exchange.error = type(error).__name__
            text = str(error)
        if status == 500 and not isinstance(error, errors.WinMLError):
            exchange.fault = error
            text = "The service failed. See its log."
        exchange.message = text
        headers = getattr(error, "headers", None)  # the methods that an address allows
        return _make_json_response({"error": text}, status, headers or _HEADERS.get(status))

    # Pages.

    async def _get_home(self, request: Request) -> Response:
        # not base_url, which is that of the application around this one
        address = str(request.url.replace(path=f"{request.scope.get('root_path', '')}/", query=""))
        calls = [write_example_call(address, name, served.model) for name, served in self.models.items()]
        return PlainTextResponse("\n".join([f"winml-py {__version__} serves:", *calls, ""]))

    async def _get_metrics(self, _: Request) -> Response:
        return Response(self._metrics.format_text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _get_readiness(self, request: Request) -> Response:
        """Whether one model is ready, or all are; also starts to compile those that nobody has asked for yet."""
        name = request.path_params
        models = [self._find(request)] if name else list(self.models.values())
        unready = [served for served in models if not served.is_ready]
        for served in unready:
            served.start()
        status = 503 if unready else 200
        return _make_json_response(name | {"ready": not unready}, status, _HEADERS.get(status))

    async def _get_metadata(self, request: Request) -> Response:
        return _make_json_response(describe_model(self._find(request)))

    def _find(self, request: Request) -> ServedModel:
        name = request.path_params["name"]
        if name not in self.models:
            raise HTTPException(404, f"There is no model {name!r}. Models: {', '.join(self.models)}.")
        request.state.exchange.model = name
        return self.models[name]

    # Evaluations.

    async def _infer(self, request: Request) -> Response:
        served, header = self._find(request), request.headers.get(HEADER)
        return await self._evaluate(request, served, partial(infer, served, header, self.limits.max_pixels))

    async def _evaluate_picture(self, request: Request) -> Response:
        served = self._find(request)
        if not find_picture_input(served.model):
            raise HTTPException(400, "The model does not take one picture. Use /v2/models/NAME/infer.")
        try:
            return await self._evaluate(request, served, partial(answer_picture, served, self.limits.max_pixels))
        except errors.PictureError as error:
            if "form" not in request.headers.get("content-type", ""):
                raise  # with --data-binary, curl says "form", too
            hint = "If the body is a form, send the file itself: curl --data-binary @FILE."
            raise errors.PictureError(str(error), hint=hint) from None

    async def _evaluate(self, request: Request, served: ServedModel, answer: Callable[..., Response]) -> Response:
        """Receives a body, and evaluates it, within the limits; drops the work when the client leaves."""
        body = None
        exchange = request.state.exchange
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "Compressed bodies are not supported.")
        if self._requests >= self.limits.waiting:
            raise HTTPException(503, f"{self.limits.waiting} requests are already waiting. Try again later.")
        self._requests += 1
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await request.body()
                exchange.received = len(body)
                # Stopping a run may end an isolated engine's process, with the runs of clients that have not left.
                delay = self.limits.seconds if served.options.isolation else 0
                work = served.evaluate(self._threads, partial(answer, body), exchange)
                return await _await_unless_gone(request, work, delay)
        except TooLargeError:
            raise HTTPException(413, f"A body can have at most {self.limits.max_bytes:,} bytes.") from None
        except ClientDisconnect:
            raise HTTPException(499, "The client has disconnected.") from None
        except TimeoutError:
            seconds = f"{self.limits.seconds:g} s"
            if body is None:
                raise HTTPException(408, f"The body did not arrive within {seconds}.") from None
            if exchange.phase != "evaluating":
                raise HTTPException(503, f"The request waited for more than {seconds}.") from None
            raise HTTPException(504, f"The evaluation took more than {seconds}.") from None
        finally:
            self._requests -= 1


async def _await_unless_gone(request: Request, work: Coroutine[Any, Any, Response], delay: float) -> Response:
    """The answer of the work, which is cancelled if the client leaves, or if this task is cancelled.

    When the client leaves while the model is evaluated, it is cancelled `delay` seconds later.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_until_gone(request))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        is_late = leaving.done() and request.state.exchange.phase == "evaluating"
        asyncio.get_running_loop().call_later(delay if is_late else 0, task.cancel)
        leaving.cancel()
        task.add_done_callback(ignore_error)


def answer_picture(served: ServedModel, max_pixels: int, body: bytes, evaluate: Evaluate) -> Response:
    """The answer to a picture, as `winml-py run --json` prints it: classes, boxes, regions, or numbers."""
    name = find_picture_input(served.model)
    picture = ImageFeatureValue.load(body, max_pixels=max_pixels)
    result = evaluate({name: picture})
    finding = VisionInterpreter(labels=served.classes.labels).interpret(result)
    facts = describe_answer(served.inputs, {name: picture}, result.outputs, served.classes)
    results = [{"model": served.name, "input": name} | facts | (finding.facts if finding else {})]
    return _make_json_response({"schema": REPORT_SCHEMA, "kind": "run", "results": results})


def find_picture_input(model: LearningModel) -> str:
    """The name of the model's only input, if it may take pictures; else ""."""
    features = model.input_features
    if len(features) != 1 or not isinstance(features[0], ShapedDescriptor) or len(features[0].shape) != 4:
        return ""
    return features[0].name


def write_example_call(address: str, name: str, model: LearningModel) -> str:
    """A line for a shell: it sends a picture, or asks what the model takes. `address` ends with a slash."""
    if find_picture_input(model):
        return f"curl --data-binary @picture.jpg {address}models/{quote(name)}"
    return f"curl {address}v2/models/{quote(name)}"


# Answers.


def _make_json_response(facts: Facts, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(as_json(facts), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), status, headers, "application/json")


# Making it.


def app(
    models: Mapping[str, str | os.PathLike[str] | LearningModel],
    limits: Limits | None = None,
    *,
    device: LearningModelDevice | None = None,
    options: LearningModelSessionOptions | None = None,
    idle: float = 0,
) -> Service:
    """An application that serves models, for a server, or to mount into another application.

    Models are compiled when they are asked for; `/v2/health/ready` asks for all of them.

    Args:
        models: each by its name in addresses: a file, a published folder, or a model.
        limits: of requests; by default `Limits()`.
        device: where they run; by default the CPU.
        options: of their sessions; by default each evaluation has one core, and batches any size.
        idle: the seconds after its last use in which a model's memory is freed; 0 for never.

    Raises:
        WinMLError: a model cannot be loaded.
        InvalidArgumentError: a name is empty or has a slash.

    Example:
        >>> from winml_py import serve
        >>> service = serve.app({"digits": "models/digits.onnx"})
        >>> service.models["digits"].is_ready
        False
    """
    require_type(models, Mapping, 'Write {"name": "model.onnx"}.')
    require_type(limits, Limits | None, "Write limits=serve.Limits().")
    require_type(device, LearningModelDevice | None, 'Write LearningModelDevice.find("gpu").')
    require_type(options, LearningModelSessionOptions | None, "Write options=LearningModelSessionOptions().")
    if options is None:
        options = LearningModelSessionOptions()
        options.batch_size_override, options.intra_op_num_threads = 0, 1
    served = []
    for name, model in models.items():
        loaded = model if isinstance(model, LearningModel) else LearningModel.load(model)
        served.append(ServedModel(name, loaded, device, options, idle))
    return Service(served, limits or Limits())

"""The application: its addresses, the limits of a request, and what an error becomes."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote

import numpy as np
from PIL import Image
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from .. import __version__, _http, errors
from .._interpretation import VisionInterpreter, describe_answer
from .._values import make_free_options
from ..core.base.arguments import require_type
from ..core.base.machine import count_usable_cores
from ..core.base.messages import REPORT_SCHEMA
from ..core.features.descriptors import ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.bitmap import encode_png
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

_HEALTH = re.compile(r"/v2/(health/(live|ready)|models/[^/]+(/versions/1)?/ready)")
"""Addresses for probes, which call the service by any name."""

_PICTURES = re.compile(r"/models/[^/]+")
"""Addresses that take the query parameter `pictures`."""

_PART = 1 << 16
"""Bytes of an answer that are sent in one go."""


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take.

    Attributes:
        max_bytes: the most bytes of a body, and of an answer to an evaluation.
        max_pixels: the most pixels of a picture, and of all pictures of a batch as the model takes them.
        seconds: the time for a request: to receive it, to wait, and to evaluate; then as long again to send the answer.
        waiting: the most requests that are received, wait, run or are answered at once; others get 503.
        hosts: the hosts by which clients may call the service: names and addresses, with a port or for any port,
            networks such as `10.0.0.0/8`, or `*`. Probes of health may use any. Empty for any host: the application
            that this one is mounted into checks it.

    Raises:
        InvalidArgumentError: a limit that lets nothing through, a str as hosts, or a text in it that is no host.
    """

    max_bytes: int = _http.MAX_REQUEST_BYTES
    max_pixels: int = _http.MAX_REQUEST_PIXELS
    seconds: float = 30.0
    waiting: int = 128
    hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.max_bytes, self.max_pixels, self.waiting) < 1 or not 0 < self.seconds < inf:
            raise errors.InvalidArgumentError(f"Expected limits above 0, got {self}.")
        if isinstance(self.hosts, str):
            raise errors.InvalidArgumentError(f"Expected hosts to be a set of names, got {self.hosts!r}.")
        _http.Hosts(self.hosts)


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
        self._hosts = _http.Hosts(limits.hosts, ("http", "https"))
        self._requests = 0  # that are received, wait, run or are answered
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
                Route("/v2", _http.make_json_response(server), methods=["GET"]),
                Route("/v2/health/live", _http.make_json_response({"live": True}), methods=["GET"]),
                Route("/v2/health/ready", self._get_readiness),
                Route("/v2/models", _http.make_json_response({"models": list(self.models)}), methods=["GET"]),
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
        deadline = None

        async def send_counted(message: Message) -> None:
            nonlocal deadline
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = exchange.identity
                deadline = asyncio.get_running_loop().time() + self.limits.seconds
            body = message.get("body", b"")
            async with asyncio.timeout_at(deadline):  # a client that does not read
                for start in range(0, len(body) or 1, _PART):  # a server waits until most of a part is read
                    part = body[start : start + _PART]
                    has_more = message.get("more_body", False) or start + _PART < len(body)
                    await send({**message, "body": part, "more_body": has_more} if body else message)
                    exchange.sent += len(part)

        try:
            self._require_trusted(scope, headers)
            await self._routes(scope, _http.limit_body(receive, headers, self.limits.max_bytes), send_counted)
        except Exception as error:
            if exchange.status:  # the answer had begun, and cannot be another one
                exchange.error, exchange.message = type(error).__name__, "The answer was not sent completely in time."
                exchange.fault = None if isinstance(error, TimeoutError) else error
                raise
            await self._refuse(exchange, error)(scope, receive, send_counted)
        finally:
            self._requests -= exchange.is_evaluation
            exchange.begin("")
            self._metrics.count(exchange)
            exchange.log()

    def _require_trusted(self, scope: Scope, headers: Headers) -> None:
        """Refuses what no address takes; HTTPException."""
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another request in it
            message = "Expected Content-Length or Transfer-Encoding, got both."
            raise HTTPException(400, message, {"Connection": "close"})
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        hint = " If clients use it, allow it: --allow-host NAME, or Limits(hosts=...)."
        is_for_all = not self.limits.hosts or _HEALTH.fullmatch(path)
        if not is_for_all and (refusal := _http.find_refusal(headers, self._hosts, hint)):
            raise refusal
        known = {"pictures"} if _PICTURES.fullmatch(path) else set()
        for name in sorted(QueryParams(scope.get("query_string", b"")).keys() - known):
            raise HTTPException(400, f"There is no query parameter {name!r}. Known: {', '.join(known) or 'none'}.")

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
        return _http.make_json_response({"error": text}, status, headers or _HEADERS.get(status))

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
        return _http.make_json_response(name | {"ready": not unready}, status, _HEADERS.get(status))

    async def _get_metadata(self, request: Request) -> Response:
        return _http.make_json_response(describe_model(self._find(request)))

    def _find(self, request: Request) -> ServedModel:
        name = request.path_params["name"]
        if name not in self.models:
            raise HTTPException(404, f"There is no model {name!r}. Models: {', '.join(self.models)}.")
        request.state.exchange.model = name
        return self.models[name]

    # Evaluations.

    async def _infer(self, request: Request) -> Response:
        served, header, stop = self._find(request), request.headers.get(HEADER), request.state.exchange.stop
        return await self._evaluate(request, served, partial(infer, served, header, self.limits.max_pixels, stop))

    async def _evaluate_picture(self, request: Request) -> Response:
        served = self._find(request)
        if not find_picture_input(served.model):
            raise HTTPException(400, "The model does not take one picture. Use /v2/models/NAME/infer.")
        pictures = request.query_params.get("pictures", "")
        if pictures not in ("", "base64"):
            raise HTTPException(400, f"pictures: Expected base64, got {pictures!r}.")
        accepted = {kind.partition(";")[0].strip() for kind in request.headers.get("accept", "").split(",")}
        form = "png" if "image/png" in accepted and "application/json" not in accepted else pictures
        try:
            return await self._evaluate(request, served, partial(answer_picture, served, self.limits.max_pixels, form))
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
        exchange.is_evaluation = True
        try:
            async with asyncio.timeout(self.limits.seconds):
                body = await request.body()
                exchange.received = len(body)
                # Stopping a run may end an isolated engine's process, with the runs of clients that have not left.
                delay = self.limits.seconds if served.options.isolation else 0
                work = served.evaluate(self._threads, partial(answer, body), exchange)
                response = await _await_unless_gone(request, work, delay)
        except _http.TooLargeError:
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
        if len(response.body) > self.limits.max_bytes:
            sizes = f"{len(response.body):,} bytes, but the limit is {self.limits.max_bytes:,} (--max-bytes)"
            raise errors.EvaluationError(f"The answer has {sizes}.", hint="Request fewer outputs.")
        return response


async def _await_unless_gone(request: Request, work: Coroutine[Any, Any, Response], delay: float) -> Response:
    """The answer of the work, which is cancelled if the client leaves, or if this task is cancelled.

    When the client leaves while the model is evaluated, it is cancelled `delay` seconds later.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_http.wait_until_gone(request))
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
        del task  # its error has this frame, and with it the body, which only the next collection would free


def answer_picture(served: ServedModel, max_pixels: int, form: str, body: bytes, evaluate: Evaluate) -> Response:
    """The answer to a picture, as `winml-py run --json` prints it: classes, boxes, regions, or numbers.

    Args:
        served: the model.
        max_pixels: the most pixels of the picture.
        form: "png" for the first output that is a picture, or the mask, as a file; "base64" for all of them in the
            JSON; "" for none.
        body: the picture file.
        evaluate: evaluates it.
    """
    name = find_picture_input(served.model)
    picture = ImageFeatureValue.load(body, max_pixels=max_pixels)
    result = evaluate({name: picture})
    finding = VisionInterpreter(labels=served.classes.labels).interpret(result)
    facts = describe_answer(served.inputs, {name: picture}, result.outputs, served.classes)
    facts |= finding.facts if finding else {}
    if form:
        outputs = result.outputs.items()
        pictures = {key: value.to_pil() for key, value in outputs if isinstance(value, ImageFeatureValue)}
        if finding and finding.classes is not None:  # what the model has not seen, -1, becomes the highest level
            levels = finding.classes.astype(np.uint8 if finding.classes.max() < 255 else np.uint16)
            pictures["mask"] = Image.fromarray(levels)
        if form == "base64":
            facts["pictures"] = {key: encode_png(image, max(image.size)) for key, image in pictures.items()}
        elif pictures:
            image = next(iter(pictures.values()))
            return Response(encode_png(image, max(image.size)), media_type="image/png")
        else:
            raise HTTPException(406, "The answer has no picture and no mask. Accept application/json.")
    results = [{"model": served.name, "input": name} | facts]
    return _http.make_json_response({"schema": REPORT_SCHEMA, "kind": "run", "results": results})


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
        options = make_free_options()
        options.intra_op_num_threads = 1

    def load(model: str | os.PathLike[str] | LearningModel) -> tuple[LearningModel, LearningModelSessionOptions]:
        return model if isinstance(model, LearningModel) else LearningModel.load(model), options

    served = [ServedModel(name, partial(load, model), device, idle) for name, model in models.items()]
    return Service(served, limits or Limits())

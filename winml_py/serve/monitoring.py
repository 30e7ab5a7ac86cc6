"""What operations see of a service: a line in the log for each request, and metrics in Prometheus' format."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers

from ..core.base.messages import Facts, shown
from ..errors import MissingPackageError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ModuleNotFoundError as error:
    raise MissingPackageError(
        f"The service needs {error.name}, which is not installed.", hint="pip install 'winml-py[serve]'."
    ) from error

logger = logging.getLogger("winml_py.serve")
"""One record for each request, at level INFO, or ERROR from status 500 on; its attribute `facts` is ready for JSON."""

_IDENTITY = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Exchange:
    """A request and its answer, for the log and the metrics.

    Attributes:
        identity: the client's `X-Request-Id`, or a new one.
        model: the name of the model, once it is found.
        error: the class of the error, and `message` its text; "" without an error.
        phase: what its evaluation does, and `seconds` those of each phase.
        received: bytes of the body, and `sent` those of the answer's.
    """

    def __init__(self, headers: Headers, method: str, path: str) -> None:
        given = headers.get("x-request-id", "")
        self.identity = given if _IDENTITY.fullmatch(given) else secrets.token_hex(8)
        self.method, self.path, self.model, self.error, self.message, self.phase = method, path, "", "", "", ""
        self.received, self.sent, self.status, self.seconds = 0, 0, 0, dict[str, float]()
        self.started = self._began = time.perf_counter()
        self.fault: Exception | None = None

    def begin(self, phase: str) -> None:
        """Begins a phase, and ends the one before; "" only ends it."""
        now = time.perf_counter()
        if self.phase:
            self.seconds[self.phase] = self.seconds.get(self.phase, 0) + now - self._began
        self.phase, self._began = phase, now

    def log(self) -> None:
        """Writes the line."""
        whole = time.perf_counter() - self.started
        times = {name: round(value, 6) for name, value in {"seconds": whole, **self.seconds}.items()}
        facts: Facts = {"id": self.identity, "method": self.method, "path": self.path, "status": self.status}
        facts |= times | {"received": self.received, "sent": self.sent}
        facts |= {"error": self.error, "message": self.message} if self.error else {}
        words = ", ".join(f"{name} {value * 1e3:.1f}" for name, value in times.items() if name != "seconds")
        line = f"{self.method} {self.path} {self.status} {whole * 1e3:.1f} ms"
        line += f"{f' ({words})' if words else ''} {self.identity} {self.message}"
        level = logging.ERROR if self.status >= 500 else logging.INFO
        text = shown(line.rstrip()).replace("\n", "\\n")
        logger.log(level, "%s", text, exc_info=self.fault, extra={"facts": facts})


class Metrics:
    """The metrics of one service; `loaded` counts its models that are in memory."""

    def __init__(self, loaded: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("winml_requests", "Requests", ["model", "status"], registry=registry)
        self._errors = Counter("winml_errors", "Errors by their class", ["model", "kind"], registry=registry)
        self._seconds = Histogram(
            "winml_seconds",
            "Seconds of an evaluation: waiting, preparing (decoding and binding), evaluating",
            ["model", "phase"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._bytes = Counter("winml_bytes", "Bytes of bodies", ["direction"], registry=registry)
        Gauge("winml_models_loaded", "Models in memory", registry=registry).set_function(loaded)

    def count(self, exchange: Exchange) -> None:
        """Counts a request that is over."""
        self._requests.labels(exchange.model, exchange.status).inc()
        if exchange.error:
            self._errors.labels(exchange.model, exchange.error).inc()
        for phase, seconds in list(exchange.seconds.items()):
            self._seconds.labels(exchange.model, phase).observe(seconds)
        self._bytes.labels("received").inc(exchange.received)
        self._bytes.labels("sent").inc(exchange.sent)

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return bytes(generate_latest(self._registry))


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        trace = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        return json.dumps({"time": self.formatTime(record)} | vars(record).get("facts", {}) | trace)

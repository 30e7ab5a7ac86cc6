"""The log of a service, with a line for each request, and its metrics, in Prometheus' format."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers

from ..core.base.cancellation import Stop
from ..core.base.messages import Facts, escape_controls
from ..errors import MissingPackageError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ModuleNotFoundError as error:
    raise MissingPackageError(
        f"The service needs {error.name}, which is not installed.", hint="Run pip install 'winml-py[serve]'."
    ) from error

logger = logging.getLogger("winml_py.serve")
"""One record for each request, at level INFO, or ERROR from status 500 on; its attribute `facts` is ready for JSON.
Lost engines and Python's warnings have level WARNING, and no facts.
"""

_IDENTITY = re.compile(r"[\w.:-]{1,64}", re.ASCII)


def escape_line(text: str) -> str:
    """A text of a client, as one line that is safe in a log."""
    return escape_controls(text).replace("\n", "\\n")


class Exchange:
    """A request and its answer, for the log and the metrics.

    Attributes:
        identity: the client's `X-Request-Id`, or a new one.
        model: the name of the model, once it is found.
        error: the class of the error, and `message` its text; "" without an error.
        phase: what its evaluation does, and `seconds` those of each phase.
        received: bytes of the body, and `sent` those of the answer's.
        is_evaluation: whether it counts as one of those that wait.
        stop: requested when nobody waits for its evaluation any more.
    """

    def __init__(self, headers: Headers, method: str, path: str) -> None:
        client_id = headers.get("x-request-id", "")
        self.identity = client_id if _IDENTITY.fullmatch(client_id) else secrets.token_hex(8)
        self.method = method
        self.path = path
        self.status = 0
        self.model = self.error = self.message = self.phase = ""
        self.received = self.sent = 0
        self.seconds = dict[str, float]()
        self.started = self._began = time.perf_counter()
        self.fault: Exception | None = None
        self.is_evaluation = False
        self.stop = Stop()

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
        line = f"{self.method} {self.path} {self.status} {whole * 1e3:.1f} ms {self.identity} {self.message}"
        level = logging.ERROR if self.status >= 500 else logging.INFO
        logger.log(level, "%s", escape_line(line.rstrip()), exc_info=self.fault, extra={"facts": facts})


class Metrics:
    """The metrics of one service; `loaded` counts its models that are in memory.

    Attributes:
        losses: counts the isolated engines that were lost.
    """

    def __init__(self, loaded: Callable[[], int]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("winml_requests", "Requests", ["model", "status"], registry=registry)
        self._errors = Counter("winml_errors", "Errors by class", ["model", "kind"], registry=registry)
        phases = ["model", "phase"]
        self._seconds = Histogram("winml_seconds", "Seconds per phase", phases, registry=registry)
        self.losses = Counter("winml_engines_lost", "Engine processes that ended", ["model"], registry=registry)
        self._bytes = Counter("winml_bytes", "Body bytes", ["direction"], registry=registry)
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

    def format_text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return bytes(generate_latest(self._registry))


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        trace = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        facts = vars(record).get("facts", {"level": record.levelname, "message": record.getMessage()})
        return json.dumps({"time": self.formatTime(record)} | facts | trace)


def log_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Writes a warning as one line of the log, in the place of `warnings.showwarning`."""
    logger.warning("%s: %s", category.__name__, escape_line(str(message)))

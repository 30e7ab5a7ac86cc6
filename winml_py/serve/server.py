"""The server of `winml-py serve`: on an address, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import warnings
from ipaddress import ip_address
from math import ceil

from .._http import HOST, Server, listen
from .monitoring import JsonFormatter, log_warning, logger
from .service import Service


class ModelServer:
    """Listens from the start; `run` serves.

    Args:
        host: the address to listen on.
        port: 0 for a free one.

    Attributes:
        address: of the service, with a slash at its end.
        is_public: whether other machines may reach it.
        hosts: its own names, for `Limits.hosts`.

    Raises:
        InvalidArgumentError: the port is taken, or the machine has no such address.
    """

    def __init__(self, host: str, port: int) -> None:
        self._socket = listen(host, port)
        address, port = self._socket.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.address, self.is_public = f"http://{place}/", not ip_address(address).is_loopback
        self.hosts = {host, "localhost", HOST} if self.is_public else {place, f"localhost:{port}"}

    def run(self, service: Service, is_json: bool) -> None:
        """Serves until a signal, with a log on standard error, as lines of text or of JSON.

        Raises:
            WinMLError: a model cannot be compiled.
        """
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter() if is_json else logging.Formatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = log_warning
                asyncio.run(self._run(service))
        finally:
            logger.removeHandler(handler)
            service.close()

    async def _run(self, service: Service) -> None:
        """Compiles all models while it serves: until then, it is alive, but not ready."""
        server = Server(service, ceil(service.limits.seconds))
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the service's own log has its failures
        serving = asyncio.create_task(server.serve([self._socket]))
        loading = asyncio.create_task(service.load())
        await asyncio.wait((serving, loading), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit |= loading.done() and loading.exception() is not None
        await serving
        if not loading.cancel():  # it is done
            loading.result()

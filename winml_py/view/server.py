"""The server of the page: on this machine's loopback alone, as long as the terminal or the program lives."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn

from ..errors import InvalidArgumentError
from .app import make_app
from .workbench import Workbench

HOST = "127.0.0.1"

_END_SECONDS = 3
"""How long answers that are being sent may take once the server ends."""


class _Server(uvicorn.Server):
    """uvicorn's, which stops what is being evaluated before it ends."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for Ctrl-C and SIGTERM."""
        threading.Thread(target=self._stop, daemon=True).start()  # a signal must wait for no lock
        self.should_exit = True


class PageServer:
    """A workbench's page, served at `address`, which has the token; the workbench is closed with it.

    Raises:
        InvalidArgumentError: the port is taken.
    """

    def __init__(self, workbench: Workbench, port: int = 0, in_notebooks: bool = False) -> None:
        self._workbench = workbench
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":  # a server that has just ended leaves its port to the next; Windows means something else
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen(128)  # whoever comes from now on waits, and is not refused
        except OSError as error:
            self._socket.close()
            workbench.close()
            raise InvalidArgumentError(
                f"The port {port} cannot be taken: {error.strerror or error}.", hint="Name another, or none: --port 0."
            ) from error
        self.port = int(self._socket.getsockname()[1])
        token = secrets.token_urlsafe(32)
        self._guard = make_app(workbench, token, {f"{HOST}:{self.port}", f"localhost:{self.port}"}, in_notebooks)
        self.address = f"http://{HOST}:{self.port}/{token}/"
        config = uvicorn.Config(
            self._guard,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_END_SECONDS,
            h11_max_incomplete_event_size=1 << 16,
        )
        self._server = _Server(config, workbench.stop_all)
        self._thread: threading.Thread | None = None

    def address_for_a_browser(self) -> str:
        """An address that works once: it stands on a command line, which other users of the machine can read."""
        ticket = secrets.token_urlsafe(32)
        self._guard.tickets.add(ticket)
        return f"http://{HOST}:{self.port}/open/{ticket}"

    def run(self) -> None:
        """Serves until a signal ends the program."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._server.handle_exit)  # the terminal was closed
        try:
            asyncio.run(self._server.serve([self._socket]))
        finally:
            self._end()

    def start(self) -> None:
        """Serves in a thread, until `close`."""
        self._thread = threading.Thread(target=self.run, name="winml-py view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server, the sessions that it made, and their processes. Twice is harmless."""
        self._workbench.stop_all()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_END_SECONDS * 3)
        self._end()

    def _end(self) -> None:
        self._socket.close()
        self._workbench.close()

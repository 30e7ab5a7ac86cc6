"""The page's server: on this machine's loopback only, as long as the terminal or the program lives."""

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
"""The seconds that unfinished answers get when the server ends."""


class _Server(uvicorn.Server):
    """uvicorn's server; stops the current evaluation before it ends."""

    def __init__(self, config: uvicorn.Config, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for Ctrl-C and SIGTERM."""
        threading.Thread(target=self._stop, daemon=True).start()  # a signal handler must not wait for a lock
        self.should_exit = True


class PageServer:
    """Serves a workbench's page at `address`, which contains the token; closes the workbench when it is closed.

    Raises:
        InvalidArgumentError: the port is taken.
    """

    def __init__(self, workbench: Workbench, port: int = 0, in_notebooks: bool = False) -> None:
        self._workbench = workbench
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":  # lets a new server reuse the port; Windows gives this option another meaning
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            self._socket.listen(128)  # from now on, clients wait instead of being refused
        except OSError as error:
            self._socket.close()
            workbench.close()
            raise InvalidArgumentError(
                f"The port {port} is not available: {error.strerror or error}.", hint="Use another, or --port 0."
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
        """A one-time address: other users of the machine can read the browser's command line."""
        ticket = secrets.token_urlsafe(32)
        self._guard.tickets.add(ticket)
        return f"http://{HOST}:{self.port}/open/{ticket}"

    def run(self) -> None:
        """Serves until a signal ends the program."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._server.handle_exit)  # when the terminal closes
        try:
            asyncio.run(self._server.serve([self._socket]))
        finally:
            self._end()

    def start(self) -> None:
        """Serves in a thread, until `close`."""
        self._thread = threading.Thread(target=self.run, name="winml-py view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the server, its sessions, and their processes. Calling it twice is harmless."""
        self._workbench.stop_all()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_END_SECONDS * 3)
        self._end()

    def _end(self) -> None:
        self._socket.close()
        self._workbench.close()

"""The page's server: on this machine's loopback only, as long as the terminal or the program lives."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import threading

from .._http import HOST, Server, listen
from .app import Guard, make_app
from .workbench import Workbench

_END_SECONDS = 3
"""The seconds that unfinished answers get when the server ends."""


class _Server(Server):
    """Tells the application that it ends, before it waits for unfinished answers."""

    def __init__(self, guard: Guard, ending: asyncio.Event) -> None:
        super().__init__(guard, _END_SECONDS)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn."""
        self._ending.set()
        await super().shutdown(sockets)


class PageServer:
    """Serves a workbench's page at `address`, which contains the token; closes the workbench when it is closed.

    Raises:
        InvalidArgumentError: the port is taken.
    """

    def __init__(self, workbench: Workbench, port: int = 0, in_notebooks: bool = False) -> None:
        self._workbench = workbench
        try:
            self._socket = listen(HOST, port)
        except BaseException:
            workbench.close()
            raise
        self.port = int(self._socket.getsockname()[1])
        token = secrets.token_urlsafe(32)
        hosts, ending = {f"{HOST}:{self.port}", f"localhost:{self.port}"}, asyncio.Event()
        self._guard = make_app(workbench, ending, token, hosts, in_notebooks)
        self.address = f"http://{HOST}:{self.port}/{token}/"
        self._server = _Server(self._guard, ending)
        self._thread: threading.Thread | None = None

    def make_browser_address(self) -> str:
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
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_END_SECONDS * 3)
        self._end()

    def _end(self) -> None:
        self._socket.close()
        self._workbench.close()

"""What `winml-py view` and `winml-py serve` share: who may talk to them, how much they read, and the server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Set
from types import FrameType

from .errors import InvalidArgumentError, MissingPackageError

try:
    import h11
    import uvicorn
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.types import ASGIApp, Message, Receive
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise MissingPackageError(
        f"The page and the service need {error.name}, which is not installed.",
        hint="pip install 'winml-py[view]', or 'winml-py[serve]'.",
    ) from error

HOST = "127.0.0.1"

MAX_REQUEST_BYTES = 64 << 20
"""The most bytes of a request."""

MAX_REQUEST_PIXELS = 50_000_000
"""The most pixels of a picture: 200 MB once decoded."""


class TooLargeError(Exception):
    """A request has more bytes than allowed."""


def refuse_foreign(headers: Headers, hosts: Set[str], schemes: Collection[str] = ("http",)) -> Response | None:
    """The refusal of a request that was sent to another host's name, or by another origin's page.

    A page of the attacker's can reach this server under the attacker's name, which its DNS leads here.

    Args:
        headers: the request's.
        hosts: the server's names, with their port, or without one for any port.
        schemes: of the origins of this server's own pages.
    """
    origin = headers.get("origin")
    if not _is_own(headers.get("host", ""), hosts):
        return PlainTextResponse("This host name is not allowed.", 421)
    if origin is None or (origin.partition("://")[0] in schemes and _is_own(origin.partition("://")[2], hosts)):
        return None
    return PlainTextResponse("Requests from another origin are not allowed.", 403)


async def wait_until_gone(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _is_own(host: str, hosts: Set[str]) -> bool:
    name, colon, port = host.rpartition(":")
    return host in hosts or (bool(colon) and port.isdecimal() and name in hosts)


def read_length(text: str) -> int:
    """A length in a header; -1 if it is none. Python refuses to read thousands of digits."""
    return int(text) if text.isdecimal() and len(text) <= 19 else -1


def limit_body(receive: Receive, headers: Headers, most: int) -> Receive:
    """Counts the bytes of a body; raises a TooLargeError for more, stated or received."""
    stated = read_length(headers.get("content-length", "0"))
    taken = 0

    async def receive_counted() -> Message:
        nonlocal taken
        if not 0 <= stated <= most:
            raise TooLargeError
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise TooLargeError
        return message

    return receive_counted


def listen(host: str, port: int) -> socket.socket:
    """A socket at which clients wait from now on; port 0 is a free one.

    Raises:
        InvalidArgumentError: the port is taken, or this machine has no such address.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise InvalidArgumentError(
            f"The port {port} is not available on {host}: {str(error.strerror).partition(' (while')[0]}.",
            hint="Use another address, or pass --port 0 to use any free port.",
        ) from error


class _Protocol(H11Protocol):
    """Closes a connection whose next request does not begin with a whole head in time.

    uvicorn's limit for idle connections does not cover a first request, and any byte ends it.

    Where an answer does not wait for the end of a body, the limit is the time that the rest may take. It is read and
    dropped: a system that closes a connection with unread bytes may take the answer from the client.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does this only for sockets that state their protocol; without it, a kept connection waits 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        limit, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        super().data_received(data)
        is_answered = self.conn.our_state is h11.DONE
        if limit is not None and (is_answered or self.conn.their_state is h11.IDLE):
            self.timeout_keep_alive_task = limit
        elif limit is not None:
            limit.cancel()


class Server(uvicorn.Server):
    """uvicorn's server. A signal ends it with exit code 0, after the requests that run, or after some seconds.

    Args:
        app: what it serves.
        seconds: how long it waits for them.
    """

    def __init__(self, app: ASGIApp, seconds: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_level="error",
                server_header=False,
                timeout_graceful_shutdown=seconds,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for Ctrl-C and SIGTERM."""
        self.should_exit = True

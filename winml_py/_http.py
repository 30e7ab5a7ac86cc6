"""What `winml-py view` and `winml-py serve` share: who may talk to them, how much they read, and the server."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Collection, Mapping
from ipaddress import ip_address, ip_network
from types import FrameType

from .core.base.messages import as_json
from .errors import InvalidArgumentError, MissingPackageError

try:
    import h11
    import uvicorn
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise MissingPackageError(
        f"The page and the service need {error.name}, which is not installed.",
        hint="Run pip install 'winml-py[view]' or pip install 'winml-py[serve]'.",
    ) from error

HOST = "127.0.0.1"

MAX_REQUEST_BYTES = 64 << 20
"""The most bytes of a request."""

MAX_REQUEST_PIXELS = 50_000_000
"""The most pixels of a picture: 200 MB once decoded."""


_HOST = re.compile(r"(\[[\da-f:.]+\]|[\w.-]+)(:\d+)?", re.ASCII | re.IGNORECASE)
"""A name or an address, with or without a port."""

_UNREAD_SECONDS = 10
"""How long a client may leave what is sent to it unread."""


class TooLargeError(Exception):
    """A request has more bytes than allowed."""


class Hosts:
    """What `Host` may name: names and addresses, with their port, or without one for any port; networks; "*" for all.

    `schemes` are those of the origins of the server's own pages.

    Raises:
        InvalidArgumentError: one is none of these.
    """

    def __init__(self, hosts: Collection[str], schemes: Collection[str] = ("http",)) -> None:
        self.schemes = schemes
        self._names = {host.lower() for host in hosts if host == "*" or _HOST.fullmatch(host)}
        try:
            self._networks = [ip_network(host) for host in hosts if host.lower() not in self._names]
        except ValueError as error:
            hint = "Allow names, addresses, networks or *, as in --allow-host 10.0.0.0/8."
            raise InvalidArgumentError(f"{error}.", hint=hint) from None

    def __contains__(self, host: str) -> bool:
        name = re.sub(r":\d*$", "", host.lower())
        try:
            is_in_network = any(ip_address(name.strip("[]")) in network for network in self._networks)
        except ValueError:  # a name
            is_in_network = False
        return is_in_network or not self._names.isdisjoint((host.lower(), name))


def find_refusal(headers: Headers, hosts: Hosts, hint: str = "") -> HTTPException | None:
    """The refusal of a request that was sent to another host's name, or by another origin's page.

    A page of the attacker's can reach this server under the attacker's name, which its DNS leads here.

    Args:
        headers: the request's.
        hosts: the server's.
        hint: what to do if the host is right.
    """
    host, (scheme, _, origin) = headers.get("host", ""), headers.get("origin", "").partition("://")
    if host not in hosts and "*" not in hosts:
        return HTTPException(421, f"The host {host[:200]!r} is not allowed.{hint}")
    if "origin" not in headers or (scheme in hosts.schemes and (origin == host or origin in hosts)):
        return None
    return HTTPException(403, "Requests from another origin are not allowed.")


def make_json_response(
    facts: object, status: int = 200, headers: Mapping[str, str] | None = None, exact: int | None = None
) -> Response:
    """Facts as JSON, with any numbers and texts; `exact` as in `as_json`."""
    text = json.dumps(as_json(facts, exact), ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), status, headers, "application/json")


async def wait_until_gone(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


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
    """Closes a connection whose next request does not begin with a whole head in time, or whose client stops reading.

    uvicorn's limit for idle connections does not cover a first request, and any byte ends it.

    Where an answer does not wait for the end of a body, the limit is the time that the rest may take. It is read and
    dropped: a system that closes a connection with unread bytes may take the answer from the client.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does this only for sockets that state their protocol; without it, a kept connection waits 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(0)  # writing pauses whenever something waits to be read
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_reading(-1)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch.cancel()

    def _check_reading(self, before: int) -> None:
        """Aborts the connection if as many bytes wait to be read as before; closing it would wait until they are."""
        waiting = self.transport.get_write_buffer_size()
        if waiting == before:
            self.transport.abort()
        else:
            self._watch = self.loop.call_later(_UNREAD_SECONDS, self._check_reading, waiting)

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

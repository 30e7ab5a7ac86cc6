"""Access to the page: a token in the address, this host's names, the page's own origin; and a size limit."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .._http import MAX_REQUEST_BYTES, limit_body, refuse_foreign

METHODS = ("GET", "HEAD", "POST")

_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors {frames}"
NOTEBOOKS = "'self' http://127.0.0.1:* http://localhost:* https://127.0.0.1:* https://localhost:* vscode-webview:"
"""Who may embed the page: notebooks on this machine. Their own page contains the address with its token; a site on
the network could not read it, and has no reason to embed the page."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), display-capture=()",
    "Cache-Control": "no-store",
}


class Guard:
    """Only lets the page's own requests through.

    The token is the first part of every address, `/TOKEN/...`: unlike a cookie, the browser does not add it to other
    pages' requests, it works inside a notebook's page, and a reload keeps it. `hosts` are this server's possible names
    in a browser, each with its port.

    Attributes:
        tickets: one-time substitutes for the token: the browser gets one on its command line, which other
            users of the machine can read.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str], in_notebooks: bool = False) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)
        self._policy = _POLICY.format(frames=NOTEBOOKS if in_notebooks else "'self'")
        self.tickets: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or refuses."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added["Content-Security-Policy"] = self._policy
                for name, value in _HEADERS.items():
                    added[name] = value
            await send(message)

        refused = self._refuse(scope, headers) or self._enter(scope)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self._app(scope, limit_body(receive, headers, MAX_REQUEST_BYTES), send_with_headers)

    def _refuse(self, scope: Scope, headers: Headers) -> Response | None:
        """The refusal of a bad request, for any address."""
        if (foreign := refuse_foreign(headers, self._hosts)) is not None:
            return foreign
        if scope["method"] not in METHODS:
            return PlainTextResponse("This method is not allowed.", 405, {"Allow": ", ".join(METHODS)})
        return None

    def _enter(self, scope: Scope) -> Response | None:
        """Removes the token from the address; refuses a request without it."""
        _, first, *rest = f"/{scope['path'].removeprefix('/')}".split("/", 2)  # "*" is also a path
        if first == "open" and rest and rest[0] in self.tickets:
            self.tickets.discard(rest[0])
            return RedirectResponse(f"/{self._token}/", 303)
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that winml-py printed, which has a token.", 403)
        if not rest:  # relative addresses need the slash
            return RedirectResponse(f"/{self._token}/", 303)
        scope["path"] = f"/{rest[0]}"
        scope["raw_path"] = scope["path"].encode()
        return None


def make_too_large_response() -> Response:
    """The refusal of a request that is too large."""
    return PlainTextResponse(
        f"A request can have at most {MAX_REQUEST_BYTES >> 20} MB. For a larger model, run winml-py view MODEL.",
        413,
    )

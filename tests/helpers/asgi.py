"""Asks an ASGI application as a server would, without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp


@dataclass
class Answer:
    """What came back."""

    status_code: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Asks an application. A path reaches it decoded, dots and slashes included."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] | None = None, query: str = "") -> None:
        self._app = app
        self._headers = {"host": "127.0.0.1", **(headers or {})}
        self._query = query

    def get(self, path: str) -> Answer:
        return asyncio.run(self.ask("GET", path, b""))

    def post(self, path: str, json_body: object = None, content: bytes | None = None) -> Answer:
        body = json.dumps(json_body).encode() if content is None else content
        return asyncio.run(self.ask("POST", path, body))

    async def ask(self, method: str, path: str, body: bytes) -> Answer:
        """The same inside an event loop."""
        answer, requests = Answer(), [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if not requests:
                await asyncio.Event().wait()  # whoever asks stays until the answer is complete
            return requests.pop()

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status_code = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.content += message.get("body", b"")

        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": self._query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in self._headers.items()],
            "server": ("127.0.0.1", 80),
        }
        await self._app(scope, receive, send)
        return answer

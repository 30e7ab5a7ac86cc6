"""The page of `winml-py view`, served in this process, and what asks it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psutil

from winml_py.view.server import PageServer
from winml_py.view.workbench import Workbench


class Page:
    """Asks a server as its page does.

    Attributes:
        bench: what it works on.
        token: of its address.
        host: its name and port.
        known: the files of models that were opened, and what they are asked for by.
        others: the child processes that were there before the page.
    """

    def __init__(self, bench: Workbench, address: str) -> None:
        self.bench, (_, self.host, path, *_rest) = bench, urlsplit(address)
        self.token = path.strip("/")
        self.known: dict[object, str] = {}
        self.others = set(psutil.Process().children())

    def ask(
        self, path: str, body: bytes | None = None, *, method: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """What is answered to a path as it is: status, headers, body."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> bytes:
        """What is behind the token, which must be there."""
        status, _, body = self.ask(f"/{self.token}/{path}")
        assert status == 200, body
        return body

    def post(self, path: str, facts: object, status: int = 200) -> Any:
        """The facts that are answered."""
        body = facts if isinstance(facts, bytes) else json.dumps(facts).encode()
        came, _, answer = self.ask(f"/{self.token}/{path}", body)
        assert came == status, answer
        return json.loads(answer)


@contextmanager
def serve_page(seconds: float = 60.0, in_notebooks: bool = False) -> Iterator[Page]:
    """A page, until the block ends."""
    bench = Workbench(seconds=seconds)
    server = PageServer(bench, in_notebooks=in_notebooks)
    server.start()
    try:
        yield Page(bench, server.address)
    finally:
        server.close()

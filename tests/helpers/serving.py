"""`winml-py serve` in a process, and what asks it."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from helpers.processes import interrupt, start_program
from helpers.waiting import wait_until


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def facts(self) -> Any:
        return json.loads(self.body)


class Service:
    """The command, on a free port; what it writes to standard error is in a file."""

    def __init__(self, log: Path, *words: object) -> None:
        self.log = log
        command = [sys.executable, "-m", "winml_py", "serve", "--port", "0", "--json", *map(str, words)]
        with log.open("w") as errors:
            self.process = start_program(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        lines = list(takewhile(lambda line: line != "}\n", self.process.stdout))
        assert lines, log.read_text()
        printed = "".join(lines) + "}"
        self.address = json.loads(printed)["address"]
        self.port = int(self.address.rpartition(":")[2].strip("/"))

    def ask(
        self, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str = ""
    ) -> Answer:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method or ("GET" if body is None else "POST"), path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def infer(self, model: str, **inputs: tuple[str, list[int], list[Any]]) -> Answer:
        """The answer to inputs in JSON: a datatype, a shape and data for each."""
        facts = [{"name": n, "datatype": d, "shape": s, "data": data} for n, (d, s, data) in inputs.items()]
        return self.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": facts}).encode())

    def send(self, text: bytes) -> socket.socket:
        """A connection on which something has been sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(text)
        return connection

    def wait_ready(self) -> None:
        wait_until(lambda: self.ask("/v2/health/ready").status == 200)

    def engines(self) -> list[psutil.Process]:
        """The processes of isolated engines."""
        engines = []
        for child in self.process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "isolated.child" in child.environ().get("WINML_PY_SERVE", ""):
                    engines.append(child)
        return engines

    def lines(self, text: str) -> list[str]:
        """The lines of the log with a text; waits for the first: a request is logged after its answer is sent."""
        wait_until(lambda: text in self.log.read_text())
        return [line for line in self.log.read_text().splitlines() if text in line]

    def close(self, name: str = "SIGTERM") -> int:
        """Ends it; gives its exit code."""
        interrupt(self.process, name)
        code: int = self.process.wait(60)
        self.process.stdout.close()
        return code


@contextmanager
def run_service(log: Path, *words: object) -> Iterator[Service]:
    """The command, until the block ends; it must end well, with all its processes."""
    service = Service(log, *words)
    try:
        service.wait_ready()
        yield service
        family = service.process.children(recursive=True)
        assert service.close() == 0
        assert psutil.wait_procs(family, timeout=20)[1] == []
    finally:
        if service.process.is_running():
            for process in [*service.process.children(recursive=True), service.process]:
                process.kill()
            service.process.wait()
        service.process.stdout.close()

"""Who may talk to the page: everybody else is refused, and nothing but the page's own is served."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.pages import Page, serve_page
from helpers.paths import ROOT
from winml_py._http import MAX_REQUEST_BYTES

STATIC = ROOT / "winml_py" / "view" / "static"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with serve_page() as made:
        yield made


def test_the_page_with_its_token(page: Page) -> None:
    status, headers, body = page.ask(f"/{page.token}/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<main>" in body
    assert page.ask(f"/{page.token}")[:2][0] == 303


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/view.js",
        "/api/state",
        "/wrong/",
        "/wrong/api/state",
        "//",
        "/open/ticket",
    ],
)
def test_without_the_token(page: Page, path: str) -> None:
    status, _, body = page.ask(path)
    assert status == 403
    assert b"which contains a token" in body


@pytest.mark.parametrize(
    "host", ["example.com", "127.0.0.1", "127.0.0.1:1", "localhost.evil.com:{port}", "[::1]:{port}"]
)
def test_a_wrong_host(page: Page, host: str) -> None:
    """A name that an attacker's DNS server leads to this machine."""
    host = host.format(port=page.host.rpartition(":")[2])
    assert page.ask(f"/{page.token}/api/state", headers={"Host": host})[0] == 421


def test_both_names_of_this_machine(page: Page) -> None:
    port = page.host.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost"):
        headers = {"Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"}
        assert page.ask(f"/{page.token}/api/state", headers=headers)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://example.com", "null", "https://{host}", "http://127.0.0.1:1", "http://{host}.evil.com", ""]
)
def test_another_origin(page: Page, origin: str) -> None:
    headers = {"Origin": origin.format(host=page.host)}
    for body in (None, b"{}"):
        status, answered, _ = page.ask(f"/{page.token}/api/state", body, headers=headers)
        assert status == 403
        assert not any(name.lower().startswith("access-control") for name in answered)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods(page: Page, method: str) -> None:
    assert page.ask(f"/{page.token}/api/state", method=method)[0] in (400, 405)


def test_too_large_by_what_it_says(page: Page) -> None:
    connection = http.client.HTTPConnection(page.host, timeout=30)
    connection.putrequest("POST", f"/{page.token}/api/pictures?name=x.png")
    connection.putheader("Content-Length", str(MAX_REQUEST_BYTES + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert b"at most 64 MB" in answer.read()
    connection.close()


def test_a_client_that_reads_when_it_has_sent_all_gets_its_answer(page: Page) -> None:
    status, _, answer = page.ask(f"/{page.token}/api/pictures?name=x.png", bytes(MAX_REQUEST_BYTES + (16 << 20)))
    assert (status, b"at most 64 MB" in answer) == (413, True)


def test_too_large_while_it_comes(page: Page) -> None:
    """In parts, without a length: all parts are counted, and the file goes."""
    host, port = page.host.split(":")
    with socket.create_connection((host, int(port)), 60) as sock:
        head = f"POST /{page.token}/api/models?name=x.onnx HTTP/1.1\r\nHost: {page.host}\r\n"
        sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        part = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        sent = 0
        try:
            while sent <= MAX_REQUEST_BYTES + (16 << 20):
                sock.sendall(part)
                sent += 1 << 20
        except OSError:
            pass  # it does not listen any more
        answer = sock.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413"), answer
    assert list(Path(page.bench.folder).iterdir()) == []


def test_a_wrong_length(page: Page) -> None:
    assert page.ask(f"/{page.token}/api/state", b"{}", headers={"Content-Length": "-1"})[0] in (400, 413)


def test_every_answer_has_the_headers(page: Page) -> None:
    for path in (f"/{page.token}/", f"/{page.token}/api/state", f"/{page.token}/nothing", "/"):
        _, headers, _ = page.ask(path)
        policy = headers["content-security-policy"]
        nowhere = "object-src 'none'; base-uri 'none'; form-action 'none'"
        assert policy == f"default-src 'self'; {nowhere}; frame-ancestors 'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert "set-cookie" not in headers


def test_notebooks_of_this_machine_may_show_it_inside() -> None:
    with serve_page(in_notebooks=True) as page:
        policy = page.ask(f"/{page.token}/")[1]["content-security-policy"]
    frames = policy.partition("frame-ancestors ")[2].split()
    assert "http://localhost:*" in frames
    assert "*" not in frames
    assert all(re.match(r"'self'|https?://(localhost|127\.0\.0\.1):\*|vscode-webview:$", frame) for frame in frames)


def test_a_ticket_opens_once() -> None:
    """It stands on the command line of a browser, where other users can read it: later it is worth nothing."""
    from winml_py.view.server import PageServer
    from winml_py.view.workbench import Workbench

    server = PageServer(Workbench())
    server.start()
    try:
        page = Page(Workbench(), server.address)
        path = server.make_browser_address().partition(page.host)[2]
        assert page.token not in path
        status, headers, _ = page.ask(path)
        assert (status, headers["location"]) == (303, f"/{page.token}/")
        assert page.ask(path)[0] == 403
        page.bench.close()
    finally:
        server.close()


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "%2e%2e/app.py",
        "..%5capp.py",
        "view.js%00",
    ],
)
def test_no_other_file(page: Page, path: str) -> None:
    status, _, body = page.ask(f"/{page.token}/{path}")
    assert (status, b"class" in body) == (404, False)


def test_scripts_have_a_type_that_browsers_accept(page: Page) -> None:
    assert page.ask(f"/{page.token}/view.js")[1]["content-type"].startswith("text/javascript")


def test_the_page_has_no_inline_code_and_no_address_of_another_site() -> None:
    for path in STATIC.rglob("*"):
        if path.suffix not in (".html", ".js", ".css"):
            continue
        text = path.read_text(encoding="utf-8")
        foreign = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", text))
        assert foreign <= {"http://www.w3.org/2000/svg"}, path
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", text), path
        if path.suffix == ".js":
            markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
            assert not re.search(markup, text), path

"""What the checks of `winml-py view` share: its program, Chromium, and a window with everything that is wrong in it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Playwright

VIEWS = {"screen": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light"), "dark phone": (390, "dark")}
SECONDS = 60
"""So long a page may take."""

TENSOR = "document.querySelector('.a .frame img').src"
"""The address of the tensor's picture: another one for each evaluation, and for each reading of it."""

TENSOR_OF_B = TENSOR.replace(".a ", ".b ")

_MEASURE = """
() => {
  const root = document.documentElement, found = [];
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide`);
  for (const image of document.querySelectorAll("img"))
    if (image.offsetParent && !image.naturalWidth) found.push(`there is no ${image.src}`);
  for (const field of document.querySelectorAll("input, select, textarea"))
    if (field.offsetParent && !field.labels?.length && !field.getAttribute("aria-label") && !field.title)
      found.push(`a field has no label: ${field.outerHTML.slice(0, 80)}`);
  return found;
}
"""
_DROP = """
([text, name]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}
"""


@contextmanager
def program(*words: object) -> Iterator[str]:
    """The address that the command prints first."""
    code = "from winml_py.cli.main import main; main()"
    command = [sys.executable, "-c", code, "view", *map(str, words), "--no-browser"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                said.seek(0)
                raise RuntimeError(f"winml-py view {words} says: {said.read().decode()}")
            yield address
        finally:
            process.terminate()
            process.wait(20)


def start_browser(player: Playwright, *flags: str) -> Browser:
    """Chromium: its path in the variable CHROMIUM, or a `chromium` on the path."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    return player.chromium.launch(executable_path=chromium, args=["--no-sandbox", *flags])


class Window:
    """One page. What its console says is wrong, and so is a request to another host.

    Args:
        context: where it is opened.
        address: of the page of `winml-py view`.
        pictures: a folder for screenshots.
    """

    def __init__(self, context: BrowserContext, address: str, pictures: Path | None = None) -> None:
        self.page, self.address, self.wrong, self._pictures = context.new_page(), address, list[str](), pictures
        self.looks = 0
        self._host, self._before = urlsplit(address).netloc, ""
        self.page.on("console", lambda said: self.wrong.append(f"the console has: {said.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._see(request.url))

    def _see(self, address: str) -> None:
        if not address.startswith(("blob:", "data:")) and urlsplit(address).netloc != self._host:
            self.wrong.append(f"{address} is asked for")

    def open(self) -> None:
        self.page.goto(self.address)
        self.settle()

    def settle(self) -> None:
        """Waits until nothing is evaluated any more, and all pictures are there."""
        self.page.wait_for_function(
            "() => document.querySelector('.side .best, .side .error')?.textContent && !document.querySelector('.busy')"
            " && [...document.images].every((image) => image.complete)"
        )

    def drop(self, data: bytes, name: str) -> None:
        self.page.evaluate(_DROP, [base64.b64encode(data).decode(), name])

    def note(self, what: str = TENSOR) -> None:
        self._before = self.page.evaluate(what)

    def wait_for_another(self, what: str = TENSOR) -> None:
        """Waits until what was noted is another one."""
        self.page.wait_for_function(f"(before) => {what} !== before", arg=self._before)
        self.settle()

    def choose(self, selector: str, word: str, tensor: str = TENSOR) -> None:
        """Chooses or writes something else, and waits for what comes of it."""
        field = self.page.locator(selector)
        if field.input_value() == word:
            return
        self.note(tensor)
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(word)
        else:
            field.fill(word)
            field.press("Enter")
        self.wait_for_another(tensor)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def expect(self, is_right: bool, words: str) -> None:
        if not is_right:
            self.wrong.append(words)

    def turn(self, view: str) -> None:
        """Makes the window that of a view."""
        width, scheme = VIEWS[view]
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")

    def look(self, name: str) -> None:
        """In each view: nothing is too wide, nothing is missing, and the colours are right."""
        for view in VIEWS:
            self.turn(view)
            self.look_at(view, name)
        self.turn("screen")

    def look_at(self, view: str, name: str) -> None:
        """The same in the view that the window has."""
        self.looks += 1
        self.wrong += [f"{view}, {name}: {what}" for what in self.page.evaluate(_MEASURE)]
        levels = self.page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        )
        self.expect((max(levels) < 64) is ("dark" in view), f"{view}, {name}: the background is {levels}")
        if self._pictures:
            self.page.screenshot(path=self._pictures / f"{name} {view}.png", full_page=True)

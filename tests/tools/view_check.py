"""Uses the page of `winml-py view` in a browser, as a person does: on a screen, in the dark, and on a phone.

pip install '.[view]' playwright
python tests/tools/view_check.py [--pictures FOLDER]

Needs Chromium (its path in the variable CHROMIUM, or a `chromium` on the path). A picture is dropped; the range is
changed, and both the tensor's picture and the answer change; a config is taken; the Python is copied and run; the
contract is saved, and the new model opened. Nothing is asked of another host, nothing is wider than the window, and
nothing is written to the console. With --pictures, screenshots are written to a folder. The exit code is 1 if
something is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from onnx import helper
from playwright.sync_api import BrowserContext, Playwright, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.models import data, tensor
from helpers.paths import MODELS, PICTURES

VIEWS = {"screen": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light"), "dark phone": (390, "dark")}
CONFIG = {
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 128, "width": 128},
    "image_mean": [0.4, 0.5, 0.6],
}
HOSTILE = '<img src=x onerror="document.title=1">'

MEASURE = """
() => {
  const root = document.documentElement, found = [];
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide`);
  for (const image of document.querySelectorAll("img"))
    if (image.offsetParent && !image.naturalWidth) found.push(`there is no ${image.src}`);
  for (const field of document.querySelectorAll("input, select, textarea"))
    if (field.offsetParent && !field.labels?.length && !field.ariaLabel && !field.getAttribute("aria-label"))
      found.push(`a field has no label: ${field.outerHTML.slice(0, 80)}`);
  return found;
}
"""
DROP = """
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
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)


class Check:
    """One page, and what is wrong with it."""

    def __init__(self, context: BrowserContext, address: str, pictures: Path | None) -> None:
        self.page, self.address, self.wrong, self._pictures = context.new_page(), address, list[str](), pictures
        page, host = self.page, urlsplit(address).netloc
        page.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        context.on("request", lambda request: self._see(request.url, host))

    def _see(self, address: str, host: str) -> None:
        if not address.startswith(("blob:", "data:")) and urlsplit(address).netloc != host:
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
        import base64

        self.page.evaluate(DROP, [base64.b64encode(data).decode(), name])

    def changing(self, what: str) -> None:
        """Waits until the answer or the tensor is another one."""
        self.page.wait_for_function(f"(before) => {what} !== before", arg=self._before)
        self.settle()

    def noting(self, what: str) -> None:
        self._before = self.page.evaluate(what)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def expect(self, is_right: bool, words: str) -> None:
        if not is_right:
            self.wrong.append(words)

    def look(self, name: str) -> None:
        """In each view: nothing is too wide, nothing is missing, and the colours are right."""
        for view, (width, scheme) in VIEWS.items():
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            self.wrong += [f"{view}, {name}: {what}" for what in self.page.evaluate(MEASURE)]
            levels = self.page.evaluate(
                "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
            )
            self.expect((max(levels) < 64) is (scheme == "dark"), f"{view}, {name}: the background is {levels}")
            if self._pictures:
                self.page.screenshot(path=self._pictures / f"{view} {name}.png", full_page=True)
        self.page.set_viewport_size({"width": 1280, "height": 900})


TENSOR = "document.querySelector('.a .frame img').src"
LEVELS = """
async () => {
  const image = document.querySelector(".a .frame img"), canvas = document.createElement("canvas");
  await image.decode();
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data].reduce((a, b) => a + b, 0);
}
"""


def use(check: Check, folder: Path) -> None:
    """What a person does, from the picture to the saved model."""
    page = check.page
    check.open()
    check.look("before a picture")
    check.noting(TENSOR)
    check.drop((PICTURES / "shapes.png").read_bytes(), "shapes.png")
    check.changing(TENSOR)
    check.expect("circle" in check.text(".a .best"), f"the answer is {check.text('.a .best')}")
    check.look("an answer")

    answer, levels = check.text(".a section:nth-of-type(2)"), page.evaluate(LEVELS)
    check.noting(TENSOR)
    page.select_option(".a select[data-key='Image.NominalPixelRange']", "NominalRange_0_255")
    check.changing(TENSOR)
    check.expect(page.evaluate(LEVELS) != levels, "the tensor's picture is the same with another range")
    check.expect(check.text(".a section:nth-of-type(2)") != answer, "the answer is the same with another range")
    check.expect("255" in check.text(".a .facts") or "2" in check.text(".a .facts"), "the range is not told")

    check.noting(TENSOR)
    page.get_by_role("button", name="the model").first.click()
    check.changing(TENSOR)
    check.expect(page.evaluate(LEVELS) == levels, "the model's own contract gives another picture")

    page.locator(".a details", has_text="From a config").locator("summary").click()
    page.get_by_label("A config for A").fill(json.dumps(CONFIG))
    check.noting(TENSOR)
    page.locator(".a").get_by_role("button", name="Take it").click()
    check.changing(TENSOR)
    check.expect(
        page.input_value(".a input[data-key='Image.Mean']") == "0.4, 0.5, 0.6", "the config's mean is not there"
    )

    page.check("#compare")
    page.wait_for_selector(".b .best:not(:empty)")
    check.settle()
    check.noting("document.querySelector('.b .frame img').src")
    page.locator(".b").get_by_role("button", name="YOLO").click()
    check.changing("document.querySelector('.b .frame img').src")
    check.expect(page.locator(".seen").count() == 2, "two settings draw one rectangle")
    check.look("two settings")
    page.uncheck("#compare")
    page.get_by_role("button", name="Try them").click()
    page.wait_for_function("() => document.querySelectorAll('#tried tbody tr').length >= 8")
    check.settle()
    copied_program(check, folder)

    page.fill("#save-name", "saved.onnx")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Open it").click()
    page.wait_for_function("() => document.querySelector('#model-name').textContent === 'saved.onnx'")
    check.settle()
    check.expect(
        page.input_value(".a input[data-key='Image.Mean']") == "0.4, 0.5, 0.6", "the saved model has another mean"
    )
    check.expect((folder / "saved.onnx").is_file(), "there is no saved model")

    page.reload()
    check.settle()


def copied_program(check: Check, folder: Path) -> None:
    """The Python that is copied gives the answer that is shown."""
    page = check.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.wait_for_selector("#copied:not(:empty)")
    code = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    check.expect(done.returncode == 0, f"the program fails: {done.stderr[-300:]}")
    rows = page.locator(".a section").nth(1).locator("tbody tr").count()
    check.expect(
        done.stdout.count("[") == rows, f"the program finds {done.stdout.count('[')} objects, and the page {rows}"
    )


def hostile(check: Check) -> None:
    """Names that are markup are text; a model without pictures has fields."""
    page = check.page
    ends = [tensor(HOSTILE, [3], doc=HOSTILE), tensor("y", [3])]
    model = data([helper.make_node("Neg", [HOSTILE], ["y"])], ends[:1], ends[1:], doc_string=HOSTILE)
    check.drop(model, f"{HOSTILE.replace('/', '')}.onnx")
    page.wait_for_selector("#fields textarea")
    check.settle()
    page.fill("#fields textarea", "1, 2, 3.5")
    page.get_by_role("button", name="Evaluate").click()
    page.wait_for_function("() => document.querySelector('.a .best').textContent === '-1, -2, -3.5'")
    page.get_by_role("button", name="Make up values").click()
    page.wait_for_function("() => document.querySelector('.a .best').textContent !== '-1, -2, -3.5'")
    check.settle()
    check.expect(HOSTILE in check.text("#fields"), "the name of the input is not shown")
    check.expect(page.locator("img[src='x']").count() == 0, "a name has become an element")
    check.look("fields")


def slow(check: Check) -> None:
    """An evaluation that takes long is stopped, and the page goes on."""
    rng = np.random.default_rng(0)
    weights = {name: rng.random(shape, np.float32) for name, shape in (("w", (1, 512, 1)), ("r", (1, 512, 128)))}
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["long"]),
        helper.make_node("LSTM", ["long", "w", "r"], ["", "y"], hidden_size=128),
    ]
    shapes = {"shape": np.array([1_000_000, 1, 1])}
    model = data(nodes, [tensor("x", [1])], [tensor("y", (1, 1, 128))], weights | shapes)
    check.drop(model, "slow.onnx")
    check.page.wait_for_selector("#stop:not([hidden])")
    check.page.click("#stop")
    check.page.wait_for_function("() => document.querySelector('.a .error')?.textContent.includes('stopped')")
    check.page.get_by_role("button", name="digits").click()
    check.page.wait_for_function("() => document.querySelector('.a .best')?.textContent.startsWith('class 7')")
    # What was stopped is an answer of 409, which browsers write to the console.
    check.wrong = [words for words in check.wrong if "409" not in words]


def launched(player: Playwright) -> BrowserContext:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    return player.chromium.launch(executable_path=chromium, args=["--no-sandbox"]).new_context()


def check_all(pictures: Path | None) -> list[str]:
    """Everything that is wrong."""
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as player:
        folder = Path(temporary)
        for path in (MODELS / "shapes.onnx", PICTURES / "cat.jpg", PICTURES / "shapes.png"):
            shutil.copy(path, folder)
        context = launched(player)
        with program(folder / "shapes.onnx", folder / "cat.jpg") as address:
            check = Check(context, address, pictures)
            use(check, folder)
            hostile(check)
            slow(check)
    print(f"{len(VIEWS)} views: {len(check.wrong)} wrong")
    return check.wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="Uses the page of `winml-py view` in a browser.")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    given = parser.parse_args()
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    wrong = check_all(given.pictures)
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Uses the page of `winml-py view` in a browser, as a person does: on a screen, in the dark, and on a phone.

    pip install '.[view]' playwright
    python tests/tools/view_check.py [--pictures FOLDER]

Needs Chromium (its path in the variable CHROMIUM, or a `chromium` on the path).

It tries what docs/how-to/view.md promises of each part. The picture of the tensor is compared with the numbers that
were bound, the rectangle with where it must be, and the Python and the saved contract with what is shown. Names that
are markup stay text, and what takes long is stopped.

No request leaves this machine, nothing is wider than the window, and nothing is written to the console. With
--pictures, screenshots are written to a folder. The exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from onnx import helper
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Playwright, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers.models import data, tensor
from helpers.paths import MODELS, PICTURES
from winml_py import LearningModel, read_contract
from winml_py.core.base.winrt_object import private_state

VIEWS = {"screen": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light"), "dark phone": (390, "dark")}
SIZE = {"height": 128, "width": 128}
CONFIG = {"image_processor_type": "ViTImageProcessor", "size": SIZE, "image_mean": [0.4, 0.5, 0.6]}
MARKUP = '<img src=x onerror="window.struck=1"><style>*{display:none}</style>'

RANGE, MEAN, SCALING = (f".a [data-key='Image.{key}']" for key in ("NominalPixelRange", "Mean", "Scaling"))
READ = ".a select[aria-label='How the numbers are read']"

_TENSOR = "(document.querySelector('.a .frame img')?.src ?? null)"
"""The address of the tensor's picture: another one for each evaluation, and for each reading of it."""

_IS_SETTLED = """
() => document.querySelector(".side .best, .side .error")?.textContent && !document.querySelector(".busy")
  && [...document.images].every((image) => image.complete)
"""
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
_GIVE = """
([kind, text, name]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer(), options = { bubbles: true, cancelable: true };
  transfer.items.add(new File([bytes], name));
  document.body.dispatchEvent(kind === "drop" ? new DragEvent("drop", { dataTransfer: transfer, ...options })
    : new ClipboardEvent("paste", { clipboardData: transfer, ...options }));
}
"""
_PIXELS = """
async () => {
  const image = document.querySelector(".a .frame img"), canvas = document.createElement("canvas");
  await image.decode();
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [canvas.width, canvas.height, btoa(Array.from(data, (level) => String.fromCharCode(level)).join(""))];
}
"""
_SEEN = """
() => ["x", "y", "width", "height"].map((side) => Number(document.querySelector(".seen").getAttribute(side)))
"""
_IS_STRUCK = "window.struck || document.querySelector(\"body :is(img, style, script, a[href*='//'])\") !== null"


# The program, the browser, and a window.


@contextmanager
def program(*words: object) -> Iterator[str]:
    """The address that the command prints first."""
    code = "from winml_py.cli.main import main; main()"
    command = [sys.executable, "-c", code, "view", *map(str, words), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def start_browser(player: Playwright, *flags: str) -> Browser:
    """Chromium: its path in the variable CHROMIUM, or a `chromium` on the path."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    return player.chromium.launch(executable_path=chromium, args=["--no-sandbox", *flags])


class Window:
    """One page. What its console says is wrong, and so is a request to another host.

    Args:
        context: where it is opened.
        address: of the page.
        pictures: a folder for screenshots.
    """

    def __init__(self, context: BrowserContext, address: str, pictures: Path | None = None) -> None:
        self.page, self.address, self.wrong, self._pictures = context.new_page(), address, list[str](), pictures
        self.looks, self._host = 0, urlsplit(address).netloc
        self.page.on("console", self._require_silence)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._require_own_host(request.url))

    def _require_silence(self, said: ConsoleMessage) -> None:
        is_last = "/test_data_set_" in said.location["url"] and "404" in said.text  # there are no more samples
        self.expect(is_last, f"the console has: {said.text}")

    def _require_own_host(self, address: str) -> None:
        is_own = address.startswith(("blob:", "data:")) or urlsplit(address).netloc == self._host
        self.expect(is_own, f"{address} is requested")

    def expect(self, is_right: bool, words: str) -> None:
        if not is_right:
            self.wrong.append(words)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def open(self) -> None:
        self.page.goto(self.address)
        self.settle()

    def settle(self) -> None:
        """Waits until nothing is evaluated any more, and all pictures are there."""
        self.page.wait_for_function(_IS_SETTLED)

    @contextmanager
    def evaluated(self, what: str = _TENSOR) -> Iterator[None]:
        """Waits after the block until something else is shown than before it."""
        before = self.page.evaluate(what)
        yield
        self.page.wait_for_function(f"(before) => {what} !== before", arg=before)
        self.settle()

    def drop(self, data: bytes, name: str, kind: str = "drop") -> None:
        """Drops a file on the page, or pastes it."""
        self.page.evaluate(_GIVE, [kind, base64.b64encode(data).decode(), name])

    def drop_picture(self, path: Path = PICTURES / "shapes.png") -> None:
        with self.evaluated():
            self.drop(path.read_bytes(), path.name)

    def press(self, button: str, within: str = "body") -> None:
        self.page.locator(within).get_by_role("button", name=button, exact=True).first.click()

    def choose(self, selector: str, word: str) -> None:
        """Chooses or writes something else, and waits for what comes of it."""
        field = self.page.locator(selector)
        if field.input_value() == word:
            return
        with self.evaluated():
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(word)
            else:
                field.fill(word)
                field.press("Enter")

    def look(self, name: str) -> None:
        """In each view: nothing is too wide, nothing is missing, and the background is light or dark."""
        for view, (width, scheme) in VIEWS.items():
            self.looks += 1
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            self.wrong += [f"{view}, {name}: {what}" for what in self.page.evaluate(_MEASURE)]
            colour = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
            is_dark = max(map(int, re.findall(r"\d+", colour)[:3])) < 64
            self.expect(is_dark is (scheme == "dark"), f"{view}, {name}: the background is {colour}")
            if self._pictures:
                self.page.screenshot(path=self._pictures / f"{name} {view}.png", full_page=True)
        self.page.set_viewport_size({"width": 1280, "height": 900})
        self.page.emulate_media(color_scheme="light")

    # What is on the page.

    def read_pixels(self) -> Any:
        """The tensor's picture as the browser draws it: height x width x 3."""
        width, height, text = self.page.evaluate(_PIXELS)
        return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)[..., :3]

    def read_objects(self) -> list[list[str]]:
        """The rows of the table of objects: label, score, and edges."""
        rows = self.page.locator(".a section").nth(1).locator("tbody tr")
        return [row.split("\t") for row in rows.all_inner_texts()]

    def run_python(self) -> tuple[Any, list[str]]:
        """The numbers that the page's program binds, 1 x 3 x height x width, and the lines that it prints."""
        names, printed = dict[str, Any](), io.StringIO()
        with redirect_stdout(printed):
            exec(self.page.locator("#code").text_content() or "", names)
        return np.array(private_state(names["binding"]).bound.inputs["image"]), printed.getvalue().splitlines()


# The parts of the page. The model shapes.onnx takes RGB from 0 to 1, 128 x 128.


def check_tensor(window: Window) -> None:
    """What goes in, and what the model is given."""
    window.open()
    window.look("an answer")
    for mean in ("", "0.4, 0.5, 0.6"):
        window.choose(MEAN, mean)
        numbers = window.run_python()[0][0].transpose(1, 2, 0).astype(float)
        told = [float(word) for word in re.findall(r"[-\d.]+", window.text(".a .facts"))]
        wanted = [numbers.min(), numbers.max(), numbers.mean()]
        window.expect(np.allclose(told, wanted, rtol=1e-3), f"range and mean are told as {told}, and not {wanted}")
        undone = numbers + np.array(mean.split(",") if mean else [0, 0, 0], float)
        stretched = (numbers - numbers.min()) / (numbers.max() - numbers.min())
        for reading, shares in {"undone": undone, "numbers": stretched}.items():
            window.choose(READ, reading)
            far = np.abs(window.read_pixels() - np.clip(np.rint(shares * 255), 0, 255)).max()
            window.expect(far <= (reading == "numbers"), f"the tensor, read as {reading} with the mean {mean}: {far}")
    window.choose(MEAN, "")
    parts = {"stretch": (0, 0, 451, 300), "crop_to_aspect": (75.5, 0, 300, 300), "fit": (0, -75.5, 451, 451)}
    for scaling, sides in parts.items():
        window.choose(SCALING, scaling)
        seen = window.page.evaluate(_SEEN)
        # A rectangle ends at whole pixels of the tensor, of which 128 are as wide as it is.
        is_near = np.allclose(seen, sides, atol=max(sides[2:]) / 128)
        window.expect(is_near, f"{scaling} takes {seen}, and not {sides}")


def check_settings(window: Window) -> None:
    """Changes act at once; a config, the model's own contract and a second setting are taken."""
    window.open()
    window.drop_picture()
    best, answer, pixels = window.text(".a .best"), window.read_objects(), window.read_pixels()
    window.choose(RANGE, "NominalRange_0_255")
    window.expect(not np.array_equal(window.read_pixels(), pixels), "another range, and the same picture of the tensor")
    window.expect(window.read_objects() != answer, "another range, and the same answer")
    window.press("Try them")
    window.page.wait_for_selector("#tried > p")
    tried = [row.split("\t") for row in window.page.locator("#tried tbody tr").all_inner_texts()]
    right = [name for name, words, *_ in tried if words == best]
    window.expect(len(tried) >= 8 and "range Normalized_0_1" in right, f"of the other settings, {right} are right")
    window.look("other settings")
    with window.evaluated():
        window.press("the model")
    window.expect(np.array_equal(window.read_pixels(), pixels), "the model's own contract gives another picture")
    window.page.click(".a details:has(textarea) summary")
    window.page.fill(".a details textarea", json.dumps(CONFIG))
    with window.evaluated():
        window.press("Use it", ".a")
    window.expect(window.page.input_value(MEAN) == "0.4, 0.5, 0.6", "the config's mean is not taken")
    window.page.check("#compare")
    window.page.wait_for_selector(".b .best:not(:empty)")
    window.settle()
    with window.evaluated(_TENSOR.replace(".a ", ".b ")):
        window.press("yolo", ".b")
    window.expect(window.page.locator(".seen").count() == 2, "two settings draw one rectangle")
    window.look("two settings")
    window.page.uncheck("#compare")
    window.settle()
    check_python_and_copy(window)


def check_python_and_copy(window: Window) -> None:
    """The program prints the answer; the saved model has the settings, and gives the answer, also when reloaded."""
    rows = window.read_objects()
    window.press("Copy")
    window.page.wait_for_selector("#copied:not(:empty)")
    copied = window.page.evaluate("navigator.clipboard.readText()")
    window.expect(copied == window.page.locator("#code").text_content(), "another program is copied than is shown")
    printed = [re.fullmatch(r"(\w+) ([\d.e-]+) .*?\[(.*)\].*", line) for line in window.run_python()[1]]
    found = [
        [match[1], f"{float(match[2]) * 100:.1f} %", ", ".join(f"{float(edge):.0f}" for edge in match[3].split())]
        for match in printed
        if match
    ]
    window.expect(bool(rows) and found == rows, f"the program prints {found}, and the page has {rows}")
    window.page.fill("#save-name", "saved.onnx")
    with window.page.expect_download() as download:
        window.page.keyboard.press("Enter")
    window.expect(download.value.suggested_filename == "saved.onnx", "the saved model has another name")
    download.value.save_as("saved.onnx")
    window.drop(Path("saved.onnx").read_bytes(), "saved.onnx")
    for _ in range(2):
        window.page.wait_for_function("() => document.querySelector('#model-name').textContent === 'saved.onnx'")
        window.settle()
        window.expect(window.read_objects() == rows, f"the saved model finds {window.read_objects()}, and not {rows}")
        window.page.reload()
    contract = LearningModel.load("saved.onnx").input_features[0].contract
    window.expect(contract == read_contract(CONFIG), f"{contract} is saved")


def check_paste_and_camera(window: Window) -> None:
    """Both bring shapes.png; beside it, the camera shows nothing but its ground."""
    window.open()
    shapes = {"circle", "square", "triangle"}
    with window.evaluated():
        window.drop((PICTURES / "shapes.png").read_bytes(), "image.png", "paste")
    window.expect({row[0] for row in window.read_objects()} == shapes, "the pasted picture has other objects")
    window.page.click("#camera")
    is_on = "() => document.querySelector('#video').videoWidth && !document.querySelector('#video').paused"
    window.page.wait_for_function(is_on)
    window.look("the camera")
    with window.evaluated():
        window.page.click("#camera-take")
    window.expect({row[0] for row in window.read_objects()} == shapes, "the camera's picture has other objects")
    window.page.click("#camera-stop")
    window.expect(window.page.evaluate("document.querySelector('#video').srcObject === null"), "the camera is on")


def check_hostile_model(window: Window) -> None:
    """Names that are markup are shown as text."""
    window.open()
    window.drop(hostile_model(), "<b>hostile.onnx")
    window.page.wait_for_selector("#fields textarea")
    window.settle()
    with window.evaluated("document.querySelector('.a .best').textContent"):
        window.page.fill("#fields textarea", "1 2 3 4 5 6 7 8")
        window.page.keyboard.press("Tab")
    window.expect(MARKUP in window.text("#fields"), "the name of the input is not shown")
    window.expect(not window.page.evaluate(_IS_STRUCK), "a name has become an element")
    window.look("fields")


def check_stop(window: Window) -> None:
    """An evaluation that takes long is stopped, and the page goes on."""
    window.open()
    window.drop(slow_model(), "slow.onnx")
    window.page.click("#stop")
    window.page.wait_for_selector(".a .error:not(:empty)")
    window.drop((MODELS / "digits.onnx").read_bytes(), "digits.onnx")
    window.page.wait_for_function("() => document.querySelector('#model-name').textContent === 'digits.onnx'")
    window.drop_picture(PICTURES / "seven.png")
    window.expect("class 7" in window.text(".a .best"), f"of a seven it says {window.text('.a .best')}")


# Models.


def slow_model() -> bytes:
    rng = np.random.default_rng(0)
    weights = {name: rng.random(shape, np.float32) for name, shape in (("w", (1, 512, 1)), ("r", (1, 512, 128)))}
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["long"]),
        helper.make_node("LSTM", ["long", "w", "r"], ["", "y"], hidden_size=128),
    ]
    shapes = {"shape": np.array([1_000_000, 1, 1])}
    return data(nodes, [tensor("x", [1])], [tensor("y", (1, 1, 128))], weights | shapes)


def hostile_model() -> bytes:
    """A model whose every name and word is markup."""
    nodes = [
        helper.make_node("Sin", [f"{MARKUP}in"], [f"{MARKUP}sine"], name=f"{MARKUP}sin", doc_string=MARKUP),
        helper.make_node("Add", [f"{MARKUP}sine", f"{MARKUP}weight"], [f"{MARKUP}out"], name=f"{MARKUP}add"),
    ]
    taken = tensor(f"{MARKUP}in", [1, f"{MARKUP}size", 8], denotation=MARKUP, doc=MARKUP)
    given = tensor(f"{MARKUP}out", [1, f"{MARKUP}size", 8])
    weights, metadata = {f"{MARKUP}weight": np.ones(8, np.float32)}, {f"{MARKUP}key": MARKUP}
    return data(nodes, [taken], [given], weights, metadata=metadata, doc_string=MARKUP)


def write_video(path: Path) -> None:
    """A film of one frame, which Chromium takes for a camera: shapes.png on its ground."""
    shapes = Image.open(PICTURES / "shapes.png").convert("RGB")
    frame = Image.new("RGB", (640, 480), shapes.getpixel((0, 0)))
    frame.paste(shapes, (80, 0))
    luma, *colours = frame.convert("YCbCr").split()
    # C420jpeg: whole range, and colours of half the width and height.
    planes = [luma, *(plane.resize((320, 240), Image.Resampling.BOX) for plane in colours)]
    head = b"YUV4MPEG2 W640 H480 F10:1 Ip A1:1 C420jpeg\nFRAME\n"
    path.write_bytes(head + b"".join(map(Image.Image.tobytes, planes)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Uses the page of `winml-py view` in a browser.")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    pictures = parser.parse_args().pictures
    if pictures:
        pictures = pictures.absolute()
        pictures.mkdir(parents=True, exist_ok=True)
    looks, wrong = 0, list[str]()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as player:
        folder = Path(temporary)
        for path in (MODELS / "shapes.onnx", PICTURES / "cat.jpg", PICTURES / "shapes.png"):
            shutil.copy(path, folder)
        os.chdir(folder)  # a program has only the name of what was dropped on the page
        write_video(folder / "camera.y4m")
        fake = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
        browser = start_browser(player, *fake, f"--use-file-for-fake-video-capture={folder / 'camera.y4m'}")
        with program(folder / "shapes.onnx", folder / "cat.jpg") as address:
            for check in (check_tensor, check_settings, check_paste_and_camera, check_hostile_model, check_stop):
                context = browser.new_context(permissions=["clipboard-read", "clipboard-write", "camera"])
                window = Window(context, address, pictures)
                try:
                    check(window)
                except Error as error:  # a page on which something is missing; the other parts are still tried
                    window.wrong.append(error.message.splitlines()[0])
                context.close()
                looks += window.looks
                wrong += [f"{check.__name__}: {words}" for words in window.wrong]
        browser.close()
    print(f"{looks} views: {len(wrong)} wrong", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

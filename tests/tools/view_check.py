"""Uses the pages of `winml-py view` in a browser, as a person does: on a screen, in the dark, and on a phone.

pip install '.[view]' playwright
python tests/tools/view_check.py [--pictures FOLDER]

Needs Chromium (its path in the variable CHROMIUM, or a `chromium` on the path).

A picture is dropped, pasted, and taken with a camera; the range is changed, and both the tensor's picture and the
answer change; a config is taken; the Python is copied and run; the contract is saved, and the new model opened, and
loaded again. The picture of the tensor is compared with the numbers that were bound, these with the answer, and the
rectangle and the boxes with where they must be. Ten tabs are used at once. Names that are markup stay text, and what
takes long is stopped. `view_check_trials` looks for a wrong range; `view_check_graph` uses the pages of the graph and
of edits.

No request leaves this machine, nothing is wider than the window, and nothing is written to the console. With
--pictures, screenshots are written to a folder. The exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper
from PIL import Image
from playwright.sync_api import Error, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers.models import data, tensor
from helpers.paths import MODELS, PICTURES
from tools.view_check_browser import TENSOR_OF_B, Window, program, start_browser
from tools.view_check_graph import check_graphs
from tools.view_check_trials import check_trials
from winml_py import LearningModel, read_contract
from winml_py.core.base.winrt_object import private_state

CONFIG = {
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 128, "width": 128},
    "image_mean": [0.4, 0.5, 0.6],
}
HOSTILE = '<img src=x onerror="document.title=1">'
TABS = 10

RANGE = ".a select[data-key='Image.NominalPixelRange']"
MEAN = ".a input[data-key='Image.Mean']"
CROP = ".a select[data-key='Image.CropMode']"
READ = ".a select[aria-label='How the numbers are read']"

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
_TO_CLIPBOARD = """
async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  await navigator.clipboard.write([new ClipboardItem({ "image/png": new Blob([bytes], { type: "image/png" }) })]);
}
"""
_SEEN = """
() => ["x", "y", "width", "height"].map((side) => Number(document.querySelector(".seen").getAttribute(side)))
"""


# What a person does, from the picture to the saved model.


def use(window: Window, folder: Path) -> None:
    page = window.page
    window.open()
    window.look("before a picture")
    window.note()
    window.drop((PICTURES / "shapes.png").read_bytes(), "shapes.png")
    window.wait_for_another()
    window.expect("circle" in window.text(".a .best"), f"the answer is {window.text('.a .best')}")
    window.look("an answer")

    answer, pixels, numbers = window.text(".a section:nth-of-type(2)"), shown_pixels(window), bound(window)
    window.choose(RANGE, "NominalRange_0_255")
    window.expect(not np.array_equal(shown_pixels(window), pixels), "another range, and the same picture of the tensor")
    window.expect(window.text(".a section:nth-of-type(2)") != answer, "another range, and the same answer")
    told = [float(word) for word in re.findall(r"[-\d.]+", window.text(".a .facts"))]
    wanted = [numbers.min() * 255, numbers.max() * 255, numbers.mean() * 255]
    window.expect(np.allclose(told, wanted, rtol=1e-3), f"range and mean are told as {told}, and not {wanted}")

    window.note()
    page.get_by_role("button", name="the model").first.click()
    window.wait_for_another()
    window.expect(np.array_equal(shown_pixels(window), pixels), "the model's own contract gives another picture")

    page.locator(".a details", has_text="From a config").locator("summary").click()
    page.get_by_label("A config for A").fill(json.dumps(CONFIG))
    window.note()
    page.locator(".a").get_by_role("button", name="Use it").click()
    window.wait_for_another()
    mean = page.input_value(MEAN)
    window.expect(mean == "0.4, 0.5, 0.6", f"the config's mean is {mean}")

    page.check("#compare")
    page.wait_for_selector(".b .best:not(:empty)")
    window.settle()
    window.note(TENSOR_OF_B)
    page.locator(".b").get_by_role("button", name="yolo").click()
    window.wait_for_another(TENSOR_OF_B)
    window.expect(page.locator(".seen").count() == 2, "two settings draw one rectangle")
    window.look("two settings")
    page.uncheck("#compare")
    page.get_by_role("button", name="Try them").click()
    page.wait_for_function("() => document.querySelectorAll('#tried tbody tr').length >= 8")
    window.settle()
    run_copied(window, folder)
    save(window, folder)


def run_copied(window: Window, folder: Path) -> None:
    """The Python that is copied gives the answer that is shown."""
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.wait_for_selector("#copied:not(:empty)")
    code = page.evaluate("navigator.clipboard.readText()")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    window.expect(done.returncode == 0, f"the program fails: {done.stderr[-300:]}")
    printed = [re.fullmatch(r"(\w+) ([\d.e-]+) .*?\[(.*)\].*", line) for line in done.stdout.splitlines()]
    found = [
        [one[1], f"{float(one[2]) * 100:.1f} %", ", ".join(f"{float(edge):.0f}" for edge in one[3].split())]
        for one in printed
        if one
    ]
    rows = objects(window)
    window.expect(bool(rows) and found == rows, f"the program prints {done.stdout[:300]}, and the page has {rows}")


def objects(window: Window) -> list[list[str]]:
    """The rows of the table of objects: label, score, and edges."""
    rows = window.page.locator(".a section").nth(1).locator("tbody tr")
    return [row.split("\t") for row in rows.all_inner_texts()]


def save(window: Window, folder: Path) -> None:
    """What is saved has the settings, is opened with the same answer, and is loaded again with the page."""
    page = window.page
    rows = objects(window)
    page.fill("#save-name", "saved.onnx")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Open it").click()
    is_open = "() => document.querySelector('#model-name').textContent === 'saved.onnx'"
    page.wait_for_function(is_open)
    window.settle()
    window.expect(objects(window) == rows, f"the saved model finds {objects(window)}, and not {rows}")
    stated = LearningModel.load(folder / "saved.onnx").input_features[0].contract
    wanted = read_contract(CONFIG)
    window.expect(stated == wanted, f"{stated} is saved, and not {wanted}")
    page.reload()
    page.wait_for_function(is_open)
    window.settle()
    window.expect(objects(window) == rows, f"loaded again, the page finds {objects(window)}, and not {rows}")


# What is shown is what was bound.


def look_through(window: Window) -> None:
    """The picture of the tensor is its numbers, the answer is the model's on them, the rectangle is in its place."""
    window.open()
    for mean in ("", "0.4, 0.5, 0.6"):
        window.choose(MEAN, mean)
        for reading in ("undone", "numbers"):
            window.choose(READ, reading)
            compare_pixels(window, reading, np.array(mean.split(",") if mean else [0, 0, 0], float))
    window.choose(MEAN, "")
    for crop, sides in {
        "Stretch": (0, 0, 451, 300),
        "Center": (75.5, 0, 300, 300),
        "Letterbox": (0, -75.5, 451, 451),
    }.items():
        window.choose(CROP, crop)
        seen = window.page.evaluate(_SEEN)
        # A rectangle ends at whole pixels of the tensor, of which 128 are as wide as it is.
        near = max(sides[2:]) / 128
        window.expect(np.allclose(seen, sides, atol=near), f"{crop} takes {seen}, and not {sides}")
    compare_answer(window)


def shown_pixels(window: Window) -> Any:
    """The pixels of the tensor's picture as the browser draws them: height x width x 3."""
    width, height, text = window.page.evaluate(_PIXELS)
    levels = np.frombuffer(base64.b64decode(text), np.uint8)
    return levels.reshape(height, width, 4)[..., :3]


def bound(window: Window) -> Any:
    """The numbers that the program on the page binds: 1 x 3 x height x width."""
    names: dict[str, Any] = {}
    with redirect_stdout(None):
        exec(window.page.locator("#code").text_content() or "", names)
    return np.array(private_state(names["binding"]).bound.inputs["image"])


def compare_pixels(window: Window, reading: str, mean: Any) -> None:
    """`shapes.onnx` takes RGB from 0 to 1; `mean` was subtracted."""
    numbers = bound(window)[0].transpose(1, 2, 0).astype(float)
    if reading == "undone":
        numbers = numbers + mean
    if reading == "numbers":
        numbers = (numbers - numbers.min()) / (numbers.max() - numbers.min())
    wanted, drawn = np.clip(np.rint(numbers * 255), 0, 255), shown_pixels(window)
    window.expect(
        drawn.shape == wanted.shape and np.abs(drawn - wanted).max() <= (reading == "numbers"),
        f"the picture of the tensor, read as {reading} with the mean {mean}, is not its numbers",
    )


def compare_answer(window: Window) -> None:
    """What ONNX Runtime answers on the numbers that were bound is in the table, in the picture's own pixels."""
    window.note()
    window.drop((PICTURES / "shapes.png").read_bytes(), "shapes.png")
    window.wait_for_another()
    session = onnxruntime.InferenceSession(MODELS / "shapes.onnx", providers=["CPUExecutionProvider"])
    (raw,) = session.run(None, {session.get_inputs()[0].name: bound(window)})
    boxes, scores = raw[0, :4], raw[0, 4:]
    x, y, width, height = window.page.evaluate(_SEEN)
    rows = objects(window)
    window.expect(len(rows) >= 3, f"only {rows} are found")
    for label, score, edges in rows:
        of = scores[("circle", "square", "triangle").index(label)]
        at = int(np.argmin(np.abs(of - float(score.rstrip(" %")) / 100)))
        left, top = boxes[:2, at] - boxes[2:, at] / 2
        right, bottom = boxes[:2, at] + boxes[2:, at] / 2
        wanted = np.array([x, y, x, y]) + np.array([left, top, right, bottom]) / 128 * [width, height, width, height]
        told = [float(edge) for edge in edges.split(",")]
        window.expect(f"{of[at] * 100:.1f} %" == score, f"a score of {label} is {of[at]}, and shown as {score}")
        window.expect(np.abs(told - wanted).max() <= 1, f"{label} is drawn at {told}, and is at {wanted}")


# Other ways for a picture to come.


def paste(window: Window) -> None:
    """A picture in the clipboard, and the keys that paste it."""
    window.open()
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.page.evaluate(_TO_CLIPBOARD, base64.b64encode((PICTURES / "shapes.png").read_bytes()).decode())
    window.note()
    window.page.locator("h1").click()
    window.page.keyboard.press("ControlOrMeta+V")
    window.wait_for_another()
    window.expect(
        {row[0] for row in objects(window)} == {"circle", "square", "triangle"},
        f"of the pasted picture {window.text('.a .best')} is found",
    )


def photograph(window: Window) -> None:
    """The camera shows shapes.png, beside which there is nothing but its ground."""
    page = window.page
    window.open()
    page.get_by_role("button", name="Camera", exact=True).click()
    page.wait_for_function(
        "() => document.querySelector('#video').videoWidth && !document.querySelector('#video').paused"
    )
    window.look("the camera")
    window.note()
    page.get_by_role("button", name="Take the picture").click()
    window.wait_for_another()
    drawn = page.locator("#picture svg").get_attribute("aria-label") or ""
    is_whole = re.match(r"camera\.png, 640 . 480\.", drawn) is not None
    window.expect(is_whole, f"the picture of the camera is {drawn}")
    window.expect(
        {row[0] for row in objects(window)} == {"circle", "square", "triangle"},
        f"of what the camera took {window.text('.a .best')} is found",
    )
    page.get_by_role("button", name="Stop the camera").click()
    window.expect(page.locator("#camera-part").is_hidden(), "the camera is not put away")
    window.expect(page.evaluate("document.querySelector('#video').srcObject === null"), "the camera is still on")


def write_video(path: Path) -> None:
    """A film of one frame, which Chromium takes for a camera: shapes.png on its ground."""
    shapes = Image.open(PICTURES / "shapes.png").convert("RGB")
    frame = Image.new("RGB", (640, 480), shapes.getpixel((0, 0)))
    frame.paste(shapes, (80, 0))
    luma, *colours = frame.convert("YCbCr").split()
    # C420jpeg: whole range, and colours of half the width and height.
    planes = [luma, *(plane.resize((320, 240), Image.Resampling.BOX) for plane in colours)]
    path.write_bytes(
        b"YUV4MPEG2 W640 H480 F10:1 Ip A1:1 C420jpeg\nFRAME\n" + b"".join(map(Image.Image.tobytes, planes))
    )


# More than one person, and models that mean harm.


def use_tabs(windows: list[Window]) -> list[Window]:
    """Each tab states another mean, at once; each has its own answer."""
    for window in windows:
        window.page.goto(window.address, wait_until="commit")
    for window in windows:
        window.settle()
        window.note()
    for number, window in enumerate(windows, 1):
        change = "(field, text) => { field.value = text; field.dispatchEvent(new Event('change')); }"
        window.page.locator(MEAN).evaluate(change, ", ".join([str(number)] * 3))
    for number, window in enumerate(windows, 1):
        window.wait_for_another()
        lowest = float(bound(window).min())
        window.expect(-number <= lowest < 1 - number, f"tab {number} has numbers from {lowest}")
        told = float(window.text(".a .facts dd").split()[0])
        window.expect(abs(told - lowest) < 0.001, f"tab {number} tells numbers from {told}, and they are from {lowest}")
    return windows


def show_hostile(window: Window) -> None:
    """Names that are markup are text; a model without pictures has fields."""
    page = window.page
    window.open()
    ends = [tensor(HOSTILE, [3], doc=HOSTILE), tensor("y", [3])]
    model = data([helper.make_node("Neg", [HOSTILE], ["y"])], ends[:1], ends[1:], doc_string=HOSTILE)
    window.drop(model, f"{HOSTILE.replace('/', '')}.onnx")
    page.wait_for_selector("#fields textarea")
    window.settle()
    page.fill("#fields textarea", "1, 2, 3.5")
    page.get_by_role("button", name="Evaluate").click()
    page.wait_for_function("() => document.querySelector('.a .best').textContent === '-1, -2, -3.5'")
    page.fill("#fields textarea", "")  # then values are made up
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.querySelector('.a .best').textContent !== '-1, -2, -3.5'")
    window.settle()
    window.expect(HOSTILE in window.text("#fields"), "the name of the input is not shown")
    window.expect(page.locator("img[src='x']").count() == 0, "a name has become an element")
    window.look("fields")


def stop_slow(window: Window) -> None:
    """An evaluation that takes long is stopped, and the page goes on."""
    rng = np.random.default_rng(0)
    weights = {name: rng.random(shape, np.float32) for name, shape in (("w", (1, 512, 1)), ("r", (1, 512, 128)))}
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["long"]),
        helper.make_node("LSTM", ["long", "w", "r"], ["", "y"], hidden_size=128),
    ]
    shapes = {"shape": np.array([1_000_000, 1, 1])}
    model = data(nodes, [tensor("x", [1])], [tensor("y", (1, 1, 128))], weights | shapes)
    window.open()
    window.drop(model, "slow.onnx")
    window.page.wait_for_selector("#stop:not([hidden])")
    window.page.click("#stop")
    window.page.wait_for_function("() => document.querySelector('.a .error')?.textContent.includes('stopped')")
    window.drop((MODELS / "digits.onnx").read_bytes(), "digits.onnx")
    window.page.wait_for_function("() => document.querySelector('.a .error') === null")
    window.drop((PICTURES / "seven.png").read_bytes(), "seven.png")
    window.page.wait_for_function("() => document.querySelector('.a .best')?.textContent.startsWith('class 7')")


def check(pictures: Path | None) -> tuple[int, list[str]]:
    """How many views were looked at, and everything that is wrong in them."""
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as player:
        folder = Path(temporary)
        for path in (MODELS / "shapes.onnx", PICTURES / "cat.jpg", PICTURES / "shapes.png"):
            shutil.copy(path, folder)
        os.chdir(folder)  # a program has only the name of what was dropped on the page
        write_video(folder / "camera.y4m")
        fake = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
        browser = start_browser(player, *fake, f"--use-file-for-fake-video-capture={folder / 'camera.y4m'}")
        windows: list[Window] = []
        with program(folder / "shapes.onnx", folder / "cat.jpg") as address:
            context = browser.new_context()
            works: dict[str, Callable[[Window], None]] = {
                "from a picture to the saved model": partial(use, folder=folder),
                "the tensor": look_through,
                "paste": paste,
                "camera": photograph,
                "names that are markup": show_hostile,
                "a model that takes long": stop_slow,
            }
            for name, work in works.items():
                window = Window(context, address, pictures)
                try:
                    work(window)
                except Error as error:  # a page on which something is missing; the other parts are still looked at
                    window.wrong.append(error.message.splitlines()[0])
                window.page.close()
                window.wrong = [f"{name}: {words}" for words in window.wrong]
                windows.append(window)
            windows += use_tabs([Window(context, address) for _ in range(TABS)])
            context.close()
        windows += check_trials(browser, folder, pictures)
        windows += check_graphs(browser, folder, pictures)
        browser.close()
    return sum(window.looks for window in windows), [words for window in windows for words in window.wrong]


def main() -> None:
    parser = argparse.ArgumentParser(description="Uses the pages of `winml-py view` in a browser.")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    given = parser.parse_args()
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    views, wrong = check(given.pictures)
    print(f"{views} views: {len(wrong)} wrong", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

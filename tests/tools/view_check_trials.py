"""Looks for what is wrong with a contract on the page of `winml-py view`, as a person does whose model answers wrongly.

`view_check` runs it. The model says whether a picture is bright, and divides by 255 itself; its file says that it takes
0 to 1. With that, it answers "dark" of every picture. The page must lead to the range: by other pictures, by other
settings, and by a reading of the tensor that does not trust the file. Fields are written in without a pause.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from onnx import helper
from PIL import Image
from playwright.sync_api import Browser, Route

from helpers.models import data, tensor
from tools.view_check_browser import Window, program

RANGE, MEAN, STD = (
    f".a {kind}[data-key='Image.{key}']"
    for kind, key in (("select", "NominalPixelRange"), ("input", "Mean"), ("input", "Std"))
)
READ = ".a select[aria-label='How the numbers are read']"


def bright_model() -> bytes:
    """Dark or bright: by the mean of its numbers over 255; it states 0 to 1."""
    nodes = [
        helper.make_node("Mul", ["image", "share"], ["shares"]),
        helper.make_node("ReduceMean", ["shares"], ["mean"], axes=[1, 2, 3], keepdims=1),
        helper.make_node("Reshape", ["mean", "row"], ["one"]),
        helper.make_node("MatMul", ["one", "slopes"], ["sloped"]),
        helper.make_node("Add", ["sloped", "shifts"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    weights = {
        "share": np.float32(1 / 255),
        "row": np.array([1, 1]),
        "slopes": np.array([[-9, 9]], np.float32),
        "shifts": np.array([3, -3], np.float32),
    }
    stated = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "Normalized_0_1"}
    ends = [tensor("image", [1, 3, "height", "width"], denotation="IMAGE")], [tensor("probabilities", [1, 2])]
    return data(nodes, *ends, weights, metadata=stated, opset=13)


def check_trials(browser: Browser, folder: Path, pictures: Path | None) -> list[Window]:
    """Uses the page.

    Args:
        browser: Chromium.
        folder: for the model and its picture.
        pictures: a folder for screenshots.

    Returns:
        The window, with everything that is wrong in it.
    """
    (folder / "bright.onnx").write_bytes(bright_model())
    Image.new("RGB", (256, 160), (250, 240, 200)).save(folder / "bright.png")
    with program(folder / "bright.onnx", folder / "bright.png") as address:
        window = Window(browser.new_context(), address, pictures)
        window.open()
        look_for_the_range(window)
        write_quickly(window)
        write_wrongly(window)
        window.page.close()  # which tries settings by itself
    return [window]


def try_settings(window: Window) -> dict[str, str]:
    """What was tried, and the answers."""
    window.page.get_by_role("button", name="Try them").click()
    window.page.wait_for_selector("#tried > p")
    cells = [row.split("\t") for row in window.page.locator("#tried tbody tr").all_inner_texts()]
    return {row[0]: row[1] for row in cells}


def look_for_the_range(window: Window) -> None:
    page = window.page
    window.expect(page.input_value(READ) == "undone", "the settings are the file's, and are not undone")
    answers = try_settings(window)
    window.expect(answers["A, as it is"].startswith("class 0"), f"as the file has it, the answer is {answers}")
    window.expect(answers["range NominalRange_0_255"].startswith("class 1"), f"of another range it says {answers}")
    window.expect(
        any(what.startswith("size 224") for what in answers), f"sides are free, and no size is tried: {list(answers)}"
    )
    placed = window.text("#placed")
    is_whole = re.fullmatch("256 . 160 pixels, of which 256 . 160 become 256 . 160", placed) is not None
    window.expect(is_whole, f"the picture became {placed}")
    window.look("trials")
    window.choose(RANGE, "NominalRange_0_255")
    window.expect(page.input_value(READ) == "numbers", "other settings than the file's are undone, and look right")
    window.expect(page.locator("#tried tr").count() == 0, "the table is of A as it was")
    window.note()
    page.locator(".a").get_by_role("button", name="inception").click()
    window.wait_for_another()
    window.expect(page.input_value(RANGE) == "Normalized_1_1", "a preset does not change the range")


def write_quickly(window: Window) -> None:
    """Std is written while the page evaluates the mean, and shows what came of it."""
    page = window.page
    page.locator(MEAN).focus()
    words = "document.querySelector('#code').textContent"
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("0.1, 0.2, 0.3")
    held: list[Route] = []
    page.route("**/api/evaluate", lambda route: held.append(route))
    with page.expect_request("**/api/evaluate"):
        page.keyboard.press("Tab")
    page.keyboard.type("0.5, 0.5")
    for route in held:
        route.continue_()
    page.unroute("**/api/evaluate")
    page.wait_for_function(f"() => {words}.includes('0.1,0.2,0.3')")
    page.keyboard.type(", 0.25")
    page.keyboard.press("Tab")
    page.wait_for_function(f"() => {words}.includes('0.5,0.5,0.25')")
    window.settle()
    told = page.input_value(MEAN), page.input_value(STD)
    window.expect(told == ("0.1, 0.2, 0.3", "0.5, 0.5, 0.25"), f"mean and std, written at once, are {told}")


def write_wrongly(window: Window) -> None:
    """What is no number stays as it was written, and what was shown before is marked."""
    page = window.page
    page.locator(MEAN).fill("abc")
    page.keyboard.press("Enter")
    page.wait_for_selector(".a .error")
    window.settle()
    told = window.text(".a .error")
    window.expect("Image.Mean is 'abc'" in told, f"a mean of abc is told as {told}")
    window.expect(page.input_value(MEAN) == "abc", f"what was written became {page.input_value(MEAN)}")
    window.expect(page.locator(".a section .old .frame").count() == 1, "the tensor before is shown as if it were new")
    window.wrong = [words for words in window.wrong if "422" not in words]  # which browsers write to the console
    window.choose(MEAN, "")
    window.expect(page.locator(".a section .old .frame").count() == 0, "a new tensor is shown as an old one")

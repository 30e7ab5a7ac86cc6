"""Uses samples/browser in Chromium, offline, and compares its answers with those of `winml-py run` of the same model.

    pip install playwright
    python tests/tools/browser_check.py [--packages FOLDER] [--pictures FOLDER]

Needs what portable.py needs, and Chromium (its path in the variable CHROMIUM, or a `chromium` on the path).

A classifier answers pictures of several kinds of files, a detector one of shapes; they are dropped or chosen. The model
before the contract was built in gets the pixels that the browser decoded: classes must be the same, scores within 1e-4.
A line for each says so, and by how many levels these pixels differ from those that this library decodes. The camera is
filmed, and a model with a fault must not be trusted. No request leaves this machine, nothing is wider than the window,
and nothing is written to the console but that there are no more samples. With --pictures, screenshots are written to a
folder. The exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from helpers.cli import call
from helpers.damaged_files import make_linear_profile
from helpers.paths import MODELS, PICTURES, ROOT
from helpers.planted import plant
from tools.portable import PACKAGES, install_packages
from tools.view_check import Window, start_browser
from winml_py import ImageFeatureValue
from winml_py.authoring import build_in, write_samples

LABELS = MODELS / "digits.labels.txt"
CLOSEST = 1e-4
FLAGS = "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"
IS_READY = "!document.getElementById('state').textContent.endsWith('...')"
HAS_ANSWER = "document.getElementById('state').textContent.includes(' pixels, ')"
LAST = """
async () => {
  const { last } = await import("/browser/page.mjs");
  let pixels = "";
  for (const byte of last.pixels.data) pixels += String.fromCharCode(byte);
  const kind = last.outputs.top_labels ? "top" : "box";
  const [labels, scores] = ["labels", "scores"].map((what) => Array.from(last.outputs[`${kind}_${what}`].data));
  return { dims: last.pixels.dims, pixels: btoa(pixels), labels, scores };
}
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of the folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def build(folder: Path, packages: Path) -> None:
    """Puts the page and its models into a folder."""
    for name in ("browser", "javascript"):
        shutil.copytree(ROOT / "samples" / name, folder / name)
    (folder / "browser" / "dist").symlink_to(packages / "node_modules" / "onnxruntime-web" / "dist")
    digits = folder / "browser" / "digits" / "digits.onnx"
    digits.parent.mkdir()
    build_in(MODELS / "digits.onnx", digits, labels=LABELS.read_text().split())
    write_samples(digits, [PICTURES / "seven.png"])
    plant(folder / "browser")


def encode(folder: Path) -> list[Path]:
    """Pictures, and a photograph as other kinds of files."""
    photo, turned = Image.open(PICTURES / "cat.jpg"), Image.Exif()
    turned[274] = 6
    photo.save(folder / "halved colours.jpg", quality=75, subsampling=2)
    photo.save(folder / "progressive.jpg", quality=90, progressive=True)
    photo.save(folder / "turned by EXIF.jpg", exif=turned)
    photo.save(folder / "another profile.jpg", icc_profile=make_linear_profile())
    photo.save(folder / "lossy.webp")
    return sorted([*PICTURES.glob("*.png"), *PICTURES.glob("*.jpg"), *folder.glob("*.jpg"), *folder.glob("*.webp")])


def open_page(window: Window, model: str) -> str:
    """What the page says after it has loaded a model."""
    window.page.goto(f"{window.address}?model={model}")
    window.page.wait_for_function(IS_READY)
    return window.text("#state")


def expected(folder: Path, model: Path, *options: str | Path) -> tuple[list[str], list[float]]:
    """Labels and scores of a model before its contract is built in, for the picture that the browser decoded."""
    (result,) = json.loads(call("run", model, folder / "decoded.png", "--json", *options).stdout)["results"]
    found = result.get("objects") or [one for output in result["outputs"].values() for one in output.get("top", ())]
    return [one["label"] for one in found], [one.get("score", one.get("value")) for one in found]


def compare(window: Window, name: str, path: Path, is_dropped: bool, folder: Path) -> None:
    """Compares the page's answer for a picture with that of the model before."""
    said = open_page(window, name)
    window.expect(said == "It gives its known answers.", f"{name}: the page says {said}")
    if is_dropped:
        window.drop(path.read_bytes(), path.name)
    else:
        window.page.set_input_files("#file", path)
    window.page.wait_for_function(HAS_ANSWER)
    last = window.page.evaluate(LAST)
    pixels = np.frombuffer(base64.b64decode(last["pixels"]), np.uint8).reshape(last["dims"])
    Image.fromarray(pixels).save(folder / "decoded.png")
    is_detector = name == "right.onnx"
    before = (folder / "browser" / "detector.onnx",) if is_detector else (MODELS / "digits.onnx", "--labels", LABELS)
    labels, scores = expected(folder, *before)
    far = np.abs(np.subtract(last["scores"], scores)).max() if last["labels"] == labels else np.inf
    window.expect(
        bool(far <= CLOSEST), f"{name}, {path.name}: {last['labels']} {last['scores']}, not {labels} {scores}"
    )
    ours = np.asarray(ImageFeatureValue.load(path).video_frame.software_bitmap.to_pil().convert("RGB"))
    levels = np.abs(pixels.astype(int) - ours)
    decoded = f"decoded within {levels.max()} levels, {levels.mean():.4f} on average"
    print(f"{name}, {path.name}: {len(labels)} answers, scores within {far:.1e}; {decoded}")
    window.look(f"{Path(name).name} {path.stem}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares the answers of samples/browser with the model's own.")
    parser.add_argument("--packages", type=Path, default=PACKAGES, help="where the packages of npm are")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    given = parser.parse_args()
    install_packages(given.packages)
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as address, sync_playwright() as player:
        folder, browser = Path(name), start_browser(player, *FLAGS)
        build(folder, given.packages.resolve())
        window = Window(browser.new_context(), f"{address}/browser/", given.pictures)
        for number, path in enumerate(encode(folder)):
            compare(window, "digits/digits.onnx", path, number % 2 == 0, folder)
        compare(window, "right.onnx", PICTURES / "shapes.png", True, folder)
        open_page(window, "digits/digits.onnx")
        window.page.click("#camera")
        window.page.wait_for_function(HAS_ANSWER)
        said = open_page(window, "a_shifted_mean.onnx")
        window.expect("known answers differ here" in said, f"a model with a fault is trusted: {said}")
        browser.close()
    print(*window.wrong, f"{len(window.wrong)} wrong", sep="\n")
    sys.exit(bool(window.wrong))


if __name__ == "__main__":
    main()

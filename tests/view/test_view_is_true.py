"""What the page shows is what is: the crop beside Pillow's, the program, each input."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import helper
from PIL import Image

from helpers.models import data, tensor
from helpers.pages import Page, serve_page
from helpers.paths import MODELS
from helpers.processes import has_ended, set_temporary_folder
from helpers.waiting import wait_until
from view.test_show import state_of
from view.test_workbench import ORDERS, RANGES, bound_array, opened, picture_of, slow
from winml_py import BitmapPixelFormat, ImageContract, LearningModel, view
from winml_py.view.open_model import Inputs, OpenModel
from winml_py.view.report import write_program

HEIGHT, WIDTH = 40, 56


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with serve_page() as made:
        yield made


def passing(channels: int = 3, kind: int = 1) -> bytes:
    """A model that gives back the tensor that it is given."""
    shape = [1, channels, HEIGHT, WIDTH]
    return data([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", shape, kind)], [tensor("y", shape, kind)])


def levels_of(array: np.ndarray, words: dict[str, str]) -> np.ndarray:
    """Red, green and blue from 0 to 255, as the words say that the numbers were made."""
    scale, shift = RANGES[words["Image.NominalPixelRange"]]
    mean, std = (
        np.array([float(word) for word in words[key].split(",")] if key in words else [default] * 3)
        for key, default in (("Image.Mean", 0), ("Image.Std", 1))
    )
    levels = (array[0].transpose(1, 2, 0).astype(np.float64) * std + mean + shift) * scale
    return np.asarray(levels[..., ORDERS[words["Image.BitmapPixelFormat"]]])


CROPS = [
    {"Image.Scaling": "crop_to_aspect"},
    {"Image.Scaling": "stretch"},
    {"Image.Scaling": "fit", "Image.Pad": "9,99,199"},
    {"Image.Scaling": "shortest_side=50"},
    {"Image.Scaling": "longest_side=48", "Image.Pad": "1,2,3"},
    {"Image.Scaling": "crop_ratio=0.875,crop_rounding=half_even"},
]


@pytest.mark.parametrize("crop", CROPS, ids=lambda crop: ", ".join(crop.values()))
def test_the_part_that_is_drawn_is_what_the_tensor_holds(page: Page, crop: dict[str, str], cat: Path) -> None:
    """Pillow scales the drawn part of the picture to the tensor's size: the same levels, and padding around."""
    words = {
        "Image.BitmapPixelFormat": "Bgr8",
        "Image.NominalPixelRange": "Normalized_1_1",
        "Image.Mean": "0.1,0.2,0.3",
        "Image.Std": "0.5,0.25,2",
        "Image.Kernel": "AntialiasedLinear",
        "Image.Exact": "True",
        **crop,
    }
    if page.known.get("passing") not in page.bench.models._items:
        page.known["passing"] = opened(page, passing())
    asked = {"x": {"picture": picture_of(page, cat), "contract": words}}
    facts = page.post("api/evaluate", {"model": page.known["passing"], "inputs": asked})
    levels = levels_of(bound_array(page, facts, "x"), words)
    left, top, right, bottom = facts["placements"]["x"]["seen"]
    across, down = (right - left) / WIDTH, (bottom - top) / HEIGHT
    with Image.open(cat) as file:
        image = file.convert("RGB")
    box = max(0, left), max(0, top), min(image.width, right), min(image.height, bottom)
    x, y, x_end, y_end = (
        round(value)
        for value in ((box[0] - left) / across, (box[1] - top) / down, (box[2] - left) / across, (box[3] - top) / down)
    )
    expected = np.asarray(image.resize((x_end - x, y_end - y), Image.Resampling.BILINEAR, box=box), float)
    apart = np.abs(levels[y:y_end, x:x_end] - expected)
    assert apart.mean() < 0.2  # the crop of Windows ML is rounded to whole pixels before it is scaled
    assert apart.max() < 4
    around = np.ones((HEIGHT, WIDTH), bool)
    around[y:y_end, x:x_end] = False
    pad = [float(word) for word in crop.get("Image.Pad", "0,0,0").split(",")]
    assert np.allclose(levels[around], pad, atol=1e-4)


def test_the_program_names_the_device() -> None:
    model = OpenModel("m.onnx", "m.onnx", LearningModel.load(MODELS / "digits.onnx"), "a'name")
    code = write_program(model, Inputs({}, {}, {}), {"outputs": {}}, ())
    assert 'LearningModelSession(model, winml_py.LearningModelDevice.find("a\'name"))' in code
    compile(code, "program", "exec")


class TestSeveralPictures:
    """Each input has a picture and a contract of its own."""

    WORDS = {  # noqa: RUF012
        "left": ImageContract(BitmapPixelFormat.RGB8, mean=(1, 2, 3)).to_metadata(),
        "right": ImageContract(BitmapPixelFormat.BGR8, std=(2, 4, 8)).to_metadata(),
    }

    def model(self, folder: Path) -> Path:
        shape = [1, 3, HEIGHT, WIDTH]
        ends = [tensor(name, shape) for name in ("left", "right", "y", "z")]
        nodes = [helper.make_node("Identity", ["left"], ["y"]), helper.make_node("Identity", ["right"], ["z"])]
        (folder / "two.onnx").write_bytes(data(nodes, ends[:2], ends[2:]))
        return folder / "two.onnx"

    def test_what_was_bound(self, page: Page, tmp_path: Path, cat: Path, seven: Path) -> None:
        model = page.bench.open_model(str(self.model(tmp_path)))
        keys = {"left": page.bench.open_picture(str(cat)), "right": page.bench.open_picture(str(seven))}
        inputs = {name: {"picture": key, "contract": self.WORDS[name]} for name, key in keys.items()}
        facts = page.post("api/evaluate", {"model": model, "inputs": inputs})
        assert facts["contracts"] == self.WORDS
        for name, path in {"left": cat, "right": seven}.items():
            levels = levels_of(bound_array(page, facts, name), self.WORDS[name])
            with Image.open(path) as image:
                assert facts["placements"][name]["picture"] == list(image.size)
            assert np.abs(levels - np.rint(levels)).max() < 1e-4
        code = f"{facts['code']}\nimport numpy as np\n"
        code += "np.savez('two.npz', **{name: value.to_numpy() for name, value in result.outputs.items()})\n"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / "two.npz") as answers:
            np.testing.assert_array_equal(answers["y"], bound_array(page, facts, "left"))
            np.testing.assert_array_equal(answers["z"], bound_array(page, facts, "right"))


class TestInANotebook:
    def test_a_page_without_a_variable_stays(self) -> None:
        """A cell may show it, and keep nothing."""
        address = view.show(LearningModel.load(MODELS / "digits.onnx")).address
        gc.collect()
        assert state_of(address)["model"]["name"] == "digits.onnx"
        (page,) = [each for each in view._shown if each.address == address]
        page.close()
        assert page not in view._shown


@pytest.mark.once
def test_a_server_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "slow.onnx").write_bytes(slow())
    code = "from winml_py.cli.main import main; main()"
    command = [sys.executable, "-c", code, "view", str(tmp_path / "slow.onnx"), "--no-browser"]
    env = set_temporary_folder(tmp_path)  # its folder stays: nobody can remove it any more
    server = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    address = server.stdout.readline().strip()
    page = Page(None, address)  # type: ignore[arg-type]
    key = state_of(address)["model"]["id"]
    body = json.dumps({"model": key}).encode()
    request = threading.Thread(target=_ask, args=(page, f"/{page.token}/api/evaluate", body))
    request.start()
    wait_until(lambda: bool(server.children()))
    family = server.children(recursive=True)
    server.kill()
    server.communicate(timeout=20)
    request.join(20)
    wait_until(lambda: all(map(has_ended, family)))


def _ask(page: Page, path: str, body: bytes) -> None:
    with suppress(OSError, HTTPException):  # it is killed
        page.ask(path, body)

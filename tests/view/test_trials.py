"""Trials of settings and of other pictures, and what the page says of the way from a picture to its tensor."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.models import data, tensor
from helpers.pages import Page, served
from helpers.paths import MODELS, PICTURES
from view.test_workbench import evaluated, opened, picture_of
from winml_py import ImageContract
from winml_py.view.switches import describe

RGB = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "NominalRange_0_255"}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with served() as made:
        yield made


def passing(height: int | str, width: int | str, channels: int = 3) -> bytes:
    """A model that gives back the picture that it is given."""
    ends = [tensor(name, [1, channels, height, width]) for name in "xy"]
    return data([helper.make_node("Identity", ["x"], ["y"])], ends[:1], ends[1:])


def uploaded(page: Page, pixels: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return str(page.post("api/pictures?name=p.png", file.getvalue())["id"])


def asked(model: str, picture: str, words: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"model": model, "inputs": {"x": {"picture": picture, "contract": words}}, "is_trial": True, **more}


class TestOtherPictures:
    PIXELS = np.arange(36, dtype=np.uint8).reshape(3, 4, 3) * 7

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("", PIXELS),
            ("turned", np.rot90(PIXELS, 2)),
            ("black", np.zeros((3, 4, 3))),
            ("white", np.full((3, 4, 3), 255)),
        ],
    )
    def test_a_substitute(self, page: Page, name: str, expected: np.ndarray) -> None:
        model, picture = opened(page, passing(3, 4)), uploaded(page, self.PIXELS)
        answer = page.post("api/evaluate", asked(model, picture, RGB, substitute=name))["answer"]
        assert answer["outputs"][0]["values"] == expected.transpose(2, 0, 1).reshape(-1).tolist()

    def test_noise_is_the_same_each_time_and_has_no_form(self, page: Page) -> None:
        model, picture = opened(page, passing(64, 64)), uploaded(page, np.zeros((64, 64, 3), np.uint8))
        noise = [
            page.post("api/evaluate", asked(model, picture, RGB, substitute="noise"))["answer"]["outputs"][0]
            for _ in range(2)
        ]
        assert noise[0] == noise[1]
        assert (noise[0]["numbers"]["min"], noise[0]["numbers"]["max"]) == (0, 255)
        assert noise[0]["numbers"]["mean"] == pytest.approx(127.5, abs=3)

    def test_there_is_no_such_substitute(self, page: Page) -> None:
        model, picture = opened(page, passing(3, 4)), uploaded(page, self.PIXELS)
        answer = page.post("api/evaluate", asked(model, picture, RGB, substitute="blue"), 422)
        assert "noise" in answer["hint"]


def test_a_trial_leaves_nothing_behind(page: Page) -> None:
    """Its tensor is not kept, and the page of the graph goes on with what the settings were."""
    model, picture = opened(page, MODELS / "shapes.onnx"), picture_of(page, PICTURES / "shapes.png")
    words = ImageContract.yolo().to_metadata()
    whole = evaluated(page, model, picture, words)
    kept, case = len(page.bench.kept._kept), page.bench.find_model(model).case
    inputs = {"image": {"picture": picture, "contract": ImageContract.clip().to_metadata()}}
    tried = page.post("api/evaluate", {"model": model, "inputs": inputs, "is_trial": True})
    assert list(tried) == ["answer"]
    assert (len(page.bench.kept._kept), page.bench.find_model(model).case) == (kept, case)
    inputs["image"]["contract"] = words
    assert page.post("api/evaluate", {"model": model, "inputs": inputs, "is_trial": True})["answer"] == whole["answer"]


class TestTheFilesContract:
    """What of a tensor lies outside of the range that the file states: `shapes.onnx` states RGB from 0 to 1."""

    @pytest.mark.parametrize("words", [{}, {"Image.NominalPixelRange": "NominalRange_0_255"}, {"Image.Mean": "0.5"}])
    def test_numbers_outside_of_its_range(self, page: Page, words: dict[str, str]) -> None:
        model, picture = opened(page, MODELS / "shapes.onnx"), picture_of(page, PICTURES / "cat.jpg")
        facts = evaluated(page, model, picture, ImageContract.yolo().to_metadata() | words)
        bound = np.load(io.BytesIO(page.get(f"api/arrays/{facts['id']}?input=image"))).astype(np.float64)
        (told,) = facts["inputs"]
        assert told["is_as_stated"] is (words == {})
        half = 0.5 / 255  # of a level
        assert told["outside"] == pytest.approx(((bound < -half) | (bound > 1 + half)).mean())
        assert (told["outside"] > 0.1) is (words != {})

    def test_a_file_that_states_none(self, page: Page) -> None:
        model, picture = opened(page, passing(8, 8)), picture_of(page, PICTURES / "cat.jpg")
        (told,) = evaluated(page, model, picture, RGB, "x")["inputs"]
        assert "outside" not in told
        assert "is_as_stated" not in told

    def test_its_words(self, page: Page) -> None:
        data = (MODELS / "shapes.onnx").read_bytes()
        (told,) = page.post("api/models?name=shapes.onnx", data)["inputs"]
        assert told["words"].endswith(
            "; in the file: order RGB; range 0 to 1; crop letterbox; kernel linear; padding 114, 114, 114"
        )

    @pytest.mark.parametrize(
        ("model", "channels", "is_free"),
        [((8, 8), 3, False), (("h", "w"), 3, True), ((8, "w"), 3, False), ((8, 8, 1), 1, False)],
    )
    def test_what_the_model_fixes(self, page: Page, model: Any, channels: int, is_free: bool) -> None:
        (told,) = page.post("api/models?name=m.onnx", passing(*model))["inputs"]
        assert (told["channels"], told["is_free"]) == (channels, is_free)


def test_a_contract_in_the_words_of_the_switches() -> None:
    assert describe(ImageContract.imagenet()) == (
        "order RGB; range 0 to 1; mean 0.485, 0.456, 0.406; std 0.229, 0.224, 0.225; "
        "scaling crop ratio 0.875, crop rounding half even; kernel antialiased linear"
    )
    assert describe(ImageContract(size=(48, 64))) == "order BGR; range 0 to 255; size 48, 64"


@pytest.mark.parametrize(
    ("words", "taken", "scale", "fills"),
    [
        ({"Image.CropMode": "Center"}, [288, 288], (128 / 288, 128 / 288), [128, 128]),
        ({"Image.CropMode": "Stretch"}, [512, 288], (128 / 512, 128 / 288), [128, 128]),
        ({"Image.CropMode": "Letterbox"}, [512, 288], (0.25, 0.25), [128, 72]),
        # A scaling that states no size is none: the middle is cropped out of the picture as it is, whatever the anchor.
        ({"Image.Scaling": "anchor=top_left"}, [128, 128], (1, 1), [128, 128]),
        ({"Image.Scaling": "shortest_side=64,anchor=top_left"}, [512, 288], (113 / 512, 64 / 288), [113, 64]),
    ],
)
def test_the_way_to_the_tensor(page: Page, words: dict[str, str], taken: Any, scale: Any, fills: Any) -> None:
    model, picture = opened(page, passing(128, 128)), uploaded(page, np.zeros((288, 512, 3), np.uint8))
    (told,) = evaluated(page, model, picture, RGB | words, "x")["inputs"]
    placement = told["placement"]
    assert (placement["picture"], placement["tensor"]) == ([512, 288], [128, 128])
    assert (placement["taken"], placement["fills"]) == (taken, fills)
    assert placement["scale"] == pytest.approx(scale)
    if words == {"Image.Scaling": "anchor=top_left"}:
        assert placement["seen"] == [192, 80, 320, 208]

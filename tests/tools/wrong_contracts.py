"""Makes five models that are right but for one member of their image contract, for docs/how-to/view.md.

    pip install '.[view]' playwright
    python tests/tools/wrong_contracts.py FOLDER [--pictures]

Each model classifies drawings: fixed random convolutions, and a layer that least squares fits to some hundred drawings.
It is written to the folder with a wrong contract, and beside it a drawing to try it with:

    winml-py view FOLDER/order.onnx FOLDER/order.png

With --pictures, the page is used, in Chromium (its path in the variable CHROMIUM, or a `chromium` on the path): A has
the wrong contract, and B the right one. What it shows goes to docs/_static/view/, and what it says must be in the docs.
The exit code is 1 if a wrong contract gives the right answer, a right one does not, or the docs say something else.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `tools` is, for the program

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageCropMode,
    LearningModel,
    LearningModelPixelRange,
    LearningModelSession,
)

DOCS = Path(__file__).parents[2] / "docs"
FINE = 4
"""Drawings are drawn this many times larger, and shrunk."""

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]


class Pen:
    """A drawing that is one unit wide; its colours vary a little.

    Args:
        random: what varies it.
        shape: height / width.
        above: the colour of its ground at the top.
        below: the same at the bottom.
    """

    def __init__(self, random: np.random.Generator, shape: float, above: Colour, below: Colour) -> None:
        self.random, self.side = random, 256 * FINE
        first, last = np.array([self.colour(above), self.colour(below)])
        ground = first + (last - first) * np.linspace(0, 1, 64)[:, None, None]
        self.picture = Image.fromarray(ground.astype(np.uint8)).resize((self.side, int(self.side * shape)))
        self._draw = ImageDraw.Draw(self.picture)

    def colour(self, of: Colour) -> Colour:
        red, green, blue = np.clip(of + self.random.normal(0, 12, 3), 0, 255).astype(int).tolist()
        return red, green, blue

    def between(self, low: float, high: float) -> float:
        return float(self.random.uniform(low, high))

    def box(self, corners: Box, colour: Colour, kind: str = "rectangle") -> None:
        getattr(self._draw, kind)([each * self.side for each in corners], fill=self.colour(colour))

    def corners(self, points: Iterable[Sequence[float]], colour: Colour) -> None:
        self._draw.polygon([(x * self.side, y * self.side) for x, y in points], fill=self.colour(colour))

    def done(self) -> Image.Image:
        small = np.asarray(self.picture.resize((256, self.picture.height // FINE), Image.Resampling.BOX), float)
        noisy = small * self.between(0.85, 1.1) + self.random.normal(0, 4, small.shape)
        return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def balloon(random: np.random.Generator, index: int) -> Image.Image:
    pen = Pen(random, 1.0, (120, 175, 225), (205, 225, 235))
    colour = ((40, 80, 190), (60, 160, 70), (205, 45, 40), (235, 205, 60))[index]
    x, y, radius = pen.between(0.4, 0.6), pen.between(0.36, 0.46), pen.between(0.22, 0.3)
    pen.corners(
        [(x - radius * 0.8, y + radius * 0.5), (x + radius * 0.8, y + radius * 0.5), (x, y + 1.7 * radius)], colour
    )
    for width in (1.0, 0.68, 0.32):
        pen.box((x - radius * width, y - radius, x + radius * width, y + radius), colour, "ellipse")
    pen.box((x - radius * 0.2, y + radius * 1.4, x + radius * 0.2, y + radius * 1.7), (110, 75, 45))
    pen.box((0, 0.94, 1, 1), (95, 150, 80))
    return pen.done()


def dish(random: np.random.Generator, index: int) -> Image.Image:
    pen = Pen(random, 1.0, (225, 218, 205), (190, 178, 160))
    x, floor, side = pen.between(0.4, 0.6), pen.between(0.76, 0.86), pen.between(0.2, 0.26)
    colour = ((150, 60, 50), (60, 110, 85), (70, 95, 150))[int(random.integers(3))]
    pen.box((0, floor - 0.06, 1, 1), (140, 105, 75))
    if index == 0:
        pen.box((x - side * 0.55, floor - side * 1.9, x + side * 0.55, floor), colour)
        pen.box((x - side * 0.2, floor - side * 2.8, x + side * 0.2, floor - side * 1.8), colour)
    elif index == 1:
        turns = np.linspace(0, np.pi, 40)
        points = np.stack([x + 1.4 * side * np.cos(turns), floor - side + side * np.sin(turns)], axis=1)
        pen.corners(points.tolist(), colour)
    else:
        pen.box((x + side * 0.3, floor - side * 1.3, x + side * 1.3, floor - side * 0.4), colour, "ellipse")
        pen.box((x + side * 0.5, floor - side * 1.1, x + side * 1.1, floor - side * 0.6), (215, 208, 195), "ellipse")
        pen.box((x - side * 0.8, floor - side * 1.6, x + side * 0.8, floor), colour)
    return pen.done()


FLAGS: dict[str, tuple[Colour, Colour, Colour]] = {
    "Belgium": ((25, 22, 22), (245, 215, 60), (210, 40, 55)),
    "France": ((20, 50, 140), (240, 240, 240), (215, 40, 50)),
    "Ireland": ((35, 145, 90), (240, 240, 240), (240, 140, 65)),
    "Italy": ((15, 140, 70), (240, 240, 240), (200, 45, 55)),
    "Romania": ((15, 45, 125), (245, 210, 30), (200, 20, 40)),
}


def flag(random: np.random.Generator, index: int) -> Image.Image:
    pen = Pen(random, 1.0, (165, 190, 210), (195, 205, 205))
    left, top, width = pen.between(0.1, 0.2), pen.between(0.15, 0.3), pen.between(0.62, 0.7)
    pen.box((left - 0.03, top - 0.04, left, 1), (105, 100, 95))
    for number, colour in enumerate(list(FLAGS.values())[index]):
        start = left + width * number / 3
        pen.box((start, top, start + width / 3, top + width * 0.66), colour)
    return pen.done()


def pole(random: np.random.Generator, index: int) -> Image.Image:
    pen = Pen(random, 2.0, (150, 190, 225), (215, 225, 225))
    x, top = pen.between(0.4, 0.6), pen.between(0.12, 0.22)
    pen.box((0, 1.85, 1, 2), (130, 140, 115))
    pen.box((x - 0.025, top, x + 0.025, 1.9), (95, 98, 102))
    if index == 1:
        pen.box((x + 0.025, top, x + 0.4, top + 0.24), (205, 50, 50))
    elif index == 2:
        pen.box((x - 0.22, top - 0.05, x + 0.22, top + 0.02), (95, 98, 102))
        pen.box((x - 0.2, top, x + 0.2, top + 0.1), (250, 240, 180), "ellipse")
    elif index == 3:
        pen.box((x - 0.1, top, x + 0.1, top + 0.5), (40, 42, 45))
        for number, colour in enumerate([(215, 50, 45), (235, 180, 50), (60, 180, 90)]):
            middle = top + 0.1 + number * 0.15
            pen.box((x - 0.06, middle - 0.06, x + 0.06, middle + 0.06), colour, "ellipse")
    return pen.done()


def tiles(random: np.random.Generator, index: int) -> Image.Image:
    pen = Pen(random, 1.0, (225, 222, 214), (225, 222, 214))
    count = (6, 22, 12)[index]
    shift_x, shift_y = pen.between(-1, 0), pen.between(-1, 0)
    for row in range(count + 1):
        for column in range(count + 1):
            left, top = (column + shift_x) / count, (row + shift_y) / count
            pen.box((left, top, left + 0.88 / count, top + 0.88 / count), (95, 140, 160))
    return pen.done()


class Case(NamedTuple):
    """A model, and what is wrong with its contract.

    Attributes:
        draw: draws one of its classes, by the index.
        classes: what it answers.
        shown: the class that is tried.
        right: the contract that it is made with.
        wrong: the contract that is written into its file.
        switches: what is chosen or written on the page to make it right, by keys of the metadata.
        sides: height and width of its input; names leave them free.
    """

    draw: Callable[[np.random.Generator, int], Image.Image]
    classes: tuple[str, ...]
    shown: str
    right: ImageContract
    wrong: ImageContract
    switches: dict[str, str]
    sides: tuple[int | str, int | str] = (128, 128)

    def picture(self, seed: int = 2) -> Image.Image:
        return self.draw(np.random.default_rng(seed), self.classes.index(self.shown))


RGB = ImageContract(BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE)
IMAGENET = replace(RGB, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
CASES = {
    "order": Case(
        draw=balloon,
        classes=("blue balloon", "green balloon", "red balloon", "yellow balloon"),
        shown="red balloon",
        right=RGB,
        wrong=replace(RGB, pixel_format=BitmapPixelFormat.BGR8),
        switches={"Image.BitmapPixelFormat": "Rgb8"},
    ),
    "range": Case(
        draw=dish,
        classes=("bottle", "bowl", "mug"),
        shown="mug",
        right=RGB,
        wrong=replace(RGB, pixel_range=LearningModelPixelRange.ZERO_TO255),
        switches={"Image.NominalPixelRange": "Normalized_0_1"},
    ),
    "mean": Case(
        draw=flag,
        classes=tuple(FLAGS),
        shown="Belgium",
        right=IMAGENET,
        wrong=RGB,
        switches={"Image.Mean": "0.485, 0.456, 0.406", "Image.Std": "0.229, 0.224, 0.225"},
    ),
    "crop": Case(
        draw=pole,
        classes=("bare pole", "flag", "street lamp", "traffic light"),
        shown="traffic light",
        right=replace(RGB, crop_mode=ImageCropMode.LETTERBOX),
        wrong=RGB,
        switches={"Image.CropMode": "Letterbox"},
    ),
    "size": Case(
        draw=tiles,
        classes=("floor tiles", "mosaic", "wall tiles"),
        shown="floor tiles",
        right=replace(RGB, size=(192, 192)),
        wrong=replace(RGB, size=(96, 96)),
        switches={"Image.Size": "192, 192"},
        sides=("height", "width"),
    ),
}


def learn(case: Case, count: int = 240) -> ModelProto:
    """A classifier of drawings, with the wrong contract."""
    random = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    for name, shape in {"first": (24, 3, 5, 5), "second": (48, 24, 5, 5)}.items():
        kernel = random.normal(0, 1, shape)
        weights[name] = kernel / np.sqrt(np.square(kernel).sum((1, 2, 3), keepdims=True))
        weights[f"{name}_bias"] = random.normal(0, 0.3, shape[0])
    nodes = [
        helper.make_node("Conv", ["image", "first", "first_bias"], ["edges"], strides=[2, 2], pads=[2] * 4),
        helper.make_node("Relu", ["edges"], ["some"]),
        helper.make_node("Conv", ["some", "second", "second_bias"], ["corners"], strides=[2, 2], pads=[2] * 4),
        helper.make_node("Relu", ["corners"], ["more"]),
        helper.make_node("GlobalAveragePool", ["some"], ["mean_some"]),
        helper.make_node("GlobalAveragePool", ["more"], ["mean_more"]),
        helper.make_node("GlobalMaxPool", ["more"], ["most"]),
        helper.make_node("Concat", ["mean_some", "mean_more", "most"], ["joined"], axis=1),
        helper.make_node("Flatten", ["joined"], ["features"]),
    ]
    features = make_model(case, nodes, weights, "features", 120, case.right)
    session = LearningModelSession(LearningModel.load(features.SerializeToString()))
    answers = np.arange(count) % len(case.classes)
    drawn = [case.draw(random, int(index)) for index in answers]
    found = np.concatenate([session.evaluate_features({"image": one}).outputs["features"].to_numpy() for one in drawn])
    # Least squares, with a price on large factors, to scores of 0 and 1; softmax makes shares of 12 times these.
    mean, std = found.mean(0), found.std(0) + 1e-3
    normal = (found - mean) / std
    wanted = np.eye(len(case.classes))[answers]
    factors = np.linalg.solve(normal.T @ normal + 2 * np.eye(120), normal.T @ (wanted - wanted.mean(0)))
    weights["factors"] = 12 * factors / std[:, None]
    weights["offset"] = 12 * wanted.mean(0) - mean @ weights["factors"]
    nodes += [
        helper.make_node("Gemm", ["features", "factors", "offset"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    return make_model(case, nodes, weights, "probabilities", len(case.classes), case.wrong)


def make_model(
    case: Case,
    nodes: list[NodeProto],
    weights: dict[str, np.ndarray],
    output: str,
    count: int,
    contract: ImageContract,
) -> ModelProto:
    taken = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, *case.sides])
    taken.type.denotation = "IMAGE"
    given = helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, count])
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "drawings", [taken], [given], tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(proto, contract.to_metadata() | {"Labels": json.dumps(case.classes)})
    return proto


def answers_of(path: Path, case: Case) -> list[str]:
    """What a model answers with the wrong contract, and with the right one: "mug, 99.7 %"."""
    model, found = LearningModel.load(path), []
    session = LearningModelSession(model)
    for contract in (case.wrong, case.right):
        model.contracts["image"] = contract
        (best,) = session.evaluate_features({"image": path.with_suffix(".png")}).top_k(1)
        found.append(f"{best.label}, {best.score * 100:.1f} %")
    return found


def photograph(folder: Path) -> list[str]:
    """Writes what the page shows to the docs; gives what is wrong."""
    from playwright.sync_api import sync_playwright

    from tools.view_check_browser import TENSOR, TENSOR_OF_B, Window, program, start_browser

    words = " ".join((DOCS / "how-to" / "view.md").read_text(encoding="utf-8").split())
    wrong: list[str] = []
    with sync_playwright() as player:
        browser = start_browser(player)
        for name, case in CASES.items():
            with program(folder / f"{name}.onnx", folder / f"{name}.png") as address:
                window = Window(browser.new_context(viewport={"width": 1000, "height": 900}), address)
                page = window.page
                window.open()
                page.check("#compare")
                page.wait_for_selector(".b .best:not(:empty)")
                window.settle()
                for key, word in case.switches.items():
                    window.choose(f".b [data-key='{key}']", word, TENSOR_OF_B)
                for side, tensor in {"a": TENSOR, "b": TENSOR_OF_B}.items():
                    window.choose(f".{side} select[aria-label='How the numbers are read']", "numbers", tensor)
                    facts = page.locator(f".{side} .facts dd").all_inner_texts()[:2]
                    said = [window.text(f".{side} .best"), *facts]
                    print(f"  {side}: {'; '.join(said)}")
                    wrong += [f"{name}: the docs lack {one}" for one in said if one not in words]
                page.evaluate("document.querySelectorAll('.side .wide').forEach((part) => { part.hidden = true; })")
                page.evaluate("scrollTo(0, 0)")
                # Both answers, whichever of them ends lower.
                end = page.evaluate(
                    "Math.max(...['.a', '.b'].map((side) => "
                    "document.querySelectorAll(`${side} section`)[1].getBoundingClientRect().bottom)) + 16"
                )
                seen = page.screenshot(full_page=True, clip={"x": 0, "y": 48, "width": 1000, "height": end - 48})
                Image.open(io.BytesIO(seen)).convert("RGB").save(DOCS / "_static" / "view" / f"{name}.webp", quality=82)
                wrong += window.wrong
        browser.close()
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes five models with one thing wrong in their image contract.")
    parser.add_argument("folder", type=Path, help="for the models, and a drawing for each")
    parser.add_argument("--pictures", action="store_true", help="makes the pictures of the docs, too")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    for name, case in CASES.items():
        path = given.folder / f"{name}.onnx"
        onnx.save(learn(case), path)
        case.picture().save(path.with_suffix(".png"), optimize=True)
        first, second = answers_of(path, case)
        print(f"{name}: {first}; with the right contract {second}")
        if first.startswith(case.shown) or not second.startswith(case.shown):
            wrong.append(f"{name}: {case.shown} is drawn")
    if given.pictures:
        wrong += photograph(given.folder)
    print(f"{len(CASES)} contracts: {len(wrong)} wrong", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

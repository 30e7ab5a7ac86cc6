"""Reads the lines of text in a picture, prints them, and draws them.

    pip install rapidocr
    python samples/read_text.py                    reads a page that the sample draws
    python samples/read_text.py PICTURE DRAWN      reads your picture, and writes the file DRAWN

One model finds the lines, another one recognises the lines that are upside down, and a third one reads each line. The
sample uses the PaddleOCR models in the wheel of rapidocr, and nothing else from that package. The models have no image
metadata, so the sample attaches a contract to each. Lines may be slanted or upside down.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from winml_py import ImageContract, ImageFeatureValue, LearningModel, LearningModelSession, vision

LINES = {"Load, bind, evaluate.": 0, "Three words & 1234567890": 3, "Total: 99.50 EUR": 180}
"""The lines of the page that the sample draws, and the degrees by which each is turned."""

LEAST_CONFIDENCE = 0.5  # below this, a line is more likely a pattern than text
SURE = 0.9  # how sure the second model must be that a line is upside down


def drawn() -> Image.Image:
    page = Image.new("RGB", (640, 256), "white")
    for number, (line, degrees) in enumerate(LINES.items()):
        strip = Image.new("RGB", (640, 70), "white")
        ImageDraw.Draw(strip).text((40, 14), line, "black", ImageFont.load_default(36))
        page.paste(strip.rotate(degrees, Image.Resampling.BICUBIC, fillcolor="white"), (0, 20 + 75 * number))
    return page


def load(task: str) -> LearningModelSession:
    folder = Path(find_spec("rapidocr").origin).parent / "models"
    model = LearningModel.load(next(folder.glob(f"*_{task}_*.onnx")))
    model.contracts["x"] = ImageContract.rapidocr(task)
    return LearningModelSession(model)


def main() -> None:
    page = ImageFeatureValue.load(sys.argv[1]).to_pil().convert("RGB") if len(sys.argv) > 1 else drawn()
    target = sys.argv[2] if len(sys.argv) > 2 else "drawn.png"

    finder, turner, reader = load("det"), load("cls"), load("rec")
    lines = vision.text_lines(finder.evaluate_features({"x": page}))
    crops, readings = lines.cut(page), dict[int, tuple[str, float]]()
    for batch in vision.batch_by_width(crops):  # a batch is as wide as its widest line
        (scores,) = turner.evaluate_features({"x": [crops[i] for i in batch]}).outputs.values()
        is_upside_down = scores.to_numpy()[:, 1] > SURE
        upright = [crops[i].rotate(180 * turn) for i, turn in zip(batch, is_upside_down, strict=True)]
        readings |= zip(batch, vision.read_text(reader.evaluate_features({"x": upright})), strict=True)

    ordered = [readings[i] for i in range(len(lines))]
    for text, confidence in ordered:
        if confidence >= LEAST_CONFIDENCE:
            print(f"{confidence:.0%} {text}")
    lines.draw(page, [text for text, _ in ordered]).save(target)


if __name__ == "__main__":
    main()

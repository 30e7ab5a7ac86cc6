"""Reads the lines of text in a picture. One model finds the lines, and another model reads each line.

    pip install rapidocr
    python samples/read_text.py [PICTURE]

The sample uses the PaddleOCR models in the wheel of rapidocr, and nothing else from that package. The models have no
image metadata, so the sample binds a contract with each picture. Lines must be horizontal. If a line is tilted, the
sample tells you. If you pass no picture, the sample draws a page.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
)

LINES = ("Load, bind, evaluate.", "Three words & 1234567890", "Total: 99.50 EUR")
CONTRACT = ImageContract(BitmapPixelFormat.BGR8, LearningModelPixelRange.ZERO_TO_ONE, mean=(0.5,) * 3, std=(0.5,) * 3)
READER_HEIGHT = 48  # the reader takes pictures of this height and of any width
FINDER_STEP = 32  # the finder takes widths and heights that are multiples of this
MOST_TILT = 5  # degrees: the box of a line that is tilted more holds parts of others, and the reader guesses
LEAST_CONFIDENCE = 0.5  # below this, the box is more likely a pattern than text


def drawn() -> Image.Image:
    page = Image.new("RGB", (640, 256), "white")
    for number, line in enumerate(LINES):
        ImageDraw.Draw(page).text((40, 30 + 70 * number), line, "black", ImageFont.load_default(36))
    return page


def output(session: LearningModelSession, picture: Image.Image) -> np.ndarray:
    binding = LearningModelBinding(session)
    binding.bind("x", picture, {"ImageContract": CONTRACT})
    (tensor,) = session.evaluate(binding).outputs.values()
    return tensor.to_numpy()[0]


def boxes(heat: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of each line. The finder marks the core of a line, so each box gets a margin."""
    found = []
    _, labels, stats, _ = cv2.connectedComponentsWithStats((heat > 0.3).astype(np.uint8))
    for number, (x, y, width, height, _) in enumerate(stats[1:].tolist(), 1):
        degrees = tilt(labels == number)
        if abs(degrees) > MOST_TILT:
            print(f"The line near x={x}, y={y} is tilted by {degrees:.0f} degrees: turn the picture.", file=sys.stderr)
        margin = height * 3 // 4
        right, bottom = min(x + width + margin, heat.shape[1]), min(y + height + margin, heat.shape[0])
        found.append((max(0, x - margin), max(0, y - margin), right, bottom))
    return sorted(found, key=lambda box: (box[1], box[0]))


def tilt(mask: np.ndarray) -> float:
    """The degrees by which a line falls to the right. A line that is nearly as high as it is long has no direction."""
    rows, columns = np.nonzero(mask)
    _, (side, other), angle = cv2.minAreaRect(np.stack([columns, rows], 1).astype(np.float32))
    if max(side, other) < 3 * min(side, other):
        return 0.0
    degrees = angle if side > other else angle - 90
    return (degrees + 90) % 180 - 90


def decode(scores: np.ndarray, characters: tuple[str, ...]) -> tuple[str, float]:
    """The most likely character of each step. Repetitions count once, and blanks do not count (CTC)."""
    best = scores.argmax(axis=1)
    taken = (best != 0) & np.append(True, best[1:] != best[:-1])
    confidence = float(scores.max(axis=1)[taken].mean()) if taken.any() else 0.0
    return "".join(characters[index] for index in best[taken]), confidence


def main() -> None:
    folder = Path(find_spec("rapidocr").origin).parent / "models"
    finder = LearningModelSession(LearningModel.load(next(folder.glob("*_det_*.onnx"))))
    reader = LearningModelSession(LearningModel.load(next(folder.glob("*_rec_*.onnx"))))
    characters = reader.model.labels  # the blank first, the space last

    page = ImageFeatureValue.load(sys.argv[1]).to_pil().convert("RGB") if len(sys.argv) > 1 else drawn()
    page = page.resize([-(-side // FINDER_STEP) * FINDER_STEP for side in page.size])
    for box in boxes(output(finder, page)[0]):
        width = max(1, round((box[2] - box[0]) * READER_HEIGHT / (box[3] - box[1])))
        text, confidence = decode(output(reader, page.resize((width, READER_HEIGHT), box=box)), characters)
        if confidence >= LEAST_CONFIDENCE:
            print(f"{confidence:.0%} {text}")


if __name__ == "__main__":
    main()

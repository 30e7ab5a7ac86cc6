"""Compares the program of docs/tasks/text-in-pictures.md with RapidOCR's own code, on pages that this script draws.

    pip install rapidocr
    python tests/tools/ocr.py [--count 50] [--keep FOLDER]

A line is equal if both have it in the same place of the order with the same text, corners within 1 pixel, and a
confidence within 0.001. At least 98 % of the lines must be equal, and the program must have at most 20 lines. The exit
code is 1 otherwise, and 77 without rapidocr. FOLDER keeps the pages. Pages are between 400 and 1900 pixels on each
side: RapidOCR's code shrinks larger ones first, and adds black bars to pages more than 8 times as wide as high.
"""

from __future__ import annotations

import argparse
import difflib
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "text-in-pictures.md"
FONTS = ("/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts", "/Library/Fonts", "C:/Windows/Fonts")
TEXTS = (
    "Load, bind, evaluate. The quick brown fox jumps over a lazy dog & 1234567890 Total: 99.50 EUR",
    "Mind the gap! Platform 9, 10:45 to Leeds (second class) 50% off No. 17-B user@example.com WARNING",
)
COLOURS = (
    ("white", "black"),
    ("#f4f1e8", "#202020"),
    ("navy", "white"),
    ("#333333", "#ffe080"),
    ("#cfe8d0", "#7a1020"),
)
KINDS = ("plain", "upside down", "slanted", "two columns")


class Line(NamedTuple):
    box: np.ndarray
    text: str
    confidence: float


def list_fonts() -> list[str]:
    """The fonts of the system that have Latin letters of unlike shapes."""
    files = sorted(str(path) for folder in FONTS for path in Path(folder).rglob("*.ttf"))
    return [file for file in files if has_letters(file)]


def has_letters(file: str) -> bool:
    try:
        masks = [bytes(ImageFont.truetype(file, 20).getmask(letter)) for letter in "aWg1\uffff"]
    except OSError:
        return False
    return len(set(masks)) == len(masks)


def draw_page(number: int, fonts: list[str]) -> Image.Image:
    """One page. Its kind, fonts, sizes, colours and words follow from its number."""
    dice, kind = random.Random(number), KINDS[number % len(KINDS)]
    columns = 2 if kind == "two columns" else 1
    ground, ink = dice.choice(COLOURS)
    page = Image.new("RGB", (dice.randrange(400, 900) * columns, dice.randrange(400, 1200)), ground)
    pen, words = ImageDraw.Draw(page), " ".join(TEXTS).split()
    for column in range(columns):
        left, right = (page.width * (column + share) / columns for share in (0.06, 0.94))
        y = page.height * 0.05
        while True:
            size = dice.randrange(16, 56)
            font = ImageFont.truetype(dice.choice(fonts), size) if fonts else ImageFont.load_default(size)
            text = dice.choice(words)
            while pen.textlength(longer := f"{text} {dice.choice(words)}", font) < right - left and dice.random() < 0.9:
                text = longer
            if y + size * 1.3 > page.height * 0.95:
                break
            pen.text((left, y), text, ink, font)
            y += size * dice.uniform(1.3, 2.2)
    if kind == "upside down":
        return page.rotate(180)
    angle = dice.uniform(-12, 12) if kind == "slanted" else 0
    return page.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=ground) if angle else page


def load_program() -> tuple[Callable[[str], Any], int]:
    """The function of the program in the documentation, and how many lines the program has."""
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (program,) = (program for program in programs if "\ndef read(page)" in program)
    functions, _, _ = program.partition("\nfor box, text, confidence in read(")
    names: dict[str, Any] = {}
    exec(compile(functions, str(PAGE), "exec"), names)
    lines = [line for line in program.splitlines() if line.strip() and not line.startswith("#")]
    return names["read"], len(lines)


def read_with_ours(read: Callable[[str], Any], path: str) -> list[Line]:
    return [Line(*line) for line in read(path) if line[2] >= 0.5]


def read_with_theirs(engine: Any, path: str) -> list[Line]:
    found = engine(path)
    return (
        [] if found.boxes is None else [Line(*line) for line in zip(found.boxes, found.txts, found.scores, strict=True)]
    )


def pair(ours: list[Line], theirs: list[Line]) -> Iterator[tuple[Line, Line]]:
    """The lines with the same text, in their order."""
    matcher = difflib.SequenceMatcher(None, [line.text for line in ours], [line.text for line in theirs], False)
    for block in matcher.get_matching_blocks():
        yield from zip(ours[block.a :][: block.size], theirs[block.b :][: block.size], strict=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="pages")
    parser.add_argument("--keep", type=Path, help="a folder for the pages")
    arguments = parser.parse_args()
    if find_spec("rapidocr") is None:
        print("rapidocr is not installed: pip install rapidocr", file=sys.stderr)
        return 77
    from rapidocr import RapidOCR

    engine, (read, length), fonts = RapidOCR(params={"Global.log_level": "error"}), load_program(), list_fonts()
    print(f"{len(fonts)} fonts; the program has {length} lines")
    total, equal, largest_shift, largest_change = 0, 0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(arguments.count):
            path = str(folder / f"{number:03}.png")
            draw_page(number, fonts).save(path)
            ours, theirs = read_with_ours(read, path), read_with_theirs(engine, path)
            same = 0
            pairs = list(pair(ours, theirs))
            for our, their in pairs:
                shift, change = float(np.abs(our.box - their.box).max()), abs(our.confidence - their.confidence)
                same += shift <= 1 and change <= 0.001
                largest_shift, largest_change = max(largest_shift, shift), max(largest_change, change)
            count = max(len(ours), len(theirs))
            total, equal = total + count, equal + same
            if same < count:
                print(f"{Path(path).name} ({KINDS[number % len(KINDS)]}): {same} of {count} lines are equal, ", end="")
                print(f"{len(pairs)} have equal texts")
    share = equal / max(1, total)
    print(f"{equal} of {total} lines are equal: {share:.2%}")
    print(f"where texts are equal: corners within {largest_shift:g} pixels, confidences within {largest_change:.5f}")
    return 0 if share >= 0.98 and length <= 20 else 1


if __name__ == "__main__":
    sys.exit(main())

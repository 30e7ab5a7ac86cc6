"""Makes the pictures of the pages on tasks, from what the programs of this repository print and write.

python docs/_static/make_pictures.py [FOLDER]

They go to docs/_static/tasks, or to the folder. Two of the programs need rapidocr and tokenizers.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

from winml_py import VideoReader

ROOT = Path(__file__).parents[2]
SAMPLES, MODELS, PICTURES = ROOT / "samples", ROOT / "models", ROOT / "samples" / "pictures"
WIDTH, HEIGHT, MARGIN = 960, 540, 40
GROUND, TEXT, SOFT, ACCENT, TRACK = "#f4f5f7", "#1d1d1f", "#5f6368", "#4477aa", "#dde1e6"


class Card:
    """A picture of one size, on which pictures and lines of text are placed."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (WIDTH, HEIGHT), GROUND)
        self.pen = ImageDraw.Draw(self.image)

    def write(self, text: str, x: float, y: float, size: int = 34, colour: str = TEXT, anchor: str = "lm") -> None:
        """Writes a line; the anchor is Pillow's."""
        self.pen.text((x, y), text, colour, ImageFont.load_default(size), anchor)

    def place(self, picture: Image.Image, x: int, y: int, width: int) -> None:
        """Places a picture, scaled to a width."""
        height = round(picture.height * width / picture.width)
        self.image.paste(picture.convert("RGB").resize((width, height), Image.Resampling.LANCZOS), (x, y))

    def bars(self, rows: Iterable[tuple[str, str, float]], x: int, y: int, width: int, step: int) -> None:
        """Names and values, and a bar below each; its share of the width is the third."""
        for number, (name, value, share) in enumerate(rows):
            top = y + number * step
            self.write(name, x, top)
            self.write(value, x + width, top, colour=SOFT, anchor="rm")
            self.pen.rounded_rectangle((x, top + 24, x + width, top + 36), 6, TRACK)
            self.pen.rounded_rectangle((x, top + 24, x + max(12, share * width), top + 36), 6, ACCENT)


def printed(*command: str | Path) -> list[str]:
    """The lines that a program of ours prints, in the working directory."""
    done = subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


def command(*arguments: str | Path) -> list[str]:
    """The lines that `winml-py` prints."""
    return printed("-c", "from winml_py.cli.main import main; main()", *arguments)


def classification() -> Card:
    card = Card()
    card.place(Image.open(PICTURES / "seven.png"), MARGIN, 70, 400)
    rows = [re.fullmatch(r"(\w+) +(\d\S*)%", line).groups() for line in printed(SAMPLES / "classify.py")]
    card.bars([(name, f"{share}%", float(share) / 100) for name, share in rows], 500, 140, 420, 110)
    return card


def detection() -> Card:
    card = Card()
    model, picture = MODELS / "shapes.onnx", PICTURES / "shapes.png"
    lines = command("run", model, picture, "--threshold", "0.5", "--output", "drawn.png")
    card.place(Image.open("drawn.png"), 0, 0, HEIGHT)
    found = [re.search(r"\b([a-z]+) +(0\.\d+|1\.0+) +(\d+) +(\d+) +(\d+) +(\d+)", line) for line in lines]
    for number, one in enumerate(filter(None, found)):
        label, score, *box = one.groups()
        card.write(label, 590, 90 + number * 150)
        card.write(score, WIDTH - MARGIN, 90 + number * 150, colour=ACCENT, anchor="rm")
        card.write(", ".join(box), 590, 136 + number * 150, 30, SOFT)
    return card


def segmentation() -> Card:
    card = Card()
    lines = command("run", MODELS / "shapes_mask.onnx", PICTURES / "shapes.png", "--output", "drawn.png")
    for number, path in enumerate((PICTURES / "shapes.png", Path("drawn.png"))):
        card.place(Image.open(path), MARGIN + number * 540, 30, 340)
    found = [re.search(r"\b([a-z]+) +(\d+\.\d%)", line) for line in lines]
    for number, one in enumerate(filter(None, found)):
        card.write(one[1], MARGIN + number * 222, 430, 32)
        card.write(one[2], MARGIN + number * 222, 474, 32, SOFT)
    return card


def text() -> Card:
    card = Card()
    lines = [line.split(" ", 1) for line in printed(SAMPLES / "read_text.py")]
    card.place(Image.open("drawn.png"), 150, 30, 660)
    for number, (confidence, line) in enumerate(lines):
        card.write(line, 150, 350 + number * 66)
        card.write(confidence, 810, 350 + number * 66, colour=SOFT, anchor="rm")
    return card


def sound() -> Card:
    card = Card()
    sample = runpy.run_path(str(SAMPLES / "audio_stream.py"))
    waves = {"in": sample["tones"](), "out": sample["filtered"](sample["tones"]())}
    for number, (name, blocks) in enumerate(waves.items()):
        middle = 150 + number * 240
        samples = np.concatenate(list(blocks))[4096 : 4096 + 160]
        card.write(name, MARGIN, middle, colour=SOFT)
        x = np.linspace(MARGIN + 80, WIDTH - MARGIN, len(samples))
        card.pen.line((x[0], middle, x[-1], middle), TRACK, 2)
        points = np.stack([x, middle - samples * 100], axis=1)
        card.pen.line([tuple(point) for point in points.tolist()], ACCENT, 4, "curve")
    return card


def language() -> Card:
    card = Card()
    question = "How do I draw boxes on a video?"
    rows = [line.split(" ", 1) for line in printed(SAMPLES / "search_docs.py", question)]
    card.write(question, MARGIN, 80, 42)
    best = max(float(score) for score, _ in rows)
    card.bars([(page, score, float(score) / best) for score, page in rows], MARGIN, 200, WIDTH - 2 * MARGIN, 110)
    return card


def video() -> Card:
    card = Card()
    writer = cv2.VideoWriter("in.avi", cv2.VideoWriter.fourcc(*"MJPG"), 10, (320, 320))
    for step in range(26):
        frame = Image.new("RGB", (320, 320), "#e8e4da")
        pen = ImageDraw.Draw(frame)
        pen.ellipse((20 + 7 * step, 30, 120 + 7 * step, 130), "#c83c32")
        pen.rectangle((210 - 7 * step, 185, 300 - 7 * step, 275), "#285aa0")
        writer.write(cv2.cvtColor(np.asarray(frame), cv2.COLOR_RGB2BGR))
    writer.release()
    command("run", MODELS / "shapes.onnx", "in.avi", "--threshold", "0.5", "--output", "out.avi")
    with VideoReader("out.avi") as reader:
        shown = list(reader)[::5]
    for number, frame in enumerate(shown):
        x, y = 75 + number % 3 * 275, number // 3 * 275
        card.place(frame.software_bitmap.to_pil(), x, y, 265)
        card.write(f"{number / 2:.1f} s", x + 12, y + 244, 24, SOFT)
    return card


def service() -> Card:
    card = Card()
    _, good, *_, bad = printed(SAMPLES / "asyncio_service.py")
    card.place(Image.open(PICTURES / "seven.png"), MARGIN, 50, 200)
    for top, sent, answer in ((80, "seven.png", good), (320, "no picture", bad)):
        status, body = re.fullmatch(r"HTTP/1.1 (.*?) (\{.*\})", answer).groups()
        card.write(f"POST {sent}", 290, top, colour=SOFT)
        lines = textwrap.wrap(textwrap.shorten(body, 100, placeholder=' …"}'), 36)
        for number, line in enumerate([status, *lines]):
            card.write(line, 290, top + 50 + number * 44, 32, TEXT if number else ACCENT)
    return card


def training() -> Card:
    card = Card()
    printed(SAMPLES / "learn_preprocessing.py")
    labels = Path("labels.txt")
    labels.write_text("circle\nsquare\ntriangle\n")
    for number, (words, name) in enumerate((("as exported", "exported"), ("as learned", "right"))):
        options = ("--labels", labels, "--threshold", "0.85", "--output", f"{name}.png")
        command("run", f"shapes_{name}.onnx", PICTURES / "shapes.png", *options)
        card.place(Image.open(f"{name}.png"), MARGIN + number * 460, 30, 420)
        card.write(words, MARGIN + number * 460 + 210, 495, colour=SOFT, anchor="mm")
    return card


def published() -> Card:
    card, folder = Card(), Path("published")
    folder.mkdir()
    shutil.copy(MODELS / "digits.onnx", folder / "model.onnx")
    shutil.copy(MODELS / "digits.labels.txt", folder / "labels.txt")
    (folder / "cvexport.manifest").write_text('{"LabelFileName": "labels.txt"}')
    found = [re.fullmatch(r"(\w+) from +(\S+) *", line) for line in command("info", folder)]
    card.write("published/", MARGIN, 130, 40)
    for number, line in enumerate(filter(None, found)):
        card.write(line[2], MARGIN + 40, 220 + 80 * number, colour=ACCENT)
        card.write(line[1], 400, 220 + 80 * number, colour=SOFT)
    card.place(Image.open(PICTURES / "seven.png"), 620, 90, 300)
    answer = command("run", folder, PICTURES / "seven.png", "--top-k", "1")[-1].split()
    card.write(f"{answer[1]} {float(answer[2]):.0%}", 620, 440)
    return card


def upscaling() -> Card:
    """A drawing and a photograph of half their size, as Pillow enlarges them, and as the model does."""
    card = Card()
    drawing = Image.new("RGB", (140, 108), "#fdf6e3")
    pen = ImageDraw.Draw(drawing)
    for number, line in enumerate(("Load, bind,", "evaluate.")):
        pen.text((12, 26 + 26 * number), line, "#073642", ImageFont.load_default(23), "lm")
    for number in range(5):
        pen.line((12 + 12 * number, 98, 44 + 12 * number, 74), "#268bd2", 3)
    pen.ellipse((104, 72, 130, 98), outline="#dc322f", width=4)
    photo = Image.open(PICTURES / "cat.jpg").convert("RGB").crop((140, 56, 280, 164))
    for row, picture in enumerate((drawing, photo)):
        half = picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.BICUBIC)
        half.save("half.png")
        printed(SAMPLES / "upscale.py", "half.png", "large.png")
        bicubic = half.resize(picture.size, Image.Resampling.BICUBIC)
        for column, shown in enumerate((half, bicubic, Image.open("large.png"))):
            pixels = shown.resize((280, 216), Image.Resampling.NEAREST)
            card.image.paste(pixels, (MARGIN + column * 300, 30 + row * 232))
    for column, words in enumerate(("small", "bicubic", "upscale.onnx")):
        card.write(words, MARGIN + column * 300 + 140, 508, 30, SOFT, "mm")
    return card


def browser() -> Card:
    """The page of samples/browser, with what its file answers in ONNX Runtime."""
    card = Card()
    labels = MODELS / "digits.labels.txt"
    command("contract", MODELS / "digits.onnx", "--build-in", "--labels", labels, "--output", "model.onnx")
    session = onnxruntime.InferenceSession("model.onnx")
    picture = Image.open(PICTURES / "seven.png").convert("RGB")
    names, scores = session.run(["top_labels", "top_scores"], {"image": np.asarray(picture)})
    card.pen.rounded_rectangle((MARGIN, 40, WIDTH - MARGIN, 500), 16, "white", TRACK, 3)
    card.pen.line((MARGIN, 104, WIDTH - MARGIN, 104), TRACK, 3)
    for number in range(3):
        card.pen.ellipse((66 + number * 36, 62, 86 + number * 36, 82), TRACK)
    card.pen.rounded_rectangle((190, 54, WIDTH - 66, 90), 18, GROUND)
    card.write("localhost:8000/browser/", 212, 72, 22, SOFT)
    card.place(picture, 80, 140, 320)
    rows = zip(names[0, :3], scores[0, :3].tolist(), strict=True)
    card.bars([(name, f"{score:.3f}", score) for name, score in rows], 450, 180, 420, 110)
    return card


TASKS = (
    classification,
    detection,
    segmentation,
    text,
    sound,
    language,
    video,
    service,
    training,
    upscaling,
    published,
    browser,
)


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "_static" / "tasks").resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for task in TASKS:
            task().image.save(target / f"{task.__name__}.webp", quality=82, method=6)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()

"""Draws seven.png, a handwritten 7, with the strokes of a round pen. Needs only Pillow."""

from pathlib import Path

from PIL import Image, ImageDraw

SIDE, SCALE = 200, 4
STROKES = (
    [(58, 52), (80, 47), (110, 46), (146, 44), (136, 66), (122, 92), (110, 118), (102, 140), (97, 160)],
    [(80, 106), (104, 102), (132, 100)],
)


def main() -> None:
    big = Image.new("L", (SIDE * SCALE, SIDE * SCALE))
    pen = ImageDraw.Draw(big)
    radius = 9 * SCALE
    for stroke in STROKES:
        points = [(x * SCALE, y * SCALE) for x, y in stroke]
        pen.line(points, fill=255, width=2 * radius, joint="curve")
        for x, y in (points[0], points[-1]):
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=255)
    big.resize((SIDE, SIDE), Image.Resampling.BOX).save(Path(__file__).parent / "seven.png")


if __name__ == "__main__":
    main()

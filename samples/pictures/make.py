"""Draws seven.png, a handwritten 7, with the strokes of a round pen, and shapes.png. Needs only Pillow."""

from pathlib import Path

from PIL import Image, ImageDraw

HERE = Path(__file__).parent
SIDE, SCALE = 200, 4
STROKES = (
    [(58, 52), (80, 47), (110, 46), (146, 44), (136, 66), (122, 92), (110, 118), (102, 140), (97, 160)],
    [(80, 106), (104, 102), (132, 100)],
)


def seven() -> Image.Image:
    big = Image.new("L", (SIDE * SCALE, SIDE * SCALE))
    pen = ImageDraw.Draw(big)
    radius = 9 * SCALE
    for stroke in STROKES:
        points = [(x * SCALE, y * SCALE) for x, y in stroke]
        pen.line(points, fill=255, width=2 * radius, joint="curve")
        for x, y in (points[0], points[-1]):
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=255)
    return big.resize((SIDE, SIDE), Image.Resampling.BOX)


def shapes() -> Image.Image:
    big = Image.new("RGB", (480 * SCALE, 480 * SCALE), (225, 222, 210))
    pen = ImageDraw.Draw(big)
    pen.ellipse([SCALE * edge for edge in (50, 60, 210, 220)], (200, 60, 50))
    for corners, colour in (
        ([(290, 80), (430, 110), (400, 250), (260, 220)], (40, 90, 160)),
        ([(252, 271), (308, 426), (146, 397)], (60, 130, 60)),
    ):
        pen.polygon([(x * SCALE, y * SCALE) for x, y in corners], colour)
    return big.resize((480, 480), Image.Resampling.BOX)


def main() -> None:
    seven().save(HERE / "seven.png")
    shapes().save(HERE / "shapes.png", optimize=True)


if __name__ == "__main__":
    main()

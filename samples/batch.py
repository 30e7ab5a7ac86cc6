"""Evaluates several pictures at once, and a stream of pictures in batches.

    python samples/batch.py

The batch dimension of digits_batch.onnx is free, so the model takes as many pictures as you bind. If the model is small
or the device is large, one evaluation of many pictures is faster than many evaluations of one picture.
"""

from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from winml_py import LearningModel, LearningModelBinding, LearningModelSession

MODEL = Path(__file__).parent.parent / "models" / "digits_batch.onnx"


def drawn(digit: int) -> Image.Image:
    """A printed digit, white on black. The model learned handwriting, but also reads printed digits from 0 to 5."""
    picture = Image.new("L", (200, 200))
    font = ImageFont.load_default(180)
    ImageDraw.Draw(picture).text((100, 100), str(digit), 255, font, anchor="mm", stroke_width=8)
    return picture


def together(session: LearningModelSession) -> list[int]:
    """Evaluates six pictures at once. The output has a row for each picture."""
    binding = LearningModelBinding(session)
    binding.bind("image", [drawn(digit) for digit in range(6)])
    scores = session.evaluate(binding).outputs["probabilities"].to_numpy()
    print("one evaluation gives", " x ".join(map(str, scores.shape)))
    return scores.argmax(axis=1).tolist()


def stream(session: LearningModelSession) -> Iterator[int]:
    """Evaluates twenty pictures in order, with only a few in memory at a time."""
    pictures = (drawn(number % 6) for number in range(20))
    for result in session.evaluate_many(pictures, batch=8):
        yield int(result.outputs["probabilities"].to_numpy().argmax())


def main() -> None:
    # Pass no options: default options would fix the batch to one picture, as in Windows ML (batch_size_override).
    with LearningModelSession(LearningModel.load(MODEL)) as session:
        print("together:", *together(session))
        print("stream:", *stream(session))


if __name__ == "__main__":
    main()

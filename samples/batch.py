"""Several pictures in one evaluation, and a stream of pictures in batches.

    python samples/batch.py

The first size of digits_batch.onnx is free: it takes as many pictures as are bound. One evaluation of many pictures
costs less than many evaluations of one, as long as the model is small or the device is large.
"""

from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from winml_py import LearningModel, LearningModelBinding, LearningModelSession

MODEL = Path(__file__).parent.parent / "models" / "digits_batch.onnx"


def drawn(digit: int) -> Image.Image:
    """A digit in print, white on black; the model learned from handwriting, and reads 0 to 5 all the same."""
    picture = Image.new("L", (200, 200))
    font = ImageFont.load_default(180)
    ImageDraw.Draw(picture).text((100, 100), str(digit), 255, font, anchor="mm", stroke_width=8)
    return picture


def together(session: LearningModelSession) -> list[int]:
    """Six pictures, one evaluation: a row of the output for each."""
    binding = LearningModelBinding(session)
    binding.bind("image", [drawn(digit) for digit in range(6)])
    scores = session.evaluate(binding).outputs["probabilities"].to_numpy()
    print("one evaluation gives", " x ".join(map(str, scores.shape)))
    return scores.argmax(axis=1).tolist()


def stream(session: LearningModelSession) -> Iterator[int]:
    """Twenty pictures, of which no more than a few are in memory; a result for each, in their order."""
    pictures = (drawn(number % 6) for number in range(20))
    for result in session.evaluate_many(pictures, batch=8):
        yield int(result.outputs["probabilities"].to_numpy().argmax())


def main() -> None:
    # No options: default ones would fix the batch to one picture, as in Windows ML (batch_size_override).
    with LearningModelSession(LearningModel.load(MODEL)) as session:
        print("together:", *together(session))
        print("stream:", *stream(session))


if __name__ == "__main__":
    main()

"""Reads a digit that you hold in front of a camera, frame by frame.

        python samples/webcam.py                   reads from the first camera
    python samples/webcam.py 1                 reads from the second camera
    python samples/webcam.py VIDEO_OR_FOLDER   reads a video file, or a folder of JPEG and PNG files

The sample reads at most 100 frames. The digit must be white on black and fill the height of the frame.
"""

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

from winml_py import (
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    PictureError,
    SoftwareBitmap,
    VideoFrame,
    VideoReader,
)

MODEL = Path(__file__).parent.parent / "models" / "digits.onnx"
FRAMES = 100

# Otherwise OpenCV prints a warning for each camera interface that it tried.
os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")


def frames(source: str) -> Iterator[VideoFrame]:
    if Path(source).is_dir():
        for path in sorted(Path(source).glob("*.[jp][pn]g")):
            yield VideoFrame.create_with_software_bitmap(SoftwareBitmap.load(path))
        return
    with VideoReader(int(source) if source.isdecimal() else source) as reader:
        yield from reader


def read_digits(source: str) -> None:
    session = LearningModelSession(LearningModel.load(MODEL))
    binding = LearningModelBinding(session)  # one for all frames, so that its memory is reused
    start, count = perf_counter(), 0
    for frame in islice(frames(source), FRAMES):
        binding.bind("image", frame)
        scores = session.evaluate(binding).outputs["probabilities"].to_numpy()[0]
        time = f"{frame.relative_time.total_seconds():.2f} s" if frame.relative_time is not None else f"{count}"
        print(f"{time}: {scores.argmax()} ({scores.max():.0%})")
        count += 1
    print(f"{count} frames, {count / (perf_counter() - start):.0f} a second")


def main() -> None:
    source = sys.argv[1] if len(sys.argv) > 1 else "0"
    try:
        read_digits(source)
    except PictureError as error:
        if not source.isdecimal():
            sys.exit(str(error))
        print(f"Nothing to see: {error}")


if __name__ == "__main__":
    main()

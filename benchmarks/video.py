"""Compares a video that goes through an effect model with the OpenCV loop by hand.

    python benchmarks/video.py [--json FILE]

Every way reads a video, runs the model on each frame, and writes another video with the same codec. The loop by hand
uses OpenCV, numpy and raw ONNX Runtime, with its default threads and with one. The frames of all ways are compared
first, bit for bit. Then the ways take turns in this process. Bar, on two cores: 1.2 times the better loop by hand.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
from _measure import arguments, interleaved, medians, report

from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, VideoReader, VideoWriter

ROOT = Path(__file__).parent.parent


def write_source(path: Path, frames: int, width: int, height: int) -> None:
    """A photograph that scrolls."""
    photograph = cv2.resize(cv2.imread(str(ROOT / "samples" / "pictures" / "cat.jpg")), (width, height))
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25, (width, height))
    for number in range(frames):
        writer.write(np.roll(photograph, 3 * number, axis=1))
    writer.release()


def by_hand(model: str, threads: int) -> Callable[[Path, Path], None]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    raw = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def loop(source: Path, target: Path) -> None:
        capture = cv2.VideoCapture(str(source))
        size = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)), int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
        writer = cv2.VideoWriter(str(target), cv2.VideoWriter.fourcc(*"MJPG"), capture.get(cv2.CAP_PROP_FPS), size)
        while True:
            there, frame = capture.read()
            if not there:
                break
            tensor = np.ascontiguousarray(frame.transpose(2, 0, 1)[None], np.float32)
            planes = raw.run(None, {"image": tensor})[0][0]
            picture = np.rint(np.clip(planes, 0, 255)).astype(np.uint8).transpose(1, 2, 0)
            writer.write(np.ascontiguousarray(picture))
        writer.release()

    return loop


def streamed(model: str) -> Callable[[Path, Path], None]:
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    session = LearningModelSession(LearningModel.load(model), None, options)

    def stream(source: Path, target: Path) -> None:
        with VideoReader(source) as reader, VideoWriter(target, reader.frame_rate) as writer:
            for result in session.evaluate_many(reader):
                writer.write(result.outputs["result"])

    return stream


def frames_of(path: Path) -> list[np.ndarray]:
    capture, found = cv2.VideoCapture(str(path)), []
    while (answer := capture.read())[0]:
        found.append(answer[1])
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--effect", default="edges")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    model = str(ROOT / "models" / f"{options.effect}.onnx")
    loops = {"by hand": by_hand(model, 0), "by hand, one thread": by_hand(model, 1), "evaluate_many": streamed(model)}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.avi"), Path(folder, "out.avi")
        write_source(source, options.frames, *options.size)
        calls = {way: (lambda loop=loop: loop(source, target)) for way, loop in loops.items()}
        written = []
        for call in calls.values():
            call()
            written.append(frames_of(target))
            os.unlink(target)
        assert len(written[0]) == options.frames
        assert all(np.array_equal(written[0], others) for others in written[1:]), "the frames differ"
        middle = medians(interleaved(calls, options.rounds, 1))
    best = min(seconds for way, seconds in middle.items() if way != "evaluate_many")
    rows = [
        {"way": way, "frames a second": options.frames / seconds, "x the better loop by hand": best / seconds}
        for way, seconds in middle.items()
    ]
    report("video", rows, options.json)
    print(f"over the better loop by hand: {best / middle['evaluate_many']:.3f}")


if __name__ == "__main__":
    main()

"""How `winml-py run` treats a video: each frame's result becomes a frame of the video that it writes.

The new frame is the model's output picture, or the input frame with the objects drawn on it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from .._interpretation import VisionInterpreter, find_tensor_picture
from ..core.base.agreement import as_numpy
from ..core.base.atomic_files import fold_case, open_atomically, require_folder, translate_write_errors
from ..core.base.messages import Facts
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.bitmap import SoftwareBitmap, VideoFrame
from ..core.imaging.video import VideoReader
from ..core.session.session import LearningModelSession
from ..enums import BitmapPixelFormat
from ..errors import PictureError
from .arguments import require_unnamed
from .failures import OUTPUT, Failure, convert_errors
from .style import print_line

if TYPE_CHECKING:
    from PIL.Image import Image


USUAL_RATE = 25.0
"""The frame rate of a video that states none."""

CODECS = {".avi": "MJPG", ".m4v": "mp4v", ".mkv": "mp4v", ".mov": "mp4v", ".mp4": "mp4v", ".webm": "VP80"}
"""The endings of videos that are written, each with a codec that OpenCV's packages include on every system."""


def write_video(
    session: LearningModelSession,
    path: str,
    target: str,
    interpreter: VisionInterpreter,
    progress: Callable[[int, int | None], object],
) -> Facts:
    """Evaluates every frame of a video, and writes the results as a video. Holds only a few frames in memory.

    Args:
        session: its model has a picture output, or answers that can be drawn.
        path: the video to read.
        target: the video to write; `FOLDER/name.*` becomes an .mp4.
        interpreter: finds the objects to draw, if the model has no picture output.
        progress: called with the number of finished frames and the total, if known.

    Returns:
        The facts to print.

    Raises:
        WinMLError: the video cannot be read, or a frame cannot be evaluated.
        ClickException: the results cannot be drawn, or the video cannot be written.
    """
    outputs = session.model.output_features
    name = next((output.name for output in outputs if isinstance(output, ImageFeatureDescriptor)), "")
    target = target.removesuffix("*") + "mp4" if target.endswith(".*") else target
    require_unnamed(target)
    with convert_errors(OUTPUT):
        require_folder(target)
    codec = CODECS.get(os.path.splitext(os.path.realpath(target))[1].lower())
    if codec is None or (os.path.exists(target) and not os.path.isfile(target)):
        raise Failure(f"{target} is not an ordinary file with a video extension. Use {', '.join(CODECS)}.", OUTPUT)
    with VideoReader(path) as reader, translate_write_errors(target), open_atomically(target) as file:
        writer = _FrameWriter(file.name, target, codec, reader.frame_rate if reader.frame_rate > 0 else USUAL_RATE)
        with closing(writer), session.evaluate_many(reader, progress=progress) as stream:
            for result in stream:
                writer.write(_find_picture(result, name, interpreter, path))
        reader.close()  # the output may replace this video, and Windows cannot replace an open file
        if not writer.count:
            raise PictureError(f"{path}: The video has no frames.")
        if _count_frames(file.name) != writer.count:  # OpenCV does not report failed writes
            raise Failure(f"{target} could not be written completely. Check the free disk space.", OUTPUT)
    width, height = writer.size
    facts = {"kind": "video", "width": width, "height": height, "frames": writer.count}
    return {"outputs": {name or "drawn": facts}, "written": [target]}


class _FrameWriter:
    """Writes the frames of a video with OpenCV. The first one sets the size."""

    def __init__(self, path: str, target: str, codec: str, rate: float) -> None:
        self._path, self._target, self._codec, self._rate = path, target, codec, rate
        self._native: Any = None
        self.size = (0, 0)
        self.count = 0

    def write(self, picture: ImageFeatureValue) -> None:
        bitmap = picture.video_frame.software_bitmap
        size = (bitmap.pixel_width, bitmap.pixel_height)
        if self._native is None:
            self._open(size)
        if size != self.size:
            raise Failure(
                f"{self._target}: Frame {self.count} is {size[0]}x{size[1]}, but the video is "
                f"{self.size[0]}x{self.size[1]}.",
                OUTPUT,
            )
        self._native.write(SoftwareBitmap.convert(bitmap, BitmapPixelFormat.BGR8).to_numpy())
        self.count += 1

    def _open(self, size: tuple[int, int]) -> None:
        import cv2

        words = f"{self._target}: A {size[0]}x{size[1]} video at {self._rate:g} frames per second cannot be written"
        if size[0] % 2 or size[1] % 2:
            raise Failure(f"{words}, because both sides must be even.", OUTPUT)
        self._native = cv2.VideoWriter(self._path, cv2.VideoWriter.fourcc(*self._codec), self._rate, size)
        if not self._native.isOpened():
            raise Failure(f"{words} in this format. Use .avi, which allows most rates.", OUTPUT)
        self.size = size

    def close(self) -> None:
        if self._native is not None:
            self._native.release()


def _count_frames(path: str) -> int:
    import cv2

    capture = cv2.VideoCapture(path)
    count = sum(1 for _ in iter(capture.grab, False))
    capture.release()
    return count


def _find_picture(result: Any, name: str, interpreter: VisionInterpreter, path: str) -> Any:
    error = result.error
    if error is not None:
        raise type(error)(f"Frame {result.index}: {error.message}", hint=error.hint, hresult=error.hresult)
    if name:
        return result.outputs[name]
    finding = interpreter.interpret(result)
    if finding is None or finding.draw is None:
        raise Failure(
            f"{path} is a video, but the model has neither a picture output nor results that can "
            "be drawn. In Python, read frames with VideoReader and evaluate them with evaluate_many.",
            OUTPUT,
        )
    return ImageFeatureValue.from_pil(finding.draw(result.source))


# The files that `winml-py run --output` writes.


def list_targets(output: str | None, labels: Sequence[str]) -> list[str]:
    """The output path of each input, or "". In a folder, the extension is chosen later, by the content."""
    if output is None:
        return [""] * len(labels)
    if not (output.endswith(("/", os.sep)) or os.path.isdir(output)):
        if len(labels) > 1:
            folder = os.path.splitext(output)[0]
            raise click.UsageError(f"{output}: With {len(labels)} inputs, --output must be a folder: {folder}/")
        with convert_errors(OUTPUT):
            require_folder(output)
        return [output]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in labels]
    folded = list(map(fold_case, stems))
    duplicate = next((stem for stem in stems if folded.count(fold_case(stem)) > 1), None)
    if duplicate is not None:
        raise click.UsageError(f"Two inputs are named {duplicate}, so their outputs would share a file.")
    with convert_errors(OUTPUT):
        os.makedirs(output, exist_ok=True)
    return [os.path.join(output, f"{stem}.*") for stem in stems]


def write_outputs(
    target: str, outputs: Mapping[str, Any], draw: Callable[[], Image] | None, order: BitmapPixelFormat
) -> str:
    """Writes the picture with the objects drawn on it, the model's first output picture, or all arrays.

    Args:
        target: the path to a file, or `FOLDER/NAME.*`.
        outputs: the model's outputs.
        draw: draws the objects; None if there is nothing to draw.
        order: the channel order that the model sees, by which a plain tensor is read as a picture.

    Returns:
        The path to the file.
    """
    pictures = [value for value in outputs.values() if isinstance(value, ImageFeatureValue)]
    ending = "png" if pictures or draw else "npz"
    path = target.removesuffix("*") + ending if target.endswith(".*") else target
    require_unnamed(path)
    with convert_errors(OUTPUT):
        if path.endswith(".npz"):
            _save_arrays(path, {name: _read_array(value) for name, value in outputs.items()})
        elif draw:
            ImageFeatureValue.from_pil(draw()).save(path)
        elif pictures:
            pictures[0].save(path)
        else:
            _save_tensor(path, outputs, order)
    return path


def _save_tensor(path: str, outputs: Mapping[str, object], order: BitmapPixelFormat) -> None:
    """Writes a plain tensor output as a picture, and says how its numbers were read."""
    output = find_tensor_picture(outputs, order)
    if output is None:
        raise Failure(f"{path}: The model has no output that can be written as a picture. Use a .npz file.", OUTPUT)
    output.bitmap.save(path)
    reading = output.contract.describe()
    print_line(f"{path}: The output {output.name} is a tensor, and was written as a picture: {reading}.", is_error=True)


def _read_array(value: Any) -> Any:
    """An output as an array, if it is one: pictures of a batch have one size."""
    if isinstance(value, list) and value and isinstance(value[0], VideoFrame):
        return np.stack([frame.software_bitmap.to_numpy() for frame in value])
    return as_numpy(value)


def _save_arrays(path: str, outputs: Mapping[str, Any]) -> None:
    """Writes a file for `numpy.load`. `numpy.savez` would refuse an output that has the name of its parameters."""
    if others := ", ".join(name for name, array in outputs.items() if not isinstance(array, np.ndarray)):
        message = f"{path}: A .npz file holds arrays, but these outputs are maps or sequences: {others}."
        raise Failure(f"{message} Omit --output, and print all outputs with --json.", OUTPUT)
    with open_atomically(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                plain = array.astype(str) if array.dtype == object else array
                np.lib.format.write_array(member, plain, allow_pickle=False)

"""What `winml-py run` does with a video: what a model gives of every frame becomes a frame of another.

It is the picture that the model gives, or the frame with what was found in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.video import VideoReader
from ..core.imaging.video_files import is_video
from ..core.imaging.video_writer import VideoWriter
from ..core.session.session import LearningModelSession
from .failures import OUTPUT, Failure, failures
from .findings import Finder
from .output_files import require_no_input
from .style import say

USUAL_RATE = 25.0
"""Frames a second of a video that does not say."""


def video_of(files: Mapping[str, str]) -> str:
    """The video among the files of an evaluation, where there is no other; or ""."""
    paths = list(files.values())
    return paths[0] if len(paths) == 1 and is_video(paths[0]) else ""


def write_video(
    session: LearningModelSession,
    path: str,
    target: str,
    finder: Finder,
    tell: Callable[[int, int | None], object],
    inputs: Iterable[str] = (),
) -> dict[str, Any]:
    """Evaluates every frame of a video, and writes the pictures as another. Only a few frames are in memory at a time.

    Args:
        session: of a model with a picture output, or of one whose answers can be drawn.
        path: the video to read.
        target: the video to write; of `FOLDER/name.*` it becomes an .mp4.
        finder: finds what is drawn, where the model gives no picture.
        tell: called with the frames that are done, and with how many there are, where that is known.
        inputs: files that must not be overwritten.

    Returns:
        What is shown of it.

    Raises:
        WinMLError: it cannot be read, or a frame cannot be evaluated.
        ClickException: no picture comes out, or the video cannot be written.
    """
    name = _picture_output(session)
    if not target:
        condition = "" if name else ", if the model finds what can be drawn"
        raise click.UsageError(f"{path}: This is a video. Name the video to write{condition}: --output FILE.mp4.")
    target = target.removesuffix("*") + "mp4" if target.endswith(".*") else target
    require_no_input(target, inputs)
    with VideoReader(path) as reader:
        with failures(OUTPUT):
            writer = VideoWriter(target, _rate(reader, path))
        say(f"{path}: sound is not carried over to {target}", is_error=True)
        with writer, session.evaluate_many(reader, progress=tell) as stream:
            for result in stream:
                picture = _picture(result, name, finder, path)
                with failures(OUTPUT):
                    writer.write(picture)
        facts = {"kind": "video", "width": reader.pixel_width, "height": reader.pixel_height}
    return {"outputs": {name or "drawn": facts | {"frames": writer.frame_count}}, "written": [target]}


def _picture_output(session: LearningModelSession) -> str:
    names = (one.name for one in session.model.output_features if isinstance(one, ImageFeatureDescriptor))
    return next(names, "")


def _rate(reader: VideoReader, path: str) -> float:
    if reader.frame_rate > 0:
        return reader.frame_rate
    say(f"{path} does not state its frame rate; {USUAL_RATE:g} a second are assumed", is_error=True)
    return USUAL_RATE


def _picture(result: Any, name: str, finder: Finder, path: str) -> Any:
    error = result.error
    if error is not None:
        raise type(error)(f"Frame {result.index}: {error.message}", hint=error.hint, hresult=error.hresult)
    if name:
        return result.outputs[name]
    found = finder.find(result)
    if found is None or found.draw is None:
        raise Failure(
            f"{path} is a video, and the model gives no picture that a video could be made of, and nothing that could "
            "be drawn. Programs read frames with VideoReader, and evaluate them with evaluate_many.",
            OUTPUT,
        )
    return ImageFeatureValue.from_pil(found.draw(result.source))

"""What `winml-py run` does with a video: what a model gives of every frame becomes a frame of another.

It is the picture that the model gives, or the frame with what was found in it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..core.base.agreement import as_numpy
from ..core.base.atomic_files import require_folder, written_whole
from ..core.base.messages import Facts
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.video import VideoReader
from ..core.imaging.video_writer import VideoWriter, is_video
from ..core.session.session import LearningModelSession
from ..inputs.answers import Finder
from ..inputs.tensor_picture import PictureSeen, tensor_picture
from .arguments import require_unnamed
from .failures import OUTPUT, Failure, failures
from .style import say

if TYPE_CHECKING:
    from PIL.Image import Image


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
) -> Facts:
    """Evaluates every frame of a video, and writes the pictures as another. Only a few frames are in memory at a time.

    Args:
        session: of a model with a picture output, or of one whose answers can be drawn.
        path: the video to read.
        target: the video to write; of `FOLDER/name.*` it becomes an .mp4.
        finder: finds what is drawn, where the model gives no picture.
        tell: called with the frames that are done, and with how many there are, where that is known.

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
    require_unnamed(target)
    with VideoReader(path) as reader:
        # Before the first frame is evaluated: a name that is no video's is then refused at once.
        with failures(OUTPUT):
            writer = VideoWriter(target, _rate(reader, path))
        if _may_have_sound(path):
            say(f"{path}: sound is not carried over to {target}", is_error=True)
        width, height = reader.pixel_width, reader.pixel_height
        with writer:
            with session.evaluate_many(reader, progress=tell) as stream:
                for result in stream:
                    picture = _picture(result, name, finder, path)
                    ((width, height),) = picture.sizes  # a model may make frames of another size
                    with failures(OUTPUT):
                        writer.write(picture)
            reader.close()  # the video may be written over this one, and Windows replaces no open file
        facts = {"kind": "video", "width": width, "height": height}
    return {"outputs": {name or "drawn": facts | {"frames": writer.frame_count}}, "written": [target]}


def _picture_output(session: LearningModelSession) -> str:
    names = (one.name for one in session.model.output_features if isinstance(one, ImageFeatureDescriptor))
    return next(names, "")


_SOUND_MARKS = (b"soun", b"auds", b"A_OPUS", b"A_VORBIS", b"A_AAC", b"A_MPEG", b"A_PCM", b"A_AC3", b"A_FLAC")
"""What the headers of a track of sound hold: of MP4 and MOV, of AVI, of Matroska and WebM."""

_HEADER_BYTES = 4 << 20


def _may_have_sound(path: str) -> bool:
    """Whether the headers of a video, which stand at its start or its end, name a track of sound. OpenCV cannot say."""
    with open(path, "rb") as file:
        headers = file.read(_HEADER_BYTES)
        file.seek(max(len(headers), os.path.getsize(path) - _HEADER_BYTES))
        headers += file.read()
    return any(mark in headers for mark in _SOUND_MARKS)


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


# The files that `winml-py run --output` writes.


def folders_of(output: str | None, models: Sequence[str]) -> list[str | None]:
    """Where the outputs of each model go: of several models, each has a folder of its name in the folder."""
    if output is None or len(models) == 1:
        return [output] * len(models)
    if not _is_folder(output):
        raise _not_one_file(output, len(models), "models")
    return [os.path.join(output, stem, "") for stem in _stems(models, "models")]


def targets_of(output: str | None, labels: Sequence[str]) -> list[str]:
    """Where the outputs of each input go, or "". A file in a folder is named when it is known what it holds."""
    if output is None:
        return [""] * len(labels)
    if not _is_folder(output):
        if len(labels) > 1:
            raise _not_one_file(output, len(labels), "inputs")
        with failures(OUTPUT):
            require_folder(output)
        return [output]
    stems = _stems(labels, "inputs")
    with failures(OUTPUT):
        os.makedirs(output, exist_ok=True)
    return [os.path.join(output, f"{stem}.*") for stem in stems]


def _not_one_file(output: str, count: int, kind: str) -> click.UsageError:
    folder = os.path.splitext(output)[0]
    return click.UsageError(f"{output}: There are {count} {kind}, so --output takes a folder: {folder}/")


def _is_folder(path: str) -> bool:
    return path.endswith(("/", os.sep)) or os.path.isdir(path)


def _stems(paths: Sequence[str], kind: str) -> list[str]:
    """The names of the files without their endings; no two are the same."""
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if twice is not None:
        raise click.UsageError(f"Two {kind} are named {twice}, so their outputs would be one file.")
    return stems


def write(
    target: str,
    outputs: Mapping[str, Any],
    draw: Callable[[], Image] | None,
    seen: PictureSeen,
) -> str:
    """Writes what was found on the picture, the first picture that the model gave, or all arrays.

    Args:
        target: the path of a file, or `FOLDER/NAME.*`.
        outputs: what the model gave.
        draw: draws what was found; None where nothing can be drawn.
        seen: the picture that the model saw, by which a plain tensor is read as another.

    Returns:
        The path of the file.
    """
    pictures = [value for value in outputs.values() if isinstance(value, ImageFeatureValue)]
    ending = "png" if pictures or draw else "npz"
    path = target.removesuffix("*") + ending if target.endswith(".*") else target
    require_unnamed(path)
    with failures(OUTPUT):
        if path.endswith(".npz"):
            _save_arrays(path, {name: as_numpy(value) for name, value in outputs.items()})
        elif draw:
            ImageFeatureValue.from_pil(draw()).save(path)
        elif pictures:
            pictures[0].save(path)
        else:
            _save_tensor(path, outputs, seen)
    return path


def _save_tensor(path: str, outputs: Mapping[str, object], seen: PictureSeen) -> None:
    """Writes an output that is a picture as a plain tensor, and says what its numbers were taken for."""
    found = tensor_picture(outputs, seen)
    if found is None:
        raise Failure(f"{path}: The model gives no picture that could be written here. Use a .npz file.", OUTPUT)
    found.bitmap.save(path)
    words = found.contract.describe()
    say(f"{path}: The output {found.name} is a tensor, and was written as a picture: {words}.", is_error=True)


def _save_arrays(path: str, outputs: Mapping[str, object]) -> None:
    """Writes what `numpy.load` reads. `numpy.savez` would refuse an output that is named like its parameters."""
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in outputs.items():
            if isinstance(array, np.ndarray):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    words = array.astype(str) if array.dtype == object else array
                    np.lib.format.write_array(member, words, allow_pickle=False)

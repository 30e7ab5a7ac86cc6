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

from .._inputs.answers import Finder, PictureSeen, tensor_picture
from ..core.base.agreement import as_numpy
from ..core.base.atomic_files import require_folder, written_whole
from ..core.base.messages import Facts
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.video import VideoReader
from ..core.imaging.video_writer import VideoWriter, is_video
from ..core.session.session import LearningModelSession
from .arguments import require_unnamed
from .failures import OUTPUT, Failure, convert_errors
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
    outputs = session.model.output_features
    name = next((one.name for one in outputs if isinstance(one, ImageFeatureDescriptor)), "")
    if not target:
        condition = "" if name else ", if the model finds what can be drawn"
        raise click.UsageError(f"{path}: This is a video. Name the video to write{condition}: --output FILE.mp4.")
    target = target.removesuffix("*") + "mp4" if target.endswith(".*") else target
    require_unnamed(target)
    with VideoReader(path) as reader:
        # Before the first frame is evaluated: a name that is no video's is then refused at once.
        with convert_errors(OUTPUT):
            writer = VideoWriter(target, reader.frame_rate if reader.frame_rate > 0 else USUAL_RATE)
        width, height = reader.pixel_width, reader.pixel_height
        with writer:
            with session.evaluate_many(reader, progress=tell) as stream:
                for result in stream:
                    picture = _picture(result, name, finder, path)
                    ((width, height),) = picture.sizes  # a model may make frames of another size
                    with convert_errors(OUTPUT):
                        writer.write(picture)
            reader.close()  # the video may be written over this one, and Windows replaces no open file
        facts = {"kind": "video", "width": width, "height": height}
    return {"outputs": {name or "drawn": facts | {"frames": writer.frame_count}}, "written": [target]}


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


def targets_of(output: str | None, labels: Sequence[str]) -> list[str]:
    """Where the outputs of each input go, or "". A file in a folder is named when it is known what it holds."""
    if output is None:
        return [""] * len(labels)
    if not (output.endswith(("/", os.sep)) or os.path.isdir(output)):
        if len(labels) > 1:
            folder = os.path.splitext(output)[0]
            raise click.UsageError(f"{output}: There are {len(labels)} inputs, so --output takes a folder: {folder}/")
        with convert_errors(OUTPUT):
            require_folder(output)
        return [output]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in labels]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if twice is not None:
        raise click.UsageError(f"Two inputs are named {twice}, so their outputs would be one file.")
    with convert_errors(OUTPUT):
        os.makedirs(output, exist_ok=True)
    return [os.path.join(output, f"{stem}.*") for stem in stems]


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
    with convert_errors(OUTPUT):
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

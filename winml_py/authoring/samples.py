"""Samples: inputs, and a model's answers for them, in files next to the model. The format is that of ONNX's test data.

    test_data_set_0/input_0.png    a picture, as its file; any other value is a tensor: input_0.pb
    test_data_set_0/output_0.pb    the answer of ONNX Runtime on the CPU, as a tensor

An output that is a list or a map has a file for each of its arrays. ONNX's format has no maps.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import glob
from itertools import count, takewhile
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .._values import convert_pictures_to_bytes, evaluate_to_arrays, flatten_outputs, match_inputs, open_session
from ..core.base.agreement import (
    FLOAT_TOLERANCE,
    HALF_TOLERANCE,
    Agreement,
    as_numpy,
    compare_values,
    compute_relative_error,
    is_same,
)
from ..core.base.arrays import Array
from ..core.base.atomic_files import move_into_place, translate_write_errors
from ..core.base.messages import type_name
from ..core.base.winrt_object import private_state
from ..core.contracts.published import Folder
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.features.prepare import as_picture, prepare
from ..core.model.model import LearningModel
from ..core.session.result import find_best_classes
from ..core.session.session import LearningModelSession
from ..errors import InvalidArgumentError, WinMLError

Sample = str | os.PathLike[str] | Mapping[str, object]


@dataclass(frozen=True)
class SampleCheck:
    """The result of `check_samples`.

    Attributes:
        samples: the folders of the samples.
        problems: the differences, as sentences that begin with a sample and an output; empty if there are none.
        largest_difference: the largest difference of a number, relative to the largest magnitude of its channel;
            infinite for other shapes, and for texts and whole numbers that differ.
    """

    samples: tuple[str, ...]
    problems: tuple[str, ...]
    largest_difference: float

    @property
    def is_right(self) -> bool:
        """Whether every sample has its answer."""
        return not self.problems


def write_samples(model: str | os.PathLike[str], samples: Iterable[Sample], *, force: bool = False) -> tuple[str, ...]:
    """Writes samples next to a model, with ONNX Runtime's answers for them on the CPU.

    `check_samples` evaluates them on any machine, device and engine. All models in a folder share its samples.

    The file of a picture is copied as it is, with its EXIF data. Other pictures are written as PNG. Arrays, and
    pictures for a model with a built-in contract, are written as tensors.

    Args:
        model: the path to the model, or to its folder.
        samples: for each sample the values of all inputs by name, as in `evaluate_features`; or the path to a picture
            or an array, for a model with one input.
        force: whether the samples replace those that are there.

    Returns:
        The folders with the samples, `test_data_set_0` and so on.

    Raises:
        InvalidArgumentError: there are samples already, a value is missing, or the answer differs each time.
        WinMLError: the model cannot be evaluated, or a file cannot be written.

    Example:
        >>> import shutil, tempfile
        >>> from winml_py import LearningModel
        >>> from winml_py.authoring import check_samples, write_samples
        >>> model = shutil.copy("models/digits.onnx", tempfile.mkdtemp())
        >>> (folder,) = write_samples(model, ["samples/pictures/seven.png"])
        >>> check_samples(LearningModel.load(model)).is_right
        True
    """
    if isinstance(samples, (str, bytes, os.PathLike, Mapping)) or not isinstance(samples, Iterable):
        raise InvalidArgumentError("Expected a list of samples, got one value.", hint="Pass [sample].")
    loaded = LearningModel.load(model)
    root, old = os.fsdecode(model), find_samples(loaded)
    root = root if os.path.isdir(root) else os.path.dirname(root)
    if old and not force:
        raise InvalidArgumentError(
            f"{old[0]}: Samples already exist here.",
            hint="Move the model to its own folder, or replace the samples with force=True (--force in a command).",
        )
    names = list[str]()
    with translate_write_errors(model), TemporaryDirectory(prefix=".samples", dir=root or ".") as temporary:
        with LearningModelSession(loaded) as session:
            for index, sample in enumerate(samples):
                names.append(f"test_data_set_{index}")
                folder = os.path.join(temporary, names[-1])
                os.mkdir(folder)
                _write_sample(session, sample, folder)
        for folder in old:
            shutil.rmtree(folder)
        for name in names:
            move_into_place(os.path.join(temporary, name), os.path.join(root, name))
    return tuple(os.path.join(root, name) for name in names)


def check_samples(session_or_model: LearningModelSession | LearningModel) -> SampleCheck:
    """Evaluates the samples next to a model, and compares the results with their answers.

    Floats may differ by 0.1 % of the largest number of their channel, or by 2 % in half precision and for pictures,
    whose decoders and scaling may differ by a level. Rows of scores must keep their best class, unless it leads by less
    than that. Whole numbers, except in output pictures, and texts must be equal.

    Args:
        session_or_model: a session, or a model for the CPU. Its file or folder has samples, which `write_samples`
            writes; ONNX's model zoo publishes them, too.

    Raises:
        InvalidArgumentError: there are no samples.
        WinMLError: no session of the model can be made there.

    Example:
        >>> import shutil, tempfile
        >>> import numpy as np
        >>> from winml_py import LearningModel
        >>> from winml_py.authoring import check_samples, write_samples
        >>> model = shutil.copy("models/digits.onnx", tempfile.mkdtemp())
        >>> _ = write_samples(model, [{"image": np.zeros((1, 1, 28, 28), np.float32)}])
        >>> check_samples(LearningModel.load(model)).largest_difference
        0.0
    """
    with open_session(session_or_model) as session:
        samples = find_samples(session.model)
        if not samples:
            raise InvalidArgumentError(
                "No sample folders, such as test_data_set_0, were found next to the model.",
                hint="To create samples, call write_samples(path, [picture]), or run winml-py run MODEL PICTURE "
                "--record.",
            )
        problems, largest = list[str](), 0.0
        for sample in samples:
            for difference, problem in _compare_sample(session, sample):
                largest = max(largest, difference)
                problems += [f"{os.path.basename(sample)}, {problem}"] if problem else []
        return SampleCheck(tuple(samples), tuple(problems), largest)


def find_samples(model: LearningModel) -> list[str]:
    """The folders of the samples next to a model, in order; none for a model that is not from a file."""
    root = _find_root(model)
    folders = (os.path.join(root, f"test_data_set_{number}") for number in count())
    return list(takewhile(os.path.isdir, folders)) if root else []


def read_inputs(model: LearningModel, sample: str) -> dict[str, Any]:
    """The values of a sample by input.

    Raises:
        InvalidArgumentError: a tensor is damaged, or the model has other inputs.
        PictureError: a picture is damaged.
    """
    files = _list_files(sample, "input")
    if len(files) != len(model.input_features):
        problem = f"Expected a file for each of {len(model.input_features)} inputs, got {len(files)}."
        raise InvalidArgumentError(f"{sample}: {problem}", hint="Delete any samples that belong to other models.")
    values = [_read_tensor(file) if file.endswith(".pb") else ImageFeatureValue.load(file) for file in files]
    return {feature.name: value for feature, value in zip(model.input_features, values, strict=True)}


def _find_root(model: LearningModel) -> str:
    """The folder that the model is from; "" for a model from bytes, or one that has been disposed of."""
    content = private_state(model)
    return content.published.folder or ("" if content.is_disposed else getattr(content.open(), "folder", ""))


def _list_files(sample: str, kind: str) -> list[str]:
    """The files of the inputs or the outputs, in order; InvalidArgumentError if one is a link out of the folder."""
    root, folder = os.path.split(sample)
    names = glob(f"{kind}_*", root_dir=sample)
    names.sort(key=lambda name: (len(name.partition(".")[0]), name))  # 10 after 9
    return [Folder(root).find(os.path.join(folder, name), sys.maxsize) for name in names]


def _write_sample(session: LearningModelSession, sample: Sample, folder: str) -> None:
    """Writes a sample and its answer into an empty folder."""
    model, names = session.model, [feature.name for feature in session.model.input_features]
    if isinstance(sample, (str, os.PathLike)) and len(names) == 1:
        sample = {names[0]: sample}
    if not isinstance(sample, Mapping) or len(sample) != len(names):
        given = f"{len(sample)} values" if isinstance(sample, Mapping) else type_name(sample)
        values = ", ".join(f"{name!r}: ..." for name in names)
        raise InvalidArgumentError(f"Expected a value for each input, got {given}.", hint=f"Pass {{{values}}}.")
    opened = match_inputs(model, sample)
    files = {
        name: file for name, file in zip(opened, sample.values(), strict=True) if isinstance(file, (str, os.PathLike))
    }
    converted = convert_pictures_to_bytes(model, opened)
    for index, feature in enumerate(model.input_features):
        stem, value = os.path.join(folder, f"input_{index}"), converted[feature.name]
        value = as_picture(value) or prepare(value, feature).converted
        if isinstance(value, ImageFeatureValue) and value.contract is not None:  # which a picture's file cannot state
            plan = prepare(value, feature).plan
            value = value if plan is None else plan.make_tensor(value)
        ending = os.path.splitext(files.get(feature.name, ""))[1]
        if not isinstance(value, ImageFeatureValue):
            _write_tensor(f"{stem}.pb", as_numpy(value))
        elif len(value.video_frames) > 1:
            raise InvalidArgumentError(f"Expected one picture for {feature.name}, got a batch.")
        elif ending:
            shutil.copyfile(files[feature.name], f"{stem}{ending}")
        else:
            value.video_frame.software_bitmap.to_pil().save(f"{stem}.png")
    outputs = flatten_outputs(evaluate_to_arrays(session, read_inputs(model, folder)))
    for index, array in enumerate(outputs.values()):
        _write_tensor(os.path.join(folder, f"output_{index}.pb"), array)
    for _, problem in _compare_sample(session, folder):
        if problem:
            hint = "Fix the seeds of the model's random operators."
            raise InvalidArgumentError(f"The answer changes with each evaluation: {problem}.", hint=hint)


def _compare_sample(session: LearningModelSession, sample: str) -> list[tuple[float, str]]:
    """For each output the largest relative difference from the sample's answer, and the problem or ""."""
    try:
        values = read_inputs(session.model, sample)
        outputs = flatten_outputs(evaluate_to_arrays(session, values))
        answers = [_read_tensor(file) for file in _list_files(sample, "output")]
    except WinMLError as error:
        return [(math.inf, f"which cannot be evaluated: {error}")]
    if len(outputs) != len(answers):
        return [(math.inf, f"which has {len(answers)} outputs; the model has {len(outputs)}: {', '.join(outputs)}")]
    has_picture = any(isinstance(value, ImageFeatureValue) for value in values.values())
    tolerance = HALF_TOLERANCE if has_picture or session.precision.is_half else FLOAT_TOLERANCE
    features = {feature.name: feature for feature in session.model.output_features}
    differences = []
    for (name, output), answer in zip(outputs.items(), answers, strict=True):
        if has_picture and isinstance(features.get(name), ImageFeatureDescriptor):  # levels may be whole numbers
            agreement = Agreement(compute_relative_error(answer, output), None, tolerance)
        else:
            agreement = compare_values(answer, output, tolerance)
        if agreement.is_good or is_same(answer, output):
            differences.append((agreement.error if agreement.is_good else 0.0, ""))
            continue
        best, new = (find_best_classes(array, 1, session.model.labels) for array in (answer, output))
        problem = f"{name}: {agreement}"
        if best and new and best[0].index != new[0].index:
            was, now = (one.label or one.index for one in (best[0], new[0]))
            problem += f"; the best class was {was} and is now {now}"
        differences.append((agreement.error, problem))
    return differences


# Tensors in files.


def _write_tensor(path: str, array: Any) -> None:
    from onnx import numpy_helper, save_tensor

    if not isinstance(array, np.ndarray):
        problem = f"A sample consists of pictures, numbers and texts, but one value is a {type_name(array)}."
        raise InvalidArgumentError(problem)
    save_tensor(numpy_helper.from_array(array), path)


def _read_tensor(path: str) -> Array:
    from google.protobuf.message import DecodeError
    from onnx import load_tensor, numpy_helper

    try:
        tensor = load_tensor(path)
        tensor.ClearField("data_location")  # its numbers are in this file, or nowhere
        return numpy_helper.to_array(tensor)
    except (DecodeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{path}: The file is not a valid ONNX tensor: {error}.") from error

"""Writing samples into a model's metadata: small inputs, with the model's answers."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from .._examples import find_example_shape, make_no_example_error
from .._values import KEYS, convert_pictures_to_bytes, evaluate_to_arrays, find_bytes_format, flatten_outputs
from ..core.base.agreement import FLOAT_TOLERANCE, as_numpy
from ..core.base.arrays import Array
from ..core.base.atomic_files import require_folder, translate_write_errors, write_atomically
from ..core.base.messages import type_name
from ..core.contracts.files import require_another_file
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.files import read_file
from ..core.features.pictures import ImageFeatureValue
from ..core.features.prepare import as_picture, open_deferred, prepare
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.pixels import find_layout
from ..core.model.contracts import require_input_names
from ..core.model.model import LearningModel
from ..core.session.result import find_best_classes
from ..core.session.session import LearningModelSession
from ..enums import TensorKind
from ..errors import InvalidArgumentError, WinMLError
from ..vision.detections import detections, may_be_detections
from .known_answers import (
    KEY,
    MAX_PIXELS,
    MAX_SAMPLES,
    WAVES,
    KnownAnswer,
    KnownInput,
    KnownOutput,
    answers_to_metadata,
    find_leader,
    make_known_output,
)
from .write_contract import read_for_copy, replace_metadata

if TYPE_CHECKING:
    from PIL.Image import Image

Sample = str | os.PathLike[str] | Mapping[str, object]

PICTURE_BYTES = 32_000
"""The most bytes of a picture's PNG; several samples share `ALL_PICTURES`."""

ALL_PICTURES = 42_000
NUMBERS = 40
"""How many numbers of an output are stored; fewer for a model with many outputs."""

ALL_NUMBERS = 400
FEW_VALUES = 32
"""A map of classes has no more different values in one picture; levels have."""

PERTURBED_SHARE = 0.1
"""The share of a picture's bytes that are changed by a level, to see how much that changes the outputs: this covers the
differences in scaling and decoding between machines."""

EXACT_TOLERANCE = 1e-4
"""The tolerance in the file beside a model of bytes, whose inputs no decoder and no scaling changes. Sums of float32 in
another order differ by a hundredth of it, and half precision by more."""

WAVES_SIDES = 480, 640
"""Height and width of an example for a model of bytes: larger than most models' pictures, so that it is scaled down."""

LARGEST_TOLERANCE = 0.1
"""An output that changes by more than half of this with a level has no known answer."""


def write_samples(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    samples: Iterable[Sample],
    *,
    force: bool = False,
) -> tuple[KnownAnswer, ...]:
    """Writes a copy of a model with small samples and ONNX Runtime's answers for them on the CPU.

    `check_samples` evaluates them on any machine, device and engine. They replace the model's samples; an empty list
    removes them. Only what is passed here is stored: a picture is scaled down until its PNG has at most 32,000 bytes,
    without its EXIF data; arrays are stored whole.

    For a model with a built-in contract, a picture's pixels are stored, at most 32,000 bytes. The samples are then also
    written to `destination` + ".answers.json", for JavaScript, which cannot read metadata. Otherwise, a file of that
    name is removed, because its answers are those of another model.

    A tenth of the picture's bytes is changed by a gray level. Twice the change of an output is its tolerance, which is
    0.1 % at least. An output that changes by more than 5 %, or changes its shape, is not stored.

    Args:
        source: the path of the model.
        destination: the path of the copy; in the source's folder if the model has external data.
        samples: for each sample a value for each input, by name, as in `evaluate_features`; or the path of a picture
            or array, for a model with one input. Missing inputs get example values: noise for pictures and floats,
            zeros for other types.
        force: whether the copy, or the file of answers, may replace the model, a sample or another file of these; and
            whether such a file is removed, if it has the name of the file of answers.

    Returns:
        The written samples.

    Raises:
        InvalidArgumentError: there are more than eight samples, they do not fit, a file needs `force` to be replaced,
            or the model has no stable answer: it differs each time, or changes with a gray level.
        WinMLError: the model cannot be evaluated, or the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from winml_py import LearningModel
        >>> from winml_py.authoring import check_samples, write_samples
        >>> target = os.path.join(tempfile.mkdtemp(), "digits.onnx")
        >>> (sample,) = write_samples("models/digits.onnx", target, ["samples/pictures/seven.png"])
        >>> check_samples(LearningModel.load(target)).is_right
        True
    """
    if isinstance(samples, (str, bytes, os.PathLike, Mapping)) or not isinstance(samples, Iterable):
        raise InvalidArgumentError("Expected a list of samples, got one value.", hint="Pass [sample].")
    require_folder(destination)
    answers_file = f"{os.fspath(destination)}.answers.json"
    samples = list(samples)
    if not force:
        named = [list(sample.values()) if isinstance(sample, Mapping) else [sample] for sample in samples]
        files = [source, *(value for value in chain(*named) if isinstance(value, (str, os.PathLike)))]
        require_another_file(destination, *files)
        require_another_file(answers_file, *files)
    model = LearningModel.load(source)
    answers = _take_answers(model, samples)
    proto = read_for_copy(source, destination)
    replace_metadata(proto, [KEY], answers_to_metadata(answers))
    write_atomically(destination, proto.SerializeToString())
    if answers and all(find_bytes_format(model, feature) for feature in model.input_features):
        exact = []
        for answer in answers:
            outputs = tuple(replace(output, tolerance=EXACT_TOLERANCE) for output in answer.outputs)
            exact.append(replace(answer, outputs=outputs))
        write_atomically(answers_file, answers_to_metadata(exact)[KEY].encode())
    elif os.path.isfile(answers_file):
        with translate_write_errors(answers_file):
            os.unlink(answers_file)
    return answers


def _take_answers(model: LearningModel, samples: Sequence[Sample]) -> tuple[KnownAnswer, ...]:
    """Evaluates samples on the CPU; arguments and errors as in `write_samples`."""
    if len(samples) > MAX_SAMPLES:
        raise InvalidArgumentError(f"Expected at most {MAX_SAMPLES} samples, got {len(samples)}.")
    if not samples:
        return ()
    budget = min(PICTURE_BYTES, ALL_PICTURES // len(samples))
    with LearningModelSession(model) as session:
        return tuple(
            _take_answer(session, _store_inputs(model, sample, budget, seed)) for seed, sample in enumerate(samples)
        )


def _store_inputs(model: LearningModel, sample: Sample, budget: int, seed: int) -> dict[str, KnownInput]:
    """The values of a sample as they are stored, in the order of the model's inputs."""
    if isinstance(sample, (str, os.PathLike)):
        names = [feature.name for feature in model.input_features]
        if len(names) != 1:
            given = ", ".join(f"{name!r}: ..." for name in names)
            raise InvalidArgumentError(
                f"{os.fspath(sample)}: The model has {len(names)} inputs.", hint=f"Pass all values: {{{given}}}."
            )
        sample = {names[0]: sample}
    elif not isinstance(sample, Mapping):
        raise InvalidArgumentError(
            f"Expected the path of a picture, or a dict of input names and values, got {type_name(sample)}.",
            hint='Pass {"image": ImageFeatureValue.load(path)}.',
        )
    features = {feature.name: feature for feature in model.input_features}
    require_input_names(model.input_features, sample)
    sources = {name: _read_value(model, features[name], value) for name, value in sample.items()}
    pictures = sum(isinstance(source, ImageFeatureValue) for source in sources.values()) or 1
    return {
        name: _store_source(model, feature, sources[name], budget // pictures)
        if name in sources
        else _make_up_value(model, feature, seed)
        for name, feature in features.items()
    }


def _read_value(model: LearningModel, feature: FeatureDescriptor, value: Any) -> ImageFeatureValue | Array:
    """One picture, or an array."""
    pictures = find_bytes_format(model, feature)
    if pictures and isinstance(value, (str, os.PathLike)):
        value = read_file(value)
    source: Any = as_picture(value) if pictures else None
    if source is None:
        prepared = prepare(value, feature, files=True)
        opened = open_deferred(prepared) if prepared.is_deferred else None
        source = prepared.converted if opened is None else prepare(opened, feature).converted
    if isinstance(source, ImageFeatureValue):
        if len(source.video_frames) > 1:
            raise InvalidArgumentError(f"Expected one picture for {feature.name}, got a batch.")
        return source
    array = as_numpy(source)
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(f"Expected a picture, numbers or texts for {feature.name}, got {type_name(value)}.")
    return array


def _store_source(
    model: LearningModel, feature: FeatureDescriptor, source: ImageFeatureValue | Array, budget: int
) -> KnownInput:
    if not isinstance(source, ImageFeatureValue):
        return KnownInput(array=np.ascontiguousarray(source).reshape(source.shape))
    image = source.video_frame.software_bitmap.to_pil()
    if pictures := find_bytes_format(model, feature):
        small = ImageFeatureValue.from_pil(_shrink(image, budget // find_layout(pictures).channels))
        return KnownInput(array=convert_pictures_to_bytes(model, {feature.name: small})[feature.name])
    return KnownInput(png=make_small_png(image, budget))


def _make_up_value(model: LearningModel, feature: FeatureDescriptor, seed: int) -> KnownInput:
    kind = getattr(feature, "tensor_kind", None)
    if not isinstance(feature, ShapedDescriptor) or kind is TensorKind.STRING or kind not in TENSOR_CLASSES:
        raise make_no_example_error(feature)
    if find_bytes_format(model, feature):
        batch = (1,) * (len(feature.shape) - 3)
        return KnownInput(seed=seed, shape=(*batch, *WAVES_SIDES, feature.shape[-1]), dtype=WAVES)
    shape = find_example_shape(feature).shape
    if isinstance(feature, ImageFeatureDescriptor) and shape[0] == 1:  # examples for a batch of pictures are numbers
        _, *sides = feature.contract.axes()
        return KnownInput(seed=seed, shape=tuple(shape[axis] for axis in sides), dtype="picture")
    return KnownInput(seed=seed, shape=shape, dtype=TENSOR_CLASSES[feature.tensor_kind].dtype.name)


def make_small_png(image: Image, budget: int) -> bytes:
    """A picture as PNG, scaled down to at most this many bytes."""
    # A plain picture of millions of pixels may be a small file.
    image, pixels = image.convert("L" if image.mode == "L" else "RGB"), MAX_PIXELS
    while pixels:
        small, file = _shrink(image, pixels), io.BytesIO()
        small.save(file, "PNG", optimize=True)
        if file.tell() <= budget:
            return file.getvalue()
        # A little less than the ratio: small pictures have more bytes per pixel.
        pixels = int(small.width * small.height * min(0.9, budget / file.tell()))
    raise InvalidArgumentError("The pictures do not fit into the metadata.", hint="Pass fewer pictures in a sample.")


def _shrink(image: Image, pixels: int) -> Image:
    """A picture, scaled down to at most this many pixels."""
    shrink = math.sqrt(pixels / (image.width * image.height))
    if shrink >= 1:
        return image
    width, height = (max(1, int(side * shrink)) for side in image.size)
    # Where one side cannot shrink below a pixel, the other shrinks more.
    height = max(1, min(height, pixels // width))
    width = min(width, pixels // height)
    return image.resize((width, height))


def _take_answer(session: LearningModelSession, inputs: dict[str, KnownInput]) -> KnownAnswer:
    """Evaluates a sample: twice unchanged, and once with slightly changed inputs."""
    values = {name: known.make_value() for name, known in inputs.items()}
    rng = np.random.default_rng(0)
    perturbed_values = {name: _perturb_value(value, rng) for name, value in values.items()}
    result = flatten_outputs(evaluate_to_arrays(session, values))
    second_result = flatten_outputs(evaluate_to_arrays(session, values))
    perturbed_result = flatten_outputs(evaluate_to_arrays(session, perturbed_values))
    count = max(4, min(NUMBERS, ALL_NUMBERS // max(1, len(result))))
    outputs, unstable = [], []
    for name, array in result.items():
        known = make_known_output(name, array, count)
        if name not in second_result or known.compare(second_result[name], FLOAT_TOLERANCE)[1]:
            raise InvalidArgumentError(
                f"The output {name} differs in each evaluation, so its answer cannot be stored.",
                hint="Fix the seeds of its random operators.",
            )
        stable = _limit_tolerance(known, array, perturbed_result.get(name))
        if stable is None:
            unstable.append(name)
        else:
            outputs.append(stable)
    if not outputs:
        raise InvalidArgumentError(
            f"No answer can be stored for this sample: when its pixels change by one level, {' and '.join(unstable)} "
            f"{'changes' if len(unstable) == 1 else 'change'} by more than {LARGEST_TOLERANCE / 2:.0%} or in shape; or "
            "the output is entirely NaN or infinite.",
            hint="Use a picture of the kind that the model was trained on.",
        )
    return KnownAnswer(inputs, tuple(outputs), _describe_answer(session, values, result))


def _limit_tolerance(known: KnownOutput, array: Array, perturbed: Array | None) -> KnownOutput | None:
    """The output with the tolerance that a change of its input asks for; None if it changes too much."""
    if perturbed is None:
        return None
    if _has_levels(array, perturbed):
        known = replace(known, kind="byte")
    change = 2 * known.compare(perturbed, math.inf)[0]
    if known.kind != "float":
        return known if change == 0 else None
    if array.size and not np.isfinite(array).any():
        return None  # NaN everywhere would accept every broken model
    if change > LARGEST_TOLERANCE:
        return None
    best, _ = find_leader(perturbed)
    lead = known.lead if best == known.best else 0.0
    tolerance = max(FLOAT_TOLERANCE, change)
    if change == 0 and np.array_equal(array, np.rint(array)):  # they may be classes: 3127 is not nearly 3128
        tolerance = min(tolerance, 0.25 / max(known.scales, default=1))
    return replace(known, tolerance=float(f"{tolerance:.3g}"), lead=lead)


def _has_levels(array: Array, perturbed: Array) -> bool:
    """Whether an output has levels, as of a picture, in 8-bit integers: of those that change, most change by one."""
    if array.dtype not in (np.uint8, np.int8) or array.shape != perturbed.shape or len(np.unique(array)) <= FEW_VALUES:
        return False
    steps = np.abs(perturbed.astype(np.int16) - array)
    return bool(steps.any() and np.median(steps[steps > 0]) == 1)


def _perturb_value(value: Any, rng: np.random.Generator) -> Any:
    """A value as another machine may have it: some pixels differ by a level, and floats in their last digits."""
    if isinstance(value, ImageFeatureValue):
        bitmap = value.video_frame.software_bitmap
        pixels = bitmap.to_numpy()
        shares = [PERTURBED_SHARE / 2, 1 - PERTURBED_SHARE, PERTURBED_SHARE / 2]
        perturbed = np.clip(pixels.astype(np.int16) + rng.choice([-1, 0, 1], pixels.shape, p=shares), 0, 255)
        return ImageFeatureValue.from_array(perturbed.astype(np.uint8), bitmap.bitmap_pixel_format)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        digits = float(np.finfo(value.dtype).eps)
        return (value * (1 + rng.uniform(-digits, digits, value.shape))).astype(value.dtype)
    return value


def _describe_answer(session: LearningModelSession, values: Mapping[str, Any], outputs: Mapping[str, Array]) -> str:
    """The answer as text: the objects found, or the best classes."""
    labels = session.model.labels
    if any(isinstance(value, ImageFeatureValue) for value in values.values()):
        result = session.evaluate_features(values)
        with suppress(WinMLError):  # an unknown kind of detector; the numbers are stored anyway
            if len(result.placements) == 1 and may_be_detections(result, labels):
                objects = list(map(_describe_prediction, detections(result)))
                return f"{len(objects)} found: {', '.join(objects[:5])}" if objects else "nothing found"
    for name, array in outputs.items():
        keys = outputs.get(f"{name}{KEYS}")
        if keys is None:
            best = find_best_classes(array, 3, labels)
        else:
            best = find_best_classes(array.astype(np.float64), 3, [str(key) for key in keys])
        if best:
            return ", ".join(map(_describe_prediction, best))
    return ""


def _describe_prediction(prediction: Any) -> str:
    return f"{prediction.label or prediction.index} {prediction.score:.2f}"

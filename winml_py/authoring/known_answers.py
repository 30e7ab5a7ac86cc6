"""Known answers: small samples in a model's metadata, with the model's results, to check on any machine.

Of an output with millions of numbers, only the numbers at some positions and two means are stored.
`winml_py.authoring.write_samples` writes them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.base.agreement import FLOAT_TOLERANCE, compute_channel_scales
from ..core.base.arrays import Array, Pixels
from ..core.base.messages import Facts
from ..core.features.pictures import ImageFeatureValue
from ..core.session.result import find_best_classes
from ..enums import BitmapPixelFormat
from ..errors import InvalidArgumentError

KEY = "winml_py.samples"
"""The metadata key of the samples, which are JSON."""

VERSION = 1
MAX_LETTERS = 1 << 16
"""The most characters of all samples of a model."""

PNG_BEGINNING = b"\x89PNG\r\n\x1a\n"
MAX_SAMPLES = 8
"""The most samples of a model."""

WAVES = "waves"
"""The `dtype` of a picture of rings that become narrower. Each kernel makes another picture of them, and JavaScript can
generate them as easily as Python.
"""

MAX_PIXELS = 1 << 22
MAX_NUMBERS = 1 << 24
"""The most numbers of a generated input: a foreign file may request any size."""

MAX_DIMENSIONS = 32
MIN_MAGNITUDE = 1e-30
"""The smallest magnitude that differences are relative to."""


@dataclass(frozen=True)
class KnownInput:
    """A value of one input: a picture, an array, or a value that is generated and the same on every machine.

    Attributes:
        png: the file of a picture.
        array: the array.
        seed: of a generated value.
        shape: of a generated value; of a picture, height and width.
        dtype: of a generated value: the name of a type, "picture" for a picture, or "waves" for a picture's bytes.
    """

    png: bytes | None = None
    array: Array | None = None
    seed: int = 0
    shape: tuple[int, ...] = ()
    dtype: str = ""

    @classmethod
    def from_json(cls, facts: Facts) -> KnownInput:
        """Reads the output of `to_json`; raises one of Python's errors if it is invalid."""
        if "png" in facts:
            png = base64.b64decode(facts["png"], validate=True)
            if not png.startswith(PNG_BEGINNING):
                raise ValueError("the picture in a sample is not a PNG file")
            return cls(png=png)
        shape = _read_shape(facts["shape"])
        if math.prod(max(1, size) for size in shape) > MAX_NUMBERS:
            raise ValueError("an input is too large")
        if "words" in facts:
            return cls(array=np.array(list(map(str, facts["words"])), object).reshape(shape))
        if "bytes" in facts:
            data = base64.b64decode(facts["bytes"], validate=True)
            return cls(array=np.frombuffer(data, _read_dtype(facts["dtype"])).reshape(shape))
        seed, dtype = int(facts["seed"]), str(facts["dtype"])
        is_picture = len(shape) == 2 and min(shape) >= 1 and math.prod(shape) <= MAX_PIXELS
        is_possible = {"picture": is_picture, WAVES: len(shape) >= 3}.get(dtype, True)
        if not 0 <= seed < 1 << 32 or not is_possible:
            raise ValueError("a value cannot be generated")
        return cls(seed=seed, shape=shape, dtype=dtype if dtype in ("picture", WAVES) else _read_dtype(dtype).name)

    def to_json(self) -> Facts:
        """The value, ready for JSON."""
        if self.png is not None:
            return {"png": base64.b64encode(self.png).decode()}
        if self.array is None:
            return {"seed": self.seed, "shape": list(self.shape), "dtype": self.dtype}
        facts: Facts = {"shape": list(self.array.shape)}
        if self.array.dtype == object:
            return facts | {"words": self.array.reshape(-1).tolist()}
        little = self.array.astype(self.array.dtype.newbyteorder("<"))
        return facts | {"dtype": self.array.dtype.name, "bytes": base64.b64encode(little.tobytes()).decode()}

    def make_value(self) -> Any:
        """The value to bind."""
        if self.png is not None:
            return ImageFeatureValue.load(self.png, max_pixels=MAX_PIXELS)
        if self.array is not None:
            return self.array
        rng = np.random.RandomState(self.seed)  # its numbers are the same in every version of numpy
        if self.dtype == "picture":
            return ImageFeatureValue.from_array(make_noise_picture(rng, *self.shape), BitmapPixelFormat.RGB8)
        if self.dtype == WAVES:
            rows, columns, channels = np.indices(self.shape)[-3:]
            return ((rows**2 + columns**2) * (channels + 1 + self.seed) // 32 % 256).astype(np.uint8)
        if np.dtype(self.dtype).kind != "f":
            return np.zeros(self.shape, self.dtype)  # they may be ids, and other ids may not exist
        # Uniform numbers with a variance of one: numpy's normal numbers depend on the system library's logarithm.
        return ((rng.random_sample(self.shape) - 0.5) * math.sqrt(12)).astype(self.dtype)

    def __str__(self) -> str:
        if self.png is not None:
            return "a picture"
        if self.array is not None:
            return f"an array of {'x'.join(map(str, self.array.shape)) or '1'}"
        kind = "picture" if self.dtype in ("picture", WAVES) else "array"
        return f"an example {kind} of {'x'.join(map(str, self.shape)) or '1'}"


def make_noise_picture(rng: np.random.RandomState, height: int, width: int) -> Pixels:
    """A picture of noise of three scales, the same on every machine; height x width x 3."""
    total = np.zeros((height, width, 3), np.int64)
    for step in (1, 3, 9):
        # Bytes: integers of the system's default size would differ between systems.
        rough = rng.randint(0, 256, (height // step + 1, width // step + 1, 3), np.uint8)
        total += rough.repeat(step, axis=0).repeat(step, axis=1)[:height, :width]
    return (24 + total * 208 // 765).astype(np.uint8)


@dataclass(frozen=True)
class KnownOutput:
    """The numbers at some positions of an output.

    Attributes:
        name: the output's name; for an element of a list or a map, with its position or key.
        shape: its sizes.
        kind: "float"; "exact" for integers, booleans and texts, which must be equal; or "byte" for 8-bit integers that
            are levels, as in pictures, and may each be one off.
        positions: in the flattened output.
        values: the values there.
        scales: the largest magnitude in the channel of each position, which differences are relative to.
        mean: the mean of all finite numbers, and that of their magnitudes: the first shows a changed sign, which the
            second does not.
        tolerance: the largest relative difference that is right for float32.
        best: the class with the highest score, if the output is a row of scores; else -1.
        lead: by how much it leads, relative to the largest magnitude; 0 if a gray level changes the best class.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    positions: tuple[int, ...]
    values: tuple[Any, ...]
    scales: tuple[float, ...] = ()
    mean: tuple[float, float] = (0.0, 0.0)
    tolerance: float = 0.0
    best: int = -1
    lead: float = 0.0

    @classmethod
    def from_json(cls, facts: Facts) -> KnownOutput:
        """Reads the output of `to_json`; raises one of Python's errors if it is invalid."""
        known = cls(
            str(facts["name"]),
            _read_shape(facts["shape"]),
            str(facts["kind"]),
            tuple(map(int, facts["positions"])),
            tuple(facts["values"]),
            tuple(map(float, facts["scales"])),
            (float(facts["mean"][0]), float(facts["mean"][1])),
            float(facts["tolerance"]),
            int(facts["best"]),
            float(facts["lead"]),
        )
        if known.kind == "float":
            known = replace(known, values=tuple(map(float, known.values)))
        if known.kind not in ("float", "byte", "exact"):
            raise ValueError("the kind of an output is invalid")
        scale_count = len(known.positions) if known.kind == "float" else 0
        if (len(known.values), len(known.scales)) != (len(known.positions), scale_count):
            raise ValueError("the numbers of an output do not match its positions")
        if not all(0 <= position < math.prod(known.shape) for position in known.positions):
            raise ValueError("a position is outside the output")
        if not all(MIN_MAGNITUDE <= scale < math.inf for scale in known.scales):
            raise ValueError("a scale is invalid")
        return known

    def to_json(self) -> Facts:
        """The output, ready for JSON, which has no infinite numbers."""
        values = [
            str(value) if isinstance(value, float) and not math.isfinite(value) else value for value in self.values
        ]
        return {**vars(self), "values": values}

    def compare(self, actual: Array, least_tolerance: float) -> tuple[float, str]:
        """The largest relative difference of an output from this one, and the problem, or ""."""
        if actual.shape != self.shape:
            shape, known_shape = ("x".join(map(str, sizes)) or "one number" for sizes in (actual.shape, self.shape))
            return math.inf, f"{self.name} is {shape}, not {known_shape}"
        if (actual.dtype.kind == "f") is not (self.kind == "float"):
            return math.inf, f"{self.name} has a different type: {actual.dtype.name}"
        values = actual.reshape(-1)[list(self.positions)]
        if self.kind != "float":
            return self._compare_exactly(values.tolist())
        error = self._compute_largest_error(values.astype(np.float64), actual)
        if math.isinf(error) or (self.best >= 0 and not find_best_classes(actual, 1)):
            return math.inf, f"{self.name}: NaN or infinity where numbers are expected, or the reverse"
        tolerance = max(self.tolerance, least_tolerance)
        best = int(actual.argmax()) if self.best >= 0 else self.best
        other_best = "" if best == self.best else f"the best class was {self.best} and is now {best}"
        if error > tolerance:
            problem = f"{self.name}: differs by {error:.2%} of its largest numbers; the tolerance is {tolerance:.2%}"
            return error, f"{problem}; {other_best}" if other_best else problem
        # Most numbers of a long row are not stored: the new best class may be one of those.
        return error, f"{self.name}: {other_best}" if other_best and self.lead >= tolerance else ""

    def _compare_exactly(self, values: list[Any]) -> tuple[float, str]:
        """As `compare`, for values that must be equal; bytes may be one off."""

        def is_equal(known: Any, value: Any) -> bool:
            if self.kind == "byte" and isinstance(known, (int, float)) and isinstance(value, int):
                return abs(value - known) <= 1
            return bool(known == value)

        wrong = [pair for pair in zip(self.values, values, strict=True) if not is_equal(*pair)]
        if not wrong:
            return 0.0, ""
        known, value = wrong[0]
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return math.inf, f"{self.name}: {value!r}, not {known!r}{more}"

    def _compute_largest_error(self, values: Array, actual: Array) -> float:
        known, scales = np.array(self.values, np.float64), np.array(self.scales, np.float64)
        is_finite = np.isfinite(known)
        if not np.array_equal(known[~is_finite], values[~is_finite], equal_nan=True):
            return math.inf
        if not np.isfinite(values[is_finite]).all():
            return math.inf
        errors = np.abs(values[is_finite] - known[is_finite]) / scales[is_finite]
        mean_differences = np.abs(np.subtract(compute_means(actual), self.mean))
        mean_errors = mean_differences / scales.max(initial=MIN_MAGNITUDE)
        return float(max(errors.max(initial=0), mean_errors.max()))


def make_known_output(name: str, array: Array, count: int) -> KnownOutput:
    """The stored part of an output: its largest numbers, which matter most, and some others."""
    flat = array.reshape(-1)
    is_float = array.dtype.kind == "f"
    selected = np.random.RandomState(0).permutation(flat.size)[:count]
    if is_float and flat.size > count:
        largest = np.argsort(np.nan_to_num(-np.abs(flat.astype(np.float64)), nan=0.0), kind="stable")[: count // 4]
        selected = np.concatenate([largest, selected])[:count]
    positions = tuple(sorted({int(position) for position in selected}))
    stored = flat[list(positions)].tolist()
    if not is_float:
        return KnownOutput(name, array.shape, "exact", positions, tuple(stored))
    values = tuple(map(_round_to_float32, stored))
    # A scale for each number: boxes in pixels may be next to scores up to 1.
    all_scales = np.broadcast_to(np.maximum(compute_channel_scales(array), MIN_MAGNITUDE), array.shape).reshape(-1)
    scales = tuple(map(_round_to_float32, all_scales[list(positions)].tolist()))
    known = KnownOutput(name, array.shape, "float", positions, values, scales, compute_means(array), FLOAT_TOLERANCE)
    best, lead = find_leader(array)
    return replace(known, best=best, lead=float(f"{lead:.3g}"))


def _round_to_float32(number: float) -> float:
    """The number with the nine digits of a float32: more would only take space."""
    return float(f"{number:.9g}")


def find_leader(array: Array) -> tuple[int, float]:
    """The best class of a row of scores, and its lead relative to the largest magnitude; -1 and 0 if not a row."""
    best = find_best_classes(array, 2)
    finite = array[np.isfinite(array)].astype(np.float64) if best else np.zeros(0)
    if not finite.size:
        return -1, 0.0
    first, second = best
    lead = (first.score - second.score) / max(MIN_MAGNITUDE, float(np.abs(finite).max()))
    return first.index, min(lead, 2.0)  # an infinite one, too, in a number that JSON has


def compute_means(array: Array) -> tuple[float, float]:
    """The mean of the finite numbers, and of their magnitudes."""
    finite = array[np.isfinite(array)].astype(np.float64)
    return (float(finite.mean()), float(np.abs(finite).mean())) if finite.size else (0.0, 0.0)


@dataclass(frozen=True)
class KnownAnswer:
    """A sample, and the model's answer for it.

    Attributes:
        inputs: a value for each input.
        outputs: the stored numbers of each output.
        answer: the answer as text: the best classes, or the objects found.
    """

    inputs: Mapping[str, KnownInput]
    outputs: tuple[KnownOutput, ...]
    answer: str

    def make_values(self) -> dict[str, Any]:
        """The values to bind."""
        return {name: known.make_value() for name, known in self.inputs.items()}

    def __str__(self) -> str:
        inputs = " and ".join(f"{name}: {value}" for name, value in self.inputs.items())
        return f"{inputs}; {self.answer}" if self.answer else inputs


def read_answers(metadata: Mapping[str, str]) -> tuple[KnownAnswer, ...]:
    """A model's samples; InvalidArgumentError if they cannot be read, or have a later version."""
    text = metadata.get(KEY)
    if text is None:
        return ()
    try:
        if len(text) > MAX_LETTERS:
            raise ValueError(f"expected at most {MAX_LETTERS:,} characters, got {len(text):,}")
        facts = json.loads(text)
        if facts["version"] != VERSION:
            raise ValueError(f"expected version {VERSION}, got {facts['version']!r}")
        if len(facts["samples"]) > MAX_SAMPLES:
            raise ValueError(f"expected at most {MAX_SAMPLES}, got {len(facts['samples'])}")
        return tuple(_read_answer(sample) for sample in facts["samples"])
    except (ArithmeticError, AttributeError, KeyError, IndexError, RecursionError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"The model's samples cannot be read: {type(error).__name__}: {error}.") from error


def _read_answer(facts: Facts) -> KnownAnswer:
    inputs = {str(name): KnownInput.from_json(value) for name, value in facts["inputs"].items()}
    if sum(math.prod(known.shape) for known in inputs.values()) > MAX_NUMBERS:
        raise ValueError("the inputs are too large")
    outputs = tuple(map(KnownOutput.from_json, facts["outputs"]))
    if not outputs:
        raise ValueError("a sample has no answer")
    return KnownAnswer(inputs, outputs, str(facts["answer"]))


def answers_to_metadata(answers: Sequence[KnownAnswer]) -> dict[str, str]:
    """The metadata entry with the samples; InvalidArgumentError if they are too large."""
    if not answers:
        return {}
    samples = [
        vars(answer)
        | {"inputs": {name: value.to_json() for name, value in answer.inputs.items()}}
        | {"outputs": [output.to_json() for output in answer.outputs]}
        for answer in answers
    ]
    text = json.dumps({"version": VERSION, "samples": samples}, separators=(",", ":"))
    if len(text) > MAX_LETTERS:
        raise InvalidArgumentError(
            f"The samples take {len(text):,} characters of the model's metadata; at most {MAX_LETTERS:,} are allowed.",
            hint="Pass fewer or smaller samples.",
        )
    read_answers({KEY: text})  # refuses to write samples that cannot be read
    return {KEY: text}


def _read_shape(sizes: object) -> tuple[int, ...]:
    """The sizes of an array; raises TypeError or ValueError if they are invalid."""
    if not isinstance(sizes, list) or len(sizes) > MAX_DIMENSIONS:
        raise ValueError(f"the shape of a sample is not a list of at most {MAX_DIMENSIONS} sizes")
    shape = tuple(int(size) for size in sizes)
    if any(size < 0 for size in shape):
        raise ValueError("a size is negative")
    return shape


_TYPES = {"bool", "float16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}


def _read_dtype(name: object) -> np.dtype[Any]:
    """A numeric type by its name, little-endian; raises ValueError if it is unknown."""
    if name not in _TYPES:  # numpy would parse other texts as records, or as Python
        raise ValueError("an element type is invalid")
    return np.dtype(str(name)).newbyteorder("<")

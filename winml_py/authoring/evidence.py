"""Evidence that a learned contract is right: numbers in the model's metadata, which any machine can check."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.base.arrays import Array, Pixels
from ..core.base.winrt_object import private_state
from ..core.evaluation.binding import LearningModelBinding
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.contracts import PROOF
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.session import LearningModelSession
from ..enums import BitmapPixelFormat, TensorKind
from ..errors import InvalidArgumentError, WinMLError
from .known_answers import KnownAnswer, noise, read_answers
from .picture_function import PictureFunction

if TYPE_CHECKING:
    from ..core.base.arrays import Size

KEY = PROOF
"""The metadata key of the evidence, which is JSON."""

VERSION = 1
SIZES: tuple[Size, ...] = ((300, 400), (413, 290), (97, 131), (33, 47), (701, 350), (128, 600))
MAX_SIDE = 1 << 20
"""The longest side of a tensor, in pixels."""

NUMBERS = 40
"""How many numbers of each picture's tensor are stored."""

MAX_MEAN_LEVELS, MAX_LEVELS = 0.6, 5.0
"""The largest mean and maximum difference from the function's numbers, in gray levels: a learned contract differs by
0.3 and 3, and scaling differs by a level or two between machines."""


@dataclass(frozen=True)
class ContractEvidence:
    """A function's results for pictures that can be generated anywhere.

    Attributes:
        function: its full name.
        contract: the metadata of the contract that was learned from it.
        seed: the seed of the pictures.
        digest: the SHA-256 of the pictures, in hexadecimal.
        shapes: the shapes of the function's tensors, as channels, height and width.
        positions: for each picture, positions in its flattened tensor, channels first.
        numbers: the values there.
        pictures: the function's argument, as in `learn_contract`.
        largest: height and width of the largest pictures that the contract was proven on. Binding a picture that fits
            in none of them warns.
    """

    function: str
    contract: Mapping[str, str]
    seed: int
    digest: str
    shapes: tuple[tuple[int, int, int], ...]
    positions: tuple[tuple[int, ...], ...]
    numbers: tuple[tuple[float, ...], ...]
    pictures: str
    largest: tuple[Size, ...]

    @classmethod
    def take(
        cls,
        prepare: Callable[[Pixels], Array],
        function: str,
        contract: ImageContract,
        seed: int,
        pictures: str,
        largest: tuple[Size, ...],
    ) -> ContractEvidence:
        """Records the numbers of a function that turns height x width x RGB into channels x height x width."""
        rng = np.random.RandomState(seed)  # its numbers are the same in every version of numpy
        shapes, positions, numbers = [], [], []
        for pixels in evidence_pictures(seed):
            tensor = prepare(pixels)
            chosen = np.sort(rng.randint(0, tensor.size, NUMBERS))
            shapes.append((tensor.shape[0], tensor.shape[1], tensor.shape[2]))
            positions.append(tuple(int(position) for position in chosen))
            numbers.append(tuple(float(np.float32(number)) for number in tensor.reshape(-1)[chosen]))
        return cls(
            function,
            contract.to_metadata(),
            seed,
            _digest(seed),
            tuple(shapes),
            tuple(positions),
            tuple(numbers),
            pictures,
            largest,
        )

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> ContractEvidence | None:
        """A model's evidence, or None; raises InvalidArgumentError if it cannot be read."""
        text = metadata.get(KEY)
        if text is None:
            return None
        try:
            facts = json.loads(text)
            if facts["version"] != VERSION:
                raise InvalidArgumentError(
                    f"Expected evidence of version {VERSION}, got {facts['version']!r}.",
                    hint="Install a newer winml-py, or learn the contract again.",
                )
            evidence = cls(
                str(facts["function"]),
                {str(key): str(value) for key, value in facts["contract"].items()},
                int(facts["seed"]),
                str(facts["digest"]),
                tuple((int(c), int(h), int(w)) for c, h, w in facts["shapes"]),
                tuple(tuple(map(int, each)) for each in facts["positions"]),
                tuple(tuple(map(float, each)) for each in facts["numbers"]),
                str(facts["pictures"]),
                tuple((int(height), int(width)) for height, width in facts["largest"]),
            )
            evidence._require_sense()
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError, WinMLError) as error:
            raise InvalidArgumentError(
                f"The model's evidence is invalid: {type(error).__name__}: {error}.", hint=f"It is stored under {KEY}."
            ) from error
        return evidence

    def _require_sense(self) -> None:
        """Refuses impossible values: the file may come from anybody."""
        channels = ImageContract.from_metadata(self.contract).channels
        counts = {len(self.shapes), len(self.positions), len(self.numbers)}
        if not 0 <= self.seed < 1 << 32 or counts != {len(SIZES)}:
            raise ValueError("it has other pictures")
        for shape, positions, numbers in zip(self.shapes, self.positions, self.numbers, strict=True):
            size = math.prod(shape)
            if shape[0] != channels or min(shape) < 1 or max(shape) > MAX_SIDE:
                raise ValueError(f"a tensor of {'x'.join(map(str, shape))}")
            if len(positions) != NUMBERS or not all(0 <= position < size for position in positions):
                raise ValueError("positions outside the tensor")
            if len(numbers) != NUMBERS or not all(map(math.isfinite, numbers)):
                raise ValueError("invalid numbers")

    def to_metadata(self) -> dict[str, str]:
        """The metadata entry with the evidence."""
        return {KEY: json.dumps({"version": VERSION, **vars(self)}, separators=(",", ":"))}


@dataclass(frozen=True)
class ContractCheck:
    """Whether pictures still become the numbers in a model's evidence.

    Attributes:
        function: the name of the function that the contract was learned from.
        problems: the differences, as sentences; empty if everything is right.
        mean_difference: gray levels, over all numbers; NaN if no tensor could be compared.
        largest_difference: of a single number, in gray levels.
    """

    function: str
    problems: tuple[str, ...]
    mean_difference: float
    largest_difference: float

    @property
    def is_right(self) -> bool:
        """Whether nothing differs."""
        return not self.problems


def check_contract(
    model: LearningModel,
    device: LearningModelDevice | None = None,
    *,
    function: Callable[..., Any] | None = None,
    pictures: str | None = None,
) -> ContractCheck:
    """Proves that a model's pictures become the numbers that its contract was learned from.

    Each picture of the evidence is generated again, bound to an input like the model's, and read back from a session on
    the device: the comparison uses what reaches the model there.

    Args:
        model: a model with evidence, written by `write_contract` from a `LearnedContract`.
        device: the CPU by default.
        function: the function that the contract was learned from, to check that it still returns the numbers.
        pictures: the function's argument; see `learn_contract`. By default as when it was learned.

    Raises:
        InvalidArgumentError: the model has no evidence, or it cannot be read.
    """
    evidence = ContractEvidence.from_metadata(model.metadata)
    if evidence is None:
        raise InvalidArgumentError(
            "The model has no evidence of a contract.",
            hint="Add it: winml-py contract MODEL --learn FUNCTION --output NEW.",
        )
    problems, differences = list(_changes(evidence, model)), np.zeros(0)
    feature = next((each for each in model.input_features if isinstance(each, ImageFeatureDescriptor)), None)
    if evidence.digest != _digest(evidence.seed):
        problems.append("The evidence's pictures cannot be reproduced here: their digest differs.")
    elif feature is not None:
        differences, found = _compare(evidence, _tensors_of(feature, evidence, device), "A bind")
        problems += found
        if function is not None:
            prepare = PictureFunction(function, pictures or evidence.pictures)  # type: ignore[arg-type]
            given = (prepare(pixels).numbers for pixels in evidence_pictures(evidence.seed))
            problems += _compare(evidence, given, prepare.name)[1]
    mean, largest = (differences.mean(), differences.max()) if differences.size else (np.nan, np.nan)
    return ContractCheck(evidence.function, tuple(problems), float(mean), float(largest))


def is_proven(model: LearningModel) -> bool:
    """Whether a model has evidence of the contract that it states; nothing is computed."""
    evidence = ContractEvidence.from_metadata(model.metadata)
    return evidence is not None and not any(_changes(evidence, model))


def outdated(model: LearningModel) -> list[str]:
    """Why a model's proof and samples no longer hold, in sentences; nothing is computed.

    Only contracts and names are compared. Changed weights show when the samples are evaluated.
    """
    sentences = []
    try:
        evidence = ContractEvidence.from_metadata(model.metadata)
        changes = [] if evidence is None else list(_changes(evidence, model))
        if evidence is not None and changes:
            sentences.append(
                f"The proof no longer holds: the contract was learned from {evidence.function}, and has changed since. "
                f"{' '.join(changes)} Learn it again (winml-py contract --learn), or remove {KEY} from the metadata."
            )
    except InvalidArgumentError as error:
        sentences.append(error.message)
    try:
        answers = read_answers(model.metadata)
        reasons = [reason for answer in answers if (reason := _change_of_sample(answer, model))]
        if reasons:
            sentences.append(
                f"{len(reasons)} of {len(answers)} samples no longer hold{'s' * (len(reasons) == 1)}. "
                f"{' '.join(dict.fromkeys(reasons))} Take them again (winml-py contract --sample), or remove them "
                "(winml_py.authoring.write_samples(path, path, []))."
            )
    except InvalidArgumentError as error:
        sentences.append(error.message)
    return sentences


def _change_of_sample(answer: KnownAnswer, model: LearningModel) -> str:
    """Why a sample's answer is no longer the model's, or ""."""
    names = {feature.name for feature in model.input_features}
    if names != answer.inputs.keys():
        return f"The inputs were {', '.join(answer.inputs)}, now {', '.join(sorted(names))}."
    has_pictures = any(value.png is not None or value.dtype == "picture" for value in answer.inputs.values())
    if not has_pictures:
        return ""
    contract = stated_contract(private_state(model).inputs)
    now = {} if contract is None else contract.to_metadata()
    return " ".join(_contract_changes(answer.contract, now, "the sample was taken"))


def stated_contract(features: Iterable[FeatureDescriptor]) -> ImageContract | None:
    """The contract of the first picture input, which the metadata state for all of them; None if there is none."""
    return next((one.contract for one in features if isinstance(one, ImageFeatureDescriptor)), None)


def _contract_changes(before: Mapping[str, str], now: Mapping[str, str], when: str) -> Iterator[str]:
    """The changes of the metadata about pictures, in sentences."""
    for key in METADATA_KEYS:
        old, new = before.get(key, "nothing"), now.get(key, "nothing")
        if old != new and key != "Image.DataType":  # added for models of bytes
            yield f"{key} was {old} when {when}, now {new}."


def evidence_pictures(seed: int) -> Iterator[Pixels]:
    """The pictures of the evidence: noise of three scales, the same on every machine."""
    rng = np.random.RandomState(seed)
    return (noise(rng, *size) for size in SIZES)


def _digest(seed: int) -> str:
    digest = hashlib.sha256()
    for pixels in evidence_pictures(seed):
        digest.update(pixels.tobytes())
    return digest.hexdigest()


def _changes(evidence: ContractEvidence, model: LearningModel) -> Iterator[str]:
    """The differences in the metadata now."""
    yield from _contract_changes(evidence.contract, model.metadata, "the contract was learned")
    if stated_contract(model.input_features) is None:
        yield "The model no longer has an input that takes pictures."


def _tensors_of(
    feature: ImageFeatureDescriptor, evidence: ContractEvidence, device: LearningModelDevice | None
) -> Iterator[Array]:
    """The tensors that reach an input like the model's, channels x height x width."""
    model = LearningModel.load(_identity(feature))
    model.contracts[feature.name] = feature.contract
    with LearningModelSession(model, device) as session:
        for pixels in evidence_pictures(evidence.seed):
            binding = LearningModelBinding(session)
            binding.bind(feature.name, ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8))
            binding.bind("tensor", TENSOR_CLASSES[feature.tensor_kind].create())
            tensor = session.evaluate(binding).outputs["tensor"].to_numpy()[0].astype(np.float64)
            channels, _, _ = feature.contract.axes()
            yield tensor if channels == 1 else tensor.transpose(2, 0, 1)


def _identity(feature: ImageFeatureDescriptor) -> bytes:
    """A model that returns its input, with the shape and type of the feature."""
    from onnx import TensorProto, helper

    element = {TensorKind.FLOAT16: TensorProto.FLOAT16, TensorKind.UINT8: TensorProto.UINT8}
    kind = element.get(feature.tensor_kind, TensorProto.FLOAT)
    sides = [None if size < 0 else size for size in feature.shape[1:]]
    ends = [helper.make_tensor_value_info(name, kind, [1, *sides]) for name in (feature.name, "tensor")]
    graph = helper.make_graph([helper.make_node("Identity", [feature.name], ["tensor"])], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made


def _compare(evidence: ContractEvidence, tensors: Iterator[Array], who: str) -> tuple[Array, Sequence[str]]:
    """Gray levels between the evidence and tensors, and the problems, in sentences."""
    factors = [factor for factor, _ in ImageContract.from_metadata(evidence.contract).affine()]
    found, problems = [], []
    for (height, width), shape, positions, numbers, tensor in zip(
        SIZES, evidence.shapes, evidence.positions, evidence.numbers, tensors, strict=True
    ):
        if tensor.shape != shape:
            made, wanted = ("x".join(map(str, each)) for each in (tensor.shape, shape))
            problems.append(f"{who} makes a tensor of {made}, not {wanted}, from a picture of {width}x{height}.")
            continue
        channels = np.array(positions) // (shape[1] * shape[2])
        scale = np.abs(np.array(factors)[channels])
        found.append(np.abs(tensor.reshape(-1)[list(positions)] - np.array(numbers)) / scale)
    differences = np.concatenate(found) if found else np.zeros(0)
    if differences.size and not (differences.mean() <= MAX_MEAN_LEVELS and differences.max() <= MAX_LEVELS):
        problems.append(
            f"{who} makes other numbers: {differences.mean():.2f} gray levels away on average, {differences.max():.1f} "
            f"at most; {MAX_MEAN_LEVELS:g} and {MAX_LEVELS:g} are allowed."
        )
    return differences, problems

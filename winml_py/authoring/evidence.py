"""Evidence of a learned contract in the model's metadata, and whether it and the samples still hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.base.winrt_object import private_state
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..core.imaging.contract import METADATA_KEYS, ImageContract
from ..core.model.contracts import PROOF
from ..core.model.model import LearningModel
from ..errors import InvalidArgumentError, WinMLError
from .known_answers import read_answers

if TYPE_CHECKING:
    from ..core.base.arrays import Size

KEY = PROOF
"""The metadata key of the evidence, which is JSON."""

VERSION = 1


@dataclass(frozen=True)
class ContractEvidence:
    """What a contract was learned from, and proven on.

    Attributes:
        function: the full name of the function.
        contract: the metadata of the contract.
        largest: height and width of the largest pictures of the proof. Binding a picture that fits in none of them
            warns.
    """

    function: str
    contract: Mapping[str, str]
    largest: tuple[Size, ...]

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> ContractEvidence | None:
        """A model's evidence, or None; raises InvalidArgumentError if it cannot be read."""
        if KEY not in metadata:
            return None
        try:
            facts = json.loads(metadata[KEY])
            if facts["version"] != VERSION:
                raise ValueError(f"expected version {VERSION}, got {facts['version']!r}")
            contract = {str(key): str(value) for key, value in facts["contract"].items()}
            largest = tuple((int(height), int(width)) for height, width in facts["largest"])
            return cls(str(facts["function"]), contract, largest)
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError, WinMLError) as error:
            raise InvalidArgumentError(
                f"The model's evidence is invalid: {type(error).__name__}: {error}.", hint=f"It is stored under {KEY}."
            ) from error

    def to_metadata(self) -> dict[str, str]:
        """The metadata entry with the evidence."""
        return {KEY: json.dumps({"version": VERSION, **vars(self)}, separators=(",", ":"))}

    def changes(self, model: LearningModel) -> tuple[str, ...]:
        """How a model's contract differs from the one that was learned, in sentences; empty if it does not."""
        changes = tuple(_contract_changes(self.contract, model.metadata, "the contract was learned"))
        if stated_contract(model.input_features) is None:
            changes += ("The model no longer has an input that takes pictures.",)
        return changes


def outdated(model: LearningModel) -> list[str]:
    """Why a model's proof and samples no longer hold, in sentences.

    Only contracts and names are compared. Changed weights show when the samples are evaluated.
    """
    sentences: list[str] = []
    for find_reasons in (_outdated_proof, _outdated_samples):
        try:
            sentences += find_reasons(model)
        except InvalidArgumentError as error:
            sentences.append(error.message)
    return sentences


def _outdated_proof(model: LearningModel) -> Iterator[str]:
    evidence = ContractEvidence.from_metadata(model.metadata)
    if evidence is not None and (changes := evidence.changes(model)):
        yield (
            f"The proof no longer holds: the contract was learned from {evidence.function}, and has changed since. "
            f"{' '.join(changes)} Learn it again (winml-py contract --learn), or remove {KEY} from the metadata."
        )


def _outdated_samples(model: LearningModel) -> Iterator[str]:
    answers = read_answers(model.metadata)
    names = {feature.name for feature in model.input_features}
    contract = stated_contract(private_state(model).inputs)
    now = {} if contract is None else contract.to_metadata()
    reasons = []
    for answer in answers:
        has_pictures = any(value.png is not None or value.dtype == "picture" for value in answer.inputs.values())
        if names != answer.inputs.keys():
            reasons.append(f"The inputs were {', '.join(answer.inputs)}, now {', '.join(sorted(names))}.")
        elif has_pictures and (changes := list(_contract_changes(answer.contract, now, "the sample was taken"))):
            reasons.append(" ".join(changes))
    if reasons:
        yield (
            f"{len(reasons)} of {len(answers)} samples no longer hold{'s' * (len(reasons) == 1)}. "
            f"{' '.join(dict.fromkeys(reasons))} Take them again (winml-py contract --sample), or remove them "
            "(winml_py.authoring.write_samples(path, path, []))."
        )


def stated_contract(features: Iterable[FeatureDescriptor]) -> ImageContract | None:
    """The contract of the first picture input, which the metadata state for all of them; None if there is none."""
    contracts = (image.contract for image in features if isinstance(image, ImageFeatureDescriptor))
    return next(contracts, None)


def _contract_changes(before: Mapping[str, str], now: Mapping[str, str], when: str) -> Iterator[str]:
    """The changes of the metadata about pictures, in sentences."""
    for key in METADATA_KEYS:
        old, new = before.get(key, "nothing"), now.get(key, "nothing")
        if old != new and key != "Image.DataType":  # added for models of bytes
            yield f"{key} was {old} when {when}, now {new}."

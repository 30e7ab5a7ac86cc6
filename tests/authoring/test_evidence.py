"""The evidence of a learned contract: what it holds, what it finds out, and what is not believed of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from helpers.cli import call
from helpers.models import unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
)
from winml_py.authoring import ContractEvidence, LearnedContract, write_contract
from winml_py.authoring.contract_evidence import KEY
from winml_py.authoring.learning.probe_images import LARGEST_SIZES
from winml_py.errors import MissingContractWarning
from winml_py.scaling import Stretch

STRETCHED = ImageContract(
    BitmapPixelFormat.RGB8,
    LearningModelPixelRange.MINUS_ONE_TO_ONE,
    scaling=Stretch(),
    kernel=ImageKernel.ANTIALIASED_LINEAR,
    size=(224, 224),
)


@pytest.fixture
def learned() -> LearnedContract:
    """As `learn_contract` gives it."""
    function = "helpers.preparations.stretched"
    evidence = ContractEvidence(function, STRETCHED.to_metadata(), LARGEST_SIZES)
    return LearnedContract(STRETCHED, function, "pillow", 170, 80, 0.0, 0.0, evidence)


@pytest.fixture
def checked(learned: LearnedContract, tmp_path: Path) -> Path:
    """A model with a contract and its evidence."""
    source, target = tmp_path / "model.onnx", tmp_path / "checked.onnx"
    source.write_bytes(unary(shape=("n", 3, 224, 224)))
    write_contract(source, target, learned)
    return target


def changed(path: Path, **metadata: str) -> LearningModel:
    """The model with other metadata; a dot in a key is written as two underscores."""
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, entries | {key.replace("__", "."): text for key, text in metadata.items()})
    return LearningModel.load(model.SerializeToString())


def test_it_says_what_was_learned(learned: LearnedContract, checked: Path) -> None:
    evidence = ContractEvidence.from_metadata(LearningModel.load(checked).metadata)
    assert evidence == learned.evidence
    assert evidence is not None
    assert ImageContract.from_metadata(evidence.contract) == learned.contract
    assert evidence.function == "helpers.preparations.stretched"


def test_a_learned_contract_is_shown_without_its_evidence(learned: LearnedContract) -> None:
    assert "size 224 224" in str(learned)
    assert "3024" not in str(learned)


def test_a_picture_larger_than_the_checked_ones_is_told(
    learned: LearnedContract, checked: Path, recwarn: pytest.WarningsRecorder
) -> None:
    assert learned.evidence.largest == ((3024, 4032), (4032, 3024), (700, 9000), (9000, 700))

    def bind(binding: LearningModelBinding, width: int, height: int) -> None:
        pixels = np.zeros((height, width, 3), np.uint8)
        binding.bind("x", ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8))

    binding = LearningModelBinding(LearningModelSession(LearningModel.load(checked)))
    for width, height in ((640, 480), (4032, 3024), (700, 9000)):
        bind(binding, width, height)
    assert not recwarn.list
    with pytest.warns(MissingContractWarning, match="9000x701 is larger than any that the contract was checked on"):
        bind(binding, 9000, 701)
    # What the program states itself was not learned.
    model = LearningModel.load(checked)
    model.contracts["x"] = ImageContract.imagenet()
    recwarn.clear()
    bind(LearningModelBinding(LearningModelSession(model)), 9000, 701)
    assert not recwarn.list


def test_a_changed_contract_is_named(learned: LearnedContract, checked: Path) -> None:
    for key, value, words in (
        ("BitmapPixelFormat", "Bgr8", "was Rgb8 when the contract was learned, and is now Bgr8"),
        ("Mean", "0.5,0.5,0.5", "was nothing when the contract was learned, and is now 0.5,0.5,0.5"),
        ("Kernel", "Cubic", "was AntialiasedLinear when the contract was learned, and is now Cubic"),
        ("Scaling", "fit", "was stretch when the contract was learned, and is now fit"),
    ):
        (change,) = learned.evidence.changes(changed(checked, **{f"Image__{key}": value}))
        assert change == f"Image.{key} {words}."


@pytest.mark.parametrize("element", [TensorProto.FLOAT16, TensorProto.UINT8])
def test_other_types_of_tensors(element: int, learned: LearnedContract, tmp_path: Path) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "checked.onnx"
    source.write_bytes(unary(shape=(1, 3, 224, 224), element=element))
    write_contract(source, target, learned)
    assert learned.evidence.changes(LearningModel.load(target)) == ()


NONE = ["", "7", "[]", "{}", '{"version": 1}', '{"version": 9}', "[" * 100_000, '{"version": 1, "function": 1}']


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_evidence(checked: Path, text: str) -> None:
    model = changed(checked, **{KEY.replace(".", "__"): text})
    with pytest.raises(InvalidArgumentError, match="evidence"):
        ContractEvidence.from_metadata(model.metadata)


class TestTheCommand:
    def test_a_contract_that_has_changed_is_told(self, checked: Path, learned: LearnedContract) -> None:
        path = checked.with_name("changed.onnx")
        call("contract", checked, "--set", "kernel=linear", "--output", path)
        contract = LearningModel.load(path).input_features[0].contract  # type: ignore[attr-defined]
        assert contract == replace(learned.contract, kernel=ImageKernel.LINEAR)
        change = "Image.Kernel was AntialiasedLinear when the contract was learned, and is now Linear."
        for file, changes, words in ((checked, [], "It is unchanged."), (path, [change], change)):
            evidence = json.loads(call("info", file, "--json").stdout)["evidence"]
            function = "helpers.preparations.stretched"
            assert evidence == {"function": function, "changes": changes, "not_tried": learned.evidence.not_tried}
            shown = " ".join(call("info", file).stdout.split())
            assert f"The contract was learned from {function}. {words}" in shown

    def test_how_a_contract_has_changed(self, checked: Path, learned: LearnedContract) -> None:
        model = onnx.load(checked)
        model.graph.input[0].type.denotation = ""
        (change,) = learned.evidence.changes(LearningModel.load(model.SerializeToString()))
        assert change == "The model no longer has an input that takes pictures."

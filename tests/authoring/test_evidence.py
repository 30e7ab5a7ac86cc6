"""The evidence of a learned contract: what it holds, what it finds out, and what is not believed of it."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from PIL import Image

from helpers import preparations
from helpers.cli import call
from helpers.models import unary
from helpers.paths import PICTURES
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
)
from winml_py.authoring import ContractEvidence, LearnedContract, check_contract, learn_contract, write_contract
from winml_py.authoring.evidence import KEY, evidence_pictures, is_proven, outdated
from winml_py.errors import MissingContractWarning
from winml_py.view.workbench import Workbench

pytestmark = pytest.mark.exhaustive  # learning a contract takes seconds


@pytest.fixture(scope="module")
def learned() -> LearnedContract:
    return learn_contract(preparations.stretched)


@pytest.fixture
def proven(learned: LearnedContract, tmp_path: Path) -> Path:
    """A model with a contract and its evidence."""
    source, target = tmp_path / "model.onnx", tmp_path / "proven.onnx"
    source.write_bytes(unary(shape=("n", 3, 224, 224)))
    write_contract(source, target, learned)
    return target


def changed(path: Path, **metadata: str) -> LearningModel:
    """The model with other metadata; a dot in a key is written as two underscores."""
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, entries | {key.replace("__", "."): text for key, text in metadata.items()})
    return LearningModel.load(model.SerializeToString())


def test_it_is_what_the_function_gave(learned: LearnedContract, proven: Path) -> None:
    evidence = ContractEvidence.from_metadata(LearningModel.load(proven).metadata)
    assert evidence == learned.evidence
    assert evidence is not None
    assert len(evidence.to_metadata()[KEY]) < 20_000
    for pixels, positions, numbers in zip(
        evidence_pictures(evidence.seed), evidence.positions, evidence.numbers, strict=True
    ):
        given = preparations.stretched(Image.fromarray(pixels)).reshape(-1)
        np.testing.assert_array_equal(given[list(positions)], np.array(numbers, np.float32))


def test_a_picture_larger_than_the_proven_ones_is_told(
    learned: LearnedContract, proven: Path, recwarn: pytest.WarningsRecorder
) -> None:
    assert learned.evidence.largest == ((3024, 4032), (4032, 3024), (700, 9000), (9000, 700))

    def bind(binding: LearningModelBinding, width: int, height: int) -> None:
        pixels = np.zeros((height, width, 3), np.uint8)
        binding.bind("x", ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8))

    binding = LearningModelBinding(LearningModelSession(LearningModel.load(proven)))
    for width, height in ((640, 480), (4032, 3024), (700, 9000)):
        bind(binding, width, height)
    assert not recwarn.list
    with pytest.warns(MissingContractWarning, match="a picture of 9000x701 is larger than any that it was proven on"):
        bind(binding, 9000, 701)
    # What the program states itself was not learned.
    model = LearningModel.load(proven)
    model.contracts["x"] = ImageContract.imagenet()
    recwarn.clear()
    bind(LearningModelBinding(LearningModelSession(model)), 9000, 701)
    assert not recwarn.list


def test_the_pictures_are_the_same_for_ever() -> None:
    """Models with evidence are out there: other pictures would make all of them wrong."""
    digest = hashlib.sha256(b"".join(pixels.tobytes() for pixels in evidence_pictures(0)))
    assert digest.hexdigest() == "b64af7a563acd60347461e9036985a71757eff1370840416802765139d8c534d"


def test_an_unchanged_model_is_right(proven: Path) -> None:
    model = LearningModel.load(proven)
    check = check_contract(model, function=preparations.stretched)
    assert check.is_right
    assert check.function == "helpers.preparations.stretched"
    assert check.mean_difference <= 0.3
    assert check.largest_difference <= 2
    assert is_proven(model)


def test_on_a_device_that_is_named(proven: Path) -> None:
    assert check_contract(LearningModel.load(proven), LearningModelDevice.find("cpu")).is_right


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (
            {"Image__BitmapPixelFormat": "Bgr8"},
            "Image.BitmapPixelFormat was Rgb8 when the contract was learned, now Bgr8",
        ),
        ({"Image__Mean": "0.5,0.5,0.5"}, "Image.Mean was nothing .* now 0.5,0.5,0.5"),
        ({"Image__Kernel": "Cubic"}, "Image.Kernel was AntialiasedLinear .* now Cubic"),
        ({"Image__CropMode": "Letterbox"}, "Image.CropMode was Stretch .* now Letterbox"),
    ],
)
def test_a_changed_contract_is_named(proven: Path, metadata: dict[str, str], words: str) -> None:
    model = changed(proven, **metadata)
    check = check_contract(model)
    assert not check.is_right
    first, second = check.problems
    assert re.search(words, first)
    assert "makes other numbers" in second
    assert not is_proven(model)


def test_another_function_is_found_out(proven: Path) -> None:
    (problem,) = check_contract(LearningModel.load(proven), function=preparations.scaled_twice).problems
    assert problem.startswith("helpers.preparations.scaled_twice makes other numbers: ")
    (problem, *_) = check_contract(LearningModel.load(proven), function=preparations.luma).problems
    assert "makes a tensor of 1x28x28, not 3x224x224, from a picture of 400x300" in problem


@pytest.mark.parametrize("element", [TensorProto.FLOAT16, TensorProto.UINT8])
def test_other_types_of_tensors(element: int, tmp_path: Path) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "proven.onnx"
    source.write_bytes(unary(shape=(1, 3, 128, 128), element=element))
    write_contract(source, target, learn_contract(preparations.tagger, model=source))
    check = check_contract(LearningModel.load(target))
    assert check.is_right
    assert check.mean_difference <= 0.3


NONE = ["", "7", "[]", "{}", '{"version": 1}', '{"version": 9}', "[" * 100_000, '{"version": 1, "function": 1}']


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_evidence(proven: Path, text: str) -> None:
    model = changed(proven, **{KEY.replace(".", "__"): text})
    with pytest.raises(InvalidArgumentError, match="evidence"):
        check_contract(model)


@pytest.mark.parametrize(
    "change",
    [
        {"positions": [[10**9]] * 6},
        {"shapes": [[3, 1 << 40, 1]] * 6},
        {"numbers": [[float("nan")] * 40] * 6},
        {"seed": 2**40},
        {"contract": {"Image.BitmapPixelFormat": "Gray8"}},
    ],
)
def test_hostile_numbers_are_no_evidence(proven: Path, learned: LearnedContract, change: dict[str, object]) -> None:
    facts = json.loads(learned.evidence.to_metadata()[KEY])
    model = changed(proven, **{KEY.replace(".", "__"): json.dumps(facts | change)})
    with pytest.raises(InvalidArgumentError, match="evidence is invalid"):
        check_contract(model)


def test_other_pictures_are_a_problem(proven: Path, learned: LearnedContract) -> None:
    facts = json.loads(learned.evidence.to_metadata()[KEY])
    model = changed(proven, **{KEY.replace(".", "__"): json.dumps(facts | {"digest": "0"})})
    check = check_contract(model)
    assert check.problems == ("The evidence's pictures cannot be reproduced here: their digest differs.",)


class TestTheCommand:
    def test_right_and_wrong(self, proven: Path) -> None:
        done = call("run", proven, "--check")
        assert done.exit_code == 0
        assert "is right: pictures give the tensors of helpers.preparations.stretched" in done.output
        changed_file = proven.with_name("changed.onnx")
        call("contract", proven, "--set", "kernel=linear", "--output", changed_file)
        wrong = call("run", changed_file, "--check", "--json")
        assert wrong.exit_code == 1
        check = json.loads(wrong.stdout)["results"][0]["contract"]
        assert not check["is_right"]
        assert "Image.Kernel was AntialiasedLinear" in check["problems"][0]
        assert "the contract is wrong" in call("run", changed_file, "--check").stdout

    def test_info_says_it(self, proven: Path) -> None:
        assert "learned from" in " ".join(call("info", proven).output.split())
        proof = json.loads(call("info", proven, "--json").stdout)["proof"]
        assert proof == {"function": "helpers.preparations.stretched", "is_unchanged": True}
        changed_file = proven.with_name("changed.onnx")
        call("contract", proven, "--set", "kernel=area", "--output", changed_file)
        proof = json.loads(call("info", changed_file, "--json").stdout)["proof"]
        assert not proof["is_unchanged"]

    def test_a_proof_that_no_longer_holds_is_told_at_the_top(self, proven: Path, learned: LearnedContract) -> None:
        for path, words in ((proven, ""), (proven.with_name("changed.onnx"), "The proof no longer holds: ")):
            if words:
                done = call("contract", proven, "--set", "kernel=linear", "--output", path)
                assert f"{path}: {words}" in done.stderr
                assert "Image.Kernel was AntialiasedLinear when the contract was learned, now Linear." in done.stderr
                contract = LearningModel.load(path).input_features[0].contract  # type: ignore[attr-defined]
                assert contract == replace(learned.contract, kernel=ImageKernel.LINEAR)
            done = call("run", path, PICTURES / "cat.jpg")
            assert (done.exit_code, done.stderr.startswith(f"{path}: {words}")) == (0, bool(words))
            assert call("info", path).stdout.startswith("The proof no longer holds: ") is bool(words)
            told = json.loads(call("info", path, "--json").stdout)["outdated"]
            assert [each.startswith(words) for each in told] == [True] * bool(words)
            with closing(Workbench()) as bench:
                assert bench.model_facts(bench.open_model(str(path)))["outdated"] == told

    def test_a_model_without_pictures_has_no_proof_that_holds(self, proven: Path) -> None:
        model = onnx.load(proven)
        model.graph.input[0].type.denotation = ""
        loaded = LearningModel.load(model.SerializeToString())
        assert not is_proven(loaded)
        (told,) = outdated(loaded)
        assert "The model no longer has an input that takes pictures." in told

    def test_a_proof_that_cannot_be_read_is_told(self, proven: Path) -> None:
        (told,) = outdated(changed(proven, winml_py__proof="{}"))
        assert told.startswith("The model's evidence is invalid: ")

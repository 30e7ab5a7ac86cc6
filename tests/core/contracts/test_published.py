"""Folders as models are published in: what is read from them, what is refused, and what nobody may make them do."""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

from helpers import hub
from helpers.models import FLOAT, data, tensor, unary
from helpers.paths import PICTURES
from helpers.published_folders import CASES, write
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    ImageKernel,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
    WinMLError,
    read_contract,
)
from winml_py.authoring import build_in, check_samples
from winml_py.cli.main import main
from winml_py.errors import ModelNotFoundError
from winml_py.experimental import LearningModelExperimental, LearningModelJoinOptions
from winml_py.scaling import Stretch

VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}
MODEL = unary(shape=(1, 3, 8, 8))
PICTURE = ImageFeatureValue.from_array(np.zeros((9, 9, 3), np.uint8), BitmapPixelFormat.RGB8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a ViT."""
    write(tmp_path, {"model.onnx": MODEL, "preprocessor_config.json": VIT})
    return tmp_path


def bind(model: LearningModel) -> None:
    LearningModelBinding(LearningModelSession(model)).bind("x", PICTURE)


def differences(model: LearningModel, theirs: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Gray levels between the tensor that a model sees of a picture and the makers': on average, and at most."""
    feature, found = model.input_features[0], []
    sides = tuple(feature.shape[axis] for axis in feature.contract.axes()[1:])
    contract = feature.contract if min(sides) < 0 else replace(feature.contract, size=sides)
    binding = LearningModelBinding(LearningModelSession(model))
    for pixels in hub.make_pictures().values():
        binding.bind(feature.name, ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8))
        found.append(hub.measure_levels(contract, hub.bind_contract(contract, pixels), theirs(pixels)))
    return max(mean for mean, _ in found), max(most for _, most in found)


@pytest.mark.one_python
@pytest.mark.parametrize("name", CASES)
def test_a_published_folder_gives_the_makers_answer_or_a_true_refusal(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    write(tmp_path, case.files)
    model = LearningModel.load(tmp_path)
    assert model.labels == case.labels
    feature: Any = model.input_features[0]
    if case.refusal:
        with pytest.raises(WinMLError, match=re.escape(case.refusal)):
            LearningModelBinding(LearningModelSession(model)).bind(feature.name, PICTURE)
    elif case.theirs is not None:
        mean, most = differences(model, case.theirs)
        assert mean <= 0.3
        assert most <= 3
    elif any(file.startswith("test_data_set_0") for file in case.files):
        assert check_samples(model).is_right
    else:
        assert not isinstance(feature, ImageFeatureDescriptor)


def test_of_variants_the_plain_file_counts_and_others_are_named(folder: Path) -> None:
    (folder / "model_fp16.onnx").write_bytes(MODEL)
    assert LearningModel.load(folder).sources == {"model": "model.onnx", "contract": "preprocessor_config.json"}
    chosen = LearningModel.load(folder, file="model_fp16.onnx")
    assert chosen.sources["model"] == "model_fp16.onnx"
    assert chosen.input_features[0].contract == read_contract(VIT)
    (folder / "text_model.onnx").write_bytes(MODEL)
    with pytest.raises(InvalidArgumentError, match=r"got model\.onnx, model_fp16\.onnx, text_model\.onnx\. Choose one"):
        LearningModel.load(folder)
    with pytest.raises(ModelNotFoundError, match=r"There is no onnx/model\.onnx in this folder"):
        LearningModel.load(folder, file="onnx/model.onnx")
    with pytest.raises(ModelNotFoundError, match=r'It contains model\.onnx, .* file="model\.onnx"\.'):
        LearningModel.load(folder, file="modle.onnx")


def test_a_wrong_folder_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"missing: The folder does not exist\. Check the working directory"):
        LearningModel.load(tmp_path / "missing", file="model.onnx")
    for file in ("", "model.onnx"):
        with pytest.raises(ModelNotFoundError, match=r"There is no .* Export the model to ONNX, or pass another"):
            LearningModel.load(tmp_path, file=file)
    write(tmp_path, {"v2/model.onnx": MODEL})
    for file in ("", "model.onnx"):
        with pytest.raises(ModelNotFoundError, match=r'It contains v2/model\.onnx\. .*file="v2/model\.onnx"'):
            LearningModel.load(tmp_path, file=file)
    LearningModel.load(tmp_path, file="v2/model.onnx")
    with pytest.raises(InvalidArgumentError, match=r"Expected a folder with model\.onnx, got a file"):
        LearningModel.load(tmp_path / "v2" / "model.onnx", file="model.onnx")


def test_a_free_number_of_channels_is_the_contracts(folder: Path) -> None:
    """As Optimum exported for years."""
    answers = []
    for shape in ((1, 3, 8, 8), ("batch_size", "num_channels", "height", "width")):
        write(folder, {"model.onnx": unary(shape=shape)})
        model = LearningModel.load(folder)
        (feature,) = model.input_features
        assert feature.contract.channels == 3
        assert feature.shape[1] == (3 if shape[1] == 3 else -1)  # a bind may state another contract
        answers.append(LearningModelSession(model).evaluate_features({"x": PICTURE}).outputs["y"].to_numpy())
    assert np.array_equal(*answers)
    model = LearningModel.load(folder / "model.onnx")
    model.contracts["x"] = read_contract(VIT)
    bind(model)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("source", ["folder", "metadata", "program"])
def test_the_size_that_a_file_states_gives_way_to_the_options(source: str, by_name: bool, folder: Path) -> None:
    """That of the program contradicts them. An exporter's metadata: `test_exporters.py`."""
    shape, contract = (1, 3, "h", "w"), read_contract(VIT)
    metadata = contract.to_metadata() if source == "metadata" else {}
    ends = [tensor("x", shape, denotation="IMAGE" if metadata else ""), tensor("y", shape)]
    content = data([helper.make_node("Identity", ["x"], ["y"])], ends[:1], ends[1:], metadata=metadata)
    write(folder, {"model.onnx": content})
    model = LearningModel.load(folder if source == "folder" else content)
    if source == "program":
        model.contracts["x"] = contract
    options = LearningModelSessionOptions()
    if by_name:
        options.override_named_dimension("h", 20)
        options.override_named_dimension("w", 24)
    else:
        options.override_input_shape("x", (1, 3, 20, 24))
    session = LearningModelSession(model, None, options)
    if source == "program":
        with pytest.raises(InvalidBindingError, match="x is 20, but the image contract specifies 8"):
            session.evaluate_features({"x": PICTURE})
        return
    assert session.evaluate_features({"x": PICTURE})["y"].shape == (1, 3, 20, 24)
    assert LearningModelSession(model).evaluate_features({"x": PICTURE})["y"].shape == (1, 3, 8, 8)


def test_a_file_that_contradicts_itself_is_refused_whatever_the_options_fix() -> None:
    content = unary(shape=("n", 3, 16, "w"), denotation="IMAGE", metadata=read_contract(VIT).to_metadata())
    options = LearningModelSessionOptions()
    options.override_named_dimension("w", 20)
    with pytest.raises(InvalidBindingError, match="x is 16, but the image contract specifies 8"):
        LearningModelSession(LearningModel.load(content), None, options).evaluate_features({"x": PICTURE})


def test_a_pickle_has_what_the_folder_states(folder: Path) -> None:
    write(folder, {"config.json": {"id2label": {"0": "cat", "1": "dog"}}})
    model = LearningModel.load(folder)
    (folder / "config.json").unlink()
    again = pickle.loads(pickle.dumps(model))
    assert (again.labels, again.sources) == (("cat", "dog"), model.sources)
    assert again.input_features[0].contract == read_contract(VIT)


def test_the_models_own_statements_count_and_the_log_says_so(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = ImageContract(BitmapPixelFormat.BGR8, scaling=Stretch())
    metadata = {**own.to_metadata(), "Labels": '["one", "two"]'}
    files = {"config.json": {"id2label": {"0": "cat", "1": "dog"}}}
    write(folder, {**files, "model.onnx": unary(shape=(1, 3, 8, 8), denotation="IMAGE", metadata=metadata)})
    model = LearningModel.load(folder)
    assert (model.input_features[0].contract, model.labels) == (own, ("one", "two"))
    assert set(model.sources.values()) == {"model.onnx"}
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "The contract in preprocessor_config.json and in the model itself differ. The latter are used.",
        "The labels in config.json and in the model itself differ. The latter are used.",
    ]


def test_two_files_that_contradict_each_other(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    cfg = {"input_size": [3, 8, 8], "crop_pct": 1.0}
    write(folder, {"config.json": {"pretrained_cfg": cfg}})
    assert LearningModel.load(folder).sources["contract"] == "config.json"
    assert "The contract in preprocessor_config.json and in config.json differ" in caplog.text


@pytest.mark.parametrize(
    ("shape", "words"),
    [((1, 3, 9, 9), "The contract is for one picture .8 x 8., but the model takes x: Float"), ((1, 1, 8, 8), "Float")],
)
def test_a_contract_that_does_not_fit_is_refused_where_a_picture_is_bound(folder: Path, shape: Any, words: str) -> None:
    write(folder, {"model.onnx": unary(shape=shape)})
    model = LearningModel.load(folder)
    with pytest.raises(NotSupportedError, match=words):
        bind(model)
    session = LearningModelSession(model)
    assert session.evaluate_features({"x": np.ones(shape, np.float32)}).outputs["y"].to_numpy().max() == 1


def test_two_pictures_are_refused_and_a_program_may_state_a_contract(folder: Path) -> None:
    from onnx import helper

    ends = [tensor(name, (1, 3, 8, 8)) for name in ("x", "z", "y")]
    write(folder, {"model.onnx": data([helper.make_node("Add", ["x", "z"], ["y"])], ends[:2], ends[2:])})
    model = LearningModel.load(folder)
    with pytest.raises(NotSupportedError, match="for one picture"):
        bind(model)
    model.contracts["x"] = read_contract(VIT)
    bind(model)


def test_labels_that_do_not_fit_are_not_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(folder, {"config.json": {"id2label": {"0": "cat", "1": "dog"}}, "model.onnx": unary(shape=(1, 3))})
    assert LearningModel.load(folder).labels == ()
    assert "config.json has 2 labels for 3 scores, so the labels are not used" in caplog.text


@pytest.mark.posix("Windows lets few users make symbolic links, and Wine makes none")
@pytest.mark.parametrize("name", ["model.onnx", "preprocessor_config.json", "config.json"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    outside = tmp_path_factory.mktemp("outside") / name
    outside.write_bytes(MODEL if name == "model.onnx" else json.dumps(VIT).encode())
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside)
    with pytest.raises(InvalidArgumentError, match="The file is outside the folder"):
        LearningModel.load(folder)


@pytest.mark.posix("Windows lets few users make symbolic links, and Wine makes none")
def test_a_snapshot_in_the_cache_of_hugging_face(folder: Path) -> None:
    snapshot, blobs = folder / "snapshots" / "abc", folder / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for name in ("model.onnx", "preprocessor_config.json"):
        (folder / name).rename(blobs / name)
        (snapshot / name).symlink_to(Path("..", "..", "blobs", name))
    bind(LearningModel.load(snapshot))


@pytest.mark.parametrize("file", [__file__, *([] if os.name == "posix" else ["D:x.onnx", r"\\server\share\x.onnx"])])
def test_a_file_outside_cannot_be_chosen(folder: Path, file: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is outside"):
        LearningModel.load(folder, file=file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "Expected valid JSON"),
        (b"[" * 100_000, "Expected valid JSON"),
        (b"[1]", "Expected a JSON object"),
        (b'{"image_processor_type": 1}', "has no image_processor_type"),
    ],
)
def test_damaged_configs_are_typed_errors(folder: Path, content: bytes, words: str) -> None:
    write(folder, {"preprocessor_config.json": content})
    with pytest.raises((InvalidArgumentError, NotSupportedError), match=words):
        bind(LearningModel.load(folder))
    with pytest.raises((InvalidArgumentError, NotSupportedError), match=words):
        LearningModelSession(LearningModel.load(folder)).evaluate_features({"x": PICTURES / "cat.jpg"})


def test_a_config_of_a_gigabyte_is_not_read(folder: Path) -> None:
    os.truncate(folder / "preprocessor_config.json", 1 << 30)
    with pytest.raises(InvalidArgumentError, match="Expected at most 16,777,216 bytes, got 1,073,741,824"):
        bind(LearningModel.load(folder))


def test_yaml_runs_nothing_and_does_not_grow(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()
    bomb = "a0: &a0 {x: 1}\n" + "".join(
        f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
    )
    nested = "b0: &b0 [1, 1]\n" + "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 12))
    for text in (bomb, nested, "a: !!python/object/apply:os.system ['exit 1']", "{", "- 1"):
        for name in ("inference.yml", "metadata.yaml"):
            write(folder, {name: f"author: Ultralytics\nnames: {{0: a}}\n{text}\n"})
        model = LearningModel.load(folder)
        with pytest.raises(InvalidArgumentError, match=r"inference\.yml: (The contract cannot be|Expected valid YAML)"):
            bind(model)


def test_known_answers_of_the_zoo(tmp_path: Path) -> None:
    one, other = (numpy_helper.from_array(np.full((2, 3), value, np.float32)) for value in (1, 2))
    files = {"input_0.pb": one.SerializeToString(), "output_0.pb": one.SerializeToString()}
    sets = {f"test_data_set_{index}/{name}": file for index in (0, 1) for name, file in files.items()}
    write(tmp_path, {"model.onnx": unary(shape=(2, 3), element=FLOAT), **sets})
    assert len(check_samples(LearningModel.load(tmp_path)).samples) == 2
    write(tmp_path, {"test_data_set_1/output_0.pb": other.SerializeToString()})
    result = CliRunner().invoke(main, ["run", "--check", str(tmp_path)])
    assert (result.exit_code, "wrong: 1 difference in 2 samples" in result.output) == (1, True)


ULTRALYTICS = {"author": "Ultralytics", "task": "detect", "imgsz": [8, 8], "names": {0: "cat", 1: "dog"}}
PUBLISHED: dict[str, dict[str, Any]] = {
    "Optimum": {"preprocessor_config.json": VIT, "config.json": {"id2label": {"0": "cat", "1": "dog"}}},
    "Ultralytics": {"metadata.yaml": ULTRALYTICS},
}
WRITERS = {
    "convert": ["convert", "--keep-io-types"],
    "convert all": ["convert"],
    "set": ["contract", "--set", "kernel=antialiased_cubic"],
    "from": ["contract", "--from", "imagenet", "--set", "size=8,8"],
    "build in": ["contract", "--build-in"],
}


@pytest.mark.once
@pytest.mark.parametrize("is_beside", [False, True], ids=["elsewhere", "in the folder"])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("layout", PUBLISHED)
def test_what_a_command_writes_answers_like_the_folder(
    layout: str, writer: str, is_beside: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The number of channels is free, as in many exports."""
    write(tmp_path, {"model.onnx": unary(shape=("batch_size", "num_channels", 8, 8)), **PUBLISHED[layout]})
    pixels = np.random.default_rng(3).integers(0, 256, (9, 9, 3), np.uint8)
    picture = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)

    def evaluate(model: LearningModel, value: Any = picture) -> np.ndarray:
        return np.array(LearningModelSession(model).evaluate_features({"x": value}).outputs["y"].to_numpy())

    model = LearningModel.load(tmp_path)
    if writer == "set":
        model.contracts["x"] = replace(model.input_features[0].contract, kernel=ImageKernel.ANTIALIASED_CUBIC)  # type: ignore[attr-defined]
    if writer == "from":
        model.contracts["x"] = replace(ImageContract.imagenet(), size=(8, 8))
    expected = evaluate(model)
    out = (tmp_path if is_beside else tmp_path_factory.mktemp("out")) / "out.onnx"
    command, *words = WRITERS[writer]
    result = CliRunner().invoke(main, [command, str(tmp_path), *words, "--output", str(out)])
    assert result.exit_code == 0, result.output
    # Built in, pictures are scaled as cykooz-resizer does; where Pillow scales, bytes are a level apart.
    tolerance = 1e-3 if "convert" in writer else 1e-5 if writer != "build in" or find_spec("cykooz_resizer") else 0.016
    written = [LearningModel.load(out), *([LearningModel.load(tmp_path, file="out.onnx")] if is_beside else [])]
    for new in written:
        answer = evaluate(new, pixels[None] if writer == "build in" else picture)
        np.testing.assert_allclose(answer, expected, atol=tolerance)
        assert new.labels == model.labels == ("cat", "dog")


def test_a_saved_or_joined_model_has_what_its_folder_states(folder: Path, tmp_path: Path) -> None:
    write(folder, {"model.onnx": unary(shape=(1, "num_channels", 8, 8))})
    model, options = LearningModel.load(folder), LearningModelJoinOptions()
    LearningModelExperimental(model).save(tmp_path / "saved.onnx")
    options.link("y", "x")
    joined = LearningModelExperimental(model).join_model(LearningModel.load(unary(shape=(1, 3, 8, 8))), options)
    for new in (LearningModel.load(tmp_path / "saved.onnx"), joined):
        assert new.input_features[0].contract == read_contract(VIT)  # type: ignore[attr-defined]
        bind(new)


def test_commands_take_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write(folder, {"config.json": {"id2label": {"0": "[red]cat[/red]", "1": "\x1b[31mdog"}}})
    out = tmp_path_factory.mktemp("out") / "built.onnx"
    shown = CliRunner().invoke(main, ["info", str(folder)]).output
    assert "contract from  preprocessor_config.json" in shown
    build_in(folder, out)
    assert LearningModel.load(out).input_features[0].shape == (-1, -1, 3)
    refused = CliRunner().invoke(main, ["contract", str(folder), "--build-in", "--output", str(folder / "model.onnx")])
    assert (refused.exit_code, "would overwrite it" in refused.output) == (2, True)
    assert CliRunner().invoke(main, ["perf", str(folder), "-n", "1"]).exit_code == 0
    write(folder, {"model.onnx": unary(shape=(1, 2))})
    answer = CliRunner().invoke(main, ["run", str(folder), "1,2", "--top-k", "2"]).output
    assert ("[red]cat[/red]" in answer, "\x1b" in answer) == (True, False)

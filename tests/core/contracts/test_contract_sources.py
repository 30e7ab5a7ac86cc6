"""Files and dicts that contracts are read from: Hugging Face's, timm's, and the labels beside them."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import hub
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    LearningModelPixelRange,
    NotSupportedError,
    labels_of,
    read_contract,
)
from winml_py.errors import StorageNotFoundError
from winml_py.scaling import CropRatio, Ends, Stretch

VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 384, "width": 384}}
TIMM = {"input_size": [3, 288, 288], "crop_pct": 0.95, "interpolation": "bicubic", "mean": [0.5] * 3, "std": [0.5] * 3}


def written(path: Path, values: object) -> Path:
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_a_dict_a_file_and_a_folder_say_the_same(tmp_path: Path) -> None:
    expected = ImageContract(
        BitmapPixelFormat.RGB8,
        LearningModelPixelRange.ZERO_TO_ONE,
        (0.5, 0.5, 0.5),
        (0.5, 0.5, 0.5),
        kernel=ImageKernel.ANTIALIASED_LINEAR,
        size=(384, 384),
        scaling=Stretch((384, 384)),
    )
    assert read_contract(VIT) == expected
    file = written(tmp_path / "preprocessor_config.json", VIT)
    for source in (file, str(file)):
        assert read_contract(source) == expected


def test_a_processor_config_holds_the_image_processor(tmp_path: Path) -> None:
    whole = {"processor_class": "SiglipProcessor", "image_processor": VIT}
    assert read_contract(written(tmp_path / "processor_config.json", whole)) == read_contract(VIT)


def test_a_timm_config(tmp_path: Path) -> None:
    expected = ImageContract(
        BitmapPixelFormat.RGB8,
        LearningModelPixelRange.ZERO_TO_ONE,
        (0.5, 0.5, 0.5),
        (0.5, 0.5, 0.5),
        kernel=ImageKernel.ANTIALIASED_CUBIC,
        size=(288, 288),
        scaling=CropRatio(0.95, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)),
    )
    whole = {"architecture": "convnext_tiny", "num_classes": 1000, "pretrained_cfg": TIMM}
    file = written(tmp_path / "config.json", whole)
    for source in (TIMM, whole, file):
        assert read_contract(source) == expected


def test_timm_has_a_size_for_tests() -> None:
    cfg = {**TIMM, "test_input_size": [3, 320, 320], "test_crop_pct": 1.0, "fixed_input_size": False}
    assert read_contract(cfg).size == (288, 288)
    tested = read_contract(cfg, use_test_size=True)
    assert tested.size == (320, 320)
    assert tested.scaling == CropRatio(1.0, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN))
    assert read_contract({**cfg, "test_crop_pct": None}, use_test_size=True).scaling == CropRatio(
        0.95, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)
    )


def test_the_name_of_a_processor_has_two_spellings() -> None:
    old, new = ({"image_processor_type": f"Grounding{dino}ImageProcessor"} for dino in ("DINO", "Dino"))
    assert read_contract(old) == read_contract(new)


def test_the_fast_twin_of_a_processor_is_the_same() -> None:
    fast = {
        **VIT,
        "image_processor_type": "ViTImageProcessorFast",
        "data_format": "channels_first",
        "device": None,
        "disable_grouping": None,
        "do_center_crop": None,
        "crop_size": None,
        "default_to_square": True,
        "input_data_format": None,
        "return_tensors": None,
        "do_convert_rgb": None,
        "size": {"height": 384, "width": 384, "shortest_edge": None},
    }
    assert read_contract(fast) == read_contract(VIT)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sharpen": 2}, "sharpen is not a known key of ViTImageProcessor"),
        ({"do_center_crop": True}, "do_center_crop is not a known key of"),
        ({"do_resise": True}, "do_resise is not a known key of .* Did you mean 'do_resize'"),
        ({"imagemean": 0.5}, "Did you mean 'image_mean'"),
        ({"size": "224"}, r"size\['height'\] is '224'; expected a number of pixels. Write it without quotes: 224"),
        ({"size": {"height": 224, "width": "224"}}, "Write it without quotes: 224"),
        ({"rescale_factor": "0.5"}, "Write it without quotes: 0.5"),
        ({"do_resize": "True"}, "Write it without quotes: true"),
        ({"image_mean": "0.5"}, "Write it without quotes: 0.5"),
        ({"data_format": "channels_last"}, "data_format is not a known key of"),
        ({"do_normalize": None}, "do_normalize is null"),
        ({"do_normalize": "yes"}, "do_normalize is 'yes'; expected true or false"),
        ({"resample": 6}, "resample is 6"),
        ({"resample": True}, "resample is True"),
        ({"resample": "bicubic"}, "resample is 'bicubic'"),
        ({"size": {"shortest_edge": 224}}, "needs a height and a width, but size specifies shortest_edge"),
        ({"size": "large"}, r"size\['height'\] is 'large'; expected a number of pixels"),
        ({"size": 0}, r"size\['height'\] is 0"),
        ({"rescale_factor": 0}, "rescale_factor is 0"),
        ({"rescale_factor": "1/255"}, "rescale_factor is '1/255'"),
        ({"image_mean": [0.5, 0.5]}, "image_mean is"),
        ({"image_mean": [0.5, 0.5, "x"]}, "image_mean is"),
        ({"image_processor_type": None}, "has no image_processor_type"),
        ({"image_processor_type": "SharperImageProcessor"}, "SharperImageProcessor is not known"),
        ({"image_processor_type": "TimmWrapperImageProcessor"}, "is not known"),
        ({"image_processor_type": "DetrImageProcessor", "size": {"longest_edge": 800}}, "size specifies longest_edge"),
        (
            {"image_processor_type": "DetrImageProcessor", "pad_size": {"height": 9, "width": 9}},
            "pad_size is 9x9, smaller",
        ),
        ({"image_processor_type": "ConvNextImageProcessor"}, "a shortest_edge, but size specifies height and width"),
        ({"image_processor_type": "DeiTImageProcessor", "crop_size": 385}, "crop_size is 385x385, larger"),
        ({"image_processor_type": "CLIPImageProcessor", "size": 222}, "crop_size is 224x224, larger"),
        (
            {"image_processor_type": "DeiTImageProcessor", "do_resize": False},
            "cropped or padded without being resized",
        ),
        ({"image_processor_type": "PerceiverImageProcessor"}, "crop_size is the smaller one"),
        (
            {"image_processor_type": "PoolFormerImageProcessor", "size": {"height": 9, "width": 8}},
            "size is not square, but crop_pct requires a square",
        ),
        (
            {"image_processor_type": "DPTImageProcessor", "keep_aspect_ratio": True, "size": [384, 512]},
            "keep_aspect_ratio requires a square",
        ),
        (
            {"image_processor_type": "MaskFormerImageProcessor", "size": {"longest_edge": 9}},
            "requires a shortest_edge and a longest_edge",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = written(tmp_path / "preprocessor_config.json", {**VIT, **change})
    with pytest.raises(NotSupportedError, match=words) as refusal:
        read_contract(file)
    assert str(refusal.value).startswith(f"{file}: ")
    with pytest.raises(NotSupportedError, match=words) as refusal:
        read_contract({**VIT, **change})
    assert str(refusal.value).startswith("The config: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sharpen": 2}, "sharpen is not a known key of timm's evaluation"),
        ({"interpolation": "random"}, "interpolation is 'random'"),
        ({"crop_pct": 1.1}, "crop_pct is 1.1"),
        ({"crop_pct": "all"}, "crop_pct is 'all'"),
        ({"crop_mode": "left"}, "crop_mode is 'left'"),
        ({"input_size": [3, 224, 112]}, "center requires a square"),
        ({"input_size": [1, 224, 224]}, "input_size is"),
        ({"input_size": 224}, "input_size is 224"),
        ({"crop_mode": "border", "mean": "gray"}, "mean is 'gray'"),
    ],
)
def test_what_timm_says_and_no_contract_does(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = written(tmp_path / "config.json", {"pretrained_cfg": {**TIMM, **change}})
    with pytest.raises(NotSupportedError, match=words) as refusal:
        read_contract(file)
    assert str(refusal.value).startswith(f"{file}: ")


def test_numbers_that_mean_nothing_name_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "preprocessor_config.json", {**VIT, "image_std": 0})
    with pytest.raises(InvalidArgumentError, match="std must not be 0") as refusal:
        read_contract(file)
    assert str(refusal.value).startswith(f"{file}: ")


def test_files_that_are_none(tmp_path: Path) -> None:
    for read in (read_contract, labels_of):
        with pytest.raises(StorageNotFoundError, match=r"missing\.json"):
            read(tmp_path / "missing.json")
        for text in ("{", "\udcff", "[" * 100_000):
            (tmp_path / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
            with pytest.raises(InvalidArgumentError, match="Expected valid JSON"):
                read(tmp_path / "config.json")
        written(tmp_path / "config.json", [1])
        what = "The class names are not numbered" if read is labels_of else "Expected a JSON object"
        with pytest.raises(InvalidArgumentError, match=what):
            read(tmp_path / "config.json")
        (tmp_path / "config.json").unlink()
    with pytest.raises(InvalidArgumentError, match="no image_processor_type, no pretrained_cfg"):
        read_contract({"model_type": "vit"})


def test_labels(tmp_path: Path) -> None:
    written(tmp_path / "preprocessor_config.json", VIT)
    written(tmp_path / "config.json", {"id2label": {"1": "dog", "0": "cat"}})
    assert labels_of(tmp_path / "config.json") == ("cat", "dog")
    written(tmp_path / "names.json", ["cat", "dog"])
    assert labels_of(tmp_path / "names.json") == ("cat", "dog")
    written(tmp_path / "numbers.json", {"1": "dog", "0": "cat"})
    assert labels_of(tmp_path / "numbers.json") == ("cat", "dog")
    written(tmp_path / "other.json", {"id2label": {"0": "right"}})
    assert labels_of(tmp_path / "other.json") == ("right",)  # the file that is named, and not the one beside it
    assert labels_of(tmp_path / "preprocessor_config.json") == ()
    (tmp_path / "labels").write_text("cat\n dog \n\n")
    assert labels_of(tmp_path / "labels") == ("cat", "dog")
    assert labels_of({"label_names": ["cat", "dog"]}) == ("cat", "dog")
    assert labels_of({"pretrained_cfg": {"label_names": ["cat"]}}) == ("cat",)
    assert labels_of({"pretrained_cfg": TIMM}) == ()
    for wrong in ({"1": "dog", "2": "cat"}, {"0": 1}, "cat", 5):
        with pytest.raises(InvalidArgumentError, match="are not numbered from 0"):
            labels_of({"id2label": wrong})
    with pytest.raises(InvalidArgumentError, match="are not numbered from 0"):
        labels_of({"0": ["n01440764", "tench"]})


JSON = st.recursive(  # JSON can spell 1e400, and integers beyond every float
    st.none() | st.booleans() | st.integers() | st.sampled_from([10**400, 1e-320]) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["height", "width", "shortest_edge", "longest_edge", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=500)
@given(st.sampled_from([*hub.PUBLISHED.values()]), st.data())
def test_any_value_is_read_or_refused(config: hub.Config, data: st.DataObject) -> None:
    keys = st.sampled_from([*config, "sharpen", "format"])
    changed = data.draw(st.dictionaries(keys, JSON, max_size=3))
    with suppress(NotSupportedError, InvalidArgumentError):
        contract = read_contract(config | changed)
        assert all(map(math.isfinite, (*contract.mean, *contract.std)))


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from([*TIMM, "crop_mode", "test_input_size", "tag"]), JSON, max_size=3))
def test_any_value_of_timm_is_read_or_refused(change: dict[str, Any]) -> None:
    with suppress(NotSupportedError, InvalidArgumentError):
        contract = read_contract({**TIMM, **change}, use_test_size=True)
        assert all(map(math.isfinite, (*contract.mean, *contract.std)))

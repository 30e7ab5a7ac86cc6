"""Image contracts in files: our JSON with the words of a model's metadata, Hugging Face's configs, timm's."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import InvalidArgumentError
from ..base.messages import did_you_mean
from ..imaging.contract import METADATA_KEYS, ImageContract
from . import huggingface, timm
from .config import Config, Source, prefix_errors, read_config


def read_contract(source: Source, *, use_test_size: bool = False) -> ImageContract:
    """The contract that a file states.

    Args:
        source: Hugging Face's `preprocessor_config.json` or `processor_config.json`; timm's `config.json`, or the
            `pretrained_cfg` in it; or a JSON file with the keys of a model's metadata, as
            `json.dump(contract.to_metadata(), file)` writes it. Pass the file's path, an open file, or the contents of
            such a file. `LearningModel.load` reads a whole folder.
        use_test_size: for timm's, use `test_input_size` and `test_crop_pct` where the config states them.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it is none of these, has an unknown key, or has an invalid word or number.
        NotSupportedError: the processor, a key or a value is unknown, or no contract does the same to a picture.

    Example:
        >>> from winml_py import read_contract
        >>> read_contract({"image_processor_type": "ViTImageProcessor"}).size
        (224, 224)
        >>> read_contract({"input_size": (3, 288, 288), "crop_pct": 1.0}).size
        (288, 288)
    """
    config = read_config(source)
    values = config.values
    if any(str(key).startswith("Image.") for key in values):
        return _parse_words(config)
    is_timm = isinstance(values.get("pretrained_cfg"), Mapping) or "input_size" in values
    if is_timm and "image_processor_type" not in values:
        return timm.make_contract(config, use_test_size)
    if values.keys() & {"image_processor_type", "feature_extractor_type", "image_processor"}:
        return huggingface.make_contract(config)
    raise InvalidArgumentError(
        f"{config.name}: It states no image contract. It has no image_processor_type, no pretrained_cfg, and no "
        "key such as Image.Mean.",
        hint="Pass the preprocessor_config.json of Hugging Face, the config.json of timm, or a file from "
        'json.dump(ImageContract.imagenet().to_metadata(), open(path, "w")).',
    )


def _parse_words(config: Config) -> ImageContract:
    unknown = next((key for key in config.values if key not in METADATA_KEYS), None)
    if unknown is not None:
        raise InvalidArgumentError(
            f"{config.name}: Image contracts have no key {unknown!r}.",
            hint=did_you_mean(unknown, METADATA_KEYS),
        )
    wrong = next((key for key, word in config.values.items() if not isinstance(word, str)), None)
    if wrong is not None:
        raise InvalidArgumentError(
            f"{config.name}: the value of {wrong} is not text.", hint='Write "0.5,0.5,0.5", say.'
        )
    with prefix_errors(config.name):
        return ImageContract.from_metadata(config.values)

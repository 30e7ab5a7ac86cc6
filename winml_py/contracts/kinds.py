"""Which kind of config a file is."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import InvalidArgumentError
from ..imaging.contract import ImageContract
from . import huggingface, timm
from .config import Source, read_config


def read_contract(source: Source) -> ImageContract:
    """The contract that a config states, of Hugging Face's or timm's.

    Args:
        source: a `preprocessor_config.json`, `processor_config.json` or `config.json`, a folder that holds one, or what
            such a file holds.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it is neither of the two.
        NotSupportedError: no contract does the same to a picture.
    """
    config = read_config(source, (*huggingface.NAMES, timm.NAME))
    values = config.values
    is_timm = isinstance(values.get("pretrained_cfg"), Mapping) or "input_size" in values
    if is_timm and "image_processor_type" not in values:
        return timm.contract_of(config)
    if values.keys() & {"image_processor_type", "feature_extractor_type", "image_processor"}:
        return huggingface.contract_of(config)
    raise InvalidArgumentError(
        f"{config.name}: it states neither an image_processor_type nor a pretrained_cfg.",
        hint="Give the preprocessor_config.json of Hugging Face, or the config.json of timm.",
    )

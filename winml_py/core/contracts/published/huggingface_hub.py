"""Hugging Face's transformers and Optimum: `preprocessor_config.json`, and class names in `config.json`."""

from __future__ import annotations

from .. import huggingface
from .folder import Parts, read_labels

PARTS: Parts = (
    *(("contract", name, "", lambda config, _: huggingface.contract_of(config)) for name in huggingface.NAMES),
    ("labels", "config.json", "id2label", read_labels),
)

"""timm's models on the Hugging Face Hub: `pretrained_cfg` and class names in `config.json`."""

from __future__ import annotations

from .. import timm
from .folder import Parts, read_labels

PARTS: Parts = (
    *(
        ("contract", timm.NAME, key, lambda config, _: timm.contract_of(config))
        for key in ("pretrained_cfg", "input_size")
    ),
    ("labels", timm.NAME, "pretrained_cfg", read_labels),
)

"""timm's models on the Hugging Face Hub: `pretrained_cfg` and class names in `config.json`."""

from __future__ import annotations

from .. import timm
from .folder import Parts, read_labels

_CONTRACT = ("contract", timm.NAME, "pretrained_cfg", lambda config, _: timm.contract_of(config))
PARTS: Parts = (_CONTRACT, ("labels", timm.NAME, "pretrained_cfg", read_labels))

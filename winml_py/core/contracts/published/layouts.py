"""The layouts of published folders, and what a folder states of its model by one of them."""

from __future__ import annotations

import os
from typing import Any

from ....errors import InvalidArgumentError, WinMLError
from ...base.messages import logger
from .. import huggingface, timm
from . import Published, mmdeploy, onnx_zoo, paddle, roboflow, ultralytics
from .folder import ANY_SIZE, Folder, Parts, read_labels

TIMM: Parts = (
    ("contract", timm.NAME, "pretrained_cfg", lambda config, _: timm.make_contract(config)),
    ("contract", timm.NAME, "input_size", lambda config, _: timm.make_contract(config)),
    ("labels", timm.NAME, "pretrained_cfg", read_labels),
)
"""timm's models on the Hugging Face Hub: `pretrained_cfg` and class names in `config.json`."""

HUGGING_FACE: Parts = (
    *(("contract", name, "", lambda config, _: huggingface.make_contract(config)) for name in huggingface.NAMES),
    ("labels", "config.json", "id2label", read_labels),
)
"""Hugging Face's transformers and Optimum: `preprocessor_config.json`, and class names in `config.json`."""

CUSTOM_VISION: Parts = (("labels", "labels.txt", "", read_labels),)
"""Azure Custom Vision's export for Windows ML: `labels.txt`, as others write it too. The model has its contract."""

PARTS: Parts = (
    *(*TIMM, *HUGGING_FACE, *ultralytics.PARTS, *CUSTOM_VISION),
    *(*paddle.PARTS, *mmdeploy.PARTS, *roboflow.PARTS, *onnx_zoo.PARTS),
)
"""What the files of all layouts may state. Of two files that state the same part, the first one counts."""

STATED_FILES = {*(file for _, file, _, _ in PARTS), *roboflow.OTHER_FILES, *onnx_zoo.OTHER_FILES}
"""The files of a folder that may state something of its model, as patterns."""


def read_published(source: str | os.PathLike[str], model: str) -> Published:
    """What a folder states of a model in it. The log has what contradicts itself or cannot be read.

    Args:
        source: the folder.
        model: the path of the model.

    Raises:
        InvalidArgumentError: a file leads out of the folder.
    """
    folder = Folder(source)
    parts: dict[str, Any] = {}
    sources = {"model": os.path.relpath(model, source)}
    refusal = None
    for name, file, key, read in PARTS:
        if not folder.find(file, ANY_SIZE):
            continue
        try:
            config = folder.read_config(file)
            value = read(config, folder) if not key or key in config.values else None
        except Exception as error:  # the files are untrusted: one with which anything is wrong states nothing
            if name == "contract":
                message = f"{file}: It cannot be used: {type(error).__name__}: {error}"
                refusal = error if isinstance(error, WinMLError) else InvalidArgumentError(message)
            logger.info("%s states no %s: %s", source, name, error)
            continue
        if value and parts.setdefault(name, value) != value:
            logger.warning("%s: The %s of %s and of %s differ. The latter are used.", source, name, file, sources[name])
        elif value:
            sources.setdefault(name, file)
    return Published(folder.path, parts, sources, refusal)

"""Ultralytics: `metadata.yaml`, which has the keys that its exporter writes into ONNX models."""

from __future__ import annotations

from ..config import Config
from .folder import Folder, Parts


def _read_metadata(config: Config, _: Folder) -> dict[str, str]:
    values = config.values if config.values["author"] == "Ultralytics" else {}
    return {str(key): str(value) for key, value in values.items() if _is_flat(value)}


def _is_flat(value: object) -> bool:
    """Whether nothing is nested deeper than the exporter does; references in YAML can nest without end."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return not any(isinstance(item, (dict, list)) for item in items)


PARTS: Parts = (("metadata", "metadata.yaml", "author", _read_metadata),)

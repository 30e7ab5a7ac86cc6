"""`winml-py devices`: where models can run."""

from __future__ import annotations

from typing import Any

import click

from ..session.device import LearningModelDevice
from .style import emit, json_option, show


@click.command()
@json_option
def devices(as_json: bool) -> None:
    """List the devices that installed providers can really use, the best first.

    Each has just run a small model. Name one to `winml-py run --device`.
    """
    found = [describe(device) for device in LearningModelDevice.find_all()]
    if as_json:
        emit({"schema_version": 1, "devices": found})
    else:
        _print(found)


def describe(device: LearningModelDevice) -> dict[str, Any]:
    """The facts about a device, ready for JSON."""
    return {
        "name": device.name,
        "hardware": device.hardware,
        "vendor": device.vendor,
        "provider": device.provider,
        "memory": device.memory,
        "supports_float16": device.supports_float16,
        "adapter_id": list(device.adapter_id),
    }


def _print(found: list[dict[str, Any]]) -> None:
    rows = []
    for facts in found:
        memory = f"{facts['memory'] / (1 << 30):.1f} GiB" if facts["memory"] else ""
        half = "yes" if facts["supports_float16"] else "no"
        rows.append([facts["name"], facts["hardware"], facts["provider"], memory, half])
    show(["device", "hardware", "provider", "memory", "float16"], rows, left=5)

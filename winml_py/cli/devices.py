"""`winml-py devices`: where models can run."""

from __future__ import annotations

import click

from ..core.base.messages import Facts
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import plugins
from .arguments import json_option
from .style import emit, say, show, size_of


@click.command()
@json_option
def devices(as_json: bool) -> None:
    """List the devices that models can run on, the best first.

    Each has just run a small model. `winml-py run --device` takes a name from this list.
    """
    emit({"devices": [_facts(device) for device in LearningModelDevice.find_all()]}, as_json, _print)
    if problems := plugins.problems():
        say(f"Not used: {problems}", is_error=True)


def _facts(device: LearningModelDevice) -> Facts:
    names = ("name", "hardware", "vendor", "provider", "memory", "supports_float16")
    return {name: getattr(device, name) for name in names} | {"adapter_id": list(device.adapter_id)}


def _print(facts: Facts) -> None:
    rows = []
    for device in facts["devices"]:
        memory = size_of(device["memory"]) if device["memory"] else ""
        half = "yes" if device["supports_float16"] else "no"
        rows.append([device["name"], device["hardware"], device["provider"], memory, half])
    show(rows, ["device", "hardware", "provider", "memory", "float16"], "lllrl")

"""`winml-py devices`: where models can run."""

from __future__ import annotations

import click

from ..core.base.messages import Facts
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers.plugins import probe
from .arguments import json_option
from .style import emit, say, show, size_of

_DEVICE = ("name", "hardware", "vendor", "provider", "memory", "supports_float16")


@click.command()
@json_option
def devices(as_json: bool) -> None:
    """List the devices that models can run on, best first.

    Each has just run a small model. `winml-py run --device` takes a name from this list.
    """
    found = [
        {name: getattr(device, name) for name in _DEVICE} | {"adapter_id": list(device.adapter_id)}
        for device in LearningModelDevice.find_all()
    ]
    emit({"devices": found}, as_json, _print_devices)
    problems = [f"{plugin.package}: {plugin.problem}" for plugin in probe() if plugin.problem]
    if problems:
        say(f"Not used: {'; '.join(problems)}", is_error=True)


def _print_devices(facts: Facts) -> None:
    rows = []
    for device in facts["devices"]:
        memory = size_of(device["memory"]) if device["memory"] else ""
        half = "yes" if device["supports_float16"] else "no"
        rows.append([device["name"], device["hardware"], device["provider"], memory, half])
    show(rows, ["device", "hardware", "provider", "memory", "float16"], "lllrl")

"""`winml-py devices`: where models can run."""

from __future__ import annotations

import json
from typing import Any

import click

from ..device import LearningModelDevice


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def devices(as_json: bool) -> None:
    """List the devices that installed providers can really use, the best first.

    Each has just run a small model. Name one to `winml-py run --device`.
    """
    found = [describe(device) for device in LearningModelDevice.find_all()]
    if as_json:
        click.echo(json.dumps({"schema_version": 1, "devices": found}, indent=2, ensure_ascii=False))
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
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("device", "hardware", "provider", "memory", "float16"):
        table.add_column(column)
    for facts in found:
        memory = f"{facts['memory'] / (1 << 30):.1f} GiB" if facts["memory"] else ""
        half = "yes" if facts["supports_float16"] else "no"
        table.add_row(escape(facts["name"]), facts["hardware"], facts["provider"], memory, half)
    Console(highlight=False).print(table)

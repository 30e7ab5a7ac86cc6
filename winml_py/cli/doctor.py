"""`winml-py doctor`: what is installed, what works, and why the rest does not work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..tools.doctor import diagnose
from .arguments import json_option
from .style import emit, number, pairs, say


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Report what is installed, and what works.

    These are versions, providers, drivers and cores. Every device runs a small model. Paste the report into a bug
    report. The exit code is 1 where something is wrong.
    """
    facts = diagnose()
    emit(facts, as_json, _print)
    if facts["problems"] or any("problem" in device for device in facts["devices"]):
        raise click.exceptions.Exit(1)


def _print(facts: dict[str, Any]) -> None:
    pairs(_rows(facts))
    for problem in facts["problems"]:
        say(f"problem  {problem}", "bold red")


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "winml-py", f"{facts['winml_py']}, Python {facts['python']}, {facts['system']}"
    yield "packages", ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    cores = facts["cores"]
    limit = "no limit" if cores["control_group"] is None else f"{cores['control_group']:g}"
    yield (
        "cores",
        f"{cores['usable']} usable (machine {cores['machine']}, affinity {cores['affinity']}, control group {limit})",
    )
    for provider in facts["providers"]:
        works = ", ".join(provider["devices"]) or provider["problem"] or "the CPU provider"
        yield provider["package"], f"{provider['version']}: {works}"
    for name, use in facts["not_installed"].items():
        yield name, f"not installed; {use}"
    drivers = facts["drivers"]
    yield "NVIDIA driver", ", ".join(drivers["nvidia"]) or "none"
    yield "Vulkan loader", drivers["vulkan_loader"] or "none"
    yield "Vulkan drivers", ", ".join(drivers["vulkan_drivers"]) or "none"
    yield "cache", facts["cache"] or "switched off"
    for device in facts["devices"]:
        yield f"{device.get('hardware', 'device')} run", f"{device['device']}: {_run(device)}"


def _run(device: dict[str, Any]) -> str:
    if "problem" in device:
        return str(device["problem"])
    return (
        f"first evaluation after {number(device['first_ms'], 0)} ms, then {number(device['evaluation_ms'])} ms each; "
        f"results differ from the CPU's by {device['error']:.1g}"
    )

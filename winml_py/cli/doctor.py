"""`winml-py doctor`: what is installed, what works, and why the rest does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..tools.doctor import diagnose
from .style import emit, json_option, pairs, say


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Report versions, providers, drivers and cores, and run a small model on every device.

    Paste it into a bug report. The exit code is 1 where something is wrong.
    """
    facts = diagnose()
    if as_json:
        emit(facts)
    else:
        _print(facts)
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
        (f"{cores['usable']} usable (machine {cores['machine']}, affinity {cores['affinity']}, control group {limit})"),
    )
    for provider in facts["providers"]:
        works = ", ".join(provider["devices"])
        text = works or provider["problem"] or "the CPU provider"
        yield provider["package"], f"{provider['version']}: {text}"
    for name, use in facts["not_installed"].items():
        yield name, f"not installed; {use}"
    drivers = facts["drivers"]
    yield "NVIDIA driver", ", ".join(drivers["nvidia"]) or "none"
    yield (
        "Vulkan",
        (f"loader {drivers['vulkan_loader'] or 'none'}; drivers {', '.join(drivers['vulkan_drivers']) or 'none'}"),
    )
    yield "cache", facts["cache"] or "switched off"
    for device in facts["devices"]:
        yield f"{device.get('hardware', 'device')} run", _run(device)


def _run(device: dict[str, Any]) -> str:
    if "problem" in device:
        return f"{device['device']}: {device['problem']}"
    return (
        f"{device['device']}: first evaluation after {device['first_ms']:.0f} ms, then "
        f"{device['evaluation_ms']:.3f} ms each; {device['error']:.0e} from the CPU"
    )

"""`winml-py doctor`: what is installed, what works, and why the rest does not work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from .arguments import json_option
from .doctor_report import diagnose
from .style import emit, number, pairs, say


@click.command()
@click.option("--markdown", is_flag=True, help="Print Markdown, to paste into an issue.")
@json_option
def doctor(markdown: bool, as_json: bool) -> None:
    """Report what is installed, and what works.

    These are versions, providers, drivers and cores. Every device runs a small model. The exit code is 1 where
    something is wrong.
    """
    if markdown and as_json:
        raise click.UsageError("Give --markdown or --json.")
    facts = diagnose()
    emit(facts, as_json, _print_markdown if markdown else _print)
    if _problems(facts):
        raise click.exceptions.Exit(1)


def _problems(facts: dict[str, Any]) -> list[str]:
    devices = (device for device in facts["devices"] if "problem" in device)
    return [*facts["problems"], *(f"{device['device']}: {device['problem']}" for device in devices)]


def _print(facts: dict[str, Any]) -> None:
    pairs(_rows(facts))
    for problem in _problems(facts):
        say(f"problem  {problem}", "bold red")
    if not _problems(facts):
        say("No problem was found.", "bold")


def _print_markdown(facts: dict[str, Any]) -> None:
    """Prints a table that is folded in an issue. The home folder, which holds the user's name, is left out."""
    say(f"<details><summary>winml-py doctor: {len(_problems(facts))} problems</summary>\n")
    say("| what | found |\n| --- | --- |")
    problems = (("problem", problem) for problem in _problems(facts))
    for name, value in (*_rows(facts), *problems):
        cell = " ".join(value.replace(os.path.expanduser("~"), "~").replace("|", "\\|").split())
        say(f"| {name} | {cell} |")
    say("\n</details>")


def _rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "winml-py", f"{facts['winml_py']}, Python {facts['python']}, {facts['system']}"
    yield "packages", ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    yield "cores", _cores(facts["cores"])
    for provider in facts["providers"]:
        devices = ", ".join(provider["devices"])
        works = f"runs on {devices}" if devices else provider["problem"] or "runs on the CPU"
        yield provider["package"], f"{provider['version']}: {works}"
    for name, use in facts["not_installed"].items():
        yield name, f"is not installed; it is for {use}"
    drivers = facts["drivers"]
    yield "NVIDIA driver", ", ".join(drivers["nvidia"]) or "none was found"
    yield "Vulkan loader", drivers["vulkan_loader"] or "none was found"
    yield "Vulkan drivers", ", ".join(drivers["vulkan_drivers"]) or "none was found"
    yield "cache folder", facts["cache"] or "none: WINML_PY_CACHE is empty"
    for device in facts["devices"]:
        yield f"test on the {device.get('hardware', 'device')}", f"{device['device']}: {_run(device)}"


def _cores(cores: dict[str, Any]) -> str:
    limit = cores["control_group"]
    container = "no limit of a container" if limit is None else f"a container allows {limit:g}"
    allowed = f"the machine has {cores['machine']}, this process may use {cores['affinity']}, {container}"
    return f"{cores['usable']} are used; {allowed}"


def _run(device: dict[str, Any]) -> str:
    if "problem" in device:
        return str(device["problem"])
    times = f"{number(device['first_ms'], 0)} ms with its session, then {number(device['evaluation_ms'])} ms each"
    error = "" if device["hardware"] == "cpu" else f"; its results differ from the CPU's by {device['error']:.1g}"
    return f"works; a small model took {times}{error}"

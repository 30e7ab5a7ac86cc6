"""The changelog: short, in order, and true where a test can tell."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

import winml_py
from helpers.paths import ROOT
from winml_py.cli.main import main

pytestmark = pytest.mark.one_python

TEXT = (ROOT / "CHANGELOG.md").read_text()
VERSIONS = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d|unreleased)\)$", TEXT, re.MULTILINE)
DEVICES = (ROOT / "docs" / "devices.md").read_text()


def test_the_version_of_the_package_stands_first() -> None:
    assert VERSIONS[0][0] == winml_py.__version__
    assert len(VERSIONS) == len(re.findall("^## ", TEXT, re.MULTILINE))


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) >= 5
    for link in links:
        path, _, anchor = unquote(link).partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_commands_and_options_exist() -> None:
    words = re.findall(r"`winml-py (\w+)((?: --[\w-]+)*)`", TEXT)
    assert words
    for command, options in words:
        known = {name for parameter in main.commands[command].params for name in parameter.opts}
        assert set(options.split()) <= known


def test_what_is_experimental_is_what_the_table_of_devices_says() -> None:
    """Each row that says "experimental" has its name in the changelog."""
    section = TEXT.partition("### What is not there yet\n")[2].partition("WebGPU")[0]
    experimental = "\n".join(line for line in DEVICES.splitlines() if line.startswith("|") and "experimental" in line)
    for name in ("CUDA", "TensorRT", "DirectML", "Core ML", "catalogue", "other vendors'"):
        assert name in section, name
        assert name.replace("other vendors'", "another vendor's") in experimental, name
    (webgpu,) = [line for line in DEVICES.splitlines() if line.startswith("| any GPU with")]
    assert "on a software driver" in webgpu
    assert "WebGPU is tested on a software driver" in TEXT

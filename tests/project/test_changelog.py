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

"""SECURITY.md and docs/security.md: what they lead to exists, and each promise says how it is tested."""

from __future__ import annotations

import re

from helpers.paths import ROOT

POLICY = (ROOT / "SECURITY.md").read_text()
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_the_policy_leads_to_the_promises() -> None:
    links = re.findall(r"\]\(([^)#]+)", POLICY)
    assert "docs/security.md" in links
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert "SECURITY.md" in PAGE


def test_each_promise_says_how_it_is_tested() -> None:
    table = PAGE[: PAGE.index("## Cache")]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in re.findall(r"^\| .*$", table, re.M)]
    assert rows[0] == ["from", "what", "promise", "tested by"]
    assert len(rows) > 20
    for row in rows[2:]:
        assert len(row) == 4, row
        assert all(row), row
        files = re.findall(r"(?:tests|samples)/[\w/]+\.py(?:::\w+)?", row[3])
        assert files, row
        for file, _, name in (file.partition("::") for file in files):
            assert name in (ROOT / file).read_text(), file

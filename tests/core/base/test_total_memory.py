"""How much memory a process may take: the machine's, or what its control groups allow."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from winml_py.core.base.machine import read_total_memory

NO_LIMIT = str(0x7FFFFFFFFFFFF000)  # what version 1 says where there is none


def control_groups(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(own)
    return folder / "cgroup", folder / "own"


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"memory.max": "1000\n"}, 1000),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "500"}, 500),
        ("3:cpu:/x\n2:memory:/d", {"memory/d/memory.limit_in_bytes": "800"}, 800),
        ("2:memory:/docker/1", {"memory/memory.limit_in_bytes": "800"}, 800),  # in a container, the path is the host's
    ],
)
def test_what_control_groups_grant(tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    assert read_total_memory(*control_groups(tmp_path, own, files)) == expected


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/", {"memory.max": "max"}),
        ("2:memory:/", {"memory/memory.limit_in_bytes": NO_LIMIT}),
    ],
)
def test_without_a_limit_it_is_what_the_machine_has(tmp_path: Path, own: str, files: dict[str, str]) -> None:
    total = psutil.virtual_memory().total
    assert read_total_memory(*control_groups(tmp_path, own, files)) == total
    assert 0 < read_total_memory() <= total

"""Packages that are installed for a test."""

from __future__ import annotations

from pathlib import Path


def install_package(folder: Path, name: str, code: str | None) -> None:
    """Installs a package with this module, version 1.2; with None, a package that only requires others."""
    module = name.replace("-", "_")
    if code is not None:
        (folder / module).mkdir(parents=True)
        (folder / module / "__init__.py").write_text(code)
    information = folder / f"{module}-1.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    files = [f"{module}/__init__.py"] * (code is not None) + [f"{information.name}/METADATA"]
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files))

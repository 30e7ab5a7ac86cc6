"""Which picture files are read: the formats that the documentation names, and none that starts a program."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from helpers.paths import ROOT
from helpers.processes import write_program
from winml_py import ImageFeatureValue, PictureError, SoftwareBitmap

NAMES = {"WEBP": "WebP", "JPEG2000": "JPEG 2000"}


def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    return Image.fromarray(pixels)


def file_of(kind: str) -> bytes:
    file = io.BytesIO()
    picture().save(file, kind, **({"quality": 100} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}))
    return file.getvalue()


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that Pillow takes for Ghostscript; it leaves the file that is given here."""
    started = tmp_path / "started"
    name = "gs" if os.name == "posix" else "gswin64c"
    write_program(tmp_path, name, f"open({str(started)!r}, 'w').close(); raise SystemExit(1)")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    return started


def test_no_program_starts_for_an_eps_file(tmp_path: Path, ghostscript: Path) -> None:
    data = file_of("EPS")
    path = tmp_path / "innocent.png"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(PictureError, match="Supported formats: AVIF, BMP"):
            SoftwareBitmap.load(source)
        with pytest.raises(PictureError, match="no decoder recognises it"):
            ImageFeatureValue.load(source, fast_decode=True)
    with Image.open(path) as lazy, pytest.raises(PictureError, match="starts Ghostscript"):
        SoftwareBitmap.from_pil(lazy)
    assert not ghostscript.exists()
    with Image.open(path) as lazy, pytest.raises((OSError, subprocess.CalledProcessError)):
        lazy.load()  # Pillow does start it
    assert ghostscript.exists()


def list_formats() -> list[str]:
    """The formats that the docs name, by Pillow's names."""
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| files and bytes: "))
    named = line.split("|")[1].removeprefix(" files and bytes: ").strip().split(", ")
    return [next((kind for kind, told in NAMES.items() if told == name), name) for name in named]


@pytest.mark.parametrize("kind", list_formats())
def test_every_format_that_is_named_is_read(kind: str) -> None:
    made = SoftwareBitmap.load(file_of(kind))
    assert (made.pixel_width, made.pixel_height) == ((16, 11) if kind == "ICO" else (30, 20))


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_other_formats_that_pillow_reads_are_refused() -> None:
    Image.init()
    refused = 0
    for kind in sorted(set(Image.SAVE) & set(Image.OPEN) - set(list_formats())):
        try:
            data = file_of(kind)
        except (OSError, ValueError):  # a format without an encoder, or not for colours
            continue
        with pytest.raises(PictureError, match="is not a picture that can be decoded"):
            SoftwareBitmap.load(data)
        refused += 1
    assert refused >= 5

"""Runs the tests where the cache folder is in trouble; for root alone, and with a Python that all users can read.

    python tests/tools/under_trouble.py [pytest's arguments]

Three runs: as another user whose home and cache folder are root's; as a user without a home and without an entry among
the users; with a full disk for a cache folder. Each prints pytest's summary. Tests that are about what a cache keeps
(marked `kept`) have a folder of their own, all others meet the trouble.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
NO_ENTRY = 54321
ARGUMENTS = ("-q", "-n", "2", "-m", "not once and not exhaustive", "-p", "no:cacheprovider")
DROPPED = ("HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "WINML_PY_CACHE", "USER", "LOGNAME", "CI")


class Trouble(NamedTuple):
    """A user, and what of the environment differs."""

    name: str
    user: int
    environment: dict[str, str]


def main(arguments: Sequence[str] = ARGUMENTS) -> int:
    """Prints a summary a trouble; gives how many runs failed."""
    if not can_mount() or not can_be_run_by_others():
        sys.exit(
            "Only root can become another user and mount a disk; and all users have to be able to read this Python."
        )
    failed = 0
    with tempfile.TemporaryDirectory(prefix="under-trouble-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        place.chmod(0o755)
        with full_disk(place / "full") as full:
            for trouble in troubles(place, full):
                failed += run(trouble, place, arguments) != 0
    return failed


def troubles(place: Path, full: Path) -> list[Trouble]:
    foreign = place / "foreign"
    (foreign / ".cache" / "winml-py").mkdir(parents=True)
    return [
        Trouble("another user's folder", NOBODY, {"HOME": str(foreign)}),
        Trouble("no home, no entry", NO_ENTRY, {}),
        Trouble("a full disk", 0, {"HOME": str(place), "XDG_CACHE_HOME": str(full)}),
    ]


def can_mount() -> bool:
    """Whether this process may mount a file system."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with full_disk(Path(folder) / "disk"):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def can_be_run_by_others() -> bool:
    """Whether another user can start this Python."""
    with suppress(OSError):
        return subprocess.run([sys.executable, "-c", ""], user=NOBODY, check=False, cwd="/").returncode == 0
    return False


@contextmanager
def full_disk(folder: Path, options: str = "size=64k,nr_inodes=20") -> Iterator[Path]:
    """A small file system that takes no more bytes, no more files, or, with the option "ro", nothing at all."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        with suppress(OSError):
            (folder / "all").write_bytes(bytes(1 << 20))
        with suppress(OSError):
            for number in range(20 * ("nr_inodes" in options)):
                (folder / str(number)).touch()
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def run(trouble: Trouble, place: Path, arguments: Sequence[str]) -> int:
    """Runs the tests in a copy of the checkout that the user owns, and prints what pytest says at its end."""
    own = place / trouble.name.replace(" ", "-").replace(",", "").replace("'", "")
    copy_of_the_checkout(own / "checkout")
    (own / "tmp").mkdir()
    for path in [own, *own.rglob("*")]:
        os.chown(path, trouble.user, trouble.user, follow_symlinks=False)
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED}
    environment |= {"PYTHONPATH": str(own / "checkout"), "TMPDIR": str(own / "tmp"), "WINML_PY_TEST_TROUBLE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=own / "checkout",
        env=environment | trouble.environment,
        user=trouble.user,
        group=trouble.user,
        extra_groups=(),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    summary = f"{trouble.name}: {lines[-1] if lines else done.stderr}"
    sys.stdout.write("\n".join([summary, *told]) + "\n")
    sys.stdout.flush()
    shutil.rmtree(own, ignore_errors=True)
    return done.returncode


def copy_of_the_checkout(folder: Path) -> None:
    """The files that git has or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ARGUMENTS))

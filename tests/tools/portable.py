"""One file, one answer: contracts built into models against `bind`, in Python, in Node and in onnxruntime-web.

    python tests/tools/portable.py [--count 10000] [--lowest] [--packages FOLDER]

Needs Node and npm, which installs onnxruntime-node and onnxruntime-web into FOLDER once, without their scripts; without
them the program says so and ends with 0. --lowest adds ONNX Runtime 1.24.4 in a virtual environment there.

Random pictures go through some 40 contracts: their sides are distributed evenly by logarithm from 1 to 2,000, and 40 of
10,000 have 4 to 12 megapixels. For each contract a line says by how many levels the file differs from `bind` in Python,
and how many numbers of each other runtime differ from Python's. The exit code is 1 if a number differs from `bind` by
more than a level, a contract by more than 0.05 on average, or anything between runtimes. With these packages,
tests/authoring/test_portable.py also checks that JavaScript finds planted faults.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.built_in_contracts import LETTERBOX, NEAREST, SCALED, STRETCH, UNSCALED, Case, Compared, picture
from winml_py import ImageContract, ImageKernel, NotSupportedError

VERSIONS = {"onnxruntime-node": "1.30.0", "onnxruntime-web": "1.30.0"}
LOWEST = "1.24.4"
PACKAGES = Path(tempfile.gettempdir()) / "winml-py-portable"
MOST, MEAN = 1.1, 0.05
"""The levels by which a number, and a contract on average, may differ from `bind`; float16 rounds by 0.07 levels."""

LARGE = 0.004
"""The share of pictures of 4 to 12 megapixels; the sides of the others are at most 2,000."""

AREA = {
    f"area, {scaling}": Case(replace(ImageContract.yolo(), kernel=ImageKernel.AREA, scaling=scaling))
    for scaling in (LETTERBOX, STRETCH)
}
LEFT_OUT = ("crop ratio ", "torchvision's limit")
CASES = {name: case for name, case in (UNSCALED | NEAREST | SCALED | AREA).items() if not name.startswith(LEFT_OUT)}
WORKER = """
import json, sys
import numpy, onnxruntime
name = sys.argv[1]
def run(folder):
    session = onnxruntime.InferenceSession(f"{folder}/built.onnx")
    data, begin, shapes = numpy.fromfile(f"{folder}/pictures.raw", numpy.uint8), 0, []
    with open(f"{folder}/{name}.raw", "wb") as file:
        for shape in json.load(open(f"{folder}/pictures.json")):
            end = begin + numpy.prod(shape)
            (output,) = session.run(None, {session.get_inputs()[0].name: data[begin:end].reshape(shape)})
            begin = end
            shapes.append(output.shape)
            file.write(output.tobytes())
    json.dump(shapes, open(f"{folder}/{name}.json", "w"))
for line in sys.stdin:
    run(line.strip())
    print("done", flush=True)
"""
"""What portable.mjs does, in another Python, which has numpy and ONNX Runtime alone."""

Array = np.ndarray[Any, Any]


class Runtime:
    """What runs files elsewhere, in a process of its own: portable.mjs says how it is told."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path) -> None:
        self.name = name
        self._process = subprocess.Popen([*command, name], cwd=folder, stdin=PIPE, stdout=PIPE, text=True)

    def begin(self, folder: Path) -> None:
        """Has the model in a folder evaluated."""
        print(folder, file=self._process.stdin, flush=True)

    def finish(self) -> str:
        """Waits until it is done; what went wrong, or ""."""
        said = self._process.stdout.readline().strip()
        return "" if said == "done" else said or "ended"


def install_packages(packages: Path) -> None:
    """Installs the packages of npm, if the folder has not these versions."""
    packages.mkdir(parents=True, exist_ok=True)
    wanted = [f"{name}@{version}" for name, version in VERSIONS.items()]
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--prefer-offline", "--prefix", packages, *wanted]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def start_lowest(packages: Path) -> Runtime:
    """The lowest ONNX Runtime, in a virtual environment that is made if there is none."""
    python = packages / "lowest" / "bin" / "python"
    if not python.exists():
        import venv  # Windows' embeddable Python lacks it

        venv.create(packages / "lowest", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy", f"onnxruntime=={LOWEST}"], check=True)
    return Runtime(f"Python, {LOWEST}", [python, "-c", WORKER], packages)


def sizes(random: np.random.Generator, count: int, large: int) -> Array:
    """Heights and widths, the large ones last."""
    small = random.uniform(0, np.log(2001), (count - large, 2))
    return np.exp([*small, *random.uniform(np.log(2001), np.log(3464), (large, 2))]).astype(int)


def compare(case: Case, wanted: Array, runtimes: list[Runtime], folder: Path) -> tuple[str, bool]:
    """What is said of a contract, and whether it keeps to the bars."""
    try:
        compared = Compared(case, folder)
    except NotSupportedError as error:
        return f"refused: {error}", False
    pictures = [picture(height, width, case.pictures) for height, width in wanted.tolist()]
    (folder / "pictures.json").write_text(json.dumps([pixels.shape for pixels in pictures]))
    with open(folder / "pictures.raw", "wb") as file:
        file.writelines(pictures)
    for runtime in runtimes:
        runtime.begin(folder)
    ours, most, means, channels = [], [], [], case.contract.axes()[0]
    level = np.array([abs(factor) for factor, _ in case.contract.affine()]).reshape(1, 1, 1, -1)
    for pixels in pictures:
        built, bound = compared.tensors(pixels)
        levels = np.abs(built.astype(np.float64) - bound) / np.moveaxis(level, 3, channels)
        ours.append(built)
        most.append(levels.max())
        means.append(levels.mean())
    said, is_good = f"{max(most):8.3f} {np.mean(means):8.4f}", max(most) <= MOST and np.mean(means) <= MEAN
    for runtime in runtimes:
        problem = runtime.finish()
        differing = -1 if problem else count_differing(ours, folder, runtime.name)
        said, is_good = f"{said} {problem or format(differing, ','):>16}", is_good and differing == 0
    return said, is_good


def count_differing(ours: list[Array], folder: Path, name: str) -> int:
    """How many numbers of a runtime are not ours."""
    assert json.loads((folder / f"{name}.json").read_text()) == [list(array.shape) for array in ours]
    differing, begin = 0, 0
    theirs = np.memmap(folder / f"{name}.raw", ours[0].dtype, "r")
    for array in ours:
        differing += int((theirs[begin : begin + array.size] != array.reshape(-1)).sum())
        begin += array.size
    return differing


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares built-in contracts with bind, in several runtimes.")
    parser.add_argument("--count", type=int, default=10_000, help="how many pictures in all")
    parser.add_argument("--lowest", action="store_true", help=f"ONNX Runtime {LOWEST} in Python too")
    parser.add_argument("--packages", type=Path, default=PACKAGES, help="where the packages of npm are")
    given = parser.parse_args()
    if not (shutil.which("node") and shutil.which("npm")):
        print("There is no node or npm: skipped.")
        return
    packages = given.packages.resolve()
    install_packages(packages)
    runtimes = [Runtime(name, ["node", Path(__file__).with_suffix(".mjs")], packages) for name in VERSIONS]
    runtimes += [start_lowest(packages)] if given.lowest else []
    random, results, large = np.random.default_rng(0), [], round(given.count * LARGE)
    names = " ".join(f"{runtime.name:>16}" for runtime in runtimes)
    print(*(f"{name} {version}" for name, version in VERSIONS.items()), sep=", ")
    print(f"{'contract':<32} {'largest':>8} {'mean':>8} {names}")
    for number, (name, case) in enumerate(CASES.items()):
        share = [total // len(CASES) + (number < total % len(CASES)) for total in (given.count, large)]
        with tempfile.TemporaryDirectory() as folder:
            said, is_good = compare(case, sizes(random, *share), runtimes, Path(folder))
        results.append(is_good)
        print(f"{name:<32} {said}{'' if is_good else '  above the bars'}", flush=True)
    print(f"{given.count:,} pictures, {len(CASES)} contracts: {results.count(False)} of {len(results)} are not right")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()

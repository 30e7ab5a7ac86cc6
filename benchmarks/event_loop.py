"""How late an event loop ticks while it evaluates large JPEG files with `evaluate_features_async`.

    python benchmarks/event_loop.py [--json FILE]

A task sleeps for 5 ms again and again, while 100 JPEG files of 12 megapixels go through a squeezenet, all operations
started at once. The classes are compared with those of `evaluate_features` first. The bar: no tick is more than 20 ms
late, on a machine that does nothing else. The same is measured while the loop is idle, which shows what the machine
itself adds, and while the loop loads each picture itself. On Linux, "without waits for a core" leaves out how long the
loop's thread could have run, and had no core.
"""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import cv2
import onnx
from _measure import arguments, at_most, report
from _models import light
from end_to_end import CONTRACT, photograph

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession
from winml_py import LearningModelSessionOptions as Options
from winml_py.authoring import write_contract
from winml_py.core.imaging.bitmap import SoftwareBitmap

TICK = 0.005
SIZE = 4000, 3000


def waited_for_a_core() -> float:
    """Seconds for which the main thread could have run, and had no core."""
    statistic = Path("/proc/self/schedstat")
    return int(statistic.read_text().split()[1]) / 1e9 if statistic.exists() else 0.0


async def ticks(late: list[tuple[float, float]]) -> None:
    """Notes by how much each sleep was too long, and how much of that was a wait for a core."""
    while True:
        waited, started = waited_for_a_core(), time.perf_counter()
        await asyncio.sleep(TICK)
        late.append((time.perf_counter() - started - TICK, waited_for_a_core() - waited))


async def watched(work: Callable[[], Awaitable[Any]]) -> tuple[Any, list[tuple[float, float]], float]:
    """What the work gives, by how much ticks were late meanwhile, and its seconds."""
    late: list[tuple[float, float]] = []
    ticking, started = asyncio.ensure_future(ticks(late)), time.perf_counter()
    await asyncio.sleep(0)
    result = await work()
    seconds = time.perf_counter() - started
    ticking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await ticking
    return result, late, seconds


def classes(results: list[Any], output: str) -> list[int]:
    return [int(result.outputs[output].to_numpy().argmax()) for result in results]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain, path, jpeg = (os.path.join(folder, name) for name in ("plain.onnx", "model.onnx", "large.jpg"))
        onnx.save(light("squeezenet"), plain)
        write_contract(plain, path, CONTRACT)
        pixels = SoftwareBitmap.load(photograph()).to_numpy()
        cv2.imwrite(jpeg, cv2.resize(pixels, SIZE))
        files = [Path(folder, f"{number}.jpg") for number in range(options.files)]
        for file in files:
            file.write_bytes(Path(jpeg).read_bytes())
        rows = asyncio.run(measured(path, files))
    report({"event_loop": rows}, options.json, [at_most("latest ms", rows[1]["latest ms"], 20)])


async def measured(path: str, files: list[Path]) -> list[dict[str, Any]]:
    options = Options()
    options.intra_op_num_threads = 1
    session = LearningModelSession(LearningModel.load(path), None, options)
    name, output = session.model.input_features[0].name, session.model.output_features[0].name
    expected = classes([session.evaluate_features({name: ImageFeatureValue.load(files[0])})], output) * len(files)

    async def paths() -> list[Any]:
        return await asyncio.gather(*(session.evaluate_features_async({name: file}) for file in files))

    async def loaded() -> list[Any]:
        results = []
        for file in files[:10]:
            results.append(await session.evaluate_features_async({name: ImageFeatureValue.load(file)}))
        return results

    rows = []
    for way, work in {
        "idle": lambda: asyncio.sleep(2, []),
        "`evaluate_features_async`, paths": paths,
        "loaded by the loop": loaded,
    }.items():
        results, noted, seconds = await watched(work)
        assert classes(results, output) == expected[: len(results)]
        late = sorted(lateness for lateness, _ in noted)
        rows.append(
            {
                "way": way,
                "pictures a second": len(results) / seconds,
                "median late ms": statistics.median(late) * 1e3,
                "99 % late ms": late[int(len(late) * 0.99)] * 1e3,
                "latest ms": late[-1] * 1e3,
                "latest without waits for a core": max(lateness - waited for lateness, waited in noted) * 1e3,
            }
        )
    return rows


if __name__ == "__main__":
    main()

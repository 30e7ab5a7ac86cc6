"""`winml-py map --on ray`, with the real Ray: nothing lost, nothing twice, order kept; also when a worker is killed.

Ray is no part of the extra [test]:

    pip install -e '.[test,ray]' && pytest tests/scale/test_ray.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from helpers.maps import answer, linear, pictures, require_right

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed; winml-py[ray] brings it"),
]

COUNT, BROKEN = 2000, set(range(50, 2000, 100))  # 20 of them
CORES = 3
PROGRAM = "from winml_py.cli.main import main; main()"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("source")
    return linear(folder / "linear.onnx"), pictures(folder / "in", COUNT, BROKEN)


@pytest.fixture(scope="module", autouse=True)
def _files_are_read() -> None:
    """Ray gives its agents 15 seconds to start, which a busy machine may need to read their files alone."""
    subprocess.run([sys.executable, "-c", "import ray.data, ray.dashboard.agent"], timeout=240, check=False)


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A program that uses Ray. Whatever it has started is gone in the end."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:  # names of sockets are short
        variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        variables |= {"RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "120"}
        variables["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU": CORES})
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
        family: list[psutil.Process] = []
        try:
            yield process
            family = children(process) if process.poll() is None else []
        finally:
            process.kill()
            process.communicate(timeout=60)
            for one in family:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


def job(source: tuple[Path, Path], output: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, "map", *map(str, source), "--output", str(output)]
    return running([*command, "--on", "ray", "--part", "100", "--json"])


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes in which parts are done."""
    found = []
    for child in children(process):
        with suppress(psutil.NoSuchProcess):
            if "MapWorker" in " ".join(child.cmdline()):
                found.append(child)
    return found


def wait(process: subprocess.Popen[str], what: Any, seconds: float = 240) -> Any:
    """Waits until something is there."""
    started = time.monotonic()
    while time.monotonic() < started + seconds and process.poll() is None:
        found = what()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(process.communicate(timeout=60))


def finished(process: subprocess.Popen[str]) -> Any:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out)


def require_done(facts: Any, source: tuple[Path, Path], output: Path) -> None:
    from pyarrow import parquet

    assert (facts["rows"], facts["succeeded"], facts["failed"]) == (COUNT, COUNT - 20, 20)
    require_right(parquet.read_table(output), source[1], COUNT, BROKEN)
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_all_rows_are_right_and_nothing_is_reached_from_elsewhere(source: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    with job(source, output) as process:
        wait(process, lambda: len(workers(process)) == CORES - 1)  # one core is left to Ray
        environments = [worker.environ() for worker in workers(process)]
        assert {variables["RAY_USAGE_STATS_ENABLED"] for variables in environments} == {"0"}
        listening = set()
        for one in [psutil.Process(process.pid), *children(process)]:
            with suppress(psutil.NoSuchProcess):
                found = [c for c in one.net_connections("inet") if c.status == psutil.CONN_LISTEN]
                listening |= {c.laddr.ip.removeprefix("::ffff:") for c in found}
        assert listening <= {"127.0.0.1", "::1"}, listening
        require_done(finished(process), source, output)


def some_parts(folder: Path) -> bool:
    return len(list(folder.glob("out.parquet.parts/part-*"))) >= 3


def test_a_worker_that_is_killed_is_replaced(source: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    with job(source, output) as process:
        wait(process, lambda: some_parts(tmp_path))
        killed = workers(process)[0]
        killed.kill()
        assert len(list(tmp_path.glob("out.parquet.parts/part-*"))) < 20
        facts = finished(process)
    assert facts["resumed"] == 0
    require_done(facts, source, output)


def test_interrupted_it_goes_on_where_it_was(source: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    with job(source, output) as process:
        wait(process, lambda: some_parts(tmp_path))
    parts = list(tmp_path.glob("out.parquet.parts/part-*"))
    assert len(parts) < 20
    with job(source, output) as process:
        facts = finished(process)
    assert facts["resumed"] == 100 * len(parts)
    require_done(facts, source, output)


BATCHES = """
import json, os, sys
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
import ray, ray.data
from winml_py.scale import Evaluator
model, folder = sys.argv[1:]
ray.init(include_dashboard=False, log_to_driver=False)
data = ray.data.from_items([{"id": number, "path": folder + f"/{number}.png"} for number in range(400)])
answers = {}
for batch_format in ("numpy", "pandas", "pyarrow"):
    answered = data.map_batches(
        Evaluator,
        fn_constructor_args=(model,),
        fn_constructor_kwargs={"columns": {"image": "path"}},
        batch_size=64,
        batch_format=batch_format,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=1,
    )
    rows = sorted(answered.take_all(), key=lambda row: row["id"])
    answers[batch_format] = [None if row["error"] else list(map(float, row["scores"])) for row in rows]
print(json.dumps(answers))
"""


def test_the_class_in_map_batches(source: tuple[Path, Path]) -> None:
    with running([sys.executable, "-c", BATCHES, *map(str, source)]) as process:
        formats = finished(process)
    assert list(formats) == ["numpy", "pandas", "pyarrow"]
    for answers in formats.values():
        assert {number for number, found in enumerate(answers) if found is None} == set(
            filter(lambda n: n < 400, BROKEN)
        )
        for number in set(range(400)) - BROKEN:
            np.testing.assert_allclose(answers[number], answer(number), rtol=1e-5)

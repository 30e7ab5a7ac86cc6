"""`Evaluator` in the real Ray Data, Dask and Spark: the rows of pictures, some broken, in order.

None is part of the extra [test], and Spark needs a Java:

    pip install 'ray[data]' 'dask[dataframe]' distributed pyspark && pytest tests/distributed/test_ray_dask_and_spark.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.models import data, tensor

pytestmark = pytest.mark.once

COUNT, BROKEN = 200, {3, 77, 199}
SIDE, CLASSES = 28, 10
WEIGHTS = np.random.default_rng(0).random((3 * SIDE * SIDE, CLASSES), np.float32)


def linear(path: Path) -> Path:
    """A model that takes pictures, red first, from 0 to 1, and gives ten sums of their weighted pixels."""
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    metadata = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "Normalized_0_1"}
    image = tensor("image", [1, 3, SIDE, SIDE], denotation="IMAGE")
    scores = tensor("scores", [1, CLASSES])
    path.write_bytes(data(nodes, [image], [scores], {"weights": WEIGHTS}, metadata=metadata))
    return path


def pixels(number: int) -> np.ndarray[Any, Any]:
    """Noise, always the same for a number."""
    return np.random.default_rng(number).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


def pictures(folder: Path, count: int, broken: set[int]) -> Path:
    """Pictures of noise; the broken ones are text."""
    folder.mkdir()
    for number in range(count):
        path = folder / f"{number}.png"
        if number in broken:
            path.write_text("no picture")
        else:
            Image.fromarray(pixels(number)).save(path)
    return folder


def answer(number: int) -> np.ndarray[Any, Any]:
    """What numpy makes of a picture."""
    return pixels(number).transpose(2, 0, 1).reshape(-1).astype(np.float32) / 255 @ WEIGHTS


def is_installed(*packages: str) -> bool:
    """Whether all of them are installed. `find_spec` would take this folder for Dask's package `distributed`."""
    return set(packages) <= {distribution.name for distribution in distributions()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("source")
    return linear(folder / "linear.onnx"), pictures(folder / "in", COUNT, BROKEN)


def run(program: str, source: tuple[Path, Path], folder: Path, **variables: str) -> Any:
    """What a program prints in its last line; it is given a model and a folder of pictures."""
    path = folder / "program.py"  # a file, because Dask's workers import it
    path.write_text(program)
    command = [sys.executable, str(path), *map(str, source)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def require_right(rows: Any) -> None:
    assert [row["id"] for row in rows] == list(range(COUNT))
    assert {row["id"] for row in rows if row["error"] is not None} == BROKEN
    for row in rows:
        if row["id"] in BROKEN:
            assert row["error"].startswith("PictureError: ")
        else:
            np.testing.assert_allclose(row["scores"], answer(row["id"]), rtol=1e-5)


RAY = """
import json, sys
import ray, ray.data
from winml_py.distributed import Evaluator

model, folder = sys.argv[1:]
ray.init(include_dashboard=False, log_to_driver=False, num_cpus=3)
data = ray.data.from_items([{"id": number, "path": f"{folder}/{number}.png"} for number in range(200)])
answered = data.map_batches(
    Evaluator,
    fn_constructor_args=(model,),
    fn_constructor_kwargs={"columns": {"image": "path"}},
    batch_size=64,
    batch_format="numpy",
    compute=ray.data.ActorPoolStrategy(size=2),
    num_cpus=1,
)
print(json.dumps(sorted(answered.take_all(), key=lambda row: row["id"]), default=lambda array: array.tolist()))
"""


@pytest.mark.skipif(not is_installed("ray", "pyarrow"), reason="Ray is not installed")
def test_map_batches(source: tuple[Path, Path], tmp_path: Path) -> None:
    require_right(run(RAY, source, tmp_path, RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled"))


DASK = """
import json, sys
import dask.dataframe, dask.distributed, pandas
from winml_py.distributed import Evaluator

def sessions():
    from winml_py.distributed.evaluator import SESSIONS
    return len(SESSIONS._sessions)

if __name__ == "__main__":
    model, folder = sys.argv[1:]
    evaluate = Evaluator(model, columns={"image": "path"})
    frame = pandas.DataFrame({"id": range(200), "path": [f"{folder}/{number}.png" for number in range(200)]})
    with (
        dask.distributed.LocalCluster(2, 2, host="127.0.0.1", dashboard_address=None) as cluster,
        dask.distributed.Client(cluster) as client,
    ):
        rows = dask.dataframe.from_pandas(frame, npartitions=16)
        answered = rows.map_partitions(evaluate, meta=evaluate(frame.head(0))).compute()
        made = client.run(sessions)
    answered = answered[["id", "scores", "error"]]
    rows = [{"id": row.id, "scores": None if row.error else list(map(float, row.scores)), "error": row.error}
            for row in answered.itertuples()]
    print(json.dumps({"rows": rows, "sessions": sorted(made.values()), "types": answered.dtypes.astype(str).to_dict()}))
"""


@pytest.mark.skipif(not is_installed("dask", "distributed", "pandas", "pyarrow"), reason="Dask is not installed")
def test_map_partitions(source: tuple[Path, Path], tmp_path: Path) -> None:
    found = run(DASK, source, tmp_path)
    require_right(found["rows"])
    assert found["sessions"] == [1, 1]  # one for each process, whatever its threads and tasks
    assert found["types"] == {"id": "int64", "scores": "object", "error": "object"}


SPARK = """
import json, sys
from pyspark.sql import SparkSession
from winml_py.distributed import Evaluator

model, folder = sys.argv[1:]
evaluate = Evaluator(model, columns={"image": "path"})
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = session.createDataFrame([(number, f"{folder}/{number}.png") for number in range(200)], "id bigint, path string")
answered = rows.repartition(4).mapInPandas(
    lambda frames: (evaluate(frame)[["id", "scores", "error"]] for frame in frames),
    "id bigint, scores array<float>, error string",
)
print(json.dumps([row.asDict() for row in answered.sort("id").collect()]))
session.stop()
"""


@pytest.mark.skipif(
    not is_installed("pyspark", "pandas", "pyarrow") or not shutil.which("java"),
    reason="Spark or Java is not installed",
)
def test_map_in_pandas(source: tuple[Path, Path], tmp_path: Path) -> None:
    require_right(run(SPARK, source, tmp_path, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable))

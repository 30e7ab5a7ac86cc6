"""A job on Ray: Ray Data hands the parts to workers, restarts workers that end, and repeats their parts."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..errors import EvaluationError, MissingPackageError
from .arrow import import_arrow
from .evaluator import Evaluator
from .job import Done, Executor, Job, Parts, Progress, Todo

USAGE = "RAY_USAGE_STATS_ENABLED"
"""The variable without which Ray reports usage statistics."""

ADDRESS, NETWORK = "RAY_ADDRESS", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""The cluster to connect to; and whether a Ray started here listens on the network, on any system."""


class PartWorker:
    """Does parts, in a process that Ray starts. All machines share the folder of the parts."""

    def __init__(self, evaluator: Evaluator, parts: Parts) -> None:
        self._evaluator, self._parts = evaluator, parts

    def __call__(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Does a part. Repeated, it writes the same file."""
        table = import_arrow().ipc.open_stream(part["table"]).read_all()
        return self._parts.write(part["number"], part["first"], self._evaluator(table))._asdict()


def on_ray(workers: int | None) -> Executor:
    """Does the parts on a Ray cluster, or on one started here for this job.

    Args:
        workers: processes of one core each; by default all cores of the cluster but one, which Ray itself needs.
    """
    return partial(_run_parts_on_ray, workers=workers)


def _run_parts_on_ray(job: Job, todo: Todo, _: Progress, workers: int | None) -> Iterator[Done]:
    ray = import_ray()
    parts = [{"number": number, "first": first, "table": _serialize(table)} for number, first, table in todo]
    if not parts:  # no cluster is needed
        return
    with _connected(ray):
        data = ray.data.from_items(parts, override_num_blocks=len(parts)).map(
            PartWorker,
            fn_constructor_args=(job.evaluator, job.parts),
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers or _cores(ray), len(parts))),
        )
        try:
            for done in data.iter_rows():
                yield Done(**done)
        except ray.exceptions.RayError as error:
            raise EvaluationError(
                f"Ray could not do the job: {error}", hint="Repeat the command to do the remaining parts."
            ) from error


def import_ray() -> Any:
    """The package ray, with Ray Data; MissingPackageError if it is not installed."""
    os.environ.setdefault(USAGE, "0")
    if ADDRESS not in os.environ:
        os.environ.setdefault(NETWORK, "0")  # Ray reads it during import
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingPackageError(
            "The package ray, with Ray Data, is not installed.", hint="pip install 'winml-py[ray]'"
        ) from error
    return ray


@contextmanager
def _connected(ray: Any) -> Iterator[None]:
    """Connects to the cluster in `RAY_ADDRESS`, or starts one on this machine that nothing else can reach."""
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # the command shows its own bar and summary
    try:
        yield
    finally:
        if is_ours:
            ray.shutdown()


def _connect(ray: Any) -> None:
    local = {} if ADDRESS in os.environ else {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
    except Exception as error:  # Ray raises various classes if it does not start
        raise EvaluationError(
            f"Ray could not be started or reached: {error}", hint="Check RAY_ADDRESS, and the log in /tmp/ray."
        ) from error


def _cores(ray: Any) -> int:
    """The cores for workers. Ray Data needs one to hand out the parts, and would wait for it forever."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)


def _serialize(table: Any) -> bytes:
    arrow = import_arrow()
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())

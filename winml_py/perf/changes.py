"""What is tried on a device, one change of the session options after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..core.base.machine import usable_cores
from ..core.base.messages import Facts
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.providers import plugins
from ..core.runtime.providers.catalogue import provider_of
from ..core.runtime.providers.provider import Provider

BATCHES = (4, 16)

_RUNTIMES_OWN = ("tuning", "intra_op_thread_spinning")
"""Options that an engine with a package of its own does not have."""


class Change(NamedTuple):
    """A change of the session options, as a file has them, and of how many items are given to one evaluation."""

    words: str
    values: Facts
    batch: int = 1

    def has_effect_on(self, engine: str) -> bool:
        """Whether the engine has the options that are changed."""
        return not (provider_of(engine).package and any(key in self.values for key in _RUNTIMES_OWN))


def changes_for(device: LearningModelDevice, tries_batches: bool) -> Iterator[Change]:
    """What is worth trying on a device.

    Left out is what makes no difference there: threads on a GPU, where one of them submits the work.
    """
    yield from _on_cpu() if device.hardware == "cpu" else _on_gpu(provider_of(device.provider))
    if tries_batches:
        yield from (Change(f"batches of {size}", {}, size) for size in BATCHES)


def _on_cpu() -> Iterator[Change]:
    devices = plugins.devices("cpu")
    for engine in dict.fromkeys(device.engine for device in devices):
        yield Change(f"engine {engine}", {"engine": engine})
    if any(device.float16 for device in devices):
        yield Change("half precision", {"precision": "half"})
    cores = usable_cores()
    for threads in sorted({1, max(1, cores // 2), cores}):
        yield Change(f"{threads} intra-op thread{'s' * (threads > 1)}", {"intra_op_num_threads": threads})
    yield Change("no spinning", {"intra_op_thread_spinning": False})
    tunings = {
        "parallel execution": {"execution_mode": "parallel", "inter_op_num_threads": min(cores, 4)},
        "graph optimisation layout": {"graph_optimization": "layout"},
        "graph optimisation extended": {"graph_optimization": "extended"},
        "graph optimisation basic": {"graph_optimization": "basic"},
        "no prepacked weights": {"prepacking": False},
        "no memory arena": {"memory_arena": False},
        "arena shrinkage": {"memory_arena": True, "arena_shrinkage": True},
        "no memory pattern": {"memory_pattern": False},
    }
    yield from (Change(words, {"tuning": tuning}) for words, tuning in tunings.items())


def _on_gpu(provider: Provider) -> Iterator[Change]:
    for key, value in provider.worth_trying:
        yield Change(f"{key} {value}", {"provider_options": {key: value}})
    if provider.recording_option:
        # Where it records unasked, to demand it changes nothing; where it does not, neither does forbidding it.
        is_recorded = not provider.records_unasked
        yield Change("recorded work" if is_recorded else "no recorded work", {"graph_capture": is_recorded})
    if not provider.package:
        yield Change("graph optimisation basic", {"tuning": {"graph_optimization": "basic"}})

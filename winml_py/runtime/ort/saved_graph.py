"""A large model as ONNX Runtime wants it, on disk: optimised once, then mapped by every session of every process."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ...base.atomic_files import written_whole
from ...cache import answers as memory
from ...cache import folders as artefacts
from ...errors import CanceledError, WinMLError
from ...onnx_file.source import MAPPED_FROM
from ..providers.machine import processor, runtime_version
from ..request import Task
from . import heap
from .engine import GRAPH, OrtEngine, Saving, compile_model, flushes_denormals
from .prepacked import readable

_log = logging.getLogger("winml_py")


def compile_shared(task: Task) -> OrtEngine:
    """Compiles for ONNX Runtime's own provider, over an artefact where the model's weights are large enough for one.

    An artefact that is damaged, or cannot be written, costs its gain and nothing else.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    place = artefacts.place(_key(task), task.weights) if _is_wanted(task) else None
    if place is None:
        engine = _plain(task)
        if task.size >= MAPPED_FROM:
            heap.trim()
        return engine
    opened = _opened(task, place)
    if opened is not None:
        return opened
    with memory.asking(place.name, task.require_not_stopped) as is_alone:
        return _opened(task, place) or (_made(task, place) if is_alone else _plain(task))


def _is_wanted(task: Task) -> bool:
    """Whether the weights are worth it. Where denormals count as 0 they do so while constants are folded, too, in the
    whole process and for good: what comes of it is nobody else's.
    """
    return task.weights >= MAPPED_FROM and not flushes_denormals(task.options)


def _plain(task: Task) -> OrtEngine:
    return compile_model(task.model, task.options, stop=task.stop)


def _key(task: Task) -> str:
    """All that the optimised graph depends on; how many threads there are, say, is not among it."""
    options = task.options
    graph = [options.batch_size, options.dimensions, options.tuning.graph_optimization, options.tuning.prepacking]
    return memory.key_of("artefact", task.digest(), graph, runtime_version(), processor())


def _opened(task: Task, place: Path) -> OrtEngine | None:
    if not artefacts.is_whole(place):
        return None
    try:
        engine = compile_model(str(place / GRAPH), task.options, stop=task.stop, is_optimized=True)
        heap.trim()  # the runtime frees as much as one of the weights while it opens them
        return engine
    except CanceledError:
        raise
    except WinMLError as error:
        _log.warning("the artefact %s is of no use and is made again: %s", place, error)
        return None


def _save(task: Task, folder: str) -> None:
    options = task.options._replace(is_profiled=False)
    # The session goes before the next one maps from disk what this one rearranged in memory of its own.
    compile_model(task.model, options, stop=task.stop, saving=Saving(folder)).close()
    with open(os.path.join(folder, GRAPH), "rb") as file:
        graph = readable(file.read())
    if graph is None:
        compile_model(task.model, options, stop=task.stop, saving=Saving(folder, prepacked=False)).close()
    else:
        with written_whole(os.path.join(folder, GRAPH)) as file:
            file.write(graph)


def _made(task: Task, place: Path) -> OrtEngine:
    try:
        with artefacts.written(place, str(task.stamp[0])) as folder:
            _save(task, folder)
        engine = _opened(task, place)
    except CanceledError:
        raise
    except (OSError, WinMLError) as error:  # a full disk, say; where it is the model's fault it is said again below
        _log.info("no artefact %s: %s", place, error)
        engine = None
    return engine or _plain(task)

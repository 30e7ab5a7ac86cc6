"""Compiling where a provider keeps what it compiled: it is given a folder of the cache, one for each model.

A provider with such an option names its files as it likes, and may not look whether they still fit. So no two models,
versions or settings share a folder; what is in it was written by this user, and is as the provider wrote it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....enums import Weights
from ....errors import CanceledError, WinMLError
from ...base.messages import logger
from ...cache import answers, folders
from ..engine import EngineOptions
from ..ort.compile import compile_model, require_options
from ..ort.device_memory import Recording
from ..ort.engine import OrtEngine
from ..providers import plugins
from ..providers.catalogue import native_options, provider_of
from ..providers.provider import Target
from ..request import CompileRequest


def compile_kept(request: CompileRequest, target: Target, recording: Recording = Recording.NONE) -> OrtEngine:
    """Compiles a model for a device, or has its provider open what it compiled before.

    Where the folder is damaged, or cannot be written, the session is made without what is in it.

    Raises:
        WinMLError: the provider does not take the model.
    """
    folder = _folder_of(request, target, recording)
    if folder is None:
        return compile_model(request, target, recording)
    require_options(request.options, target)  # what is wrong with them is not wrong with the folder
    engine = _reopened(request, target, recording, folder)
    if engine is not None:
        return engine
    with answers.asking(folder.name, request.require_not_stopped) as is_alone:
        engine = _reopened(request, target, recording, folder) if is_alone else None
        if engine is not None:
            return engine
        engine = _compile_and_keep(request, target, recording, folder) if is_alone else None
    return engine or compile_model(request, target, recording)


def _folder_of(request: CompileRequest, target: Target, recording: Recording) -> Path | None:
    """The folder for the model; None where nothing is to be kept of it, or where the program says itself what is."""
    options = request.options
    can_keep = provider_of(target.provider).cache_options is not None
    if not can_keep or not request.origin.path or options.weights is not Weights.SHARED or _says_itself(options):
        return None
    return folders.folder_for(_cache_key(request, target, recording), request.origin.total_size)


def _says_itself(options: EngineOptions) -> bool:
    """Whether an option of the program's own is about what is kept: a cache, or a model file of what was compiled."""
    given = (*options.provider_options, *options.session_config)
    return any(word in key.lower() for key, _ in given for word in ("cache", "ep_context", "ep.context"))


def _cache_key(request: CompileRequest, target: Target, recording: Recording) -> str:
    """All that the compiled model depends on; a provider looks at the hardware and its driver itself."""
    options, device = request.options, target.device
    sizes = {name: list(shape) for name, shape in request.features.sizes.items()}
    graph = [options.batch_size, options.dimensions, options.tuning, options.session_config]
    native = native_options(target, options, recording is not Recording.NONE)
    where = (device.provider, device.name, device.library, plugins.version(device.package)) if device else ()
    return answers.key_of("provider", request.digest(), sizes, graph, native, where, plugins.runtime_version())


def _reopened(request: CompileRequest, target: Target, recording: Recording, folder: Path) -> OrtEngine | None:
    """The engine, from what is in the folder; None where there is nothing, or the provider refuses it."""
    if not folders.is_intact(folder, may_change=True):
        return None
    try:
        return _compile_in(request, target, recording, folder)
    except CanceledError:
        raise
    except WinMLError as error:
        logger.warning("what %s kept in %s cannot be used and is made again: %s", target.provider, folder, error)
        folders.discard(folder)
        return None


def _compile_and_keep(request: CompileRequest, target: Target, recording: Recording, folder: Path) -> OrtEngine | None:
    """The engine, and what its provider keeps of it; None where it cannot be made so."""
    try:
        folders.start(folder, request.origin.path)
    except OSError as error:
        logger.info("nothing is kept in %s: %s", folder, error)
        return None
    try:
        return _compile_in(request, target, recording, folder)
    except CanceledError:
        folders.discard(folder)
        raise
    except WinMLError as error:  # an error of the model is raised again, by the compilation without the folder
        logger.info("nothing is kept in %s: %s", folder, error)
        folders.discard(folder)
        return None


def _compile_in(request: CompileRequest, target: Target, recording: Recording, folder: Path) -> OrtEngine:
    cache_options = provider_of(target.provider).cache_options
    assert cache_options is not None
    options = request.options
    given = tuple({**cache_options(str(folder)), **dict(options.provider_options)}.items())
    engine = compile_model(replace(request, options=options._replace(provider_options=given)), target, recording)
    engine.options = options
    try:
        folders.seal(folder)
    except OSError as error:
        logger.info("what is in %s is not used again: %s", folder, error)
    return engine

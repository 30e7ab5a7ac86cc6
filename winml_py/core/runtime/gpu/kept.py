"""Compiling where a provider keeps what it compiled: it is given a folder of the cache, one for each model.

A provider with such an option names its files as it likes, and may not look whether they still fit. So no two models,
versions or settings share a folder; what is in it was written by this user, and is as the provider wrote it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....enums import Weights
from ...cache import answers, folders
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
    options, cache_options = request.options, provider_of(target.provider).cache_options
    # The program may say itself what is kept: by a cache, or by a model file of what was compiled.
    words = ("cache", "ep_context", "ep.context")
    given = (*options.provider_options, *options.session_config)
    is_own = any(word in key.lower() for key, _ in given for word in words)
    if cache_options is None or is_own or not request.origin.path or options.weights is not Weights.SHARED:
        return compile_model(request, target, recording)
    folder = folders.folder_for(_cache_key(request, target, recording), request.origin.total_size)
    if folder is None:
        return compile_model(request, target, recording)
    require_options(options, target)  # what is wrong with them is not wrong with the folder

    def compile_in(folder: Path) -> OrtEngine:
        all_options = tuple({**cache_options(str(folder)), **dict(options.provider_options)}.items())
        changed = replace(request, options=options._replace(provider_options=all_options))
        engine = compile_model(changed, target, recording)
        engine.options = options
        return engine

    kept = folders.opened_or_made(
        folder, request.origin.path, compile_in, compile_in, request.require_not_stopped, may_change=True
    )
    return kept or compile_model(request, target, recording)


def _cache_key(request: CompileRequest, target: Target, recording: Recording) -> str:
    """All that the compiled model depends on; a provider looks at the hardware and its driver itself."""
    options, device = request.options, target.device
    sizes = {name: list(shape) for name, shape in request.features.sizes.items()}
    graph = [options.batch_size, options.dimensions, options.tuning, options.session_config]
    native = native_options(target, options, recording is not Recording.NONE)
    where = (device.provider, device.name, device.library, plugins.version(device.package)) if device else ()
    return answers.key_of("provider", request.digest(), sizes, graph, native, where, plugins.runtime_version())

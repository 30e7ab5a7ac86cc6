"""Windows ML's catalogue of providers, in the package `windowsml`, read in a separate process.

    python -m winml_py.core.runtime.providers.windows_catalogue NAME    # downloads a provider, and makes it ready

The catalogue lists the providers that Windows has for the machine's hardware, and the libraries of the installed ones.
Each is then tried like a plugin, by the path of its library. Without NAME, nothing is downloaded.

Written for windowsml 2.5, and tested only with a substitute for it. Releasing the catalogue crashes the interpreter on
some machines, even at exit (microsoft/winml-cli#701, #1233). So only this process uses it, and ends without a release.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ...base.messages import Facts

PACKAGE = "windowsml"
_MODULE = "winml_py.core.runtime.providers.windows_catalogue"  # `__name__` is "__main__" where this runs as a program


class Listed(NamedTuple):
    """A provider of the catalogue: its name in ONNX Runtime, its version, its library, and why that is missing."""

    name: str
    version: str
    library: str = ""
    problem: str = ""


@cache
def _catalogue() -> Any:
    """The catalogue, which is kept until the process ends."""
    return import_module(PACKAGE).EpCatalog()


def main(_: str = PACKAGE) -> Facts:
    """The providers in the catalogue."""
    return {"listed": [_described(str(provider.name), provider) for provider in _catalogue().find_all_providers()]}


def _described(name: str, provider: Any) -> Listed:
    try:
        state, version = provider.ready_state.name, str(provider.version)
        if state == "NotPresent":
            command = f"`python -m {_MODULE} {name}`"
            return Listed(name, version, problem=f"Windows has it for this machine, and {command} installs it")
        if state == "NotReady":  # installed, but states its path only once this process requests it
            provider.ensure_ready()
        library = str(provider.library_path)
    except Exception as error:  # reports any error as the provider's problem
        return Listed(name, "", problem=f"the catalogue cannot make it ready: {type(error).__name__}: {error}")
    return Listed(name, version, library, "" if library else "the catalogue does not say where its library is")


def _make_ready(name: str) -> tuple[str, int]:
    """Downloads a provider if it is not installed; returns a message, and the exit status."""
    providers = {str(provider.name): provider for provider in _catalogue().find_all_providers()}
    if name not in providers:
        return f"{name} is not in the catalogue: it has {', '.join(providers) or 'none'}.", 1
    try:
        providers[name].ensure_ready()
    except Exception as error:  # returns any error of the catalogue
        return f"{name} cannot be made ready: {type(error).__name__}: {error}", 1
    return f"{name} is ready.", 0


if __name__ == "__main__":
    said, status = _make_ready(*sys.argv[1:])
    (sys.stderr if status else sys.stdout).write(said + "\n")
    sys.stdout.flush()
    os._exit(status)

"""Windows ML's catalogue of providers, in the package `windowsml`, as another process reads it.

    python -m winml_py.core.runtime.providers.windows_catalogue NAME    # downloads a provider, and makes it ready

The catalogue knows which providers Windows has for the machine's hardware, and where the libraries of the installed
ones are. Each is then tried like a plugin, by the path of its library. Without NAME, nothing is downloaded.

Written for windowsml 2.5, and run with a substitute for it alone. To release the catalogue ends interpreters on some
machines, at exit as well (microsoft/winml-cli#701, #1233). So no process asks it but this one, which ends without a
release.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ...base.messages import Facts

PACKAGE = "windowsml"
_MODULE = "winml_py.core.runtime.providers.windows_catalogue"  # run as a program, it has another name


class Listed(NamedTuple):
    """A provider of the catalogue: its name in ONNX Runtime, its version, its library, and why there is none."""

    name: str
    version: str
    library: str = ""
    problem: str = ""


@cache
def _catalogue() -> Any:
    """The catalogue, which is kept until the process ends."""
    return import_module(PACKAGE).EpCatalog()


def main(_: str = PACKAGE) -> Facts:
    """What the catalogue lists."""
    return {"listed": [_described(str(provider.name), provider) for provider in _catalogue().find_all_providers()]}


def _described(name: str, provider: Any) -> Listed:
    try:
        state, version = provider.ready_state.name, str(provider.version)
        if state == "NotPresent":
            command = f"`python -m {_MODULE} {name}`"
            return Listed(name, version, problem=f"Windows has it for this machine, and {command} installs it")
        if state == "NotReady":  # installed, and says where only when this process names it among what it uses
            provider.ensure_ready()
        library = str(provider.library_path)
    except Exception as error:  # whatever the catalogue raises is the provider's problem
        return Listed(name, "", problem=f"the catalogue cannot make it ready: {type(error).__name__}: {error}")
    return Listed(name, version, library, "" if library else "the catalogue does not say where its library is")


def _make_ready(name: str) -> tuple[str, int]:
    """Downloads a provider where it is not installed; gives what to say, and the exit status."""
    providers = {str(provider.name): provider for provider in _catalogue().find_all_providers()}
    if name not in providers:
        return f"{name} is not in the catalogue: it has {', '.join(providers) or 'none'}.", 1
    try:
        providers[name].ensure_ready()
    except Exception as error:  # whatever the catalogue raises is the answer
        return f"{name} cannot be made ready: {type(error).__name__}: {error}", 1
    return f"{name} is ready.", 0


if __name__ == "__main__":
    said, status = _make_ready(*sys.argv[1:])
    (sys.stderr if status else sys.stdout).write(said + "\n")
    sys.stdout.flush()
    os._exit(status)

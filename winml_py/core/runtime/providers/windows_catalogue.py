"""Windows ML's catalogue of providers, in the package `windowsml`, read in a separate process.

The catalogue lists the providers that Windows has for the machine's hardware, and the libraries of the installed ones.
Each is then tried like a plugin, by the path to its library. Nothing is downloaded.

This was written for windowsml 2.5. With 2.7.2021a0 under Wine, the catalogue opens and is empty; providers have only
been tried with a substitute. Releasing the catalogue crashes the interpreter on some machines, even at exit
(microsoft/winml-cli#701, #1233). So only the separate process uses it, and ends without a release.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from ...base.messages import Facts

PACKAGE = "windowsml"


class Listed(NamedTuple):
    """A provider of the catalogue: its name in ONNX Runtime, its version, its library, and why that is missing."""

    name: str
    version: str
    library: str = ""
    problem: str = ""


@cache
def _open_catalogue() -> Any:
    """The catalogue, which is kept until the process ends."""
    return import_module(PACKAGE).EpCatalog()


def main(_: str = PACKAGE) -> Facts:
    """The providers in the catalogue."""
    return {"listed": [_describe(str(provider.name), provider) for provider in _open_catalogue().find_all_providers()]}


def _describe(name: str, provider: Any) -> Listed:
    try:
        state, version = provider.ready_state.name, str(provider.version)
        if state == "NotPresent":
            program = f"import {PACKAGE} as w; c = w.EpCatalog(); "
            program += f"[p.ensure_ready() for p in c.find_all_providers() if p.name == {name!r}]"
            return Listed(
                name, version, problem=f'Windows offers it for this machine; to install it, run `python -c "{program}"`'
            )
        if state == "NotReady":  # installed, but states its path only once this process requests it
            provider.ensure_ready()
        library = str(provider.library_path)
    except Exception as error:  # reports any error as the provider's problem
        return Listed(name, "", problem=f"the catalogue cannot make it ready: {type(error).__name__}: {error}")
    return Listed(name, version, library, "" if library else "the catalogue does not say where its library is")

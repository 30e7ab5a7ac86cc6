"""Functions of the user's own, by the names that the command line has for them. To import one runs its code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from ..errors import InvalidArgumentError

_FORMS = "package.module:name, or file.py:name; a method as Class.method."


def import_function(text: str) -> Callable[..., Any]:
    """The function of a name: `package.module:name`, `file.py:name`, or `...:Class.method`.

    A class on the way is made an object of, without arguments.

    Raises:
        InvalidArgumentError: there is no such module or function, or the module cannot be imported.
    """
    place, _, path = text.rpartition(":")
    if not place or not path:
        raise InvalidArgumentError(f"{text!r} names no function.", hint=f"It is {_FORMS}")
    try:
        found: Any = _import_file(place) if place.endswith(".py") else _import_module(place)
        for index, name in enumerate(path.split(".")):
            if index and inspect.isclass(found):
                found = found()
            found = getattr(found, name)
    except Exception as error:  # whatever somebody's module raises
        raise InvalidArgumentError(
            f"{text} cannot be imported: {type(error).__name__}: {str(error)[:300].rstrip('.')}.",
            hint=f"It is {_FORMS}",
        ) from error
    if inspect.isclass(found) and "__call__" in vars(found):
        found = found()
    if not callable(found):
        raise InvalidArgumentError(f"{text} is {type(found).__name__}, and cannot be called.", hint=f"It is {_FORMS}")
    function: Callable[..., Any] = found
    return function


def file_of_function(text: str) -> str:
    """The file that a function's name leads to, as far as the name says: `file.py`, or `package/module.py`."""
    place = text.rpartition(":")[0]
    return place if place.endswith(".py") else f"{place.replace('.', os.sep)}.py"


def _import_module(name: str) -> Any:
    """A module, also one of the working directory, as `python -m` finds it."""
    sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _import_file(path: str) -> Any:
    """A file as a module, which may import its neighbours."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}")
    folder, name = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

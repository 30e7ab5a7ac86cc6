"""The error tree: HRESULTs, builtins, and what a caller sees."""

from __future__ import annotations

import inspect
import pickle

import pytest

from winml_py import errors

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if not issubclass(kind, Warning)]
"""`tests/project/test_docs.py` compares their HRESULTs and the builtins that they are with docs/api/errors.md."""

ABOUT_FILES = {
    errors.ModelNotFoundError,
    errors.PictureNotFoundError,
    errors.StorageAccessError,
    errors.StorageExistsError,
    errors.StorageNotFoundError,
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_error_is_what_windows_and_python_expect(kind: type[errors.WinMLError]) -> None:
    error = kind("What came.", hint="Do this.")
    assert isinstance(error, errors.WinMLError)
    assert isinstance(error, OSError) == (kind in ABOUT_FILES or kind is errors.EvaluationTimeoutError)
    assert error.winerror == error.hresult - (1 << 32)  # pywinrt's signed form
    assert (str(error), error.hint) == ("What came. Do this.", "Do this.")


def test_an_error_survives_pickling() -> None:
    error = errors.InvalidBindingError("What came.", hint="Do this.", hresult=errors.E_UNEXPECTED)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.hint, copy.hresult) == (type(error), str(error), "Do this.", 0x8000FFFF)

"""The error tree: HRESULTs, builtins, and what a caller sees."""

from __future__ import annotations

import inspect
import pickle

import pytest

from winml_py import errors

EXPECTED = {
    # class: HRESULT, the builtin a Python person would catch
    errors.WinMLError: (0x80004005, OSError),
    errors.InvalidArgumentError: (0x80070057, ValueError),
    errors.ModelDisposedError: (0x80070057, ValueError),
    errors.MissingInputError: (0x80070057, ValueError),
    errors.ModelNotFoundError: (0x80070002, FileNotFoundError),
    errors.CorruptModelError: (0x80070570, ValueError),
    errors.ModelVersionError: (0x80070570, ValueError),
    errors.NotSupportedError: (0x80004001, NotImplementedError),
    errors.MissingPackageError: (0x80004001, NotImplementedError),
    errors.InvalidDeviceError: (0x88900001, ValueError),
    errors.InvalidBindingError: (0x88900002, ValueError),
    errors.SizeMismatchError: (0x88900004, ValueError),
    errors.NotBoundError: (0x8000000B, KeyError),
    errors.ClosedError: (0x80000013, OSError),
    errors.IllegalCallError: (0x8000000E, RuntimeError),
    errors.PictureError: (0x88982F60, ValueError),
    errors.PictureNotFoundError: (0x80070002, FileNotFoundError),
    errors.StorageNotFoundError: (0x80070002, FileNotFoundError),
    errors.StorageExistsError: (0x800700B7, FileExistsError),
    errors.StorageAccessError: (0x80070005, OSError),
    errors.ConversionError: (0x80004005, RuntimeError),
    errors.EvaluationError: (0x80004005, RuntimeError),
    errors.CanceledError: (0x80004004, RuntimeError),
    errors.EvaluationTimeoutError: (0x80070102, TimeoutError),
    errors.DeviceLostError: (0x887A0005, RuntimeError),
    errors.EngineLostError: (0x887A0005, RuntimeError),
}


def test_the_tree_is_complete() -> None:
    classes = {value for _, value in inspect.getmembers(errors, inspect.isclass)}
    assert classes == {errors.EngineWarning, errors.MissingContractWarning, *EXPECTED}


@pytest.mark.parametrize(("kind", "expected"), EXPECTED.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_each_error_is_what_windows_and_python_expect(
    kind: type[errors.WinMLError], expected: tuple[int, type[Exception]]
) -> None:
    hresult, builtin = expected
    error = kind("What came.", hint="Do this.")
    assert isinstance(error, errors.WinMLError)
    assert isinstance(error, OSError)
    assert isinstance(error, builtin)
    assert error.hresult == hresult
    assert error.winerror == hresult - (1 << 32)  # pywinrt's signed form
    assert (str(error), error.hint) == ("What came. Do this.", "Do this.")


def test_an_error_survives_pickling() -> None:
    error = errors.InvalidBindingError("What came.", hint="Do this.", hresult=errors.E_UNEXPECTED)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.hint, copy.hresult) == (type(error), str(error), "Do this.", 0x8000FFFF)

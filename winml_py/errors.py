"""Every error and warning of the package. Most errors also derive from the builtin that fits.

Only errors about files, and a timeout, are `OSError`s: `suppress(OSError)` must not hide a misspelt name.
"""

from __future__ import annotations

E_ABORT = 0x80004004
WAIT_TIMEOUT = 0x80070102
E_FAIL = 0x80004005
E_NOTIMPL = 0x80004001
E_INVALIDARG = 0x80070057
E_BOUNDS = 0x8000000B
E_UNEXPECTED = 0x8000FFFF
E_NOINTERFACE = 0x80004002
E_ACCESSDENIED = 0x80070005
E_ILLEGAL_METHOD_CALL = 0x8000000E
RO_E_CLOSED = 0x80000013
FILE_NOT_FOUND = 0x80070002
FILE_CORRUPT = 0x80070570
INTERNAL_ERROR = 0x8007054F
ALREADY_EXISTS = 0x800700B7
INVALID_FUNCTION = 0x80070001
WINML_ERR_INVALID_DEVICE = 0x88900001
WINML_ERR_INVALID_BINDING = 0x88900002
WINML_ERR_SIZE_MISMATCH = 0x88900004
WINCODEC_ERR_BADIMAGE = 0x88982F60
DXGI_ERROR_DEVICE_REMOVED = 0x887A0005


class WinMLError(Exception):
    """The root of all errors of this package.

    Args:
        message: what was expected, and what the caller passed.
        hint: what to do next; it follows the message in `str(error)`.
        hresult: the HRESULT, where it differs from the class's own.

    Attributes:
        hresult: the HRESULT as Windows writes it, unsigned, `0x88900002` say.
        winerror: the same number as pywinrt raises it, a signed 32-bit integer.
        hint: what to do next, or "".
        message: the text without the hint.

    Example:
        >>> from winml_py import errors
        >>> error = errors.InvalidBindingError("no variable 'x'.", hint="Try 'X'.")
        >>> hex(error.hresult), error.winerror, str(error)
        ('0x88900002', -2003828734, "no variable 'x'. Try 'X'.")
    """

    hresult: int = E_FAIL

    def __init__(self, message: str, *, hint: str = "", hresult: int | None = None) -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.message, self.hint = message, hint
        if hresult is not None:
            self.hresult = hresult
        self.winerror = self.hresult - (1 << 32) if self.hresult & 0x80000000 else self.hresult

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidArgumentError(WinMLError, ValueError):
    """An argument that can never be right, such as a shape of -5."""

    hresult = E_INVALIDARG


class ModelDisposedError(InvalidArgumentError):
    """The model was disposed, so no further session can be made from it."""


class MissingInputError(InvalidArgumentError):
    """`evaluate` was called before all required inputs were bound."""


class ModelNotFoundError(WinMLError, FileNotFoundError):
    """The model file, or a data file it refers to, does not exist or cannot be opened."""

    hresult = FILE_NOT_FOUND


class CorruptModelError(WinMLError, ValueError):
    """The file is not an ONNX model, or its graph is invalid."""

    hresult = FILE_CORRUPT


class ModelVersionError(CorruptModelError):
    """The model's opset or IR version is newer than the runtime knows."""


class NotSupportedError(WinMLError, NotImplementedError):
    """The model or the call needs something that neither Windows ML nor the runtime offers."""

    hresult = E_NOTIMPL


class MissingPackageError(NotSupportedError):
    """The call needs a package that is not installed; the hint says how to install it."""


class InvalidDeviceError(WinMLError, ValueError):
    """The requested device is not available."""

    hresult = WINML_ERR_INVALID_DEVICE


class InvalidBindingError(WinMLError, ValueError):
    """A value cannot be bound to the feature: unknown name, wrong type, wrong kind."""

    hresult = WINML_ERR_INVALID_BINDING


class SizeMismatchError(WinMLError, ValueError):
    """A value has the right type for the feature, but the wrong shape."""

    hresult = WINML_ERR_SIZE_MISMATCH


class NotBoundError(WinMLError, KeyError):
    """The key is not in the map."""

    hresult = E_BOUNDS


class ClosedError(WinMLError):
    """The session was closed before the call."""

    hresult = RO_E_CLOSED


class IllegalCallError(WinMLError, RuntimeError):
    """The object is in a state that forbids the call, such as a closed tensor."""

    hresult = E_ILLEGAL_METHOD_CALL


class PictureError(WinMLError, ValueError):
    """The file or the bytes are not a picture that can be decoded."""

    hresult = WINCODEC_ERR_BADIMAGE


class PictureNotFoundError(PictureError, FileNotFoundError):
    """There is no such picture file."""

    hresult = FILE_NOT_FOUND


class StorageNotFoundError(WinMLError, FileNotFoundError):
    """There is no such file or folder."""

    hresult = FILE_NOT_FOUND


class StorageExistsError(WinMLError, FileExistsError):
    """The file to be created already exists."""

    hresult = ALREADY_EXISTS


class StorageAccessError(WinMLError, OSError):
    """The system denies access to the file or folder."""

    hresult = E_ACCESSDENIED


class EvaluationError(WinMLError, RuntimeError):
    """The engine failed; the message quotes the engine's."""

    hresult = E_FAIL


class ConversionError(WinMLError, RuntimeError):
    """A model could not be converted well enough.

    Attributes:
        report: the `ConversionReport` of the last attempt, or None if it did not run.
    """

    hresult = E_FAIL

    def __init__(self, message: str, *, hint: str = "", hresult: int | None = None, report: object = None) -> None:
        super().__init__(message, hint=hint, hresult=hresult)
        self.report = report


class CanceledError(EvaluationError):
    """The operation was cancelled before it was done."""

    hresult = E_ABORT


class EvaluationTimeoutError(CanceledError, TimeoutError):
    """The evaluation exceeded its time limit and was stopped; the contents of bound outputs are invalid."""

    hresult = WAIT_TIMEOUT


class DeviceLostError(EvaluationError):
    """The device was unplugged or reset, or its driver failed. Make a new device, and a session on it."""

    hresult = DXGI_ERROR_DEVICE_REMOVED


class EngineLostError(DeviceLostError):
    """The engine process of an isolated session has ended; see `options.isolation`.

    The session is unusable; make another from the same model. The contents of bound outputs are invalid.
    """


class EngineWarning(UserWarning):
    """The options of a session were tuned on another processor or device, or with other versions of the engines.

    Another engine may be the fastest here, and the one that the options name was not compared with ONNX Runtime here.
    """


class MissingContractWarning(UserWarning):
    """A picture was bound to an input for which neither the bind, the program nor the model states a contract; or the
    contract's mean and std are for another range; or it was learned from smaller pictures than this one.

    Without a contract, the picture becomes numbers by Windows ML's rule, which few models were trained with. The
    warning appears once for each input of a model. Like Windows ML, `winml_py.winrt` does not warn.
    """

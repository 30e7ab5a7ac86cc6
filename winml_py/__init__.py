"""The Windows ML way of running models - load, bind, evaluate - for Python, on every system.

The public names, and nothing else. Each is loaded when it is first used, so that a program pays for what
it needs; `__init__.pyi` tells type checkers the same.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "binding": "LearningModelBinding",
    "collections": "NameMap VectorView",
    "descriptors": "FeatureDescriptor ImageFeatureDescriptor MapFeatureDescriptor SequenceFeatureDescriptor TensorFeatureDescriptor",
    "device": "DisplayAdapterId LearningModelDevice",
    "errors": "ClosedError CorruptModelError EvaluationError IllegalCallError InvalidArgumentError InvalidBindingError InvalidDeviceError MissingInputError ModelDisposedError ModelNotFoundError ModelVersionError NotBoundError NotSupportedError PictureError PictureNotFoundError SizeMismatchError WinMLError",
    "imaging.bitmap": "BitmapBounds SoftwareBitmap VideoFrame",
    "kinds": "BitmapAlphaMode BitmapPixelFormat LearningModelDeviceKind LearningModelFeatureKind LearningModelPixelRange TensorKind",
    "model": "LearningModel",
    "options": "LearningModelSessionOptions",
    "result": "LearningModelEvaluationResult",
    "session": "LearningModelSession",
    "values.image": "ImageFeatureValue",
    "values.tensor": "Tensor",
    "values.tensors": "TensorBoolean TensorDouble TensorFloat TensorFloat16Bit TensorInt16Bit TensorInt32Bit TensorInt64Bit TensorInt8Bit TensorString TensorUInt16Bit TensorUInt32Bit TensorUInt64Bit TensorUInt8Bit",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

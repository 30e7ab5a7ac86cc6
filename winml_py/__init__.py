"""The Windows ML way of running models - load, bind, evaluate - for Python, on every system.

The public names, and nothing else. Each is loaded when it is first used, so that a program pays for what
it needs; `__init__.pyi` tells type checkers the same.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "AsyncOperation": "operation",
    "AsyncStatus": "kinds",
    "BitmapAlphaMode": "kinds",
    "BitmapBounds": "imaging.geometry",
    "BitmapBuffer": "imaging.buffer",
    "BitmapBufferAccessMode": "kinds",
    "BitmapPixelFormat": "kinds",
    "BitmapPlaneDescription": "imaging.buffer",
    "CanceledError": "errors",
    "ClosedError": "errors",
    "ConversionError": "errors",
    "CorruptModelError": "errors",
    "DeviceLostError": "errors",
    "DisplayAdapterId": "device",
    "EvaluationError": "errors",
    "EvaluationTimeoutError": "errors",
    "FeatureDescriptor": "descriptors",
    "IllegalCallError": "errors",
    "ImageContract": "imaging.contract",
    "ImageCropMode": "kinds",
    "ImageFeatureDescriptor": "descriptors",
    "ImageFeatureValue": "values.image",
    "ImageKernel": "kinds",
    "InvalidArgumentError": "errors",
    "InvalidBindingError": "errors",
    "InvalidDeviceError": "errors",
    "KeyValuePair": "collections",
    "LearningModel": "model",
    "LearningModelBinding": "binding",
    "LearningModelDevice": "device",
    "LearningModelDeviceKind": "kinds",
    "LearningModelEvaluationResult": "result",
    "LearningModelFeatureKind": "kinds",
    "LearningModelPixelRange": "kinds",
    "LearningModelSession": "session",
    "LearningModelSessionOptions": "options",
    "MapFeatureDescriptor": "descriptors",
    "MemoryBufferReference": "memory",
    "MissingInputError": "errors",
    "ModelDisposedError": "errors",
    "ModelNotFoundError": "errors",
    "ModelVersionError": "errors",
    "NameMap": "collections",
    "NotBoundError": "errors",
    "NotSupportedError": "errors",
    "PictureError": "errors",
    "PictureNotFoundError": "errors",
    "Precision": "kinds",
    "Prediction": "ranking",
    "PropertySet": "collections",
    "SequenceFeatureDescriptor": "descriptors",
    "SizeMismatchError": "errors",
    "SoftwareBitmap": "imaging.bitmap",
    "StorageAccessError": "errors",
    "StorageExistsError": "errors",
    "StorageNotFoundError": "errors",
    "Tensor": "values.tensor",
    "TensorBoolean": "values.tensors",
    "TensorDouble": "values.tensors",
    "TensorFeatureDescriptor": "descriptors",
    "TensorFloat": "values.tensors",
    "TensorFloat16Bit": "values.tensors",
    "TensorInt16Bit": "values.tensors",
    "TensorInt32Bit": "values.tensors",
    "TensorInt64Bit": "values.tensors",
    "TensorInt8Bit": "values.tensors",
    "TensorKind": "kinds",
    "TensorLayout": "kinds",
    "TensorString": "values.tensors",
    "TensorUInt16Bit": "values.tensors",
    "TensorUInt32Bit": "values.tensors",
    "TensorUInt64Bit": "values.tensors",
    "TensorUInt8Bit": "values.tensors",
    "Tuning": "tuning",
    "Vector": "collections",
    "VectorView": "collections",
    "VideoFrame": "imaging.frame",
    "VideoReader": "imaging.video",
    "Weights": "kinds",
    "WinMLError": "errors",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""The Windows ML way of running models - load, bind, evaluate - for Python, on every system.

The public names, and nothing else. Each is loaded when it is first used, so that a program pays for what
it needs; `__init__.pyi` tells type checkers the same.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "AsyncOperation": "base.async_operation",
    "AsyncStatus": "enums",
    "BitmapAlphaMode": "enums",
    "BitmapBounds": "imaging.geometry",
    "BitmapBuffer": "imaging.buffer",
    "BitmapBufferAccessMode": "enums",
    "BitmapPixelFormat": "enums",
    "BitmapPlaneDescription": "imaging.buffer",
    "CanceledError": "errors",
    "ClosedError": "errors",
    "ConversionError": "errors",
    "CorruptModelError": "errors",
    "DeviceLostError": "errors",
    "DisplayAdapterId": "session.device",
    "EvaluationError": "errors",
    "EvaluationTimeoutError": "errors",
    "FeatureDescriptor": "features.descriptors",
    "IllegalCallError": "errors",
    "ImageContract": "imaging.contract",
    "ImageCropMode": "enums",
    "ImageFeatureDescriptor": "features.descriptors",
    "ImageFeatureValue": "features.pictures",
    "ImageKernel": "enums",
    "InvalidArgumentError": "errors",
    "InvalidBindingError": "errors",
    "InvalidDeviceError": "errors",
    "KeyValuePair": "base.collections",
    "LearningModel": "session.model",
    "LearningModelBinding": "session.binding",
    "LearningModelDevice": "session.device",
    "LearningModelDeviceKind": "enums",
    "LearningModelEvaluationResult": "session.result",
    "LearningModelFeatureKind": "enums",
    "LearningModelPixelRange": "enums",
    "LearningModelSession": "session.session",
    "LearningModelSessionOptions": "session.options",
    "MapFeatureDescriptor": "features.descriptors",
    "MemoryBufferReference": "base.buffers",
    "MissingInputError": "errors",
    "ModelDisposedError": "errors",
    "ModelNotFoundError": "errors",
    "ModelVersionError": "errors",
    "NameMap": "base.collections",
    "NotBoundError": "errors",
    "NotSupportedError": "errors",
    "PictureError": "errors",
    "PictureNotFoundError": "errors",
    "Precision": "enums",
    "Prediction": "session.ranking",
    "PropertySet": "base.collections",
    "SequenceFeatureDescriptor": "features.descriptors",
    "SizeMismatchError": "errors",
    "SoftwareBitmap": "imaging.bitmap",
    "StorageAccessError": "errors",
    "StorageExistsError": "errors",
    "StorageNotFoundError": "errors",
    "Tensor": "features.tensor",
    "TensorBoolean": "features.tensor_classes",
    "TensorDouble": "features.tensor_classes",
    "TensorFeatureDescriptor": "features.descriptors",
    "TensorFloat": "features.tensor_classes",
    "TensorFloat16Bit": "features.tensor_classes",
    "TensorInt16Bit": "features.tensor_classes",
    "TensorInt32Bit": "features.tensor_classes",
    "TensorInt64Bit": "features.tensor_classes",
    "TensorInt8Bit": "features.tensor_classes",
    "TensorKind": "enums",
    "TensorLayout": "enums",
    "TensorString": "features.tensor_classes",
    "TensorUInt16Bit": "features.tensor_classes",
    "TensorUInt32Bit": "features.tensor_classes",
    "TensorUInt64Bit": "features.tensor_classes",
    "TensorUInt8Bit": "features.tensor_classes",
    "Tuning": "runtime.tuning",
    "Vector": "base.collections",
    "VectorView": "base.collections",
    "VideoFrame": "imaging.frame",
    "VideoReader": "imaging.video",
    "Weights": "enums",
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

"""Runs ONNX models on every system, with the API of Windows ML: load, bind, evaluate.

The public names only. A name is loaded on first use, so that a program pays only for what it needs. Capabilities, too:
after `import winml_py`, `winml_py.vision` is available. `__init__.pyi` states the names again, for type checkers.
"""

__version__ = "0.1.0"

_MODULES = frozenset(
    [
        "authoring",
        "compare",
        "distributed",
        "errors",
        "experimental",
        "float16",
        "operators",
        "perf",
        "results",
        "scaling",
        "serve",
        "testing",
        "view",
        "vision",
    ]
)

_NAMES = {
    ".core.base.child_process": "freeze_support",
    ".core.contracts.files": "read_contract",
    ".core.contracts.labels": "labels_of",
    ".core.session.result": "LearningModelEvaluationResult",
    ".core.features.descriptors": """
        FeatureDescriptor ImageFeatureDescriptor MapFeatureDescriptor SequenceFeatureDescriptor TensorFeatureDescriptor
    """,
    ".core.features.pictures": "ImageFeatureValue",
    ".core.features.tensor": "Tensor",
    ".core.features.tensor_classes": """
        TensorBoolean TensorDouble TensorFloat TensorFloat16Bit TensorInt8Bit TensorInt16Bit TensorInt32Bit
        TensorInt64Bit TensorString TensorUInt8Bit TensorUInt16Bit TensorUInt32Bit TensorUInt64Bit
    """,
    ".core.imaging.bitmap": "SoftwareBitmap VideoFrame",
    ".core.imaging.contract": "BitmapBounds ImageContract",
    ".core.imaging.video": "VideoReader",
    ".core.model.model": "LearningModel",
    ".core.runtime.custom.operator": "CustomOperator OperatorOutput",
    ".core.runtime.device": "LearningModelDevice",
    ".core.runtime.engine": "Isolation Tuning",
    ".core.session.options": "LearningModelSessionOptions",
    ".core.session.session": "LearningModelBinding LearningModelSession",
    ".enums": """
        BitmapAlphaMode BitmapPixelFormat FramePolicy ImageAnchor ImageGray ImageKernel ImageRounding
        LearningModelDeviceKind LearningModelFeatureKind LearningModelPixelRange Precision TensorKind TensorLayout
        Weights
    """,
    ".errors": """
        CanceledError ClosedError CorruptModelError DeviceLostError EvaluationError EvaluationTimeoutError
        InvalidArgumentError InvalidBindingError InvalidDeviceError ModelNotFoundError NotSupportedError PictureError
        SizeMismatchError WinMLError
    """,
}
"""The names of each module: Python, because a packed program has no stub to read."""

# `from winml_py import *` would import all capabilities, and what they need, if they were here.
__all__ = [*" ".join(_NAMES.values()).split(), "__version__"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    for module, names in _NAMES.items():
        if name in names.split():
            value = globals()[name] = getattr(import_module(module, __name__), name)
            return value
    from .core.base.messages import did_you_mean

    raise AttributeError(f"winml_py has no attribute {name!r}. {did_you_mean(name, __dir__())}", name=name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]

"""The public names, pinned: what appears or disappears here is a decision."""

from __future__ import annotations

import ast
from pathlib import Path

import winml_py

NAMES = [
    "AnswerCheck",
    "AsyncOperation",
    "AsyncStatus",
    "AttachedContracts",
    "BitmapAlphaMode",
    "BitmapBounds",
    "BitmapBuffer",
    "BitmapBufferAccessMode",
    "BitmapPixelFormat",
    "BitmapPlaneDescription",
    "CanceledError",
    "Candidate",
    "ClosedError",
    "ConversionError",
    "CorruptModelError",
    "CustomOperator",
    "DeviceLostError",
    "DisplayAdapterId",
    "EngineLostError",
    "EngineWarning",
    "EvaluationError",
    "EvaluationStream",
    "EvaluationTimeoutError",
    "Explanation",
    "FeatureDescriptor",
    "FramePolicy",
    "Framed",
    "IllegalCallError",
    "ImageAnchor",
    "ImageGray",
    "ImageContract",
    "ImageCropMode",
    "ImageFeatureDescriptor",
    "ImageFeatureValue",
    "ImageKernel",
    "ImageRounding",
    "ImageScaling",
    "InvalidArgumentError",
    "InvalidBindingError",
    "InvalidDeviceError",
    "Isolation",
    "KeyValuePair",
    "LearningModel",
    "LearningModelBinding",
    "LearningModelDevice",
    "LearningModelDeviceKind",
    "LearningModelEvaluationResult",
    "LearningModelFeatureKind",
    "LearningModelPixelRange",
    "LearningModelSession",
    "LearningModelSessionOptions",
    "MapFeatureDescriptor",
    "MemoryBufferReference",
    "MissingContractWarning",
    "MissingInputError",
    "MissingPackageError",
    "ModelCheck",
    "ModelDisposedError",
    "ModelNotFoundError",
    "ModelVersionError",
    "NameMap",
    "NotBoundError",
    "NotSupportedError",
    "OperatorOutput",
    "OperatorProvider",
    "PictureError",
    "PictureNotFoundError",
    "PicturePlacement",
    "PlacedNode",
    "Precision",
    "Prediction",
    "PropertySet",
    "SequenceFeatureDescriptor",
    "SizeMismatchError",
    "SoftwareBitmap",
    "StorageAccessError",
    "StorageExistsError",
    "StorageNotFoundError",
    "Tensor",
    "TensorBoolean",
    "TensorDouble",
    "TensorFeatureDescriptor",
    "TensorFloat",
    "TensorFloat16Bit",
    "TensorInt16Bit",
    "TensorInt32Bit",
    "TensorInt64Bit",
    "TensorInt8Bit",
    "TensorKind",
    "TensorLayout",
    "TensorString",
    "TensorUInt16Bit",
    "TensorUInt32Bit",
    "TensorUInt64Bit",
    "TensorUInt8Bit",
    "Tuning",
    "Vector",
    "VectorView",
    "VideoFrame",
    "VideoReader",
    "VideoWriter",
    "Weights",
    "WinMLError",
    "__version__",
    "labels_of",
]


def test_the_public_names_are_these() -> None:
    assert sorted(winml_py.__all__) == sorted(NAMES)


def test_every_public_name_can_be_had_and_nothing_else() -> None:
    for name in NAMES:
        value = getattr(winml_py, name)
        if name != "__version__":
            assert value.__name__ == name
    assert not hasattr(winml_py, "Learningmodel")
    assert set(NAMES) <= set(dir(winml_py))


def test_the_stub_names_the_same() -> None:
    stub = ast.parse(Path(winml_py.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    imported = {alias.asname for node in imports if node.module for alias in node.names}
    capabilities = {alias.asname for node in imports if not node.module for alias in node.names}
    assert capabilities == winml_py._CAPABILITIES
    assert imported == set(NAMES) - {"__version__"}


def test_the_names_of_vision_are_these() -> None:
    from winml_py import vision

    assert vision.__all__ == [
        "Detection",
        "DetectionLayout",
        "Detections",
        "Segmentation",
        "classes",
        "cosine_similarity",
        "detections",
        "embedding",
        "keypoints",
        "masks",
    ]

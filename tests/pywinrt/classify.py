"""Says which digit a picture shows: python classify.py MODEL PICTURE LABELS."""

import asyncio
import os
import sys

from winrt.windows.ai.machinelearning import (
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    TensorFeatureDescriptor,
    TensorFloat,
)
from winrt.windows.graphics.imaging import BitmapAlphaMode, BitmapDecoder, BitmapPixelFormat, SoftwareBitmap
from winrt.windows.media import VideoFrame
from winrt.windows.storage import FileAccessMode, StorageFile


async def load_frame(path: str) -> VideoFrame:
    file = await StorageFile.get_file_from_path_async(os.fspath(path))
    with await file.open_async(FileAccessMode.READ) as stream:
        decoder = await BitmapDecoder.create_async(stream)
        bitmap = await decoder.get_software_bitmap_async()
    if bitmap.bitmap_pixel_format != BitmapPixelFormat.BGRA8:
        bitmap = SoftwareBitmap.convert(bitmap, BitmapPixelFormat.BGRA8, BitmapAlphaMode.PREMULTIPLIED)
    return VideoFrame.create_with_software_bitmap(bitmap)


async def main(model_path: str, picture_path: str, labels_path: str) -> None:
    with open(labels_path, encoding="utf-8") as file:
        labels = file.read().split()
    model_file = await StorageFile.get_file_from_path_async(os.path.abspath(model_path))
    model = await LearningModel.load_from_storage_file_async(model_file)
    session = LearningModelSession(model, LearningModelDevice(LearningModelDeviceKind.DEFAULT))
    binding = LearningModelBinding(session)

    frame = await load_frame(os.path.abspath(picture_path))
    binding.bind(model.input_features[0].name, frame)
    output = model.output_features[0]
    assert isinstance(output, TensorFeatureDescriptor)
    binding.bind(output.name, TensorFloat.create(list(output.shape)))

    results = await session.evaluate_async(binding, "classify")
    tensor = results.outputs[output.name]
    assert isinstance(tensor, TensorFloat)
    scores = list(tensor.get_as_vector_view())
    best = max(range(len(scores)), key=scores.__getitem__)
    print(f"{labels[best]} {scores[best]:.3f} {results.correlation_id} {results.succeeded} {binding.size}")


asyncio.run(main(*sys.argv[1:4]))

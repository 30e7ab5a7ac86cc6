"""Classifies raw pixels and a file of numbers: python buffers.py MODEL PICTURE LABELS NUMBERS."""

import asyncio
import os
import sys

import numpy as np
from winrt.windows.ai.machinelearning import LearningModel, LearningModelBinding, LearningModelSession, TensorFloat
from winrt.windows.foundation import IAsyncOperation
from winrt.windows.graphics.imaging import (
    BitmapAlphaMode,
    BitmapDecoder,
    BitmapInterpolationMode,
    BitmapPixelFormat,
    BitmapTransform,
    ColorManagementMode,
    ExifOrientationMode,
    SoftwareBitmap,
)
from winrt.windows.media import VideoFrame
from winrt.windows.security.cryptography import CryptographicBuffer
from winrt.windows.storage import CreationCollisionOption, FileAccessMode, StorageFolder
from winrt.windows.storage.streams import (
    DataReader,
    DataWriter,
    FileRandomAccessStream,
    InMemoryRandomAccessStream,
    RandomAccessStream,
)


async def pixels_of(path: str) -> bytes:
    """A picture as 28x28 bytes of gray, by way of a stream in memory."""
    stream = InMemoryRandomAccessStream()
    await RandomAccessStream.copy_async(await FileRandomAccessStream.open_async(path, FileAccessMode.READ), stream)
    stream.seek(0)
    decoder = await BitmapDecoder.create_async(stream)
    transform = BitmapTransform()
    transform.scaled_width = transform.scaled_height = 28
    transform.interpolation_mode = BitmapInterpolationMode.FANT
    data = await decoder.get_pixel_data_async(
        BitmapPixelFormat.GRAY8,
        BitmapAlphaMode.IGNORE,
        transform,
        ExifOrientationMode.RESPECT_EXIF_ORIENTATION,
        ColorManagementMode.DO_NOT_COLOR_MANAGE,
    )
    return bytes(data.detach_pixel_data())


async def numbers_of(path: str) -> np.ndarray:
    opening: IAsyncOperation = FileRandomAccessStream.open_async(path, FileAccessMode.READ)
    stream = await opening
    reader = DataReader(stream.get_input_stream_at(0))
    data = bytearray(await reader.load_async(stream.size))
    reader.read_bytes(data)
    return np.frombuffer(data, np.float32)


def best(session: LearningModelSession, name: str, value: object) -> int:
    binding = LearningModelBinding(session)
    binding.bind(name, value)
    scores = session.evaluate(binding, "").outputs.lookup(session.model.output_features[0].name)
    return int(np.argmax(list(scores.as_(TensorFloat).get_as_vector_view())))


async def main(model_path: str, picture_path: str, labels_path: str, numbers_path: str) -> None:
    with open(labels_path, encoding="utf-8") as file:
        labels = file.read().split()
    session = LearningModelSession(LearningModel.load_from_file_path(model_path))
    feature = session.model.input_features[0]
    buffer = CryptographicBuffer.create_from_byte_array(await pixels_of(picture_path))
    bitmap = SoftwareBitmap.create_copy_from_buffer(buffer, BitmapPixelFormat.GRAY8, 28, 28)
    found = [best(session, feature.name, VideoFrame.create_with_software_bitmap(bitmap))]
    tensor = TensorFloat.create_from_iterable([1, 1, 28, 28], await numbers_of(numbers_path))
    found.append(best(session, feature.name, tensor))

    folder = await StorageFolder.get_folder_from_path_async(os.getcwd())
    answers = await folder.create_file_async("classes.txt", CreationCollisionOption.REPLACE_EXISTING)
    with await answers.open_async(FileAccessMode.READ_WRITE) as stream:
        writer = DataWriter(stream)
        writer.write_string("".join(f"{labels[index]}\r\n" for index in found))
        print(answers.name, await writer.store_async())


asyncio.run(main(*sys.argv[1:5]))

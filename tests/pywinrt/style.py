"""Applies a style model to a picture: python style.py MODEL PICTURE RESULT."""

import asyncio
import os
import sys

from winrt.system import Array, UInt32
from winrt.windows.ai.machinelearning import (
    ImageFeatureDescriptor,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
)
from winrt.windows.foundation.collections import PropertySet
from winrt.windows.graphics.imaging import (
    BitmapAlphaMode,
    BitmapBufferAccessMode,
    BitmapDecoder,
    BitmapEncoder,
    BitmapPixelFormat,
)
from winrt.windows.media import VideoFrame
from winrt.windows.storage import CreationCollisionOption, FileAccessMode, StorageFile, StorageFolder
from winrt.windows.storage.streams import RandomAccessStreamReference


async def main(model_path: str, picture_path: str, result_path: str) -> None:
    model_file = await StorageFile.get_file_from_path_async(os.path.abspath(model_path))
    model = LearningModel.load_from_stream(RandomAccessStreamReference.create_from_file(model_file))
    options = LearningModelSessionOptions()
    options.batch_size_override = 1
    options.close_model_on_session_creation = True
    session = LearningModelSession(model, LearningModelDevice(LearningModelDeviceKind.CPU), options)
    binding = LearningModelBinding(session)
    source = next(feature for feature in model.input_features if isinstance(feature, ImageFeatureDescriptor))
    target = next(feature for feature in model.output_features if isinstance(feature, ImageFeatureDescriptor))

    picture = await StorageFile.get_file_from_path_async(os.path.abspath(picture_path))
    stream = await picture.open_async(FileAccessMode.READ)
    decoder = await BitmapDecoder.create_async(stream)
    bitmap = await decoder.get_software_bitmap_async(BitmapPixelFormat.BGRA8, BitmapAlphaMode.PREMULTIPLIED)
    stream.close()

    width, height = bitmap.pixel_width, bitmap.pixel_height
    properties = PropertySet()
    properties["BitmapBounds"] = Array(UInt32, [0, 0, width, height])
    frame = VideoFrame.create_with_software_bitmap(bitmap)
    binding.bind(source.name, ImageFeatureValue.create_from_video_frame(frame), properties)
    if target.width != 0xFFFFFFFF:  # the model's own size, where it has one
        width, height = target.width, target.height
    styled = VideoFrame(BitmapPixelFormat.BGRA8, width, height)
    binding.bind(target.name, styled)
    session.evaluate(binding, "style")

    shown = VideoFrame(BitmapPixelFormat.BGRA8, width, height, BitmapAlphaMode.PREMULTIPLIED)
    await styled.copy_to_async(shown)
    with shown.software_bitmap.lock_buffer(BitmapBufferAccessMode.READ) as buffer:
        plane = buffer.get_plane_description(0)
        blue, green, red, alpha = bytes(memoryview(buffer.create_reference())[plane.start_index :][:4])
    print(plane.width, plane.height, plane.stride, red, green, blue, alpha)

    folder = await StorageFolder.get_folder_from_path_async(os.path.dirname(os.path.abspath(result_path)))
    file = await folder.create_file_async(os.path.basename(result_path), CreationCollisionOption.REPLACE_EXISTING)
    with await file.open_async(FileAccessMode.READ_WRITE) as output:
        encoder = await BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, output)
        encoder.set_software_bitmap(styled.software_bitmap)
        await encoder.flush_async()


asyncio.run(main(*sys.argv[1:4]))

"""Windows.Graphics.Imaging: bitmaps, and the codecs that read and write picture files, over Pillow."""

from .....enums import BitmapAlphaMode, BitmapBufferAccessMode, BitmapPixelFormat
from .....imaging.bitmap import SoftwareBitmap
from .....imaging.bitmap_buffer import BitmapBuffer, BitmapPlaneDescription
from .....imaging.geometry import BitmapBounds
from .codecs import BitmapCodecInformation
from .decoder import BitmapDecoder, BitmapFrame, ColorManagementMode, ExifOrientationMode, PixelDataProvider
from .encoder import BitmapEncoder, BitmapPropertySet, BitmapTypedValue
from .transform import BitmapFlip, BitmapInterpolationMode, BitmapRotation, BitmapTransform

__all__ = [
    "BitmapAlphaMode",
    "BitmapBounds",
    "BitmapBuffer",
    "BitmapBufferAccessMode",
    "BitmapCodecInformation",
    "BitmapDecoder",
    "BitmapEncoder",
    "BitmapFlip",
    "BitmapFrame",
    "BitmapInterpolationMode",
    "BitmapPixelFormat",
    "BitmapPlaneDescription",
    "BitmapPropertySet",
    "BitmapRotation",
    "BitmapTransform",
    "BitmapTypedValue",
    "ColorManagementMode",
    "ExifOrientationMode",
    "PixelDataProvider",
    "SoftwareBitmap",
]

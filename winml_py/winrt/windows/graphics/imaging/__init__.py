"""Windows.Graphics.Imaging: bitmaps, and the codecs that read and write picture files, over Pillow."""

from .....core.base.buffers import BitmapBuffer as BitmapBuffer
from .....core.base.buffers import BitmapPlaneDescription as BitmapPlaneDescription
from .....core.imaging.bitmap import SoftwareBitmap as SoftwareBitmap
from .....core.imaging.geometry import BitmapBounds as BitmapBounds
from .....enums import BitmapAlphaMode as BitmapAlphaMode
from .....enums import BitmapBufferAccessMode as BitmapBufferAccessMode
from .....enums import BitmapPixelFormat as BitmapPixelFormat
from .decoder import BitmapDecoder as BitmapDecoder
from .decoder import BitmapFlip as BitmapFlip
from .decoder import BitmapFrame as BitmapFrame
from .decoder import BitmapInterpolationMode as BitmapInterpolationMode
from .decoder import BitmapRotation as BitmapRotation
from .decoder import BitmapSize as BitmapSize
from .decoder import BitmapTransform as BitmapTransform
from .decoder import ColorManagementMode as ColorManagementMode
from .decoder import ExifOrientationMode as ExifOrientationMode
from .decoder import PixelDataProvider as PixelDataProvider
from .encoder import BitmapEncoder as BitmapEncoder
from .encoder import BitmapPropertySet as BitmapPropertySet
from .encoder import BitmapTypedValue as BitmapTypedValue

IBitmapFrame = BitmapFrame

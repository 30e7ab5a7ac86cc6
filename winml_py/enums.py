"""The enumerations of the API, with WinRT's members and values."""

from __future__ import annotations

from enum import IntEnum


class LearningModelFeatureKind(IntEnum):
    """What a feature is: a tensor, a sequence, a map or an image."""

    TENSOR = 0
    SEQUENCE = 1
    MAP = 2
    IMAGE = 3


class LearningModelDeviceKind(IntEnum):
    """Where a session runs. `DEFAULT` is the CPU, as in Windows ML; the `DIRECTX` kinds mean a GPU.

    The members named `GPU` are aliases of the `DIRECTX` ones, for systems that have no DirectX; those named `DIRECT_X`
    are pywinrt 2's spellings.
    """

    DEFAULT = 0
    CPU = 1
    DIRECTX = 2
    DIRECTX_HIGH_PERFORMANCE = 3
    DIRECTX_MIN_POWER = 4
    GPU = 2
    GPU_HIGH_PERFORMANCE = 3
    GPU_MIN_POWER = 4
    DIRECT_X = 2
    DIRECT_X_HIGH_PERFORMANCE = 3
    DIRECT_X_MIN_POWER = 4


class Precision(IntEnum):
    """What arithmetic a session computes in."""

    AUTO = 0
    """As the model says, where the device can: float16 models in half precision, if that is right and faster."""
    FLOAT32 = 1
    HALF = 2
    """On a CPU also for float32 models, if the result agrees and comes sooner. On a GPU as `AUTO`."""


class Weights(IntEnum):
    """Where a session on the CPU has a large model's weights."""

    SHARED = 0
    """In the model's file, or optimised in a file of the cache folder: mapped, so that all sessions hold one copy."""
    PRIVATE = 1
    """In memory of the session's own; no file is mapped, and none is written."""


class TensorKind(IntEnum):
    """The element type of a tensor. ONNX types that Windows ML lacks are `UNDEFINED`."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOLEAN = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15


class LearningModelPixelRange(IntEnum):
    """The range of the numbers that a model takes for the bytes 0 to 255."""

    ZERO_TO255 = 0
    ZERO_TO_ONE = 1
    MINUS_ONE_TO_ONE = 2


class BitmapPixelFormat(IntEnum):
    """The order and size of a pixel's channels in memory.

    `RGB8` and `BGR8`, three bytes a pixel, are ours: WinRT has no such formats,
    while nearly every Python picture has. Their values lie outside WinRT's range.
    """

    UNKNOWN = 0
    RGBA16 = 12
    RGBA8 = 30
    GRAY16 = 57
    GRAY8 = 62
    BGRA8 = 87
    NV12 = 103
    P010 = 104
    YUY2 = 107
    RGB8 = 1001
    BGR8 = 1002


class AsyncStatus(IntEnum):
    """How far an asynchronous operation has come."""

    STARTED = 0
    COMPLETED = 1
    CANCELED = 2
    ERROR = 3


class BitmapAlphaMode(IntEnum):
    """How the alpha channel relates to the colours. Models never see it; conversions and encoders heed it."""

    PREMULTIPLIED = 0
    STRAIGHT = 1
    IGNORE = 2


class BitmapBufferAccessMode(IntEnum):
    """What a locked bitmap's memory is wanted for."""

    READ = 0
    READ_WRITE = 1
    WRITE = 2


class ImageCropMode(IntEnum):
    """How a picture of another shape is brought to the model's."""

    CENTER = 0
    """Windows ML's: the largest centred part of the model's aspect ratio."""
    STRETCH = 1
    """The whole picture, its aspect ratio given up."""
    LETTERBOX = 2
    """The whole picture, its aspect ratio kept, in the middle of coloured padding."""


class ImageKernel(IntEnum):
    """How a picture is scaled. The antialiased ones see every pixel of it; others skip some when they shrink."""

    NEAREST = 0
    LINEAR = 1
    CUBIC = 2
    AREA = 3
    ANTIALIASED_LINEAR = 4
    """Pillow's `BILINEAR`, which is torchvision's antialiased one."""
    ANTIALIASED_CUBIC = 5
    """Pillow's `BICUBIC`."""
    ANTIALIASED_LANCZOS = 6
    """Pillow's `LANCZOS`."""
    ANTIALIASED_BOX = 7
    """Pillow's `BOX`."""
    ANTIALIASED_HAMMING = 8
    """Pillow's `HAMMING`."""


class ImageRounding(IntEnum):
    """How a size or an offset in pixels becomes a whole number."""

    DOWN = 0
    HALF_EVEN = 1
    """To the nearest; halves to the even one, as Python's `round` does."""
    HALF_UP = 2
    """To the nearest; halves up."""
    UP = 3


class ImageAnchor(IntEnum):
    """Where a picture lies in a tensor that is larger."""

    CENTER = 0
    """In the middle; an odd pixel of padding is on the right and below."""
    TOP_LEFT = 1
    """In the corner: all padding is on the right and below."""


class ImageGray(IntEnum):
    """How colours are mixed to gray for a gray tensor."""

    WINDOWS = 0
    """Windows ML's: 0.2126 red, 0.7152 green and 0.0722 blue (BT.709), without what is after the point."""
    LUMA = 1
    """Pillow's `convert("L")` and OpenCV's: 0.299 red, 0.587 green and 0.114 blue (BT.601), to the nearest level, and
    before the picture is scaled."""


class TensorLayout(IntEnum):
    """The order of a picture tensor's dimensions: batch, channels, height and width."""

    NCHW = 0
    NHWC = 1


class FramePolicy(IntEnum):
    """What becomes of a camera's frames while the program is busy with earlier ones."""

    WAIT = 0
    """Each frame is read when it is asked for. Nothing is left out here; a camera's driver may leave out some."""
    DROP_OLDEST = 1
    """A thread reads ahead, a few frames at most; when there are more, the oldest is dropped."""
    LATEST = 2
    """A thread reads all the time, and only the latest frame is kept."""

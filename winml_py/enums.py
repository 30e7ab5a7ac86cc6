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
    """The number type a session computes in."""

    AUTO = 0
    """float32 on a CPU. On a GPU, float16 for float16 models if the GPU has it, and float32 for others."""
    FLOAT32 = 1
    FLOAT16 = 2
    """11 bits of each number, up to 65504."""
    BFLOAT16 = 3
    """8 bits of each number, in the range of float32."""

    @property
    def is_half(self) -> bool:
        """Whether numbers have 16 bits."""
        return self in (Precision.FLOAT16, Precision.BFLOAT16)


class Weights(IntEnum):
    """Where a session on the CPU keeps a large model's weights."""

    SHARED = 0
    """In a mapped file, the model's or an optimised one in the cache folder, so that all sessions share one copy."""
    PRIVATE = 1
    """In the session's private memory; no file is mapped or written."""


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
    """The range of values to which a model's input maps the bytes 0 to 255."""

    ZERO_TO255 = 0
    ZERO_TO_ONE = 1
    MINUS_ONE_TO_ONE = 2


class BitmapPixelFormat(IntEnum):
    """The order and size of a pixel's channels in memory.

    `RGB8` and `BGR8`, three bytes a pixel, are additions: WinRT lacks them, but nearly every Python picture has one of
    them. Their values lie outside WinRT's range.
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
    """The state of an asynchronous operation."""

    STARTED = 0
    COMPLETED = 1
    CANCELED = 2
    ERROR = 3


class BitmapAlphaMode(IntEnum):
    """How the alpha channel relates to the colours. Models never see it; conversions and encoders use it."""

    PREMULTIPLIED = 0
    STRAIGHT = 1
    IGNORE = 2


class BitmapBufferAccessMode(IntEnum):
    """The purpose of locking a bitmap's memory."""

    READ = 0
    READ_WRITE = 1
    WRITE = 2


class ImageKernel(IntEnum):
    """How a picture is scaled. Antialiased kernels use every pixel; the others skip some when they shrink."""

    NEAREST = 0
    LINEAR = 1
    CUBIC = 2
    AREA = 3
    ANTIALIASED_LINEAR = 4
    """Pillow's `BILINEAR`, which is torchvision's antialiased bilinear."""
    ANTIALIASED_CUBIC = 5
    """Pillow's `BICUBIC`."""
    ANTIALIASED_LANCZOS = 6
    """Pillow's `LANCZOS`."""
    ANTIALIASED_BOX = 7
    """Pillow's `BOX`."""
    ANTIALIASED_HAMMING = 8
    """Pillow's `HAMMING`."""
    ALIGN_CORNERS_LINEAR = 9
    """Linear, with the middles of the corners in the corners (`align_corners`), as Windows ML's Runtime scales."""


class ImageRounding(IntEnum):
    """How a size or an offset in pixels becomes a whole number."""

    DOWN = 0
    HALF_EVEN = 1
    """To the nearest; halves to even, as Python's `round` does."""
    HALF_UP = 2
    """To the nearest; halves up."""
    UP = 3


class ImageAnchor(IntEnum):
    """Where a picture lies in a larger tensor."""

    CENTER = 0
    """In the middle; an odd pixel of padding goes to the right and to the bottom."""
    TOP_LEFT = 1
    """In the top left corner: all padding is on the right and at the bottom."""


class ImageGray(IntEnum):
    """How colours are converted to gray for a gray tensor."""

    WINDOWS = 0
    """Windows ML's: 0.2126 red, 0.7152 green and 0.0722 blue (BT.709), truncated to an integer."""
    LUMA = 1
    """OpenCV's: 0.299 red, 0.587 green and 0.114 blue (BT.601), to the nearest level, and before the picture is scaled.
    Pillow's `convert("L")` differs by one level in about one pixel of a thousand."""
    EXACT_LUMA = 2
    """The same weights in float64, halves to even, as in Windows ML's Runtime."""


class TensorLayout(IntEnum):
    """The order of a picture tensor's dimensions: batch, channels, height and width."""

    NCHW = 0
    NHWC = 1


class FramePolicy(IntEnum):
    """What happens to a camera's frames while the program is busy with earlier ones."""

    WAIT = 0
    """Each frame is read on request. None is dropped here; the camera's driver may drop some."""
    DROP_OLDEST = 1
    """A thread reads a few frames ahead; when the queue is full, the oldest is dropped."""
    LATEST = 2
    """A thread reads continuously, and only the latest frame is kept."""

"""MissingContractWarning: a picture was bound where nothing states how pictures become numbers."""

from __future__ import annotations

from ...enums import BitmapPixelFormat, LearningModelPixelRange
from ..base.caller_warnings import warn_caller
from ..features.bind_properties import BindProperties
from ..features.descriptors import TensorFeatureDescriptor
from ..features.resolve import Bindable, DevicePixels, Pictures
from ..imaging.contract import ImageContract

_ORDERS = {
    BitmapPixelFormat.BGR8: "blue, green, red (BGR)",
    BitmapPixelFormat.RGB8: "red, green, blue (RGB)",
    BitmapPixelFormat.GRAY8: "gray",
}
_RANGES = {
    LearningModelPixelRange.ZERO_TO255: "from 0 to 255",
    LearningModelPixelRange.ZERO_TO_ONE: "from 0 to 1",
    LearningModelPixelRange.MINUS_ONE_TO_ONE: "from -1 to 1",
}


class MissingContractWarning(UserWarning):
    """A picture was bound to an input, and neither the bind, the program nor the model states a contract for it.

    The picture becomes numbers by Windows ML's rule, which few models were trained with. The warning comes once for
    each input of a model. `winml_py.winrt` does not warn, as Windows ML does not.
    """


class MissingContracts:
    """Warns of the inputs of one model.

    Args:
        is_silent: whether it never warns.
    """

    def __init__(self, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._told: dict[str, object] = {}

    def tell(self, value: Bindable, properties: BindProperties) -> None:
        """Warns of a picture that was bound to an input without a contract, the first time.

        Raises:
            MissingContractWarning: the program has made warnings errors.
        """
        if self._is_silent or not isinstance(value, (Pictures, DevicePixels)) or _is_stated(value, properties):
            return
        mine, name = object(), value.descriptor.name
        if self._told.setdefault(name, mine) is mine:  # of several threads, one
            warn_caller(MissingContractWarning(_message(name, value.contract, properties)))


def _is_stated(value: Pictures | DevicePixels, properties: BindProperties) -> bool:
    if not isinstance(value.descriptor, TensorFeatureDescriptor) or properties.contract is not None:
        return True
    return properties.pixel_format is not None and properties.pixel_range is not None


def _message(name: str, contract: ImageContract, properties: BindProperties) -> str:
    part = "the centre of the picture" if properties.bounds is None else "the bounds that were given"
    return (
        f"Nothing states which pictures the input {name!r} was trained on. Assumed, as in Windows ML: "
        f"{_ORDERS[contract.pixel_format]}, {_RANGES[contract.pixel_range]}, cropped to {part}. "
        f"State it: model.contracts[{name!r}] = ImageContract.imagenet(), say; "
        "on the command line --preset or --contract."
    )

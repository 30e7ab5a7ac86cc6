"""The calls that programs make before they use WinRT. They do nothing here."""

from enum import IntEnum

__all__ = ["ApartmentType", "init_apartment", "uninit_apartment"]


class ApartmentType(IntEnum):
    """COM's threading models. All objects here may be used from any thread."""

    SINGLE_THREADED = 0
    MULTI_THREADED = 1


def init_apartment(apartment_type: ApartmentType, /) -> None:
    """Does nothing: there is no COM to initialise."""


def uninit_apartment() -> None:
    """Does nothing."""

"""A device for tests, whose engine is a Python function: the public name of `tools.fake_device`."""

from .tools.fake_device import FakeDevice

__all__ = ["FakeDevice"]

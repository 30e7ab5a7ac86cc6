"""Windows.Foundation.Collections: Python's own, with WinRT's names."""

from collections import abc

from ....core.base.collections import PropertySet as PropertySet

IIterable = abc.Iterable
IVector = abc.MutableSequence
IVectorView = abc.Sequence
ValueSet = PropertySet
StringMap = PropertySet

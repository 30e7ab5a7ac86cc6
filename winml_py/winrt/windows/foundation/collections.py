"""Windows.Foundation.Collections: Python's own, with WinRT's names."""

from collections.abc import Iterable as IIterable
from collections.abc import Iterator as IIterator
from collections.abc import Mapping as IMapView
from collections.abc import MutableMapping as IMap
from collections.abc import MutableSequence as IVector
from collections.abc import Sequence as IVectorView

from ....base.collections import KeyValuePair as IKeyValuePair
from ....base.collections import PropertySet

__all__ = [
    "IIterable",
    "IIterator",
    "IKeyValuePair",
    "IMap",
    "IMapView",
    "IPropertySet",
    "IVector",
    "IVectorView",
    "PropertySet",
    "StringMap",
    "ValueSet",
]

IPropertySet = PropertySet
ValueSet = PropertySet
StringMap = PropertySet

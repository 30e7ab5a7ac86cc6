"""Windows.Foundation.Collections: Python's own, with WinRT's names."""

from collections import abc

from ....core.base.collections import KeyValuePair
from ....core.base.collections import PropertySet as PropertySet

IIterable = abc.Iterable
IIterator = abc.Iterator
IMap = abc.MutableMapping
IMapView = abc.Mapping
IVector = abc.MutableSequence
IVectorView = abc.Sequence
IKeyValuePair = KeyValuePair
IPropertySet = PropertySet
ValueSet = PropertySet
StringMap = PropertySet

"""Windows.Graphics: the number of an adapter."""

from ....core.runtime.device import DisplayAdapterId as DisplayAdapterId

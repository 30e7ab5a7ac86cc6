"""Windows.Graphics: the number of an adapter."""

from ....session.device import DisplayAdapterId as DisplayAdapterId

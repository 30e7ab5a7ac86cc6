"""Windows.Storage.Streams: bytes with a position, in memory or in a file, and what reads and writes them."""

from ....core.base.buffers import Buffer as Buffer
from .random_access import DataReader as DataReader
from .random_access import DataWriter as DataWriter
from .random_access import InMemoryRandomAccessStream as InMemoryRandomAccessStream
from .random_access import InputStreamOptions as InputStreamOptions
from .random_access import IRandomAccessStream as IRandomAccessStream
from .random_access import RandomAccessStreamReference as RandomAccessStreamReference

IBuffer = Buffer
IInputStream = IOutputStream = IRandomAccessStream
IRandomAccessStreamReference = RandomAccessStreamReference

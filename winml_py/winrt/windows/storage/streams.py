"""Windows.Storage.Streams: bytes with a position, in memory or in a file, and what reads and writes them."""

from ....core.base.buffers import Buffer as Buffer
from .data_streams import DataReader as DataReader
from .data_streams import DataWriter as DataWriter
from .data_streams import UnicodeEncoding as UnicodeEncoding
from .random_access import FileRandomAccessStream as FileRandomAccessStream
from .random_access import InMemoryRandomAccessStream as InMemoryRandomAccessStream
from .random_access import InputStreamOptions as InputStreamOptions
from .random_access import IRandomAccessStream as IRandomAccessStream
from .random_access import IRandomAccessStreamWithContentType as IRandomAccessStreamWithContentType
from .random_access import RandomAccessStream as RandomAccessStream
from .random_access import RandomAccessStreamReference as RandomAccessStreamReference

IBuffer = Buffer
IInputStream = IOutputStream = IRandomAccessStream
IRandomAccessStreamReference = RandomAccessStreamReference

"""Windows.Storage: files and folders, as far as programs open pictures and models through them."""

from .files import CreationCollisionOption as CreationCollisionOption
from .files import FileAccessMode as FileAccessMode
from .files import NameCollisionOption as NameCollisionOption
from .files import StorageDeleteOption as StorageDeleteOption
from .files import StorageOpenOptions as StorageOpenOptions
from .items import FileAttributes as FileAttributes
from .items import IStorageItem as IStorageItem
from .items import StorageFile as StorageFile
from .items import StorageFolder as StorageFolder
from .items import StorageItemTypes as StorageItemTypes
from .texts import FileIO as FileIO
from .texts import PathIO as PathIO

IStorageFile = IStorageFile2 = StorageFile
IStorageFolder = IStorageFolder2 = StorageFolder
IStorageItem2 = IStorageItem

"""Windows.Storage: files and folders, as far as programs open pictures and models through them."""

from .files import CreationCollisionOption as CreationCollisionOption
from .files import FileAccessMode as FileAccessMode
from .files import StorageOpenOptions as StorageOpenOptions
from .items import IStorageItem as IStorageItem
from .items import StorageFile as StorageFile
from .items import StorageFolder as StorageFolder

IStorageFile = StorageFile
IStorageFolder = StorageFolder

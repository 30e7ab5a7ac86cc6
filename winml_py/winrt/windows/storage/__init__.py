"""Windows.Storage: files and folders, as far as programs open pictures and models through them."""

from .items import IStorageItem as IStorageItem
from .items import StorageFile as StorageFile
from .items import StorageFolder as StorageFolder
from .random_access import CreationCollisionOption as CreationCollisionOption
from .random_access import FileAccessMode as FileAccessMode
from .random_access import StorageOpenOptions as StorageOpenOptions

IStorageFile = StorageFile
IStorageFolder = StorageFolder

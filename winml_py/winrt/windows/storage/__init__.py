"""Windows.Storage: files and folders, as far as programs open pictures and models through them."""

from .items import StorageFile as StorageFile
from .items import StorageFolder as StorageFolder
from .random_access import CreationCollisionOption as CreationCollisionOption
from .random_access import FileAccessMode as FileAccessMode

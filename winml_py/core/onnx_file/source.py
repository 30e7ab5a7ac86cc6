"""Where a model's bytes are: a file that stays on disk, or a buffer in memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from ...errors import CorruptModelError, InvalidArgumentError, ModelNotFoundError, WinMLError
from ..base.arguments import refuse_address, suggest_path
from ..base.atomic_files import has_other_drive
from ..base.messages import guess_file_kind, require_no_pointer
from .header import Header, Weight, cut_weights, find_external_weights, has_replaceable_weights, read_header
from .nodes import ModelGraph, read_graph
from .protobuf import ModelBytes

MAPPED_FROM = 16 << 20
"""Bytes of weights from which the engine maps a model's file instead of reading it."""

_IN_MEMORY = "weights"  # the location of weights that have no file


class Skeleton(NamedTuple):
    """A model without its weights, or the path to its file.

    The weights stay in files in `folder`, to be mapped; if it is "", `files` has their contents, by the names in the
    model. `name` is the file in `folder` that this is the skeleton of, or "".
    """

    model: bytes | str
    folder: str = ""
    files: Mapping[str, bytes] = MappingProxyType({})
    name: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        return Skeleton, (self.model, self.folder, dict(self.files), self.name)  # a mapping proxy cannot be pickled

    @property
    def path_or_bytes(self) -> str | bytes:
        """The model with its weights: the path to its file, or its bytes."""
        if isinstance(self.model, str):
            return self.model
        return os.path.join(self.folder, self.name) if self.name else self.files[_IN_MEMORY]


class FileStamp(NamedTuple):
    """What distinguishes files of one name. No program can set back the time of the last change of any kind.

    It is always read from an open file: on Windows, `os.stat` has the time of creation where `os.fstat` has that of the
    last change (https://github.com/python/cpython/issues/157671).
    """

    name: str
    size: int
    modified: int
    changed: int
    inode: int
    device: int

    @classmethod
    def of_open_file(cls, name: str, file: int) -> FileStamp:
        """The stamp of an open file, by its descriptor."""
        status = os.fstat(file)
        return cls(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)

    @classmethod
    def read(cls, folder: str, name: str) -> FileStamp:
        """The stamp of the file that a folder has under a name; raises OSError if it cannot be opened."""
        # Without waiting, should it be a pipe: the engine refuses that.
        file = os.open(os.path.join(folder, name), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            return cls.of_open_file(name, file)
        finally:
            os.close(file)


class FileSource(NamedTuple):
    """A model file by its absolute path, and the stamps that its files had when its header was read."""

    path: str
    stamps: tuple[FileStamp, ...]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> tuple[FileSource, Header]:
        """Reads the header of the model at `path`, without bringing the weights into memory."""
        absolute = os.path.abspath(os.fsdecode(path))
        if not os.fspath(path):
            raise InvalidArgumentError("The model path is empty.", hint="Pass the path to an .onnx file.")
        shown = os.fsdecode(path)
        with _map(absolute, shown) as (buffer, stamp):
            header = _read_header(buffer, f"{shown}: ")
        return cls(absolute, (stamp, *_stamp_data_files(absolute, header))), header

    @property
    def size(self) -> int:
        """Bytes of the model file, external data apart."""
        return self.stamps[0].size

    @property
    def folder(self) -> str:
        """Where the model's external data files are looked for."""
        return os.path.dirname(self.path)

    def make_engine_input(self, header: Header, is_private: bool = False) -> str | Skeleton:
        """What an engine compiles: the path, or for large models a skeleton over the mapped file.

        A mapped file saves a copy of the weights at the peak, and keeps weights that the engine does not rearrange in
        the system's file cache. The engine maps it, and owns the map; if `is_private`, it is read into memory.

        Raises:
            ModelNotFoundError: the file, or a data file it names, is gone.
            CorruptModelError: the file is no longer the one whose header was read.
        """
        external = _find_external(self)
        with _map(self.path) as (buffer, stamp):
            self.require_same(stamp)
            self.require_data_files()
            if is_private and external:
                return self._read_with_data_files(external)
            cut = sum(weight.size for weight in header.weights)
            real = os.path.realpath(self.path)  # the engine refuses weights behind a link out of the folder
            folder, name = os.path.split(real)
            is_large = cut >= max(MAPPED_FROM, self.size // 2) and not external and not is_private
            if is_large:
                return Skeleton(cut_weights(buffer, header, name), folder, name=name)
            # For a model passed as bytes, the engine refuses weights behind a link out of the folder.
            places = (os.path.realpath(os.path.join(self.folder, weight.location)) for weight in external)
            is_whole = all(_is_inside(place, os.path.realpath(self.folder)) for place in places)
            if has_replaceable_weights(header) and is_whole:
                folder, name = os.path.split(self.path)
                return Skeleton(cut_weights(buffer, header, ""), folder, name=name)
            return self.path

    def _read_with_data_files(self, external: Iterable[Weight]) -> Skeleton:
        files, stamps = {}, self.read_data_stamps()
        for location in sorted({weight.location for weight in external}):
            with open(os.path.join(self.folder, location), "rb") as file:
                files[location] = file.read()
        # While one file was read, another may have been replaced.
        self.require_unchanged(stamps)
        return Skeleton(self.path, files=files)

    def read_graph(self, header: Header) -> ModelGraph:
        """The nodes of the model."""
        with _map(self.path) as (buffer, stamp):
            self.require_same(stamp)
            return read_graph(buffer, header)

    def compute_digest(self) -> str:
        """A digest of the contents of the model file and its data files, whatever their names are."""
        return _compute_digest(self.folder, self.read_data_stamps())

    def measure_mappable_size(self, header: Header) -> int:
        """Bytes of weights, including those in files next to the model."""
        return self.measure_external_size(header) + sum(weight.size for weight in header.weights)

    def measure_external_size(self, header: Header) -> int:
        """Bytes of the files next to the model that hold weights."""
        files = {weight.location for weight in header.weights if weight.location}
        return sum(os.path.getsize(os.path.join(self.folder, name)) for name in files)

    def list_data_files(self) -> list[str]:
        """The names in its folder of the files with its weights; raises CorruptModelError where one is outside."""
        external = _find_external(self)
        _require_inside(self.path, external)
        return sorted({weight.location for weight in external})

    def read_data_stamps(self) -> tuple[FileStamp, ...]:
        """The stamps of the model's file and those with its weights; raises CorruptModelError where one has changed."""
        stamps = self._read_stamps((os.path.basename(self.path), *self.list_data_files()))
        if not set(self.stamps).issubset(stamps):
            raise self._make_changed_error()
        return stamps

    def require_unchanged(self, stamps: tuple[FileStamp, ...]) -> None:
        """Refuses what an engine made of files, if they were not those of `stamps` when it opened them.

        The engine opens files by name, so the same files must be there before and after.
        """
        if self._read_stamps([stamp.name for stamp in stamps]) != stamps:
            raise self._make_changed_error()

    def _read_stamps(self, names: Iterable[str]) -> tuple[FileStamp, ...]:
        try:
            return tuple(FileStamp.read(self.folder, name) for name in names)
        except OSError as error:
            raise self._make_changed_error() from error

    def require_same(self, stamp: FileStamp) -> None:
        """Refuses a file other than the one whose header was read."""
        if stamp != self.stamps[0]:
            raise self._make_changed_error()

    def _make_changed_error(self) -> CorruptModelError:
        return CorruptModelError(
            f"{self.path}: The file, or a file with its weights, has changed since the model was loaded from it.",
            hint="Load the model again. Replace model files by renaming, never in place.",
        )

    def require_data_files(self) -> None:
        """Refuses a model whose weights are in files that are missing, outside its folder, placeholders or cut off."""
        external = _find_external(self)
        _require_inside(self.path, external)
        ends: dict[str, int] = {}
        for weight in external:
            name, location = weight.name, weight.location
            # The name as it is: the engine opens that, and `sub/../x` does not exist without `sub`.
            if location not in ends and not os.path.isfile(os.path.join(self.folder, location)):
                raise ModelNotFoundError(
                    f"{self.path}: The model stores the weight {name} in the file {location}, which is not in "
                    f"{self.folder}.",
                    hint="Copy the data file next to the model, under its original name.",
                )
            ends[location] = max(ends.get(location, 0), weight.end)
        for location, end in ends.items():
            name = f"{self.path}: {location}"
            try:
                with open(os.path.join(self.folder, location), "rb") as file:
                    head, size = file.read(64), os.fstat(file.fileno()).st_size
            except OSError as error:
                raise ModelNotFoundError(
                    f"{name}: The file with the model's weights cannot be opened: {error.strerror or error}."
                ) from error
            require_no_pointer(head, name, "the model's weights", CorruptModelError)
            if size < end:
                raise CorruptModelError(
                    f"{name}: Expected at least {end:,} bytes of weights, got {size:,}: the file is cut off.",
                    hint="Copy or download it again.",
                )


class BytesSource(NamedTuple):
    """A model in memory: the caller's `bytes` object itself, not a copy."""

    data: bytes

    @classmethod
    def open(cls, data: bytes | bytearray | memoryview) -> tuple[BytesSource, Header]:
        """Reads the header of the model in `data`; `bytearray` and `memoryview` are copied."""
        source = cls(data if isinstance(data, bytes) else bytes(data))
        return source, _read_header(source.data)

    def read_graph(self, header: Header) -> ModelGraph:
        """The nodes of the model."""
        return read_graph(self.data, header)

    def compute_digest(self) -> str:
        """A digest of the contents, equal to that of a file with the same bytes."""
        import hashlib

        return hashlib.blake2b(hashlib.blake2b(self.data).digest(), digest_size=20).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of the model."""
        return len(self.data)

    def make_engine_input(self, header: Header, is_private: bool = False) -> bytes | Skeleton:
        """What an engine compiles: the bytes, or for large models a skeleton over them.

        A skeleton avoids a parser's copy: weights that the engine does not rearrange stay where they are.
        """
        for weight in find_external_weights(self.data):
            raise ModelNotFoundError(
                f"The model stores the weight {weight.name} in the file {weight.location}, but a model loaded from "
                "memory has no folder to look in.",
                hint="Load the model from its path, or save it as one file.",
            )
        if sum(weight.size for weight in header.weights) < MAPPED_FROM:
            return cut_weights(self.data, header, "") if has_replaceable_weights(header) else self.data
        return Skeleton(cut_weights(self.data, header, _IN_MEMORY), files={_IN_MEMORY: self.data})


ModelSource = FileSource | BytesSource


def _read_header(buffer: ModelBytes, prefix: str = "") -> Header:
    """The header of a model; the error for another kind of file says which kind it is."""
    try:
        return read_header(buffer)
    except CorruptModelError as error:
        words, hint = error.message, error.hint
        if kind := guess_file_kind(buffer[:64]):
            words, hint = f"Expected an ONNX model, got {kind[0]}.", kind[1]
        raise CorruptModelError(f"{prefix}{words}", hint=hint) from error


@lru_cache(16)
def _find_external(source: FileSource) -> tuple[Weight, ...]:
    """The weights that a model keeps in other files, and those files: needed several times for one session."""
    with _map(source.path) as (buffer, stamp):
        source.require_same(stamp)
        return tuple(find_external_weights(buffer))


def _require_inside(path: str, weights: Iterable[Weight]) -> None:
    for weight in {weight.location: weight for weight in weights}.values():
        if _is_outside(path, weight.location):
            raise CorruptModelError(
                f"{path}: The model stores the weight {weight.name} in {weight.location}, outside its folder.",
                hint="Move the data file into the model's folder, the only one it can use, and update the model.",
            )


def _is_outside(path: str, location: str) -> bool:
    """Whether a model may not name a file: nothing outside its folder is opened."""
    folder = os.path.dirname(path)
    if "\0" in location or has_other_drive(location, folder):
        return True
    # Model caches keep links in one folder to files in another: both belong to the model.
    roots = (os.path.realpath(folder), os.path.dirname(os.path.realpath(path)))
    real = os.path.realpath(os.path.join(folder, location))
    return not any(_is_inside(real, root) for root in roots)


def _stamp_data_files(path: str, header: Header) -> Iterator[FileStamp]:
    """The stamps of the files with the graph's weights; a session reports those that are missing or outside."""
    for location in {weight.location for weight in header.weights if weight.location}:
        with suppress(OSError):
            if not _is_outside(path, location):
                yield FileStamp.read(os.path.dirname(path), location)


@contextmanager
def _map(path: str, shown: str = "") -> Iterator[tuple[ModelBytes, FileStamp]]:
    """The file as a read-only map (empty files cannot be mapped), and a stamp that distinguishes it from another."""
    try:
        with open(path, "rb") as file:
            # The stamp is of the open file: by now, the path may name another one.
            stamp = FileStamp.of_open_file(os.path.basename(path), file.fileno())
            if stamp.size == 0:
                yield b"", stamp
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                # No read-ahead: only the pages with tags are wanted. Windows has no such advice.
                if hasattr(buffer, "madvise") and hasattr(mmap, "MADV_RANDOM"):
                    buffer.madvise(mmap.MADV_RANDOM)
                yield buffer, stamp
    except WinMLError:
        raise
    except (OSError, ValueError) as error:
        if os.path.isdir(path):
            raise ModelNotFoundError(f"{shown or path}: Expected a model file, got a folder.") from error
        if not isinstance(error, FileNotFoundError):
            reason = getattr(error, "strerror", None) or error
            raise ModelNotFoundError(f"{shown or path}: The model file cannot be opened: {reason}.") from error
        refuse_address(shown or path, ModelNotFoundError)
        raise ModelNotFoundError(f"{shown or path}: Model file not found.", hint=suggest_path(shown or path)) from error


def _is_inside(path: str, folder: str) -> bool:
    # With a separator at the end; otherwise "models2" would count as inside "models".
    return os.path.normcase(path).startswith(os.path.normcase(os.path.join(folder, "")))


# A model file for another process, which opens it by its path and must find the same contents there.


class PackedFile(NamedTuple):
    """A model file by its path, the stamps of it and its files of weights, and a digest of their contents."""

    path: str
    stamps: tuple[FileStamp, ...]
    digest: str

    def open(self) -> tuple[FileSource, Header]:
        """The file and its header, if its contents are those that were packed."""
        try:
            source, header = FileSource.open(self.path)
        except ModelNotFoundError as error:
            raise ModelNotFoundError(
                f"The model was pickled with its path, but {self.path} cannot be opened in this process.",
                hint="Copy the file to this path on every machine, or load the model from bytes before pickling it.",
            ) from error
        stamps = source.read_data_stamps()
        if stamps != self.stamps and _compute_digest(source.folder, stamps) != self.digest:
            raise CorruptModelError(
                f"The model file {self.path}, or a file with its weights, has changed since the model was pickled.",
                hint="Pickle the model again, and put the same files on every machine.",
            )
        return source, header


def pack(source: ModelSource) -> PackedFile | BytesSource:
    """What another process needs to open the same model: the path and a digest of the contents, or the bytes."""
    if isinstance(source, BytesSource):
        return source
    stamps = source.read_data_stamps()
    return PackedFile(source.path, stamps, _compute_digest(source.folder, stamps))


def reopen(source: PackedFile | BytesSource) -> tuple[ModelSource, Header]:
    """The model that `pack` returned, and its header; raises as `PackedFile.open` does."""
    return BytesSource.open(source.data) if isinstance(source, BytesSource) else source.open()


@lru_cache(16)
def _compute_digest(folder: str, stamps: tuple[FileStamp, ...]) -> str:
    """A digest of the contents of all the files, computed once for each state of them."""
    import hashlib

    digest = hashlib.blake2b(digest_size=20)
    for stamp in stamps:
        with open(os.path.join(folder, stamp.name), "rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()

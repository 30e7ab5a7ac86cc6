"""The last evaluations, whose tensors and pictures the page may request."""

from __future__ import annotations

import io
import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.imaging.contract import ImageContract
from ..errors import NotBoundError
from .facts import MODEL, OWN, AnswerPicture, png_of, tensor_as_picture

_MAX_KEPT = 16
"""How many evaluations are cached, the latest ones."""


class CachedEvaluation(NamedTuple):
    """An evaluation: its tensors, its contracts and the model's own by input, and the pictures of its answer."""

    tensors: Mapping[str, Array]
    contracts: Mapping[str, ImageContract]
    stated: Mapping[str, ImageContract]
    pictures: Sequence[AnswerPicture]


class EvaluationCache:
    """The cached evaluations. The methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, CachedEvaluation] = {}

    def keep(self, evaluation: CachedEvaluation) -> str:
        """Caches one, and drops the oldest; returns its identity."""
        identity = secrets.token_hex(8)
        with self._lock:
            self._kept[identity] = evaluation
            if len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        return identity

    def tensor_file(self, identity: str, name: str, reading: str = OWN, channel: int = -1) -> bytes:
        """The picture of a bound tensor."""
        kept = self._find(identity)
        if name not in kept.contracts or not -1 <= channel < kept.contracts[name].channels:
            raise NotBoundError(f"There is no such picture of the input {name!r}.")
        stated = kept.stated.get(name)
        reading = OWN if reading == MODEL and stated is None else reading
        return png_of(tensor_as_picture(kept.tensors[name], kept.contracts[name], reading, stated, channel))

    def array_file(self, identity: str, name: str) -> bytes:
        """A bound tensor, as a .npy file."""
        tensors = self._find(identity).tensors
        if name not in tensors:
            raise NotBoundError(f"The input {name!r} is not a tensor.")
        file = io.BytesIO()
        np.save(file, tensors[name], allow_pickle=False)
        return file.getvalue()

    def answer_file(self, identity: str, number: str) -> bytes:
        """A picture of an answer, by its number."""
        pictures = {str(at): picture for at, picture in enumerate(self._find(identity).pictures)}
        if number not in pictures:
            raise NotBoundError("There is no such picture of this answer.")
        picture = pictures[number]
        return picture if isinstance(picture, bytes) else png_of(picture)

    def _find(self, identity: str) -> CachedEvaluation:
        with self._lock:
            if identity not in self._kept:
                raise NotBoundError("This evaluation is no longer cached.")
            return self._kept[identity]

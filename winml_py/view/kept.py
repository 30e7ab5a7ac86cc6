"""The last evaluations, whose tensors and pictures the page may ask for."""

from __future__ import annotations

import io
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..core.base.arrays import Array
from ..core.imaging.contract import ImageContract
from ..errors import NotBoundError
from .facts import MODEL, OWN, AnswerPicture, png_of, tensor_as_picture

_MOST = 32
"""Evaluations that are kept, the latest ones."""

_MOST_BYTES = 256 << 20
"""Of what they hold together, but for the latest one."""


class Kept(NamedTuple):
    """An evaluation.

    Attributes:
        tensors: what was bound, by input.
        contracts: how pictures were, by input.
        stated: the model's own contracts, by input.
        pictures: of the answer.
    """

    tensors: Mapping[str, Array]
    contracts: Mapping[str, ImageContract]
    stated: Mapping[str, ImageContract]
    pictures: Sequence[AnswerPicture]

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        pictures = (len(one) if isinstance(one, bytes) else one.to_numpy().nbytes for one in self.pictures)
        return sum(tensor.nbytes for tensor in self.tensors.values()) + sum(pictures)


class KeptEvaluations:
    """All of them. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def keep(self, evaluation: Kept) -> str:
        """Keeps one, and lets go of the oldest; gives what it is asked for by."""
        identity = secrets.token_hex(8)
        with self._lock:
            self._kept[identity] = evaluation
            total = sum(each.size for each in self._kept.values())
            while len(self._kept) > 1 and (len(self._kept) > _MOST or total > _MOST_BYTES):
                total -= self._kept.popitem(last=False)[1].size
        return identity

    def tensor_file(self, identity: str, name: str, reading: str = OWN, channel: int = -1) -> bytes:
        """The picture of a tensor that was bound.

        Raises:
            NotBoundError: it is not kept any more, or no picture's.
        """
        kept = self._find(identity)
        if name not in kept.contracts or not -1 <= channel < kept.contracts[name].channels:
            raise NotBoundError(f"There is no such picture of the input {name!r}.")
        stated = kept.stated.get(name)
        reading = OWN if reading == MODEL and stated is None else reading
        return png_of(tensor_as_picture(kept.tensors[name], kept.contracts[name], reading, stated, channel))

    def array_file(self, identity: str, name: str) -> bytes:
        """A tensor that was bound, as a .npy file.

        Raises:
            NotBoundError: it is not kept any more, or there is none.
        """
        tensors = self._find(identity).tensors
        if name not in tensors:
            raise NotBoundError(f"The input {name!r} is no tensor.")
        file = io.BytesIO()
        np.save(file, tensors[name], allow_pickle=False)
        return file.getvalue()

    def answer_file(self, identity: str, number: str) -> bytes:
        """A picture of an answer, by its number.

        Raises:
            NotBoundError: it is not kept any more, or there is none.
        """
        for at, picture in enumerate(self._find(identity).pictures):
            if str(at) == number:
                return picture if isinstance(picture, bytes) else png_of(picture)
        raise NotBoundError("There is no such picture of this answer.")

    def _find(self, identity: str) -> Kept:
        with self._lock:
            if identity not in self._kept:
                raise NotBoundError("This evaluation is not kept any more.", hint="Evaluate once more.")
            return self._kept[identity]

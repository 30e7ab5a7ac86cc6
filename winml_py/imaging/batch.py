"""Several pictures into one tensor, on several threads where that pays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from ..base.cpu_cores import usable_cores
from .bitmap import SoftwareBitmap
from .contract import ImageContract
from .geometry import Placement
from .scratch import Scratch
from .tensorize import Tensor, tensorize

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_WORTH_A_THREAD = 1 << 18
"""The size of a tensor, in numbers, below which another thread costs more than it saves."""


class BatchTensorizer:
    """Writes pictures into consecutive slots of a tensor, with memory that it keeps. For one thread at a time."""

    def __init__(self) -> None:
        self._scratches: list[Scratch] = []

    def write(
        self,
        bitmaps: Sequence[SoftwareBitmap],
        contract: ImageContract,
        tensor: Tensor,
        placements: Sequence[Placement],
    ) -> None:
        """Tensorizes each bitmap into its slot, at its placement; see `tensorize`."""
        workers = min(len(bitmaps), usable_cores()) if tensor.size // len(bitmaps) >= _WORTH_A_THREAD else 1
        while len(self._scratches) < workers:
            self._scratches.append(Scratch())

        def work(worker: int) -> None:
            for index in range(worker, len(bitmaps), workers):
                tensorize(bitmaps[index], contract, tensor[index], placements[index], self._scratches[worker])

        if workers == 1:
            work(0)
        else:
            list(_pool().map(work, range(workers)))


@cache
def _pool() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(usable_cores(), "winml-py pictures")

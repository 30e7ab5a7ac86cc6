"""An array of another library."""

from __future__ import annotations

from typing import Any

import numpy as np


class Exported:
    """All it offers is DLPack."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = np.asarray(array), device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

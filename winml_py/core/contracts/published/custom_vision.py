"""Azure Custom Vision's export for Windows ML: `labels.txt`, as others write it too. The model has its contract."""

from __future__ import annotations

from .folder import Parts, read_labels

PARTS: Parts = (("labels", "labels.txt", "", read_labels),)

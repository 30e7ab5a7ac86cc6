"""Where the repository keeps what tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
PICTURES = ROOT / "samples" / "pictures"

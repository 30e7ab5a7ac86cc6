"""Samples of random calls and of mutated models; the programs `api_sequences.py` and `model_mutations.py` run more."""

from __future__ import annotations

from tools.api_sequences import sequences
from tools.model_mutations import run


def test_a_sample_of_sequences() -> None:
    counts = sequences(150, seed=1)
    assert counts["done"] > 500
    assert counts["refused"] > 500


def test_a_sample_of_mutated_models() -> None:
    counts, deaths = run(150, seed=1)
    assert deaths == []
    assert counts["refused"] > 50
    assert counts["evaluated"] >= 3
    assert counts.total() == 150

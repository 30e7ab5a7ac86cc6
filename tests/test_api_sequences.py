"""Samples of random calls and of mutated models; the programs `api_sequences.py` and `model_mutations.py` run more."""

from __future__ import annotations

from api_sequences import sequences
from model_mutations import run


def test_a_sample_of_sequences() -> None:
    counts = sequences(300, seed=1)
    assert counts["done"] > 1000
    assert counts["refused"] > 1000


def test_a_sample_of_mutated_models() -> None:
    counts, deaths = run(400, seed=1)
    assert deaths == []
    assert counts["refused"] > 100
    assert counts["evaluated"] > 10
    assert counts.total() == 400

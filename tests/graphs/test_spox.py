"""Models that spox builds load: the example of the how-to."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from helpers.paths import ROOT

pytest.importorskip("spox")

PAGE = (ROOT / "docs" / "how-to" / "building-models.md").read_text()


def test_the_example_of_the_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)
    assert capsys.readouterr().out == re.findall(r"# (\(.*\))$", code, re.MULTILINE)[0] + "\n"
    tensor = names["result"].outputs["tensor"].to_numpy()
    np.testing.assert_allclose(tensor, np.full((1, 3, 4, 5), np.sqrt(0.2)), rtol=1e-6)

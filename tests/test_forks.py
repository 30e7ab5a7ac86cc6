"""Forked processes: thread pools that the parent has used do not hang the child."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import MODELS, PICTURES

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")

CHILD = """
import os, sys, warnings
import numpy as np
from winml_py import ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession
warnings.simplefilter("ignore")  # Python's, about threads and forks

def work():
    {work}

work()
child = os.fork()
if child == 0:
    work()
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 7)
"""


def run(work: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD.format(work=work)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "work",
    [
        f"LearningModel.load_async({str(MODELS / 'digits.onnx')!r}).get(30)",
        (
            "from winml_py.imaging import tensorize; tensorize._WORTH_A_THREAD = 1; "
            f"session = LearningModelSession(LearningModel.load({str(MODELS / 'digits_batch.onnx')!r})); "
            f"picture = ImageFeatureValue.load({str(PICTURES / 'seven.png')!r}).video_frame; "
            "LearningModelBinding(session).bind('image', [picture] * 4)"
        ),
    ],
    ids=["load_async", "a batch of pictures"],
)
def test_a_pool_that_the_parent_used_does_not_hang_the_child(work: str) -> None:
    done = run(work)
    assert (done.returncode, done.stderr) == (0, "")

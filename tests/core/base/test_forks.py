"""Forked processes: what the parent has used does not hang the child, and is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from helpers.models import unary
from helpers.paths import MODELS, PICTURES

pytestmark = [
    pytest.mark.usefixtures("all_cores"),
    pytest.mark.posix("Windows has no fork"),
]

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
        [sys.executable, "-c", CHILD.format(work=work)], capture_output=True, text=True, timeout=20, check=False
    )


FREE = unary(shape=("n", 3, "h", "w"), denotation="IMAGE")


@pytest.mark.parametrize(
    "work",
    [
        f"LearningModel.load_async({str(MODELS / 'digits.onnx')!r}).get(30)",
        (
            f"session = LearningModelSession(LearningModel.load({FREE!r})); "
            f"picture = ImageFeatureValue.load({str(PICTURES / 'seven.png')!r}).video_frame; "
            "LearningModelBinding(session).bind('x', [picture] * 4, {'ImageSize': (512, 512)})"  # worth a thread each
        ),
    ],
    ids=["load_async", "a batch of pictures"],
)
def test_a_pool_that_the_parent_used_does_not_hang_the_child(work: str) -> None:
    done = run(work)
    assert (done.returncode, done.stderr) == (0, "")


INHERITED = """
import gc, os, sys, threading, warnings
import numpy as np
from winml_py import *
from winml_py.errors import IllegalCallError
warnings.simplefilter("ignore")

options = LearningModelSessionOptions()
options.intra_op_num_threads = 3  # threads that a child lacks
model = LearningModel.load({model!r})
image = np.ones((1, 1, 28, 28), np.float32)

def make(model=model):
    return LearningModelSession(model, None, options)

def numbers(session):
    return session.evaluate_features({{"image": image}}).outputs["probabilities"].to_numpy()

def refused(work, words=("created in process %d" % os.getpid(), "Create a session in this process")):
    try:
        work()
    except IllegalCallError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError("it was not refused")

session = make()
binding = LearningModelBinding(session)
binding.bind("image", image)
expected = session.evaluate(binding).outputs["probabilities"].to_numpy()
{before}

child = os.fork()
if child == 0:
    {work}
    sys.exit(7)  # and not os._exit: the end of the interpreter lets go of everything, and must not hang either
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert np.array_equal(numbers(session), expected)  # the parent goes on
session.close()
sys.exit(status - 7)
"""


def run_inherited(work: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = INHERITED.format(model=str(MODELS / "digits.onnx"), work=work, before=before)
    # ONNX Runtime 1.31 has a thread for its telemetry, which the end of any forked process waits for.
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


REFUSED = "; ".join(
    [
        "refused(lambda: binding.bind('image', image))",
        "refused(lambda: binding.bind('probabilities', np.zeros((1, 10), np.float32)))",
        "refused(binding.clear)",
        "refused(lambda: LearningModelBinding(session))",
        "refused(lambda: session.evaluate(binding))",
        "refused(lambda: session.evaluate(binding, timeout=5))",
        "refused(lambda: session.evaluate_async(binding))",
        "refused(lambda: numbers(session))",
        "refused(lambda: session.evaluate_many([image]))",
        "refused(lambda: session.upload(image))",
        "refused(lambda: session.assigned_nodes)",
        "assert 'of another process' in repr(session)",
    ]
)


def test_a_session_of_the_parent_is_refused() -> None:
    done = run_inherited(REFUSED)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "work",
    [
        "session.close(); session.close(); refused(lambda: numbers(session))",
        "session.dispose()",
        "del session, binding; gc.collect()",
        "del binding; gc.collect(); session.close(); del session, model; gc.collect()",
        "pass",
        "child = os.fork(); session.close(); os.waitpid(child, 0) if child else os._exit(0)",
    ],
    ids=["close", "dispose", "collect", "close and collect", "nothing", "a fork of the fork"],
)
def test_letting_go_of_a_session_of_the_parent_returns(work: str) -> None:
    done = run_inherited(work)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "work",
    [
        "assert np.array_equal(numbers(make()), expected)",
        "mine = make(); mine.close(); session.close(); assert np.array_equal(numbers(make()), expected)",
        "assert np.array_equal(numbers(LearningModelSession.create_async(model, None, options).get(30)), expected)",
        "model.dispose(); assert np.array_equal(numbers(make(LearningModel.load(path))), expected)",
    ],
    ids=["a session", "one after another", "create_async", "a model of its own"],
)
def test_a_model_of_the_parent_makes_sessions_in_the_child(work: str) -> None:
    done = run_inherited(work, f"path = {str(MODELS / 'digits.onnx')!r}")
    assert (done.returncode, done.stderr) == (0, "")


BUSY = """
is_over = threading.Event()
def busy():
    while not is_over.is_set():
        session.evaluate(binding)
        numbers(make())
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        refused(lambda: binding.bind("image", image))
        refused(lambda: numbers(session))
        session.close()
        assert np.array_equal(numbers(make()), expected)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
is_over.set()
for thread in threads:
    thread.join()
"""


@pytest.mark.exhaustive
def test_a_fork_while_other_threads_make_and_use_sessions() -> None:
    """Their locks are held in the child, and nobody releases them there."""
    done = run_inherited("os._exit(7)", BUSY)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stream_of_the_parent_is_not_waited_for() -> None:
    done = run_inherited(
        "refused(lambda: next(stream), ['before a fork']); stream.close()",
        "stream = session.evaluate_many([image] * 9); next(stream)",
    )
    assert (done.returncode, done.stderr) == (0, "")

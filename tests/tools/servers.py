"""Sessions under servers and in worker processes: each evaluates right or is refused in one line.

    python tests/tools/servers.py [--environment FOLDER] [WORD]...

The program makes a virtual environment in FOLDER (by default a temporary one), installs the package and the servers
there, and starts one after the other on the loopback address. With words, it tries those whose names have one of them.
It prints a table, which docs/how-to/ship-your-app.md has in short, and exits with 1 if an answer is neither right nor
a refusal.

Not on Windows, where these servers do not run. Celery uses files as its broker.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60
"""How long a server may take to start, and to answer."""

PACKAGES = ["gunicorn", "uvicorn", "uvicorn-worker", "gevent", "eventlet", "uwsgi", "celery"]

QUESTIONS = {
    "inherited": "session made at import",
    "own": "session made in the worker",
    "isolated": "isolated session",
    "devices": "devices",
}

APP = f"""
import os
from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions, WinMLError

def make(isolation=None):
    options = LearningModelSessionOptions()
    options.isolation, options.intra_op_num_threads = isolation, 2  # a thread that a forked process lacks
    return LearningModelSession(LearningModel.load({str(ROOT / "models/digits.onnx")!r}), None, options)

def classify(session):
    return str(session.evaluate_features({{"image": {str(ROOT / "samples/pictures/seven.png")!r}}}).top_k(1)[0].index)

at_import = make()
classify(at_import)  # whose threads run now

def answer(question):
    try:
        if question == "devices":
            return "7" if LearningModelDevice.find_all() else "none"
        return classify(at_import if question == "inherited" else make("process" if question == "isolated" else None))
    except WinMLError as error:
        return f"refused: {{type(error).__name__}}: {{error}}"

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [answer(environ["PATH_INFO"].strip("/")).encode()]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        await send({{"type": "http.response.start", "status": 200, "headers": []}})
        await send({{"type": "http.response.body", "body": answer(scope["path"].strip("/")).encode()}})
"""

TASKS = """
import celery, app
tasks = celery.Celery("tasks", broker="filesystem://", backend="file://" + app.os.path.abspath("results"))
tasks.conf.broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
answer = tasks.task(app.answer, name="answer")
"""

ASK_TASKS = """
import sys, tasks
for question in sys.argv[1:]:
    print(question, tasks.answer.delay(question).get(timeout=60).replace("\\n", " "), flush=True)
"""

PROCESSES = """
import multiprocessing, sys, app
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        for question in sys.argv[2:]:
            print(question, pool.apply_async(app.answer, [question]).get(60).replace("\\n", " "), flush=True)
"""

GUNICORN = "gunicorn --bind 127.0.0.1:{port} --workers 2 --timeout 60"
UWSGI = "uwsgi --http-socket 127.0.0.1:{port} --master --processes 2 --die-on-term --home {home} --wsgi-file app.py"
SERVERS = {
    "gunicorn, sync": f"{GUNICORN} app:application",
    "gunicorn, sync, --preload": f"{GUNICORN} --preload app:application",
    "gunicorn, gthread": f"{GUNICORN} --worker-class gthread --threads 2 app:application",
    "gunicorn, gthread, --preload": f"{GUNICORN} --worker-class gthread --threads 2 --preload app:application",
    "gunicorn, gevent": f"{GUNICORN} --worker-class gevent app:application",
    "gunicorn, gevent, --preload": f"{GUNICORN} --worker-class gevent --preload app:application",
    "gunicorn, uvicorn's worker": f"{GUNICORN} --worker-class uvicorn_worker.UvicornWorker app:asgi",
    "gunicorn, uvicorn's worker, --preload": (
        f"{GUNICORN} --worker-class uvicorn_worker.UvicornWorker --preload app:asgi"
    ),
    "uvicorn, two workers": "uvicorn --host 127.0.0.1 --port {port} --workers 2 app:asgi",
    "uWSGI": UWSGI,
    "uWSGI, threads": f"{UWSGI} --threads 2",
    "uWSGI, --lazy-apps": f"{UWSGI} --lazy-apps",
}
WORKERS = {
    f"Celery, {pool}": f"celery -A tasks worker --pool {pool} --concurrency 2"
    for pool in ("prefork", "gevent", "eventlet")
}
PROGRAMS = {f"multiprocessing, {method}": f"python processes.py {method}" for method in ("fork", "forkserver", "spawn")}


@contextmanager
def running(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server while the block runs; its processes end with it."""
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def ask_server(process: subprocess.Popen[bytes], port: int) -> dict[str, str]:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                return dict.fromkeys(QUESTIONS, "did not start")
            time.sleep(0.2)
    answers = {}
    for question in QUESTIONS:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{question}", timeout=SECONDS) as response:
                answers[question] = response.read().decode()
        except (OSError, urllib.error.URLError) as error:
            answers[question] = f"no answer: {error}"
    return answers


def ask_program(command: list[str], folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """The lines that a program printed, by their first word."""
    done = subprocess.run(
        [*command, *QUESTIONS], cwd=folder, env=environment, capture_output=True, text=True, timeout=5 * SECONDS
    )
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return {question: lines.get(question, f"no answer: {done.stderr[-300:]}") for question in QUESTIONS}


def try_one(name: str, command: str, folder: Path, environment: dict[str, str]) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = command.format(port=port, home=environment["VIRTUAL_ENV"]).split()
    words[0] = str(Path(environment["VIRTUAL_ENV"], "bin", words[0]))
    if name in PROGRAMS:
        return ask_program(words, folder, environment)
    with running(words, folder, environment) as process:
        if name in SERVERS:
            return ask_server(process, port)
        return ask_program([str(Path(words[0]).with_name("python")), "ask.py"], folder, environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, help="where the virtual environment is, or will be")
    parser.add_argument("words", nargs="*", metavar="WORD", help="try those whose names have one of these")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder, home = Path(made), options.environment or Path(made, "environment")
        if not home.exists():
            venv.create(home, with_pip=True)
            subprocess.run([home / "bin/pip", "install", "--quiet", ROOT, *PACKAGES], check=True)
        for name, text in {"app": APP, "tasks": TASKS, "ask": ASK_TASKS, "processes": PROCESSES}.items():
            (folder / f"{name}.py").write_text(text)
        (folder / "queue").mkdir()
        (folder / "results").mkdir()
        environment = os.environ | {"VIRTUAL_ENV": str(home), "PYTHONPATH": made, "PYTHONWARNINGS": "ignore"}
        environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment['PATH']}"
        wrong = []
        print("|", " | ".join(["server or worker", *QUESTIONS.values()]), "|")
        print("|", " | ".join(["---"] * (len(QUESTIONS) + 1)), "|")
        for name, command in (SERVERS | WORKERS | PROGRAMS).items():
            if options.words and not any(word in name for word in options.words):
                continue
            answers = try_one(name, command, folder, environment)
            cells = {"7": "works"} | {text: "refused" for text in answers.values() if text.startswith("refused: ")}
            print("|", " | ".join([name, *(cells.get(text, "WRONG") for text in answers.values())]), "|", flush=True)
            log = folder / "log"
            wrong += [f"{name}: {question}: {text}" for question, text in answers.items() if text not in cells]
            if wrong and wrong[-1].startswith(f"{name}: ") and log.exists():
                wrong.append(log.read_text(errors="replace")[-2000:])
            for text in sorted({text for text in answers.values() if text.startswith("refused: ")}):
                print(f"  {text}", file=sys.stderr)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

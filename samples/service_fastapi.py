"""A FastAPI application that mounts the service of a model next to its own addresses.

    pip install fastapi 'winml-py[serve]'
    python samples/service_fastapi.py [PORT [MODEL]]
    curl --data-binary @samples/pictures/seven.png 127.0.0.1:8000/vision/models/model
    curl 127.0.0.1:8000/

The service limits the bytes, the pixels and the time of a request, and the number of waiting requests. The engine runs
in its own process. If a model crashes this process, the service continues with a new one. On SIGTERM or Ctrl-C, the
service first answers the requests that are running.
"""

import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from winml_py import LearningModelSessionOptions, serve

DIGITS = Path(__file__).parent.parent / "models" / "digits.onnx"
LIMITS = serve.Limits(max_bytes=8 << 20, max_pixels=24_000_000, seconds=10)


def main() -> None:
    port, model = (int(sys.argv[1]) if sys.argv[1:] else 8000), (sys.argv[2] if sys.argv[2:] else DIGITS)
    options = LearningModelSessionOptions()
    options.intra_op_num_threads, options.batch_size_override = 1, 0  # each picture on a core
    options.isolation = "process"
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/")
    def about() -> dict[str, str]:
        return {"model": Path(model).name, "address": "/vision/models/model"}

    app.mount("/vision", serve.app({"model": model}, LIMITS, options=options))
    uvicorn.run(app, port=port, log_level="warning", timeout_graceful_shutdown=10)


if __name__ == "__main__":
    main()

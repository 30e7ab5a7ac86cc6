"""A service that reads handwritten digits over HTTP, with asyncio and no other library.

        python samples/asyncio_service.py          starts the service, sends some requests to it, and ends
    python samples/asyncio_service.py PORT     serves until you press Ctrl-C:
                                               curl --data-binary @samples/pictures/seven.png 127.0.0.1:PORT

One session serves all requests. While the model runs in a thread, the event loop accepts the next request. The engine
runs in its own process. If a picture crashes this process, the next request gets a new one.
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from winml_py import (
    LearningModel,
    LearningModelEvaluationResult,
    LearningModelSession,
    LearningModelSessionOptions,
    WinMLError,
)

ROOT = Path(__file__).parent.parent
MOST_BYTES, MOST_SECONDS = 8 << 20, 10  # limits for one request: clients are not trusted


class Digits:
    """A session that is created again after the process of its engine has ended."""

    def __init__(self, model: LearningModel) -> None:
        self.model, self.options = model, LearningModelSessionOptions()
        self.options.isolation = "process"
        self.session, self.making = LearningModelSession(model, options=self.options), asyncio.Lock()

    async def evaluate(self, picture: bytes) -> LearningModelEvaluationResult:
        async with self.making:
            if self.session.is_lost:
                self.session.close()
                self.session = await LearningModelSession.create_async(self.model, options=self.options)
        return await self.session.evaluate_features_async({"image": picture})  # decoded in the thread


async def read_digit(digits: Digits, picture: bytes) -> dict[str, object]:
    result = await digits.evaluate(picture)
    scores = result.outputs["probabilities"].to_numpy()[0]
    return {"digit": int(scores.argmax()), "probability": round(float(scores.max()), 4)}


async def serve(digits: Digits, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one request: the body is a picture, the answer is JSON."""
    answer: dict[str, object] = {"error": f"Send a picture of at most {MOST_BYTES} bytes, and its length."}
    status = "400 Bad Request"
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(MOST_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"\r\ncontent-length: *(\d{1,9})\r\n", head.lower())
            if length and int(length[1]) <= MOST_BYTES:
                try:
                    answer = await read_digit(digits, await reader.readexactly(int(length[1])))
                    status = "200 OK"
                except WinMLError as error:
                    answer = {"error": str(error)}
    with suppress(OSError):  # the client may have disconnected
        body = json.dumps(answer).encode()
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def ask(port: int, picture: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(picture) + picture)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return f"{head.splitlines()[0].decode()} {body.decode()}"


async def main() -> None:
    digits = Digits(await LearningModel.load_async(ROOT / "models" / "digits.onnx"))
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    async with await asyncio.start_server(partial(serve, digits), "127.0.0.1", wanted) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}", flush=True)
        if len(sys.argv) > 1:
            await server.serve_forever()
        seven = (ROOT / "samples" / "pictures" / "seven.png").read_bytes()
        for answer in await asyncio.gather(*(ask(port, picture) for picture in [seven] * 4 + [b"no picture"])):
            print(answer)
    digits.session.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())

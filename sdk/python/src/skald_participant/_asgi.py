from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from ._rules import Answer, refusal

Handler = Callable[[Mapping[str, str], bytes], Answer]
Message = MutableMapping[str, Any]

TOO_LARGE = refusal(413, "TOO_LARGE", "the body is too large")
NO_CALL = refusal(405, "METHOD_NOT_ALLOWED", "calls have a body: use POST")


def as_headers(answer: Answer) -> list[tuple[str, str]]:
    # Even without a body: WSGI gateways require a type.
    headers = [("content-type", "application/json"), ("content-length", str(len(answer.body)))]
    if answer.retry_after is not None:
        headers.append(("retry-after", str(answer.retry_after)))
    return headers


def joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


class ASGI:
    """The participant as an ASGI application. Each call runs in a thread."""

    def __init__(self, handle: Handler, max_body: int) -> None:
        self._handle, self._max_body = handle, max_body

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"a participant has no {scope['type']}")
        if scope["method"] in ("GET", "HEAD"):
            await _answer(send, NO_CALL)
            return
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return  # the body did not arrive completely, so there is no call
            body += message.get("body", b"")
            if len(body) > self._max_body:
                await _answer(send, TOO_LARGE)
                return
            if not message.get("more_body", False):
                break
        await _answer(send, await asyncio.to_thread(self._handle, joined(scope["headers"]), bytes(body)))


async def _answer(send: Callable[[Message], Awaitable[None]], answer: Answer) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in as_headers(answer)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _live(receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return

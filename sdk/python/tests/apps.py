"""Sends requests to the applications of a participant, as servers do."""

from __future__ import annotations

import asyncio
import io
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {k.lower(): v for k, v in headers}, body

    def __repr__(self):
        return f"{self.status} {self.body!r}"


def over_asgi(participant, headers, body, method="POST"):
    # In two pieces, as bodies may arrive.
    pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
    sent = []

    async def receive():
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": "/",
        "headers": [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()],
    }  # fmt: skip
    asyncio.run(participant.asgi(scope, receive, send))
    assert [m["type"] for m in sent] == ["http.response.start", "http.response.body"]
    pairs = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in sent[0]["headers"]]
    return Response(sent[0]["status"], pairs, sent[1]["body"])


def over_wsgi(participant, headers, body, method="POST"):
    environ = {
        "REQUEST_METHOD": method,
        "QUERY_STRING": "",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }
    setup_testing_defaults(environ)
    named = {k.upper().replace("-", "_"): v for k, v in headers.items()}
    environ |= {k if k == "CONTENT_TYPE" else f"HTTP_{k}": v for k, v in named.items()}
    got = []
    answer = validator(participant.wsgi)(environ, lambda status, headers, exc=None: got.append((status, headers)))
    try:
        content = b"".join(answer)
    finally:
        answer.close()
    return Response(int(got[0][0].split()[0]), got[0][1], content)


APPS = {"asgi": over_asgi, "wsgi": over_wsgi}

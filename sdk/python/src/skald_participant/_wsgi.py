from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from ._asgi import NO_CALL, TOO_LARGE, Handler, as_headers
from ._rules import Answer, refusal

_CUT = refusal(400, "CALL_INVALID", "the body did not arrive whole")


class WSGI:
    """The participant as a WSGI application."""

    def __init__(self, handle: Handler, max_body: int) -> None:
        self._handle, self._max_body = handle, max_body

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        answer = self._answer(environ)
        try:
            phrase = HTTPStatus(answer.status).phrase
        except ValueError:
            phrase = "Refused"
        start_response(f"{answer.status} {phrase}", [(name.title(), value) for name, value in as_headers(answer)])
        return [answer.body]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return NO_CALL
        try:
            length = int(environ.get("CONTENT_LENGTH") or -1)
        except ValueError:
            return _CUT
        if length > self._max_body:
            return TOO_LARGE
        if length < 0 and not environ.get("wsgi.input_terminated"):
            length = 0  # without an end, the server would wait for more
        body = environ["wsgi.input"].read(self._max_body + 1 if length < 0 else length)
        if len(body) > self._max_body:
            return TOO_LARGE
        if len(body) < length:
            return _CUT
        headers = {
            key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")
        }
        return self._handle(headers, body)

"""What is sent to Skald about a call that was answered later."""

from __future__ import annotations

import http.client
import json
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

from ._rules import encode

Post = Callable[[str, bytes], "tuple[int, str | None]"]
"""Posts a body as JSON; returns the status and the Retry-After of the answer, or raises OSError."""

ATTEMPTS = 20  # about eight minutes
_FIRST_PAUSE = 0.5  # seconds
_LONGEST_PAUSE = 30.0
_LONGEST_ASKED = 300.0  # how long a Retry-After is honoured
_TIMEOUT = 15.0
_LONGEST_ANSWER = 64 << 10  # the part of an answer that is read


class NotDelivered(Exception):
    """Skald did not accept the request; the message says why."""


class Report:
    """Reports to Skald how a call that was answered later ended."""

    def __init__(self, post: Post, url: str, body: bytes) -> None:
        self._post, self._url, self._body = post, url, body

    def send(self) -> None:
        """Posts the report to the newest callback, and retries as long as that is useful. Call it
        after the commit.

        It returns when Skald has the report, even if the report came too late to matter. If it
        raises NotDelivered, no harm is done: Skald repeats the call when its wait is over, and then
        gets the answer.
        """
        for n in range(ATTEMPTS):
            status, asked, why = _sent(self._post, self._url, self._body)
            if 200 <= status < 300 or status == 409:
                return
            if 0 < status < 500 and status not in (408, 425, 429) or n + 1 == ATTEMPTS:
                break
            time.sleep(pause(n, asked))
        raise NotDelivered(f"the report was not delivered: {why}")


def beat(post: Post, url: str, percent: int | None, message: str) -> None:
    """Sends one heartbeat."""
    members: dict[str, Any] = {"result": "heartbeat"}
    progress: dict[str, Any] = {}  # omitted values stay unchanged
    if percent is not None:
        progress["percent"] = min(max(percent, 0), 100)
    if message:
        progress["message"] = message
    if progress:
        members["progress"] = progress
    status, _, why = _sent(post, url, encode(members))
    if not 200 <= status < 300:
        raise NotDelivered(f"the heartbeat was not accepted: {why}")


def body_of(result: str, **members: bytes) -> bytes:
    """The body of a report; the members are JSON."""
    parts = [b'"result":' + json.dumps(result).encode(), *(f'"{n}":'.encode() + v for n, v in members.items())]
    return b"{" + b",".join(parts) + b"}"


def _sent(post: Post, url: str, body: bytes) -> tuple[int, float | None, str]:
    try:
        status, retry_after = post(url, body)
    except OSError as failure:
        return 0, None, type(failure).__name__  # without the address, whose token must not be logged
    return status, asked_for(retry_after, time.time()), f"answered with {status}"


def pause(n: int, asked: float | None) -> float:
    """The seconds before the attempt after attempt n, counting from 0. A requested delay has
    precedence."""
    if asked is not None:
        return min(asked, _LONGEST_ASKED)
    return min(_FIRST_PAUSE * 2.0 ** min(n, 10), _LONGEST_PAUSE) * (1 - random.random() / 2)


def asked_for(value: str | None, now: float) -> float | None:
    """The seconds that a Retry-After requests."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A report is sent only to the callback that Skald requested."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def post(url: str, body: bytes) -> tuple[int, str | None]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with _opener.open(request, timeout=_TIMEOUT) as response:
            response.read(_LONGEST_ANSWER)
            return response.status, response.headers.get("Retry-After")
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.headers.get("Retry-After")
    except http.client.HTTPException as failure:
        raise ConnectionError(type(failure).__name__) from failure

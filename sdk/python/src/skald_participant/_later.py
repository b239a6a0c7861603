"""Answers that come later, and how their work is finished."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._call import Call, name_of
from ._errors import NotApplied, Refused
from ._report import Post, Report, body_of
from ._rules import Answer, Pending, State, encode, finished, given_up, refusal, waiting
from ._store import Joined


class Later:
    """What a function returns to answer later."""


def later() -> Later:
    """return later(): the call is answered later.

    What the function wrote, such as a note of the work, is committed together with this answer. A
    worker finishes the work with Participant.finish; until then, repeated calls get the same
    answer, and the function is not called.

    The step definition must say which answer means later (answer.later, for example `status ==
    202`); Skald then sends Call.callback. Without it, this is an error, because Skald would
    interpret the answer as success.
    """
    return Later()


class Compensated(Exception):
    """Raised by finish and heartbeat: the step was compensated or replaced during the work. Roll
    back."""


class NotPending(Exception):
    """Raised by finish and heartbeat: no call with this key is waiting; it may already have its
    final answer. Roll back."""


def check_callback(call: Call) -> None:
    at = urlsplit(call.callback)
    if at.scheme not in ("http", "https") or not at.netloc:
        raise ValueError(
            f"answered later, but X-Saga-Callback is {call.callback!r}: the step's definition has no answer.later"
        )


def reports_to(origins: Sequence[str] | None) -> Callable[[str], bool]:
    """Whether a callback is at one of the origins; with None, every callback is accepted.

    They are compared as strings up to the first slash, so that two URL parsers cannot disagree
    about the host.
    """
    if origins is None:
        return lambda callback: True
    if isinstance(origins, str) or not origins:
        raise ValueError("callback_origins must be a list with at least one origin, or None")
    for origin in origins:
        if not re.fullmatch(r"https?://[^/?#@\\\s]+", origin):
            raise ValueError(f"{origin!r} is not an origin such as https://skald.example")
    starts = tuple(origin + "/" for origin in origins)
    return lambda callback: not callback or callback.startswith(starts)


@dataclass(frozen=True)
class End:
    """How the work ended."""

    result: str
    answer: Answer | None
    """for later repeated calls; None: they call the function"""
    error: bytes = b""

    def body(self, pending: Pending) -> bytes:
        """The body of the report."""
        if self.error:
            return body_of(self.result, error=self.error)
        if pending.action == "execute" and self.answer is not None and self.answer.body:
            return body_of(self.result, output=self.answer.body)
        return body_of(self.result)


def end_of(output: object) -> End:
    if isinstance(output, Later):
        raise TypeError("a call cannot be finished with later()")
    if isinstance(output, Refused):
        return End("refused", output.answer, output.answer.body)
    if isinstance(output, NotApplied):
        return End("not_applied", None, output.answer.body)
    if isinstance(output, BaseException):
        return End("unknown", None, refusal(500, "FAILED", str(output)).body)
    return End("done", Answer(200, encode(output)))


def find(joined: Joined, key: str) -> str:
    step = joined.find(name_of(key))
    if step is None:
        raise NotPending(key)
    return step


def pending_of(state: State, key: str) -> Pending:
    pending = waiting(state, key)
    if pending is None:
        raise NotPending(key)
    if given_up(state, pending):
        raise Compensated(key)
    return pending


def finish(joined: Joined, key: str, end: End, post: Post) -> Report:
    step = find(joined, key)
    state = joined.lock(step)
    pending = pending_of(state, key)
    joined.save(step, finished(state, key, end.answer))
    return Report(post, pending.callback, end.body(pending))

"""The participant: a function, a transaction around it, and its answers."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from ._asgi import ASGI
from ._call import Call, Invalid, read_call
from ._rules import Answer, State, decide, done, encode, refusal, refused
from ._signature import parse_secret, verify
from ._store import Busy, Handle, Store, Transaction
from ._wsgi import WSGI

log = logging.getLogger("skald_participant")

MAX_BODY = 16 << 20
"""As limits.max_request_bytes of Skald."""


class Refused(Exception):
    """Raise it to refuse a call permanently: whatever the function did is rolled back, and Skald compensates.

    The answer is kept: a repeat is refused in the same way. Only a refused compensation is tried again, because
    Skald repeats it after an operator has mended the cause.
    """

    def __init__(self, code: str, message: str = "", *, status: int = 409, **details: Any) -> None:
        if not 400 <= status < 500 or status in (408, 425, 429):
            raise ValueError("status must be a permanent refusal: 4xx, but not 408, 425 or 429")
        super().__init__(f"{code}: {message}")
        self.answer = refusal(status, code, message, details)


class NotApplied(Exception):
    """Raise it if nothing was applied and Skald should call again: whatever the function did is rolled back."""

    def __init__(self, message: str = "not applied", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        seconds = None if retry_after is None else max(0, math.ceil(retry_after))
        self.answer = Answer(425, refusal(425, "NOT_APPLIED", message).body, seconds)


def _no_compensation(call: Call, handle: object) -> object:
    raise Refused("NO_COMPENSATION", "this participant cannot undo the step")


class Participant(Generic[Handle]):
    """An ASGI and WSGI application around a function, which is called once for each thing to do.

    execute and compensate get the call and the open transaction of the store; what they return is the step's
    output. Without compensate, a compensation is refused if its step was done. The answer leaves after the commit.
    With secrets, calls that none of them has signed get 401.
    """

    def __init__(
        self,
        store: Store[Handle],
        execute: Callable[[Call, Handle], object],
        compensate: Callable[[Call, Handle], object] | None = None,
        *,
        secrets: Sequence[str] | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        for function in (execute, compensate):
            if inspect.iscoroutinefunction(function):
                raise TypeError("execute and compensate must be ordinary functions: each runs in a thread of its own")
        self._store = store
        self._functions = {"execute": execute, "compensate": compensate or _no_compensation}
        # An empty list of secrets is a mistake that must not switch the check off.
        if isinstance(secrets, str) or secrets is not None and not secrets:
            raise ValueError("secrets must be a list with at least one secret, or None")
        self._keys = None if secrets is None else [parse_secret(secret) for secret in secrets]
        self.max_body = max_body
        self.asgi = ASGI(self.handle, max_body)
        self.wsgi = WSGI(self.handle, max_body)

    def handle(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answers one request; names of headers are in lower case. Use it where neither ASGI nor WSGI fits."""
        if len(body) > self.max_body:
            return refusal(413, "TOO_LARGE", f"the body has more than {self.max_body} bytes")
        if self._keys is not None and headers.get("idempotency-key") and not verify(self._keys, headers, body):
            return refusal(401, "SIGNATURE", "the call is not signed with a secret of this participant")
        try:
            call = read_call(headers, body)
        except Invalid as wrong:
            return refusal(400, "CALL_INVALID", str(wrong))
        try:
            return self._answer(call)
        except Busy as busy:
            log.info("%s: not now: %s", call.key, busy)
            return Answer(425, refusal(425, "NOT_APPLIED", "the database is busy; nothing was applied").body, 1)
        except Exception:
            log.exception("%s failed", call.key)
            return refusal(500, "FAILED", "the call failed; the log of the participant says why")

    def _answer(self, call: Call) -> Answer:
        with self._store.begin() as transaction:
            state = transaction.look(call)
            decision = decide(call, state)
            if decision.answer is None:
                answer, failure = self._call(call, decision.state, transaction)
            else:
                answer, failure = decision.answer, None
                if decision.state != state:
                    transaction.save(call, decision.state)
        # Committed although the function failed: the fence, and that its compensation has come.
        if failure is not None:
            raise failure
        return answer

    def _call(self, call: Call, state: State, transaction: Transaction[Handle]) -> tuple[Answer, Exception | None]:
        try:
            with transaction.attempt():
                output = self._functions[call.action](call, transaction.handle)
                if inspect.isawaitable(output):
                    raise TypeError("execute and compensate must be ordinary functions")
                answer = Answer(200, encode(output))
                transaction.save(call, done(call, state, answer))
            return answer, None
        except Refused as refusal_:
            transaction.save(call, refused(call, state, refusal_.answer))
            return refusal_.answer, None
        except NotApplied as not_applied:
            transaction.save(call, state)
            return not_applied.answer, None
        except Busy:
            raise
        except Exception as failure:
            transaction.save(call, state)
            return Answer(500), failure

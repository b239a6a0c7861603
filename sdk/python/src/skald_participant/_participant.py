"""The participant: a function, a transaction around it, and its answers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from ._asgi import ASGI
from ._call import Call, Invalid, name_of, read_call
from ._errors import NotApplied, Refused
from ._later import Later, check_callback, end_of, find, finish, pending_of, reports_to
from ._report import Post, Report, beat, post
from ._rules import PROMISE, Answer, Decision, decide, done, encode, promised, refusal, refused
from ._signature import parse_secret, verify
from ._store import Busy, Handle, Store, Transaction
from ._wsgi import WSGI

log = logging.getLogger("skald_participant")

MAX_BODY = 16 << 20
"""The default of Skald's limits.max_request_bytes."""


def _nothing_to_cancel(call: Call, handle: object) -> object:
    return {}  # the answer to a compensation that has nothing to undo


def _no_compensation(call: Call, handle: object) -> object:
    raise Refused("NO_COMPENSATION", "this participant cannot undo the step")


class Participant(Generic[Handle]):
    """An ASGI and WSGI application around a function, which is called once for each thing to do.

    execute and compensate get the call and the open transaction of the store; their return value is
    the step's output. Without compensate, the compensation of a step that was done is refused. The
    answer is sent after the commit. With secrets, calls without a valid signature get 401.

    cancel undoes what execute wrote when it answered later, if a compensation arrives before the
    work is finished; without it nothing is undone, for example if execute only noted the work.
    callback_origins are the origins of Skald's server.public_url, such as https://skald.example: a
    call with a callback elsewhere gets 403, because X-Saga-Callback is not signed. Without them,
    reports go wherever the call says. post sends the reports about calls that were answered later.
    """

    def __init__(
        self,
        store: Store[Handle],
        execute: Callable[[Call, Handle], object],
        compensate: Callable[[Call, Handle], object] | None = None,
        *,
        cancel: Callable[[Call, Handle], object] | None = None,
        secrets: Sequence[str] | None = None,
        callback_origins: Sequence[str] | None = None,
        post: Post = post,
        max_body: int = MAX_BODY,
    ) -> None:
        for function in (execute, compensate, cancel):
            if inspect.iscoroutinefunction(function):
                raise TypeError("execute and compensate must be ordinary functions: each runs in a thread of its own")
        self._store = store
        self._functions = {
            "execute": execute,
            "compensate": compensate or _no_compensation,
            "cancel": cancel or _nothing_to_cancel,
        }
        self._post = post
        # An empty list of secrets is an error; it must not disable the check.
        if isinstance(secrets, str) or secrets is not None and not secrets:
            raise ValueError("secrets must be a list with at least one secret, or None")
        self._keys = None if secrets is None else [parse_secret(secret) for secret in secrets]
        self._reports_to = reports_to(callback_origins)
        self.max_body = max_body
        self.asgi = ASGI(self.handle, max_body)
        self.wsgi = WSGI(self.handle, max_body)

    def handle(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answers one request; header names are in lower case. Use it where neither ASGI nor
        WSGI fits."""
        if len(body) > self.max_body:
            return refusal(413, "TOO_LARGE", f"the body has more than {self.max_body} bytes")
        if self._keys is not None and headers.get("idempotency-key") and not verify(self._keys, headers, body):
            return refusal(401, "SIGNATURE", "the call is not signed with a secret of this participant")
        try:
            call = read_call(headers, body)
        except Invalid as wrong:
            return refusal(400, "CALL_INVALID", str(wrong))
        if not self._reports_to(call.callback):
            return refusal(403, "CALLBACK_ORIGIN", "this participant does not report to X-Saga-Callback")
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
                answer, failure = self._call(call, decision, transaction)
            else:
                answer, failure = decision.answer, None
                if decision.state != state:
                    transaction.save(call, decision.state)
        # Committed although the function failed: the fence, and the fact that the compensation was
        # received.
        if failure is not None:
            raise failure
        return answer

    def finish(self, db: Handle, key: str, output: object = None) -> Report:
        """Finishes the work of a call that was answered later: stores the final answer of the call.

        db is a connection with an open transaction of yours, in which the effects of the work are
        written, such as the handle of store.begin(). All later repeats of the call get this answer,
        byte for byte. Send the report after the commit. If the report is lost, no harm is done:
        Skald repeats the call when its wait is over.

        An exception in place of the output means that the work was not done: Refused is a permanent
        refusal; after NotApplied or any other exception, a repeated call calls the function. The
        transaction should then also undo what the function wrote when it answered later, because no
        compensation will follow to do so.

        If it raises, roll back: Compensated, NotPending, or the database's exception.
        """
        return finish(self._store.join(db), key, end_of(output), self._post)

    def heartbeat(self, key: str, percent: int | None = None, message: str = "") -> None:
        """Tells Skald once that the work is still going on, which restarts the wait.

        It raises NotDelivered if Skald did not accept it, and Compensated or NotPending if the work
        is no longer wanted.
        """
        with self._store.begin() as transaction:
            joined = self._store.join(transaction.handle)
            url = pending_of(joined.look(find(joined, key)), key).callback
        beat(self._post, url, percent, message)

    def _call(
        self, call: Call, decision: Decision, transaction: Transaction[Handle]
    ) -> tuple[Answer, Exception | None]:
        state = decision.state
        try:
            with transaction.attempt():
                output = self._functions[decision.function](call, transaction.handle)
                if inspect.isawaitable(output):
                    raise TypeError("execute and compensate must be ordinary functions")
                if isinstance(output, Later):
                    check_callback(call)
                    transaction.name(call, name_of(call.key))
                    transaction.save(call, promised(call, state))
                    return PROMISE, None
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

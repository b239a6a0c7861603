"""The decision about a call: the rules of docs/participants.md, without any storage.

Each step of a saga has one state. Two calls of one step are never in progress at the same time, and
a call sees everything that an earlier one has committed, because the stores lock. Libraries in
other languages write the same state to the same table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ._call import Call


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    retry_after: int | None = None

    def headers(self) -> dict[str, str]:
        """The headers besides Content-Type and Content-Length."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


@dataclass(frozen=True)
class Pending:
    """The state of a call that was answered later."""

    callback: str
    """the newest callback, which came with attempt"""
    attempt: int
    action: str
    run: int
    over: bool = False
    """an execute that was compensated: there is nothing to cancel"""


@dataclass(frozen=True)
class Kept:
    """The answer that was given to a key."""

    digest: str
    """SHA-256 of the body of the call"""
    status: int
    body: bytes
    later: Pending | None = None
    """set while the call is answered later; this is the answer until then"""


@dataclass(frozen=True)
class State:
    """The state of the calls of one step of one saga."""

    fence: int = 0
    """the highest fence seen"""
    seen: int = 0
    """the newest run of execute that was received, 0 if none"""
    done: int = 0
    """the run of execute that was done and has not been undone since; 0: none"""
    blocked: int = 0
    """executes up to this run were compensated, or may no longer be done"""
    calls: Mapping[str, Kept] = field(default_factory=dict)
    """the answered calls, by key"""


@dataclass(frozen=True)
class Decision:
    state: State
    """what must be stored, regardless of what the function does"""
    answer: Answer | None = None
    """the answer; None if the function must be called to get it"""
    function: str = ""
    """execute, compensate, or cancel for a call that was answered later and is not finished"""


def decide(call: Call, state: State) -> Decision:
    if call.fence < state.fence:
        return Decision(state, refusal(409, "OLDER_FENCE", "another node has taken over this saga: the call is late"))
    kept = state.calls.get(call.key)
    if kept is not None and kept.digest != digest(call.raw):
        return Decision(state, refusal(422, "KEY_REUSED", "the key came with another body before"))
    state = replace(state, fence=call.fence)
    if kept is not None and kept.later is not None:
        return _again(call, state, kept, kept.later)
    if kept is not None:
        return Decision(state, Answer(kept.status, kept.body))
    if call.action == "execute" and (late := _closed(state, call.run)):
        return Decision(state, late)
    if any(pending.action == "compensate" for pending in _pendings(state)):  # what it undoes must not change meanwhile
        return Decision(state, refusal(425, "NOT_APPLIED", "a compensation of the step goes on"))
    if call.action == "execute":
        return Decision(replace(state, seen=call.run), function="execute")
    if state.done or _begun(state):
        # Only runs that have arrived are blocked: the run of a compensation may be higher than
        # that of its execute.
        blocked = replace(state, blocked=max(state.blocked, state.seen))
        return Decision(blocked, function="compensate" if state.done else "cancel")
    # Nothing was done, so there is nothing to undo; but from now on it must not be done. If no
    # execute was seen since the previous compensation, this one belongs to a run that never
    # arrived: the next one.
    missed = state.blocked + 1 if state.seen <= state.blocked else state.seen
    state = replace(state, blocked=max(missed, call.run))
    return Decision(_keep(call, state, NOTHING_TO_UNDO), NOTHING_TO_UNDO)


NOTHING_TO_UNDO = Answer(200, b"{}")


def _closed(state: State, run: int) -> Answer | None:
    """Why an execute may no longer be done; None if it may."""
    if run <= state.blocked:
        return refusal(409, "ALREADY_COMPENSATED", "the step was compensated before")
    if run < state.seen:
        return refusal(409, "SUPERSEDED", "an operator has replaced this call by another one")
    return None


def _pendings(state: State) -> list[Pending]:
    return [kept.later for kept in state.calls.values() if kept.later is not None]


def _begun(state: State) -> bool:
    """Whether the newest execute was answered later, is not finished, and is not compensated."""
    return any(p.action == "execute" and p.run == state.seen and not p.over for p in _pendings(state))


def _again(call: Call, state: State, kept: Kept, pending: Pending) -> Decision:
    """The answer to a repeat of a call that was answered later."""
    if pending.action == "execute" and (late := _closed(state, pending.run)):
        return Decision(state, late)
    if not call.callback:  # Skald would interpret 202 as success
        why = "the call was answered later, but this one has no X-Saga-Callback"
        return Decision(state, refusal(503, "STILL_AT_WORK", why))
    if call.attempt >= pending.attempt:  # attempts may overtake each other
        pending = replace(pending, callback=call.callback, attempt=call.attempt)
        state = replace(state, calls={**state.calls, call.key: replace(kept, later=pending)})
    return Decision(state, Answer(kept.status, kept.body))


def done(call: Call, state: State, answer: Answer) -> State:
    """The state after the function has succeeded."""
    state = _keep(call, state, answer)
    return replace(state, done=call.run) if call.action == "execute" else _undone(state)


PROMISE = Answer(202, b'{"later":true}')


def promised(call: Call, state: State) -> State:
    """The state after the function has answered later, with PROMISE."""
    pending = Pending(call.callback, call.attempt, call.action, call.run)
    kept = Kept(digest(call.raw), PROMISE.status, PROMISE.body, pending)
    return replace(state, calls={**state.calls, call.key: kept})


def waiting(state: State, key: str) -> Pending | None:
    """The state of a call that was answered later and has no final answer."""
    kept = state.calls.get(key)
    return None if kept is None else kept.later


def given_up(state: State, pending: Pending) -> bool:
    """Whether a call was compensated or replaced during the work."""
    return pending.action == "execute" and _closed(state, pending.run) is not None


def finished(state: State, key: str, answer: Answer | None) -> State:
    """The state after the work of a waiting call has ended. Without an answer, a repeated call
    calls the function."""
    kept = state.calls[key]
    assert kept.later is not None
    calls = {other: known for other, known in state.calls.items() if other != key}
    good = answer is not None and answer.status < 300
    if answer is None or kept.later.action == "compensate" and not good:
        return replace(state, calls=calls)
    state = replace(state, calls={**calls, key: Kept(kept.digest, answer.status, answer.body)})
    if not good:
        return state
    return replace(state, done=kept.later.run) if kept.later.action == "execute" else _undone(state)


def _undone(state: State) -> State:
    """Records that there is nothing left to undo."""
    calls = {
        key: replace(kept, later=replace(kept.later, over=True))
        if kept.later is not None and kept.later.action == "execute"
        else kept
        for key, kept in state.calls.items()
    }
    return replace(state, done=0, calls=calls)


def refused(call: Call, state: State, answer: Answer) -> State:
    """The state after the function has refused the call.

    The refusal of a compensation is not stored: an operator resumes it with the same key after
    fixing its cause.
    """
    return _keep(call, state, answer) if call.action == "execute" else state


def _keep(call: Call, state: State, answer: Answer) -> State:
    kept = Kept(digest(call.raw), answer.status, answer.body)
    return replace(state, calls={**state.calls, call.key: kept})


def dump(state: State) -> str:
    """The state as the libraries of all languages write it."""
    calls: dict[str, dict[str, Any]] = {}
    for key, kept in state.calls.items():
        calls[key] = {"digest": kept.digest, "status": kept.status, "body": kept.body.decode("utf-8")}
        if kept.later is not None:
            calls[key]["later"] = asdict(kept.later)
    of = {"fence": state.fence, "seen": state.seen, "done": state.done, "blocked": state.blocked, "calls": calls}
    return _ENCODER.encode(of)


def load(text: str) -> State:
    if text == "":
        return State()
    of = json.loads(text)
    calls = {
        key: Kept(kept["digest"], kept["status"], kept.get("body", "").encode("utf-8"), _pending(kept.get("later")))
        for key, kept in (of.get("calls") or {}).items()
    }
    return State(of["fence"], of.get("seen", 0), of.get("done", 0), of.get("blocked", 0), calls)


def _pending(of: dict[str, Any] | None) -> Pending | None:
    if of is None:
        return None
    return Pending(of["callback"], of["attempt"], of["action"], of["run"], of.get("over", False))


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def refusal(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> Answer:
    return Answer(status, encode({"code": code, "message": message, **(details or {})}))


def encode(output: object) -> bytes:
    """The output as JSON; raises ValueError or TypeError if JSON cannot represent it."""
    if output is None:
        return b""
    return _ENCODER.encode(output).encode("utf-8")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

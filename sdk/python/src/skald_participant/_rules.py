"""What is done with a call: the rules of docs/participants.md, without any storage.

There is one state for each step of a saga. Two calls of one step are never in progress at the same time, and a call
sees whatever an earlier one has committed: the stores lock. Other languages write the same state in the same table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ._call import Call


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    retry_after: int | None = None

    def headers(self) -> dict[str, str]:
        """Those beyond Content-Type and Content-Length."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


@dataclass(frozen=True)
class Kept:
    """The answer that was given to a key."""

    digest: str
    """SHA-256 of the body of the call"""
    status: int
    body: bytes


@dataclass(frozen=True)
class State:
    """What is known of the calls of one step of one saga."""

    fence: int = 0
    """the highest seen"""
    seen: int = 0
    """the newest run of execute that was received, 0 if none was"""
    done: int = 0
    """the run of execute that was done and not undone since; 0: none"""
    blocked: int = 0
    """executes up to this run were compensated, or may no longer be done"""
    calls: Mapping[str, Kept] = field(default_factory=dict)
    """those that were answered, by key"""


@dataclass(frozen=True)
class Decision:
    state: State
    """what must be stored, whatever the function does"""
    answer: Answer | None = None
    """the answer, None if the function must be called for it"""


def decide(call: Call, state: State) -> Decision:
    if call.fence < state.fence:
        return Decision(state, refusal(409, "OLDER_FENCE", "another node has taken over this saga: the call is late"))
    kept = state.calls.get(call.key)
    if kept is not None and kept.digest != digest(call.raw):
        return Decision(state, refusal(422, "KEY_REUSED", "the key came with another body before"))
    state = replace(state, fence=call.fence)
    if kept is not None:
        return Decision(state, Answer(kept.status, kept.body))
    if call.action == "execute":
        if call.run <= state.blocked:
            return Decision(state, refusal(409, "ALREADY_COMPENSATED", "the step was compensated before"))
        if call.run < state.seen:
            return Decision(state, refusal(409, "SUPERSEDED", "an operator has replaced this call by another one"))
        return Decision(replace(state, seen=call.run))
    if state.done:
        # No more is blocked than has arrived: the run of a compensation may be ahead of that of its execute.
        return Decision(replace(state, blocked=max(state.blocked, state.seen)))
    # Nothing was done, so there is nothing to undo; but from now on it must not be done. If no execute was seen since
    # the compensation before, this one is for a run that never arrived: the next.
    missed = state.blocked + 1 if state.seen <= state.blocked else state.seen
    state = replace(state, blocked=max(missed, call.run))
    return Decision(_keep(call, state, NOTHING_TO_UNDO), NOTHING_TO_UNDO)


NOTHING_TO_UNDO = Answer(200, b"{}")


def done(call: Call, state: State, answer: Answer) -> State:
    """The state after the function has done the call."""
    return replace(_keep(call, state, answer), done=call.run if call.action == "execute" else 0)


def refused(call: Call, state: State, answer: Answer) -> State:
    """The state after the function has refused the call.

    The refusal of a compensation is not kept: an operator resumes it when its cause is mended, with the same key.
    """
    return _keep(call, state, answer) if call.action == "execute" else state


def _keep(call: Call, state: State, answer: Answer) -> State:
    kept = Kept(digest(call.raw), answer.status, answer.body)
    return replace(state, calls={**state.calls, call.key: kept})


def dump(state: State) -> str:
    """The state as the libraries of all languages write it."""
    calls = {
        key: {"digest": kept.digest, "status": kept.status, "body": kept.body.decode("utf-8")}
        for key, kept in state.calls.items()
    }
    of = {"fence": state.fence, "seen": state.seen, "done": state.done, "blocked": state.blocked, "calls": calls}
    return json.dumps(of, ensure_ascii=False, separators=(",", ":"))


def load(text: str) -> State:
    if text == "":
        return State()
    of = json.loads(text)
    calls = {
        key: Kept(kept["digest"], kept["status"], kept.get("body", "").encode("utf-8"))
        for key, kept in (of.get("calls") or {}).items()
    }
    return State(of["fence"], of.get("seen", 0), of.get("done", 0), of.get("blocked", 0), calls)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def refusal(status: int, code: str, message: str, details: dict[str, Any] | None = None) -> Answer:
    return Answer(status, encode({"code": code, "message": message, **(details or {})}))


def encode(output: object) -> bytes:
    """The output as JSON; raises ValueError or TypeError if it has no form in JSON."""
    if output is None:
        return b""
    return json.dumps(output, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")

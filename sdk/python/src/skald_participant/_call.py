"""The received call, and the checks for what may be wrong with it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote_to_bytes

_LONGEST_ID = 255
_LONGEST_TEXT = 8192
_LONGEST_ROW = 600
_PRINTABLE = re.compile(r"[!-~]+")
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_END_OF_KEY = re.compile(r"/(execute|compensate)(?:#([1-9][0-9]{0,8}))?\Z", re.ASCII)


class Invalid(Exception):
    """A request that is not a valid call. It is refused with 400."""


@dataclass(frozen=True)
class Call:
    """One call of Skald, as docs/participants.md describes it."""

    key: str
    """The Idempotency-Key, the same in every attempt."""
    tenant: str
    saga_id: str
    step: str
    """The name of the step, as in the workflow."""
    action: str
    """execute or compensate"""
    attempt: int
    fence: int
    run: int
    """The number after # at the end of the key, 1 without one: an operator has started a new
    run."""
    deadline: datetime | None
    """When Skald stops waiting for the answer."""
    workflow_name: str
    payload: Any
    outputs: Mapping[str, Any]
    """The outputs of the earlier steps, by name."""
    input: Any
    """For a compensation: the input with which the step was executed."""
    output: Any
    """For a compensation: the output of the step, None if Skald never learned it."""
    headers: Mapping[str, str]
    """All headers, their names in lower case."""
    raw: bytes
    """The body as received."""
    callback: str = ""
    """Where to report the outcome of a call that is answered later; empty if the step definition
    has no answer.later."""


def read_call(headers: Mapping[str, str], body: bytes) -> Call:
    """Reads a request, whose header names are in lower case, or raises Invalid."""
    key = _text(headers, "Idempotency-Key", _LONGEST_TEXT)
    saga = _text(headers, "X-Saga-Id", _LONGEST_ID)
    step = _decoded(_text(headers, "X-Saga-Step", _LONGEST_TEXT))
    action = _text(headers, "X-Saga-Action", _LONGEST_ID)
    tenant = _text(headers, "X-Saga-Tenant", _LONGEST_ID, "")
    if action not in ("execute", "compensate"):
        raise Invalid("X-Saga-Action must be execute or compensate")
    end = _END_OF_KEY.search(key)
    if end is not None and end[1] != action:
        raise Invalid("Idempotency-Key and X-Saga-Action name different actions")
    content = _object(body)
    for header, got, want in (
        ("X-Saga-Id", saga, content.get("saga_id", saga)),
        ("X-Saga-Step", step, content.get("step", step)),
        ("X-Saga-Action", action, content.get("action", action)),
    ):
        if got != want:
            raise Invalid(f"{header} and the body name different things")
    outputs = content.get("outputs")
    workflow_name = content.get("workflow_name")
    return Call(
        key=key,
        tenant=tenant,
        saga_id=saga,
        step=step,
        action=action,
        attempt=_number(headers, "X-Saga-Attempt", 1),
        fence=_number(headers, "X-Saga-Fence", 0),
        run=run_of(key),
        deadline=_time(headers.get("x-saga-deadline", "")),
        workflow_name=workflow_name if isinstance(workflow_name, str) else "",
        payload=content.get("payload"),
        outputs=outputs if isinstance(outputs, dict) else {},
        input=content.get("input"),
        output=content.get("output"),
        headers=headers,
        raw=body,
        callback=headers.get("x-saga-callback", ""),
    )


def id_of(call: Call) -> str:
    """Identifies the step of the saga, and so the row with the state of its calls, in the
    libraries of all languages."""
    name = f"{call.saga_id}/{call.tenant}/{quote(call.step, safe='$&+=:@')}"
    return name if len(name) <= _LONGEST_ROW else hashlib.sha256(name.encode("utf-8")).hexdigest()


def name_of(key: str) -> str:
    """Identifies the row that says to which step a key that was answered later belongs. No step
    has such an id."""
    return "later:" + hashlib.sha256(key.encode("utf-8")).hexdigest()


def run_of(key: str) -> int:
    """The number after # at the end of a key; 1 without one."""
    end = _END_OF_KEY.search(key)
    return 1 if end is None else int(end[2] or 1)


def _decoded(step: str) -> str:
    try:
        name = unquote_to_bytes(step).decode("utf-8")
    except ValueError:
        name = ""
    if not 0 < len(name) <= _LONGEST_ID or "\0" in name:
        raise Invalid("X-Saga-Step must be the name of a step, percent-encoded UTF-8")
    return name


def _text(headers: Mapping[str, str], name: str, longest: int, default: str | None = None) -> str:
    value = headers.get(name.lower(), "")
    if value == "" and default is not None:
        return default
    if value == "":
        raise Invalid(f"{name} is missing")
    if len(value) > longest or not _PRINTABLE.fullmatch(value):
        raise Invalid(f"{name} must be at most {longest} printable characters of ASCII")
    return value


def _number(headers: Mapping[str, str], name: str, default: int) -> int:
    value = headers.get(name.lower(), "")
    if value == "":
        return default
    if not _NUMBER.fullmatch(value):
        raise Invalid(f"{name} must be a number")
    return int(value)


def _time(value: str) -> datetime | None:
    # Before 3.11, fromisoformat accepts neither Z nor an arbitrary number of digits.
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)", value, re.ASCII)
    if match is None:
        return None
    try:
        return datetime.fromisoformat(f"{match[1]}.{(match[2] or '').ljust(6, '0')[:6]}+00:00")
    except ValueError:
        return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = _DECODER.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Invalid("the body must be a JSON object in UTF-8") from None
    if not isinstance(content, dict):
        raise Invalid("the body must be a JSON object in UTF-8")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

"""Signatures of calls according to Standard Webhooks 1.0; the id is the Idempotency-Key."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Mapping, Sequence

TOLERANCE = 300
"""How many seconds the timestamp may differ from the clock."""

_SECONDS = re.compile(r"[0-9]{1,15}", re.ASCII)


def parse_secret(secret: str) -> bytes:
    """The key in a secret: whsec_ and the base64 encoding of 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ValueError("a secret must be whsec_ followed by the base64 of 24 to 64 bytes")
    return key


def sign(key: bytes, call: str, timestamp: str, body: bytes) -> str:
    mac = hmac.digest(key, f"{call}.{timestamp}.".encode("latin-1") + body, hashlib.sha256)
    return "v1," + base64.b64encode(mac).decode("ascii")


def verify(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: float | None = None) -> bool:
    """Whether the request is signed with one of the keys; header names are in lower case."""
    call, timestamp = headers.get("idempotency-key", ""), headers.get("x-saga-timestamp", "")
    if call == "" or not _SECONDS.fullmatch(timestamp):
        return False
    if abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE:
        return False
    good = False
    # Frameworks join the lines of a header with commas, and each signature has a comma after v1.
    given = re.findall(r"v1,[A-Za-z0-9+/=]+", headers.get("x-saga-signature", ""))
    for key in keys:
        want = sign(key, call, timestamp, body)
        for signature in given[:20]:
            good |= hmac.compare_digest(want, signature)
    return good

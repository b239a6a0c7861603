"""Custom checks, which Schemathesis runs on every response."""

import re

import schemathesis

# The pattern of If-Match and If-None-Match. Schemathesis 4.32 considers values such as 0 valid for
# a header, regardless of its pattern.
ENTITY_TAGS = re.compile(r'(\*|(W/)?"[^",]*"( *, *(W/)?"[^",]*")*)')

# The words with which a response rejects a member because of the contract's schema.
SCHEMA_REASONS = {
    "type", "enum", "pattern", "format", "minLength", "maxLength", "minimum", "maximum",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "unknown",
}


def at(body, pointer):
    """The value in a body to which a JSON pointer refers."""
    for name in pointer.split("/")[1:]:
        body = body[int(name)] if isinstance(body, list) else body[name.replace("~1", "/").replace("~0", "~")]
    return body


@schemathesis.check
def contract_is_what_is_enforced(ctx, response, case):
    """A request that fits the contract is never rejected as one that does not."""
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or response.status_code not in (400, 422):
        return
    problem = response.json()
    assert problem.get("code") != "REQ_UNKNOWN_PARAMETER", problem
    if problem.get("code") not in ("REQ_SCHEMA", "REQ_INVALID_PARAMETER"):
        return
    for error in problem["errors"]:
        header = error.get("header")
        if header in ("If-Match", "If-None-Match"):
            assert not ENTITY_TAGS.fullmatch((case.headers or {}).get(header, "")), error
            continue
        # In JSON Schema, 1.0 is an integer; the text of the contract says that it is not one here.
        if error["message"].endswith("has a fraction") and "pointer" in error:
            written = at(case.body, error["pointer"])
            if isinstance(written, float) and written.is_integer():
                continue
        # The name of a setting is a key of an open object, so only the server knows which are
        # valid. In addition, a schema counts characters where the server may count bytes.
        if not error.get("pointer", "").startswith("/values/") and not error["message"].endswith(" bytes"):
            assert error["code"] not in SCHEMA_REASONS, error


@schemathesis.check
def failures_are_problems(ctx, response, case):
    """Every failure is a problem document with a code, and never an internal error."""
    if response.status_code < 400:
        return
    problem = response.json()
    assert problem["status"] == response.status_code and problem["code"], problem
    assert problem["code"] != "SYS_INTERNAL", problem

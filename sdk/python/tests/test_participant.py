"""Cases that the vectors do not cover: bad requests, both kinds of applications, signatures."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import logging
import threading
import unittest
from datetime import timezone

from skald_participant import MemoryStore, NotApplied, Participant, Refused, parse_secret, verify
from skald_participant._call import id_of, read_call
from skald_participant._signature import sign

from .apps import APPS, over_asgi, over_wsgi
from .stores import STORES

BODY = {
    "saga_id": "s",
    "workflow_name": "w",
    "step": "charge",
    "action": "execute",
    "payload": {"amount": 5},
    "outputs": {},
}
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def headers(action="execute", **changed):
    all_of_them = {
        "Idempotency-Key": f"s/charge/{action}", "X-Saga-Id": "s", "X-Saga-Step": "charge", "X-Saga-Action": action,
        "X-Saga-Attempt": "1", "X-Saga-Fence": "1", "X-Saga-Tenant": "t",
    }  # fmt: skip
    all_of_them.update({name.replace("_", "-"): value for name, value in changed.items()})
    return {name: value for name, value in all_of_them.items() if value is not None}


def body(**members):
    return json.dumps({**BODY, **members}).encode()


def lower(of):
    return {name.lower(): value for name, value in of.items()}


def echo(call, db):
    return {"n": len(call.key)}


class Requests(unittest.TestCase):
    def setUp(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def test_bad_requests_are_refused_and_do_nothing(self):
        deep = b"[" * 100_000
        for name, changed, content, status in (
            ("no saga", {"X_Saga_Id": None}, body(), 400),
            ("no step", {"X_Saga_Step": None}, body(), 400),
            ("no action", {"X_Saga_Action": None}, body(), 400),
            ("other action", {"X_Saga_Action": "try"}, body(), 400),
            ("key of another action", {"Idempotency_Key": "s/charge/compensate"}, body(), 400),
            ("key beyond ASCII", {"Idempotency_Key": "s/caf\xe9/execute"}, body(), 400),
            ("long key", {"Idempotency_Key": "k" * 9000}, body(), 400),
            ("long saga", {"X_Saga_Id": "s" * 256}, body(saga_id="s" * 256), 400),
            ("step of bytes that are not UTF-8", {"X_Saga_Step": "%FF"}, body(), 400),
            ("step with NUL", {"X_Saga_Step": "a%00"}, body(step="a\0"), 400),
            ("fence in words", {"X_Saga_Fence": "one"}, body(), 400),
            ("fence below 0", {"X_Saga_Fence": "-1"}, body(), 400),
            ("huge fence", {"X_Saga_Fence": "9" * 40}, body(), 400),
            ("attempt of another script", {"X_Saga_Attempt": "\xb2"}, body(), 400),
            ("other saga in the body", {}, body(saga_id="x"), 400),
            ("other step in the body", {}, body(step="ship"), 400),
            ("other action in the body", {}, body(action="compensate"), 400),
            ("a list for the step", {}, body(step=["charge"]), 400),
            ("no body", {}, b"", 400),
            ("a list", {}, b"[]", 400),
            ("deep", {}, deep, 400),
            ("NaN", {}, b'{"payload": NaN}', 400),
            ("a number of 5000 digits", {}, b'{"payload": ' + b"9" * 5000 + b"}", (200, 400)),
            ("UTF-16", {}, json.dumps(BODY).encode("utf-16"), 400),
            ("a broken character", {}, b'{"payload": "\xff"}', 400),
            ("large", {}, body(payload="x" * 300_000), 413),
        ):
            for app, send in APPS.items():
                for kind in STORES[:2]:
                    stored = kind()
                    self.addCleanup(stored.close)
                    participant = Participant(stored.store, echo, echo, max_body=200_000)
                    with self.subTest(name, app=app, store=kind.name):
                        answer = send(participant, headers(**changed), content)
                        self.assertIn(answer.status, status if isinstance(status, tuple) else (status,), answer)
                        json.loads(answer.body)
                        self.assertEqual(200, send(participant, headers(), body()).status if status == 400 else 200)

    def test_methods_without_a_body(self):
        for send in APPS.values():
            self.assertEqual(405, send(Participant(MemoryStore(), echo), headers(), b"", method="GET").status)

    def test_outputs_that_are_not_json_roll_back(self):
        for output in (float("nan"), object(), "\ud800", {1j: 2}):
            store = MemoryStore()

            def give(call, db, output=output):
                db["done"] = True
                return output

            self.assertEqual(500, over_wsgi(Participant(store, give), headers(), body()).status)
            self.assertEqual({}, store.data)

    def test_the_call(self):
        call = read_call(
            lower(headers("compensate", X_Saga_Deadline="2026-11-26T22:00:00.123456789Z",
                          X_Saga_Step="%E4%BA%88%E7%B4%84", Idempotency_Key="t/s/%E4%BA%88%E7%B4%84/compensate#3")),
            body(step="予約", action="compensate", input={"a": 1}, output=None),
        )  # fmt: skip
        self.assertEqual(("予約", "compensate", 3, {"a": 1}), (call.step, call.action, call.run, call.input))
        self.assertEqual(123456, call.deadline.microsecond)
        self.assertEqual(timezone.utc, call.deadline.tzinfo)
        self.assertEqual("s/t/%E4%BA%88%E7%B4%84", id_of(call))  # as in Go: other languages read this row
        long = read_call(lower(headers(X_Saga_Step="%E4%BA%88" + "x" * 200, X_Saga_Tenant="t" * 250,
                                       X_Saga_Id="s" * 250, Idempotency_Key="k")), b"{}")  # fmt: skip
        name = f"{'s' * 250}/{'t' * 250}/%E4%BA%88{'x' * 200}"
        self.assertEqual(hashlib.sha256(name.encode()).hexdigest(), id_of(long))

    def test_without_compensation_it_is_refused(self):
        participant = Participant(MemoryStore(), echo)
        over_wsgi(participant, headers(), body())
        answer = over_wsgi(participant, headers("compensate"), body(action="compensate"))
        self.assertEqual((409, "NO_COMPENSATION"), (answer.status, json.loads(answer.body)["code"]))

    def test_mistakes_of_the_program_are_found_at_once(self):
        async def later(call, db):
            pass

        for make in (
            lambda: Participant(MemoryStore(), later),
            lambda: Participant(MemoryStore(), echo, later),
            lambda: Participant(MemoryStore(), echo, secrets=[]),
            lambda: Participant(MemoryStore(), echo, secrets=SECRET),
            lambda: Participant(MemoryStore(), echo, secrets=["whsec_c2hvcnQ="]),
            lambda: Refused("NO", status=500),
            lambda: Refused("NO", status=429),
        ):
            with self.assertRaises((TypeError, ValueError)):
                make()

    def test_a_compensation_may_have_a_higher_run_than_its_execute(self):
        # Skald increments the run after an operator has overridden a refusal; the next run must
        # still be done.
        refuse = [True]

        def refund(call, db):
            if refuse.pop():
                raise Refused("CLOSED")

        participant = Participant(MemoryStore(), echo, refund)
        for status, action, run in (
            (200, "execute", 1), (409, "compensate", 1), (200, "compensate", 2), (200, "execute", 2),
        ):  # fmt: skip
            refuse.append(run == 1)
            key = f"s/charge/{action}" + ("#2" if run == 2 else "")
            answer = over_wsgi(participant, headers(action, Idempotency_Key=key), body(action=action))
            self.assertEqual(status, answer.status, key)

    def test_the_fence_of_a_call_that_failed_is_remembered(self):
        for failure, status in ((ZeroDivisionError(), 500), (NotApplied(), 425), (Refused("NO"), 409)):

            def fail(call, db, failure=failure):
                raise failure

            participant = Participant(MemoryStore(), fail)
            self.assertEqual(status, over_wsgi(participant, headers(X_Saga_Fence="4"), body()).status)
            late = over_wsgi(participant, headers(X_Saga_Fence="3"), body())
            self.assertEqual((409, "OLDER_FENCE"), (late.status, json.loads(late.body)["code"]))

    def test_an_undo_of_a_run_that_never_arrived_keeps_it_out(self):
        for calls in (
            ((200, "execute"), (200, "compensate"), (200, "compensate#2"), (409, "execute#2"), (200, "execute#3")),
            # The second run was patched after a refusal, so the run numbers of the compensations
            # are one behind.
            ((409, "execute"), (200, "execute#2"), (200, "compensate"), (200, "compensate#2"), (409, "execute#3")),
        ):
            refuse = calls[0][0] == 409

            def charge(call, db, refuse=refuse):
                if refuse and call.run == 1:
                    raise Refused("NO")

            participant = Participant(MemoryStore(), charge, echo)
            for status, key in calls:
                action = key.split("#")[0]
                answer = over_wsgi(participant, headers(action, Idempotency_Key=f"s/charge/{key}"), body(action=action))
                self.assertEqual(status, answer.status, f"{key} of {calls}")


class Applications(unittest.TestCase):
    def test_asgi_answers_nothing_to_a_body_that_breaks_off(self):
        messages, sent = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}], []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "headers": []}
        asyncio.run(Participant(MemoryStore(), echo).asgi(scope, receive, send))
        self.assertEqual([], sent)

    def test_asgi_lives(self):
        messages, sent = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}], []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message["type"])

        asyncio.run(Participant(MemoryStore(), echo).asgi({"type": "lifespan"}, receive, send))
        self.assertEqual(["lifespan.startup.complete", "lifespan.shutdown.complete"], sent)

    def test_asgi_does_other_calls_while_one_waits(self):
        first, second = threading.Event(), threading.Event()

        def meet(call, db):
            (first if call.saga_id == "a" else second).set()
            if not (second if call.saga_id == "a" else first).wait(60):
                raise AssertionError("the other call did not come")

        stored = Free()
        participant = Participant(stored, meet)

        async def one(saga):
            of = headers(X_Saga_Id=saga, Idempotency_Key=f"{saga}/charge/execute")
            return await asyncio.to_thread(over_asgi, participant, of, body(saga_id=saga))

        async def both():
            return await asyncio.gather(one("a"), one("b"))

        self.assertEqual([200, 200], [answer.status for answer in asyncio.run(both())])

    def test_wsgi_bodies(self):
        whole = body()
        for environ, status in (
            ({"CONTENT_LENGTH": str(len(whole) + 1)}, 400),
            ({"CONTENT_LENGTH": "many"}, 400),
            ({}, 400),
            ({"wsgi.input_terminated": True}, 200),
            ({"CONTENT_LENGTH": str(10**9)}, 413),
        ):
            named = {"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers().items()}
            got = []
            environ = {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(whole), **named, **environ}
            Participant(MemoryStore(), echo).wsgi(environ, lambda status, headers, got=got: got.append(status))
            self.assertEqual(status, int(got[0][:3]), environ)


class Free(MemoryStore):
    """Two concurrent transactions, of different steps."""

    @contextlib.contextmanager
    def begin(self):
        with MemoryStore().begin() as transaction:
            yield transaction


class Signatures(unittest.TestCase):
    def test_the_table_of_the_documentation(self):
        for secret, key, at, content, signature in (
            (SECRET, "019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90/charge-payment/execute", "1795262400",
             '{"step":"charge-payment"}', "v1,cD6OGeaU939frqa84apOtiMU7r1ds+xZb81X87ASX8g="),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
             "019ab2c0-5a3e-7c31-9d5e-2f1b7a4c8d90/%E4%BA%88%E7%B4%84/compensate", "1795262401",
             '{"step":"予約"}', "v1,Q7k6F6bRiAyiGhMN6SxAxEYSMGfAfZl1wldauP/i+2Q="),
        ):  # fmt: skip
            self.assertEqual(signature, sign(parse_secret(secret), key, at, content.encode()))
            given = {"idempotency-key": key, "x-saga-timestamp": at}
            for header, good in (
                (signature, True), (f"v1,AAAA {signature}", True), (f"v1,AAAA, {signature}", True),
                (f"{signature} v1,AAAA", True),
                (f"v1a,x {signature}", True), ("", False), (signature[:-2], False),
                (signature.replace("v1", "v2"), False),
            ):  # fmt: skip
                got = verify([parse_secret(secret)], {**given, "x-saga-signature": header}, content.encode(), int(at))
                self.assertEqual(good, got, header)
            for shift, good in ((300, True), (-300, True), (301, False), (-301, False)):
                got = verify(
                    [parse_secret(secret)], {**given, "x-saga-signature": signature}, content.encode(), int(at) + shift
                )
                self.assertEqual(good, got, shift)

"""Runs the vectors of sdk/conformance; its README describes the format."""

from __future__ import annotations

import json
import pathlib
import threading
import time
import uuid

from skald_participant import Compensated, NotApplied, NotPending, Participant, Refused, later, parse_secret
from skald_participant._signature import sign

from .apps import Response

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "conformance"
DEFAULT_TENANT = "00000000-0000-0000-0000-000000000001"
OTHER_SECRET = "whsec_" + "Q" * 32
PATIENCE = 120  # seconds

VECTOR = {"name", "rule", "why", "certify", "library", "secrets", "participant", "calls", "effects", "net", "reports"}
CALL = {
    "saga", "tenant", "step", "action", "run", "attempt", "fence", "payload", "headers", "members", "without", "body",
    "at_once", "together", "cut", "restart", "sign", "expect", "callback", "finish", "lost",
}  # fmt: skip
OUTCOME = {"outcome", "output", "returns", "status", "code", "message", "effect", "retry_after_ms", "slow_ms", "held"}
ANSWER = {"status", "same_as", "body", "headers"}


def load():
    vectors = []
    for path in sorted(FOLDER.glob("*.json")):
        file = json.loads(path.read_text("utf-8"))
        assert set(file) == {"format", "vectors"} and file["format"] == 1, path
        vectors += file["vectors"]
    for vector in vectors:
        known(vector, VECTOR)
        for call in vector["calls"]:
            known(call, CALL)
            for answer in call.get("expect", []):
                known(answer, ANSWER)
        for outcomes in vector.get("participant", {}).values():
            for outcome in outcomes:
                known(outcome, OUTCOME)
    return vectors


def known(thing, members):
    assert set(thing) <= members, f"unknown members {set(thing) - members} in {thing}"


def needs_restart(vector):
    return any(call.get("restart") for call in vector["calls"])


def encoded(text):
    """As in headers from Skald: every byte that is not printable ASCII is percent-encoded."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in text.encode("utf-8"))


class Run:
    """One vector with one store and one kind of application."""

    def __init__(self, vector, stored, send):
        self.vector, self.stored, self.send = vector, stored, send
        self.ids, self.lock, self.invoked = {}, threading.Lock(), {"execute": 0, "compensate": 0}
        self.invoked["cancel"] = 0
        self.answers, self.outputs, self.reports, self.left = [], {}, [], []
        self.begun, self.awaited = threading.Event(), threading.Event()
        self.start()

    def start(self):
        cancel = self.cancel if "cancel" in self.vector.get("participant", {}) else None
        self.participant = Participant(
            self.stored.store, self.do, self.do, cancel=cancel, secrets=self.vector.get("secrets"), post=self.post
        )

    def post(self, url, body):
        with self.lock:
            self.reports.append({"to": url.rsplit("/", 1)[1], **json.loads(body)})
        return 200, None

    def id(self, letter):
        return self.ids.setdefault(letter, str(uuid.uuid4()))

    # The business function.

    def cancel(self, call, tx):
        return self.do(call, tx, "cancel")

    def do(self, call, tx, function=None):
        function = function or call.action
        with self.lock:
            script = self.vector.get("participant", {}).get(function, [{"outcome": "done"}])
            outcome = script[min(self.invoked[function], len(script) - 1)]
            self.invoked[function] += 1
            n = sum(self.invoked.values())
        self.begun.set()
        kind = outcome["outcome"]
        if kind in ("done", "fail") or outcome.get("effect"):
            self.stored.effect(tx, call.key)
        if outcome.get("held"):
            assert self.awaited.wait(PATIENCE), f"{self.vector['name']}: no call has come whose caller stays"
        time.sleep(outcome.get("slow_ms", 0) / 1000)
        if kind == "later":
            return later()
        if kind == "refused":
            raise Refused(outcome.get("code", "NO"), outcome.get("message", ""), status=outcome.get("status", 409))
        if kind == "not_applied":
            after = outcome.get("retry_after_ms")
            raise NotApplied(retry_after=None if after is None else after / 1000)
        if kind == "fail":
            raise ZeroDivisionError("a mistake")
        if outcome.get("returns") == "nothing":
            return None
        return outcome.get("output", {"effect": n})

    # The worker.

    def finish(self, call):
        key, outcome = encoded(self.key(call)), call["finish"]
        kind = outcome["outcome"]
        if kind == "refused":
            output = Refused(outcome.get("code", "NO"), outcome.get("message", ""))
        elif kind == "not_applied":
            output = NotApplied()
        elif kind == "fail":
            output = ZeroDivisionError("a mistake")
        else:
            output = None if outcome.get("returns") == "nothing" else outcome.get("output", {"finished": True})
        try:
            with self.stored.store.begin() as transaction:
                if kind == "done":
                    self.stored.effect(transaction.handle, key)
                report = self.participant.finish(transaction.handle, key, output)
        except (Compensated, NotPending) as no:
            return Response(409 if isinstance(no, Compensated) else 404, [], b"")
        if not call.get("lost"):
            report.send()
        return Response(200, [], b"")

    # The calls.

    def key(self, call, named=False):
        letter = (lambda text: text) if named else self.id
        key = f"{letter(call.get('saga', 'A'))}/{call.get('step', 'charge')}/{call.get('action', 'execute')}"
        if "tenant" in call:
            key = f"{letter(call['tenant'])}/{key}"
        return key + (f"#{call['run']}" if call.get("run", 1) > 1 else "")

    def request(self, call):
        saga, step, action = self.id(call.get("saga", "A")), call.get("step", "charge"), call.get("action", "execute")
        payload = call.get("payload", {"amount": 5})
        content = {
            "saga_id": saga, "workflow_name": "conformance", "step": step, "action": action,
            "payload": payload, "outputs": {},
        }  # fmt: skip
        if action == "compensate":
            content |= {"input": payload, "output": self.outputs.get((call.get("tenant"), saga, step))}
        content |= call.get("members", {})
        body = call["body"].encode() if "body" in call else json.dumps(content, ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json", "Idempotency-Key": encoded(self.key(call)), "X-Saga-Id": saga,
            "X-Saga-Step": encoded(step), "X-Saga-Action": action,
            "X-Saga-Tenant": self.id(call["tenant"]) if "tenant" in call else DEFAULT_TENANT,
            "X-Saga-Attempt": str(call.get("attempt", 1)), "X-Saga-Fence": str(call.get("fence", 1)),
            "X-Saga-Deadline": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60)),
        }  # fmt: skip
        if "callback" in call:
            headers["X-Saga-Callback"] = f"https://skald.example/{call['callback']}"
        headers |= call.get("headers", {})
        if secrets := self.vector.get("secrets"):
            body = self.signed(call.get("sign", "good"), secrets[-1], headers, body)
        for name in call.get("without", []):
            del headers[name]
        return headers, body

    def signed(self, how, secret, headers, body):
        if how == "none":
            return body
        shift = {"old": -600, "ahead": 600}.get(how, 0)
        at = str(int(time.time()) + shift)
        key = parse_secret(OTHER_SECRET if how == "wrong" else secret)
        headers["X-Saga-Timestamp"] = at
        headers["X-Saga-Signature"] = sign(key, headers["Idempotency-Key"], at, body)
        return body.replace(b"5", b"6") if how == "changed" else body

    def play(self):
        calls = self.vector["calls"]
        n = 0
        while n < len(calls):
            word, group = calls[n].get("together"), [calls[n]]
            while word and n + len(group) < len(calls) and calls[n + len(group)].get("together") == word:
                group.append(calls[n + len(group)])
            if calls[n].get("restart"):
                self.wait_for_the_left()
                self.stored.restart()
                self.start()
            if calls[n].get("cut"):
                self.leave(calls[n])
                self.answers.append(None)
                n += 1
                continue
            sent = [
                (n + i, call, *self.request(call))
                for i, call in enumerate(group)
                for _ in range(call.get("at_once", 1))
            ]
            for number, response in self.at_once(sent):
                if len(self.answers) == number:
                    self.answers.append(response)
                self.check(number, response)
            n += len(group)
        self.wait_for_the_left()
        self.count()

    def leave(self, call):
        """A call that continues without its caller: it is running, or waiting for a running one,
        when the next call arrives."""
        thread = threading.Thread(target=self.send, args=(self.participant, *self.request(call)))
        thread.start()
        self.left.append(thread)
        assert self.begun.wait(PATIENCE), f"{self.vector['name']}: a call that is cut has not begun"

    def wait_for_the_left(self):
        for thread in self.left:
            thread.join(PATIENCE)

    def at_once(self, sent):
        if len(sent) == 1:
            number, call, headers, body = sent[0]
            return [(number, self.answer(call, headers, body))]
        got, gate = [None] * len(sent), threading.Barrier(len(sent))

        def run(i, number, call, headers, body):
            gate.wait(PATIENCE)
            got[i] = (number, self.answer(call, headers, body))

        threads = [threading.Thread(target=run, args=(i, *one)) for i, one in enumerate(sent)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert None not in got, f"{self.vector['name']}: a call was not answered"
        return got

    def answer(self, call, headers, body):
        """The answer, after as many repeats as the participant asks for."""
        if "finish" in call:
            return self.finish(call)
        self.awaited.set()
        named = [alternative.get("status") for alternative in call.get("expect", [])]
        until = time.monotonic() + PATIENCE
        while True:
            response = self.send(self.participant, headers, body)
            if response.status not in (425, 429) or response.status in named or time.monotonic() > until:
                return response
            time.sleep(0.01)

    # What is right.

    def check(self, n, response):
        call = self.vector["calls"][n]
        if response.status == 200 and call.get("action", "execute") == "execute":
            if "finish" in call and call["finish"].get("returns") != "nothing":
                response.body = json.dumps(call["finish"].get("output", {"finished": True})).encode()
            of = (call.get("tenant"), self.id(call.get("saga", "A")), call.get("step", "charge"))
            self.outputs[of] = json.loads(response.body) if response.body else None
        expect = call.get("expect", [{"status": 200}])
        right = any(self.fits(alternative, response) for alternative in expect)
        assert right, f"{self.vector['name']}: call {n + 1}: {response}, want one of {expect}"
        first = self.answers[n]
        if response.status < 300 and first.status < 300:
            assert response.body == first.body, f"{self.vector['name']}: call {n + 1}: {response} and {first}"

    def fits(self, want, response):
        if "same_as" in want:
            other = self.answers[want["same_as"] - 1]
            return (response.status, response.body) == (other.status, other.body)
        if response.status != want["status"]:
            return False
        content = json.loads(response.body) if "body" in want else {}
        return all(content.get(k) == v for k, v in want.get("body", {}).items()) and all(
            response.headers.get(k.lower()) == v for k, v in want.get("headers", {}).items()
        )

    def count(self):
        if "reports" in self.vector:
            want = self.vector["reports"]
            fit = all(any(self.same(got, one) for got in self.reports) for one in want)
            assert fit and len(want) == len(self.reports), f"{self.vector['name']}: {self.reports}, want {want}"
        names = {encoded(self.key(call)): self.key(call, named=True) for call in self.vector["calls"]}
        effects = [key for key in self.stored.effects() if key in names]  # the others belong to other vectors
        if "net" in self.vector:
            for of, want in self.vector["net"].items():
                got = sum(self.sign_of(names[key]) for key in effects if names[key].rsplit("/", 1)[0] == of)
                assert got == want, f"{self.vector['name']}: net of {of}: {got}, want {want}"
            return
        counted = {}
        for key in effects:
            counted[names[key]] = counted.get(names[key], 0) + 1
        assert counted == self.vector["effects"], f"{self.vector['name']}: {counted}, want {self.vector['effects']}"

    @staticmethod
    def same(got, want):
        plain = [(report["to"], report["result"], report.get("output")) for report in (got, want)]
        return plain[0] == plain[1] and want.get("error", {}).items() <= got.get("error", {}).items()

    @staticmethod
    def sign_of(key):
        return 1 if "/execute" in key else -1

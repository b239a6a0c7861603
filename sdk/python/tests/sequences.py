"""A saga as Skald drives it, over a network that loses, repeats and delays messages, with a
participant that crashes.

The conditions checked here do not follow from the library's rules: at the end, every step that
Skald considers done took effect exactly once, and every step that it considers undone or refused
left no effect.
"""

from __future__ import annotations

import contextlib
import json
import uuid

from skald_participant import Compensated, NotApplied, NotPending, Participant, Refused, later

FATES = ["arrives"] * 8 + [
    "is lost",
    "answer lost",
    "crash before the commit",
    "crash after the commit",
    "crash inside",
]
SEEN = ["arrives"] * 4 + ["answer lost", "crash after the commit"]
OUTCOMES = ["done"] * 6 + ["later"] * 3 + ["refused", "not applied", "fails"]
ENDS = ["done"] * 4 + ["refused", "fails"]


class Crash(BaseException):
    """The process ends here."""


class Crashing:
    """A store whose process may end before or after the commit."""

    def __init__(self, stored):
        self.stored, self.when = stored, ""

    @contextlib.contextmanager
    def begin(self):
        with self.stored.store.begin() as transaction:
            yield transaction
            if self.when == "crash before the commit":
                raise Crash
        if self.when == "crash after the commit":
            raise Crash


    def join(self, handle):
        return self.stored.store.join(handle)


class Saga:
    def __init__(self, random, stored):
        self.random, self.stored, self.id = random, stored, str(uuid.uuid4())  # a store has many sagas
        self.store = Crashing(stored)
        self.participant = Participant(self.store, self.do, self.do, cancel=self.cancel, post=lambda *_: (200, None))
        self.works = []  # keys of calls that were answered later
        self.fence, self.attempts, self.invoked = 1, {"execute": 0, "compensate": 0}, 0
        self.sent, self.answers, self.outcome, self.trace = [], {}, "done", []

    def cancel(self, call, tx):
        """Nothing but the promise was written."""
        self.invoked += 1
        if self.outcome == "fails":
            raise ZeroDivisionError("a mistake")
        return {"cancelled": self.invoked}

    def do(self, call, tx):
        self.invoked += 1
        if self.outcome == "later":
            return later()
        if self.outcome != "refused" or self.random.randrange(2):
            self.stored.effect(tx, call.key)
        if self.store.when == "crash inside":
            raise Crash
        if self.outcome == "refused":
            raise Refused("NO", f"no {self.invoked}")
        if self.outcome == "not applied":
            raise NotApplied()
        if self.outcome == "fails":
            raise ZeroDivisionError("a mistake")
        return {"n": self.invoked}

    def request(self, action, run):
        self.attempts[action] += 1
        if self.random.randrange(4) == 0:
            self.fence += 1  # another node has taken over
        key = f"{self.id}/charge/{action}" + (f"#{run}" if run > 1 else "")
        body = {"saga_id": self.id, "step": "charge", "action": action, "payload": {"amount": 5, "run": run}}
        headers = {
            "idempotency-key": key, "x-saga-id": self.id, "x-saga-step": "charge", "x-saga-action": action,
            "x-saga-attempt": str(self.attempts[action]), "x-saga-fence": str(self.fence),
            "x-saga-callback": f"https://skald.example/{action}/{self.attempts[action]}",
        }  # fmt: skip
        return headers, json.dumps(body).encode()

    def deliver(self, request, fate="arrives", outcome="done"):
        """The status of the answer, None if none arrives."""
        self.store.when, self.outcome = fate, outcome
        headers, body = request
        try:
            answer = self.participant.handle(headers, body)
        except Crash:
            answer = None
        self.trace.append((headers["idempotency-key"], headers["x-saga-fence"], fate, outcome, answer))
        if answer is None:
            return None
        if answer.status == 200:
            first = self.answers.setdefault(headers["idempotency-key"], answer.body)
            assert first == answer.body, f"{first!r} and then {answer.body!r}: {self.trace}"
        if answer.status == 202:
            self.works.append(headers["idempotency-key"])
        return None if fate == "answer lost" else answer.status

    def work(self, key, fate, end):
        """A worker finishes the work of a call. Returns what Skald learns: done, refused or
        fails; None if nothing."""
        self.store.when = fate
        output = {"done": {"worked": self.invoked}, "refused": Refused("NO"), "fails": ZeroDivisionError()}[end]
        self.trace.append((key, "work", fate, end))
        try:
            with self.store.begin() as transaction:
                if end == "done":
                    self.stored.effect(transaction.handle, key)
                if fate == "crash inside":
                    raise Crash
                report = self.participant.finish(transaction.handle, key, output)
            report.send()
        except (Crash, Compensated, NotPending):
            return None
        return end if fate == "arrives" else None

    def stray(self):
        """Copies of requests that were sent earlier arrive now."""
        while self.sent and self.random.randrange(3) == 0:
            self.deliver(self.random.choice(self.sent), outcome=self.random.choice(OUTCOMES))
        while self.works and self.random.randrange(4) == 0:
            self.work(self.random.choice(self.works), self.random.choice(FATES), self.random.choice(ENDS))

    def attempt(self, action, run, fates, outcomes):
        self.stray()
        request = self.request(action, run)
        fate = self.random.choice(fates)
        status = None if fate == "is lost" else self.deliver(request, fate, self.random.choice(outcomes))
        if status != 425:  # 425 means that this attempt ended without an effect, so no copy of it is still in transit
            self.sent.append(request)
        self.stray()
        return status

    def execute(self, run, must_be_seen):
        """done, refused, or doubt."""
        doubt = False
        for n in range(self.random.randrange(1, 4)):
            status = self.attempt("execute", run, SEEN if must_be_seen and n == 0 else FATES, OUTCOMES)
            if status == 202:
                learned = self.work(self.works[-1], self.random.choice(FATES), self.random.choice(ENDS))
                if learned == "refused":
                    return "doubt" if doubt else "refused"
                status = 200 if learned == "done" else None
            if status == 200:
                return "done"
            if status is not None and status < 500 and status != 425:
                return "doubt" if doubt else "refused"
            doubt = doubt or status != 425
        return "doubt" if doubt else "refused"

    def compensate(self, run):
        """The run in which it was done: an operator who retries after a refusal starts a new
        run."""
        for n in range(100):
            last = n > 4
            status = self.attempt("compensate", run, ["arrives"] if last else FATES, ["done"] if last else OUTCOMES)
            if status == 202:
                fate, end = ("arrives", "done") if last else (self.random.choice(FATES), self.random.choice(ENDS))
                status = 200 if self.work(self.works[-1], fate, end) == "done" else None
            if status == 200:
                return run
            assert status is None or status in (409, 425, 500), f"{status}: {self.trace}"
        raise AssertionError(f"never compensated: {self.trace}")

    def play(self):
        undone, run, must_be_seen = 0, 0, False
        for _ in range(self.random.randrange(1, 4)):
            run += 1
            result = self.execute(run, must_be_seen)
            must_be_seen = False
            if result == "done" and self.random.randrange(2):
                return self.check(run, done=True)
            if result == "refused":
                # An operator sends another input, under another key. If all its attempts were
                # lost, its compensation could not be distinguished from that of the first run; see
                # README.md.
                must_be_seen = True
                continue
            undone = self.compensate(undone + 1)
        self.check(run, done=False)

    def check(self, run, done):
        for _ in range(3):
            for request in self.random.sample(self.sent, len(self.sent)):
                self.deliver(request, outcome=self.random.choice(OUTCOMES))
            for key in self.works:
                self.work(key, "arrives", "done")
        effects = [key for key in self.stored.effects() if key.startswith(self.id)]
        twice = {key for key in effects if effects.count(key) > 1}
        net = sum(1 if "/execute" in key else -1 for key in effects)
        assert not twice, f"{twice} have more than one effect: {self.trace}"
        assert net == int(done), f"{effects}: net {net}, want {int(done)}: {self.trace}"
        if done:
            assert sum(key.endswith(("/execute", f"/execute#{run}")) for key in effects) >= 1, self.trace

"""Answers that come later: the reports, and the calls that are refused."""

from __future__ import annotations

import http.server
import logging
import sqlite3
import threading
import unittest
from email.utils import formatdate

from skald_participant import Compensated, MemoryStore, NotDelivered, NotPending, Participant, later
from skald_participant._report import ATTEMPTS, asked_for, pause

from .apps import over_wsgi
from .stores import STORES, SQLite
from .test_participant import body, headers

URL = "https://skald.example/one"
DONE = b'{"result":"done","output":{"charged":5}}'


class Later(unittest.TestCase):
    def setUp(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.sent, self.answers = [], [200]

    def post(self, url, sent):
        self.assertEqual(URL, url)
        self.sent.append(sent)
        answer = self.answers[min(len(self.sent), len(self.answers)) - 1]
        if answer == "lost":
            raise ConnectionResetError(url)
        return answer, "0"

    def promised(self, store=None):
        participant = Participant(store or MemoryStore(), lambda call, db: later(), post=self.post)
        answer = over_wsgi(participant, headers(X_Saga_Callback=URL), body())
        self.assertEqual((202, b'{"later":true}'), (answer.status, answer.body))
        return participant

    @staticmethod
    def finish(participant, output):
        with participant._store.begin() as transaction:
            return participant.finish(transaction.handle, "s/charge/execute", output)

    def test_a_report_is_repeated_while_that_is_of_use(self):
        for answers, times, fails in (
            ([200], 1, False), ([409], 1, False), ([404], 1, True), ([422], 1, True), ([413], 1, True),
            ([307, 200], 1, True), ([425, 429, 200], 3, False), ([503, 502, 409], 3, False), (["lost", 200], 2, False),
            ([503], ATTEMPTS, True),
        ):  # fmt: skip
            with self.subTest(answers):
                self.sent, self.answers = [], answers
                report = self.finish(self.promised(), {"charged": 5})
                if fails:
                    with self.assertRaises(NotDelivered) as failure:
                        report.send()
                    self.assertNotIn(URL, str(failure.exception))
                else:
                    report.send()
                self.assertEqual([DONE] * times, self.sent)

    def test_pauses(self):
        now = 1_767_225_600.0
        for value, want in (
            (None, None), ("", None), ("x", None), ("-4", None), ("0", 0), ("7", 7),
            (formatdate(now + 60, usegmt=True), 60), (formatdate(now - 60, usegmt=True), 0),
        ):  # fmt: skip
            self.assertEqual(want, asked_for(value, now), value)
        self.assertEqual((7, 300), (pause(0, 7), pause(0, 3600)))
        self.assertTrue(all(0 < pause(n, None) <= 30 for n in range(ATTEMPTS)))
        self.assertGreaterEqual(pause(ATTEMPTS, None), 15)

    def test_heartbeats(self):
        for kind in STORES:
            with self.subTest(store=kind.name):
                stored = kind()
                self.addCleanup(stored.close)
                self.sent, self.answers = [], [200, 200, 200, 409]
                participant = self.promised(stored.store)
                participant.heartbeat("s/charge/execute")
                participant.heartbeat("s/charge/execute", 140, "packed")
                participant.heartbeat("s/charge/execute", message="sent")
                with self.assertRaises(NotDelivered):
                    participant.heartbeat("s/charge/execute")
                beat = b'{"result":"heartbeat"}'
                packed = b'{"result":"heartbeat","progress":{"percent":100,"message":"packed"}}'
                sent = b'{"result":"heartbeat","progress":{"message":"sent"}}'
                self.assertEqual([beat, packed, sent, beat], self.sent)
                with self.assertRaises(NotPending):
                    participant.heartbeat("s/other/execute")
                undone = over_wsgi(participant, headers("compensate"), body(action="compensate"))
                self.assertEqual(200, undone.status)
                with self.assertRaises(Compensated):
                    participant.heartbeat("s/charge/execute")
                with self.assertRaises(Compensated):
                    self.finish(participant, None)
                self.assertEqual(4, len(self.sent))

    def test_what_cannot_be_an_answer_changes_nothing(self):
        participant = self.promised()
        for output in (later(), object(), float("nan")):
            with self.assertRaises((TypeError, ValueError)):
                self.finish(participant, output)
        self.finish(participant, [1])
        answer = over_wsgi(participant, headers(X_Saga_Callback=URL), body())
        self.assertEqual((200, b"[1]"), (answer.status, answer.body))

    def test_a_callback_that_is_no_address(self):
        participant = Participant(MemoryStore(), lambda call, db: later())
        for callback in (None, "file:///etc/passwd", "/relative", "http://"):
            self.assertEqual(500, over_wsgi(participant, headers(X_Saga_Callback=callback), body()).status, callback)

    def test_a_callback_at_another_origin(self):
        done = []
        origins = ["http://127.0.0.1:8080", "https://skald.example"]
        participant = Participant(
            MemoryStore(), lambda call, db: done.append(call.key) or later(), callback_origins=origins
        )
        for callback in (
            "https://other.example/one", "http://skald.example/one", "https://skald.example:8443/one",
            "https://skald.example", "https://skald.example@other.example/one", "//skald.example/one",
            "https://skald.example.other.example/one", "https://skald.example\\@other/one",
            "https://other.example/https://skald.example/", "https://skald.example?/@other.example/",
        ):  # fmt: skip
            for action in ("compensate", "execute"):
                named = headers(action=action, X_Saga_Callback=callback)
                answer = over_wsgi(participant, named, body(action=action))
                self.assertEqual((403, []), (answer.status, done), callback)
                self.assertIn(b"CALLBACK_ORIGIN", answer.body)
        for callback in ("https://skald.example/one", "http://127.0.0.1:8080/two"):
            self.assertEqual(202, over_wsgi(participant, headers(X_Saga_Callback=callback), body()).status)
        self.assertEqual(1, len(done))
        undo = over_wsgi(participant, headers(action="compensate"), body(action="compensate"))
        self.assertEqual(200, undo.status)
        for wrong in ("https://skald.example", [], ["skald.example"], ["https://skald.example/"], ["https://"],
                      ["ftp://skald.example"], ["https://a@skald.example"]):  # fmt: skip
            with self.assertRaises(ValueError):
                Participant(MemoryStore(), lambda call, db: None, callback_origins=wrong)

    def test_without_a_transaction_nothing_is_finished(self):
        stored = SQLite()
        self.addCleanup(stored.close)
        participant = self.promised(stored.store)
        db = sqlite3.connect(stored.store._path, isolation_level=None)
        self.addCleanup(db.close)
        with self.assertRaises(sqlite3.ProgrammingError):
            participant.finish(db, "s/charge/execute", 1)
        with self.assertRaises(ValueError):
            self.promised().finish({}, "s/charge/execute", 1)
        self.finish(participant, 1)

    def test_on_postgres_without_a_transaction_nothing_is_finished(self):
        if len(STORES) < 3:
            self.skipTest("needs PostgreSQL")
        import psycopg

        stored = STORES[2]()
        self.addCleanup(stored.close)
        participant = self.promised(stored.store)
        with stored.connect() as db:
            db.autocommit = True
            with self.assertRaises(psycopg.ProgrammingError):
                participant.finish(db, "s/charge/execute", 1)
            with db.transaction():
                participant.finish(db, "s/charge/execute", 1)


class OverHTTP(unittest.TestCase):
    def test_the_report_is_posted_and_redirects_are_not_followed(self):
        seen = []

        class Skald(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                seen.append((self.path, self.headers["Content-Type"], self.rfile.read(length)))
                self.send_response(307 if self.path == "/moved" else 200)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Skald)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for path in ("/one", "/moved"):
            participant = Participant(MemoryStore(), lambda call, db: later())
            callback = f"http://127.0.0.1:{server.server_port}{path}"
            over_wsgi(participant, headers(X_Saga_Callback=callback), body())
            report = Later.finish(participant, {"charged": 5})
            if path == "/moved":
                with self.assertRaises(NotDelivered):
                    report.send()
            else:
                report.send()
        self.assertEqual([(path, "application/json", DONE) for path in ("/one", "/moved")], seen)

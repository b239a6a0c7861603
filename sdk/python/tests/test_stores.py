"""Cases of stores that the vectors do not cover: purges, errors of the function, databases that
are busy or broken."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import subprocess
import sys
import unittest
from datetime import timedelta

from skald_participant import Participant
from skald_participant._rules import State, dump, load

from .apps import over_wsgi
from .stores import STORES, SQLite
from .test_participant import body, echo, headers


class Stores(unittest.TestCase):
    def setUp(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def test_purge(self):
        for kind in STORES:
            stored = kind()
            self.addCleanup(stored.close)
            participant = Participant(stored.store, echo, echo)
            with self.subTest(store=kind.name):
                over_wsgi(participant, headers(), body())
                self.assertEqual(0, stored.store.purge(timedelta(hours=1)))
                self.assertEqual(1, stored.store.purge(timedelta(seconds=-5)))
                self.assertEqual(200, over_wsgi(participant, headers(), body()).status)

    def test_a_commit_of_the_function_is_stopped(self):
        for kind in STORES[1:]:
            stored = kind()
            self.addCleanup(stored.close)

            def commit(call, db, kind=kind):
                kind.effect(db, call.key)
                db.commit()

            with self.subTest(store=kind.name):
                self.assertEqual(500, over_wsgi(Participant(stored.store, commit), headers(), body()).status)
                self.assertEqual([], stored.effects())

    def test_a_step_with_the_longest_name(self):
        step = "\U0001f600" * 255
        encoded = "".join(f"%{byte:02X}" for byte in step.encode())
        for kind in STORES:
            stored = kind()
            self.addCleanup(stored.close)
            of = headers(X_Saga_Step=encoded, Idempotency_Key=f"s/{encoded}/execute")
            first = over_wsgi(Participant(stored.store, echo), of, body(step=step))
            self.assertEqual(
                (200, first.body), (first.status, over_wsgi(Participant(stored.store, echo), of, body(step=step)).body)
            )

    def test_a_locked_sqlite_is_not_now(self):
        stored = SQLite()
        self.addCleanup(stored.close)
        stored.store._timeout = 0
        path = os.path.join(stored.dir, "test.db")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = over_wsgi(Participant(stored.store, echo), headers(), body())
        self.assertEqual((425, "1"), (answer.status, answer.headers.get("retry-after")))

    def test_memory_databases_of_sqlite_are_refused(self):
        from skald_participant import SQLiteStore

        with self.assertRaises(ValueError):
            SQLiteStore(":memory:")

    def test_the_state_of_other_languages(self):
        self.assertEqual(State(), load(""))
        written = '{"fence":3,"seen":1,"done":1,"calls":{"k":{"digest":"d","status":200,"body":"{\\"a\\":\\"å\\"}"}}}'
        state = load(written)
        self.assertEqual(
            (3, 1, 1, 0, '{"a":"å"}'.encode()),
            (state.fence, state.seen, state.done, state.blocked, state.calls["k"].body),
        )
        self.assertEqual(state, load(dump(state)))

    def test_the_printed_migration(self):
        stored = SQLite()
        self.addCleanup(stored.close)
        for database in ("sqlite", "postgres"):
            printed = subprocess.run(
                [sys.executable, "-m", "skald_participant", database], capture_output=True, text=True
            )
            self.assertIn("CREATE TABLE IF NOT EXISTS skald_calls", printed.stdout, printed.stderr)
        self.assertNotEqual(
            0, subprocess.run([sys.executable, "-m", "skald_participant"], capture_output=True).returncode
        )


@unittest.skipUnless(os.environ.get("DATABASE_URL"), "needs PostgreSQL")
class OnPostgres(unittest.TestCase):
    def setUp(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.stored = STORES[-1]()
        self.addCleanup(self.stored.close)

    def test_a_conflict_is_not_now(self):
        import psycopg

        for error in (
            psycopg.errors.DeadlockDetected,
            psycopg.errors.SerializationFailure,
            psycopg.errors.LockNotAvailable,
        ):

            def fail(call, db, error=error):
                raise error("undone")

            self.assertEqual(425, over_wsgi(Participant(self.stored.store, fail), headers(), body()).status)

    def test_a_database_that_is_not_there_is_not_now(self):
        from skald_participant.postgres import PostgresStore

        store = PostgresStore("host=127.0.0.1 port=1 connect_timeout=5")
        self.assertEqual(425, over_wsgi(Participant(store, echo), headers(), body()).status)

    def test_sessions_that_a_pooler_hands_on(self):
        from skald_participant.postgres import _PREPARE, PostgresStore

        with self.stored.connect() as connection:
            connection.autocommit = True

            @contextlib.contextmanager
            def pooled():
                yield connection

            def effect(call, db):
                self.stored.effect(db, call.key)

            participant = Participant(PostgresStore(pooled), effect)
            connection.execute(_PREPARE.encode())  # by another client
            for call in ("first", "second", "third"):
                of = headers(Idempotency_Key=f"{call}/charge/execute", X_Saga_Id=call)
                self.assertEqual(200, over_wsgi(participant, of, body(saga_id=call)).status)
                connection.execute("DEALLOCATE ALL")  # another session
                self.assertEqual(200, over_wsgi(participant, of, body(saga_id=call)).status)
                connection.execute("DEALLOCATE ALL")
        self.assertEqual(3, len(self.stored.effects()))

    def test_a_step_that_is_forgotten_meanwhile_is_not_now(self):
        from skald_participant.postgres import PostgresTransaction

        participant = Participant(self.stored.store, echo)
        self.assertEqual(200, over_wsgi(participant, headers(), body()).status)

        def claim(transaction, step):
            found = claims(transaction, step)
            self.stored.store.purge(timedelta(seconds=-5))
            return found

        claims, PostgresTransaction._claim = PostgresTransaction._claim, claim
        try:
            self.assertEqual(425, over_wsgi(participant, headers(), body()).status)
        finally:
            PostgresTransaction._claim = claims
        self.assertEqual(200, over_wsgi(participant, headers(), body()).status)

    def test_the_level_of_isolation_is_that_of_the_connection(self):
        import psycopg
        from skald_participant.postgres import PostgresStore

        @contextlib.contextmanager
        def serializable():
            with self.stored.connect() as connection:
                connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                yield connection

        def level(call, db):
            return db.execute("SHOW transaction_isolation").fetchone()[0]

        answer = over_wsgi(Participant(PostgresStore(serializable), level), headers(), body())
        self.assertEqual((200, b'"serializable"'), (answer.status, answer.body))

    def test_an_open_transaction_is_refused(self):
        from skald_participant.postgres import PostgresStore

        @contextlib.contextmanager
        def used():
            with self.stored.connect() as connection:
                connection.execute("SELECT 1")
                yield connection

        self.assertEqual(500, over_wsgi(Participant(PostgresStore(used), echo), headers(), body()).status)

    def test_a_transaction_that_cannot_be_committed(self):
        import psycopg

        def hide(call, db):
            db.execute("INSERT INTO effects VALUES ('lost')")
            with contextlib.suppress(psycopg.Error):
                db.execute("SELECT 1/0")

        def late(call, db):
            db.execute("CREATE TEMP TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP")
            db.execute("INSERT INTO effects VALUES ('lost')")
            db.execute("INSERT INTO late VALUES (1), (1)")

        def end(call, db):
            db.execute("COMMIT")

        for function in (hide, late, end):
            with self.subTest(function=function.__name__):
                participant = Participant(self.stored.store, function)
                self.assertEqual(500, over_wsgi(participant, headers(), body()).status)
        self.assertEqual([], self.stored.effects())
        self.assertEqual(200, over_wsgi(Participant(self.stored.store, echo), headers(), body()).status)

    def test_a_connection_that_breaks_is_unknown(self):
        def end(call, db):
            pid = db.info.backend_pid
            with self.stored.connect() as other:
                other.execute("SELECT pg_terminate_backend(%s)", (pid,))
            db.execute("SELECT 1")

        self.assertEqual(500, over_wsgi(Participant(self.stored.store, end), headers(), body()).status)
        self.assertEqual(200, over_wsgi(Participant(self.stored.store, echo), headers(), body()).status)

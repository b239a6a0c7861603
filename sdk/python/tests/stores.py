"""The stores under test, each with a table of effects beside that of the library."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid

from skald_participant import MemoryStore, SQLiteStore


class Memory:
    name, durable = "memory", False

    def __init__(self):
        self.store = MemoryStore()

    def restart(self):
        raise AssertionError("a store in memory does not survive a restart")

    @staticmethod
    def effect(tx, key):
        tx.setdefault("effects", []).append(key)

    def effects(self):
        return list(self.store.data.get("effects", []))

    def close(self):
        pass


class SQLite:
    name, durable = "sqlite", True

    def __init__(self):
        self.dir = tempfile.mkdtemp()
        self.restart()
        with self.store.begin() as transaction:
            transaction.handle.execute("CREATE TABLE effects (key TEXT NOT NULL)")

    def restart(self):
        self.store = SQLiteStore(os.path.join(self.dir, "test.db"), timeout=60)
        self.store.create_table()

    @staticmethod
    def effect(tx, key):
        with tx:  # common among users of sqlite3; it must not commit
            tx.execute("INSERT INTO effects VALUES (?)", (key,))

    def effects(self):
        with self.store.begin() as transaction:
            return [key for (key,) in transaction.handle.execute("SELECT key FROM effects")]

    def close(self):
        shutil.rmtree(self.dir)


class Postgres:
    """A schema of its own in the database at DATABASE_URL."""

    name, durable = "postgres", True

    def __init__(self):
        import psycopg

        self.psycopg, self.url = psycopg, os.environ["DATABASE_URL"]
        self.schema = "test_" + uuid.uuid4().hex
        with psycopg.connect(self.url) as connection:
            connection.execute(f"CREATE SCHEMA {self.schema}".encode())
            connection.execute(f"CREATE TABLE {self.schema}.effects (key TEXT NOT NULL)".encode())
        self.restart()
        self.store.create_table()

    def restart(self):
        from skald_participant.postgres import PostgresStore

        self.store = PostgresStore(self.connect)

    @contextlib.contextmanager
    def connect(self):
        with self.psycopg.connect(self.url, options=f"-c search_path={self.schema}") as connection:
            yield connection

    @staticmethod
    def effect(tx, key):
        tx.execute("INSERT INTO effects VALUES (%s)", (key,))

    def effects(self):
        with self.connect() as connection:
            return [key for (key,) in connection.execute("SELECT key FROM effects")]

    def close(self):
        with self.psycopg.connect(self.url) as connection:
            connection.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())


STORES = [Memory, SQLite, *([Postgres] if os.environ.get("DATABASE_URL") else [])]

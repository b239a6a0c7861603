"""A packing service that answers later: POST /parcels notes an order, and a worker packs it after a
while. GET /effects?key=… returns how often a key took effect, for skald participant certify
--later --effects.

    python packing.py            # on 127.0.0.1:9103, with SQLite in packing.db; PORT, PACKING_DB and WORK_MS change that
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from skald_participant import (
    Busy,
    Call,
    Compensated,
    Later,
    NotDelivered,
    NotPending,
    Participant,
    Report,
    SQLiteStore,
    later,
)

WORK = int(os.environ.get("WORK_MS", "2000")) / 1000

store = SQLiteStore(os.environ.get("PACKING_DB", "packing.db"), timeout=30)
store.create_table()
with store.begin() as transaction:
    transaction.handle.execute("CREATE TABLE IF NOT EXISTS parcels (saga TEXT PRIMARY KEY, key TEXT, due REAL)")
    transaction.handle.execute("CREATE TABLE IF NOT EXISTS packed (key TEXT NOT NULL)")


def pack(call: Call, db: sqlite3.Connection) -> Later:
    db.execute("INSERT INTO parcels VALUES (?, ?, ?)", (call.saga_id, call.key, time.time() + WORK))
    return later()


def cancel(call: Call, db: sqlite3.Connection) -> None:  # it was not packed yet
    db.execute("DELETE FROM parcels WHERE saga = ?", (call.saga_id,))


def unpack(call: Call, db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO packed VALUES (?)", (call.key,))


secret = os.environ.get("SKALD_SECRET")
packing = Participant(store, pack, unpack, cancel=cancel, secrets=[secret] if secret else None)


def send(report: Report) -> None:
    try:
        report.send()
    except NotDelivered as failure:  # the repeated call gets the answer
        print(failure, flush=True)


def work() -> None:
    """Packs the orders that are due. They are in the database, so the next process continues
    where this one ends."""
    while True:
        with store.begin() as transaction:
            due = transaction.handle.execute("SELECT key FROM parcels WHERE due < ?", (time.time(),)).fetchall()
        for (key,) in due:
            try:
                with store.begin() as transaction:
                    db = transaction.handle
                    report = packing.finish(db, key, {"parcel": key})
                    db.execute("DELETE FROM parcels WHERE key = ?", (key,))
                    db.execute("INSERT INTO packed VALUES (?)", (key,))
                threading.Thread(target=send, args=(report,), daemon=True).start()
            except (Busy, Compensated, NotPending):
                pass  # not now, or never
        time.sleep(0.05)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/parcels":
        return packing.wsgi(environ, start_response)
    if environ["PATH_INFO"] != "/effects":
        start_response("404 Not Found", [("Content-Length", "0")])
        return []
    key = parse_qs(environ.get("QUERY_STRING", "")).get("key", [""])[0]
    with store.begin() as transaction:
        found = transaction.handle.execute("SELECT count(*) FROM packed WHERE key = ?", (key,)).fetchone()
    body = json.dumps({"effects": found[0]}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "9103"))
    threading.Thread(target=work, daemon=True).start()
    with make_server("127.0.0.1", port, app, Server, Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/parcels", flush=True)
        server.serve_forever()

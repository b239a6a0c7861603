"""Compiles the Python code of README.md, and runs what needs no framework, in order."""

from __future__ import annotations

import os
import pathlib
import re
import sqlite3
import tempfile
import unittest

from .apps import over_asgi, over_wsgi
from .test_participant import body, headers

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
FRAMEWORKS = ("api.", "flask_app", "django_view")


class Readme(unittest.TestCase):
    def test_snippets(self):
        snippets = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
        names, here = {}, os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                ran = 0
                for snippet in snippets:
                    compiled = compile(snippet, "README.md", "exec")
                    if any(word in snippet for word in FRAMEWORKS):
                        continue
                    if "postgres" in snippet and not os.environ.get("DATABASE_URL"):
                        continue
                    exec(compiled, names)
                    ran += 1
                    if ran == 1:
                        self.first(names)
                    if "postgres" in snippet:
                        names["store"] = names["SQLiteStore"]("shop.db")
                    else:
                        names.setdefault("store", names["SQLiteStore"]("shop.db"))
                self.assertGreaterEqual(ran, 5)
                self.rest(names)
            finally:
                os.chdir(here)

    def test_docs_show_the_same_example(self):
        page = README.parents[2] / "docs" / "participants.md"
        example = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
        self.assertIn(example, page.read_text("utf-8"))

    def later(self, names):
        with sqlite3.connect("shop.db") as connection:
            connection.execute("CREATE TABLE parcels (key TEXT, saga TEXT)")
            connection.execute("CREATE TABLE stock (packed INTEGER)")
            connection.execute("INSERT INTO stock VALUES (7)")
        names["packing"]._post = lambda url, sent: (200, None)
        key, of = "later/execute", {"Idempotency_Key": "later/execute", "X_Saga_Id": "l"}
        promised = headers(X_Saga_Callback="https://skald.example/one", **of)
        self.assertEqual(202, over_wsgi(names["packing"], promised, body(saga_id="l")).status)
        names["packed"](key)
        self.assertEqual(b'{"parcel":"later/execute"}', over_wsgi(names["packing"], promised, body(saga_id="l")).body)
        with self.assertRaises(names["NotPending"]):
            names["packed"](key)
        with sqlite3.connect("shop.db") as connection:
            self.assertEqual([(8,)], connection.execute("SELECT packed FROM stock").fetchall())

    def first(self, names):
        lines = re.search(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[1].strip().splitlines()
        self.assertLessEqual(sum(bool(line) for line in lines), 10)
        names["SQLiteStore"]("shop.db").create_table()
        with sqlite3.connect("shop.db") as connection:
            connection.execute("CREATE TABLE charges (saga TEXT, amount INTEGER)")
        for _ in range(2):
            self.assertEqual(b'{"charged":5}', over_wsgi(names["participant"], headers(), body()).body)
        self.assertEqual(200, over_asgi(names["participant"], headers("compensate"), body(action="compensate")).status)
        with sqlite3.connect("shop.db") as connection:
            self.assertEqual([], connection.execute("SELECT * FROM charges").fetchall())

    def rest(self, names):
        self.later(names)
        participant = names["Participant"](names["memory"], names["reserve"])
        for payload, status in (({"amount": 4}, 409), ({"amount": 1, "busy": True}, 425)):
            changed = headers(Idempotency_Key=f"{status}/execute")
            self.assertEqual(status, over_wsgi(participant, changed, body(payload=payload)).status)
        self.assertEqual(401, over_wsgi(names["signed"], headers(), body()).status)
        self.assertEqual(200, over_wsgi(names["in_tests"], headers(Idempotency_Key="new/execute"), body()).status)
        self.assertTrue(names["memory"].data["paid"])

"""The example as a process that is killed: a repeated call gets the same bytes, and nothing is
done twice."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import quote, urlsplit

from .test_participant import body, headers

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "example" / "charges.py"


class Example(unittest.TestCase):
    def start(self, folder):
        env = {**os.environ, "PORT": "0", "CHARGES_DB": os.path.join(folder, "charges.db")}
        process = subprocess.Popen([sys.executable, str(EXAMPLE)], env=env, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, urlsplit(process.stdout.readline().strip()).netloc

    def ask(self, address, method, path, of=None, content=None):
        connection = http.client.HTTPConnection(address)
        try:
            connection.request(method, path, content, of or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def test_killed_and_restarted(self):
        with tempfile.TemporaryDirectory() as folder:
            process, address = self.start(folder)
            first = self.ask(address, "POST", "/charges", headers(), body())
            self.assertEqual((200, b'{"charged":5}'), first)
            refused = headers(Idempotency_Key="s/large/execute", X_Saga_Step="large")
            answer = self.ask(address, "POST", "/charges", refused, body(step="large", payload={"amount": -1}))
            self.assertEqual((422, "AMOUNT_INVALID"), (answer[0], json.loads(answer[1])["code"]))
            process.kill()
            process.wait()
            _, address = self.start(folder)
            self.assertEqual(first, self.ask(address, "POST", "/charges", headers(), body()))
            undo = headers("compensate"), body(action="compensate")
            self.assertEqual((200, b""), self.ask(address, "POST", "/charges", *undo))
            self.assertEqual((200, b""), self.ask(address, "POST", "/charges", *undo))
            for action in ("execute", "compensate"):
                counted = self.ask(address, "GET", "/effects?key=" + quote(f"s/charge/{action}", safe=""))
                self.assertEqual((200, b'{"effects": 1}'), counted)

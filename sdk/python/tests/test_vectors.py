"""All vectors of sdk/conformance, over every store, as ASGI and as WSGI."""

from __future__ import annotations

import logging
import unittest

from . import vectors
from .apps import APPS
from .stores import STORES


class Vectors(unittest.TestCase):
    def test_all(self):
        logging.disable(logging.CRITICAL)  # functions that fail are among them
        self.addCleanup(logging.disable, logging.NOTSET)
        all_of_them = vectors.load()
        self.assertGreater(len(all_of_them), 50)
        for kind in STORES:
            for app, send in APPS.items():
                stored = kind()
                try:
                    for vector in all_of_them:
                        if vectors.needs_restart(vector) and not kind.durable:
                            continue
                        with self.subTest(vector["name"], store=kind.name, app=app):
                            vectors.Run(vector, stored, send).play()
                finally:
                    stored.close()

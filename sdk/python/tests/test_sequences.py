"""Sagas over a bad network with crashes: by a seeded generator, and by hypothesis where it is installed.

SEQUENCES: how many by hypothesis; the seeded ones are a tenth of it. SEED begins somewhere else.
"""

from __future__ import annotations

import logging
import os
import random
import unittest

from .sequences import Saga
from .stores import STORES, Memory

SEQUENCES = int(os.environ.get("SEQUENCES", "1000"))

try:
    import hypothesis
except ModuleNotFoundError:
    if os.environ.get("TEST_SDK") == "all":
        raise
    hypothesis = None


class Sequences(unittest.TestCase):
    def setUp(self):
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    def test_seeded(self):
        first = int(os.environ.get("SEED", "1"))
        for kind in STORES:
            stored = None
            for seed in range(first, first + SEQUENCES // 10):
                if stored is None or seed % 100 == 0:
                    if stored is not None:
                        stored.close()
                    stored = kind()
                with self.subTest(store=kind.name, seed=seed):
                    Saga(random.Random(seed), stored).play()
            stored.close()

    @unittest.skipIf(hypothesis is None, "hypothesis is not installed")
    def test_by_hypothesis(self):
        played = 0

        @hypothesis.settings(
            max_examples=SEQUENCES, deadline=None, database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        @hypothesis.given(hypothesis.strategies.randoms(use_true_random=False))
        def play(source):
            nonlocal played
            played += 1
            Saga(source, Memory()).play()

        play()
        self.assertGreaterEqual(played, SEQUENCES)
        print(f"hypothesis: {played} sequences")

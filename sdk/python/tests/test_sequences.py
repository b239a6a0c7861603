"""Sagas over a bad network with crashes: by a seeded generator, and by hypothesis where it is
installed.

SEQUENCES is the number of sequences by hypothesis. The number of seeded ones is a tenth of it, and
so is that by hypothesis in each database, unless SEQUENCES_IN_DATABASES is set. SEED sets the first
seed.
"""

from __future__ import annotations

import logging
import os
import random
import unittest

from .sequences import Saga
from .stores import STORES, Memory

SEQUENCES = int(os.environ.get("SEQUENCES", "1000"))
IN_DATABASES = int(os.environ.get("SEQUENCES_IN_DATABASES", SEQUENCES // 10))

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
        for kind in STORES:
            with self.subTest(store=kind.name):
                self.by_hypothesis(kind, SEQUENCES if kind is Memory else IN_DATABASES)

    def by_hypothesis(self, kind, sequences):
        stored, played, counted = kind(), 0, 0

        @hypothesis.settings(
            max_examples=sequences, deadline=None, database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        @hypothesis.given(hypothesis.strategies.randoms(use_true_random=False))
        def play(source):
            nonlocal stored, played, counted
            played += 1
            if played % 100 == 0:  # the effects of all sagas are read to count those of one
                counted += len(stored.effects())
                stored.close()
                stored = kind()
            Saga(source, stored).play()

        play()
        counted += len(stored.effects())
        stored.close()
        self.assertGreaterEqual(played, sequences)
        print(f"hypothesis, {kind.name}: {played} sequences, {counted} effects, 0 wrong")

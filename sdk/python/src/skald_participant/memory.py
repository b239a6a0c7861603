"""A store in memory, for tests. Nothing survives the process."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ._call import Call, id_of
from ._rules import State


class _State:
    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.steps: dict[str, tuple[State, float]] = {}
        self.names: dict[str, str] = {}

    def copy(self) -> _State:
        other = _State()
        other.data, other.steps, other.names = copy.deepcopy(self.data), dict(self.steps), dict(self.names)
        return other


class MemoryTransaction:
    def __init__(self, state: _State) -> None:
        self._state = state

    @property
    def handle(self) -> dict[str, Any]:
        return self._state.data

    def look(self, call: Call) -> State:
        state, _ = self._state.steps.get(id_of(call), (State(), 0))
        return state

    def save(self, call: Call, state: State) -> None:
        self._state.steps[id_of(call)] = (state, time.time())

    def name(self, call: Call, name: str) -> None:
        self._state.names[name] = id_of(call)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        before = self._state.copy()
        try:
            yield
        except BaseException:
            self._state.__dict__.update(before.__dict__)
            raise


class MemoryJoined:
    def __init__(self, state: _State) -> None:
        self._state = state

    def find(self, name: str) -> str | None:
        return self._state.names.get(name)

    def look(self, step: str) -> State:
        state, _ = self._state.steps.get(step, (State(), 0))
        return state

    lock = look

    def save(self, step: str, state: State) -> None:
        self._state.steps[step] = (state, time.time())


class MemoryStore:
    """Transactions run one after the other. data is the committed state."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state = _State()
        self._working: _State | None = None  # the state of the open transaction

    @property
    def data(self) -> dict[str, Any]:
        return self._state.data

    @contextmanager
    def begin(self) -> Iterator[MemoryTransaction]:
        with self._lock:
            working = self._working = self._state.copy()
            try:
                yield MemoryTransaction(working)
                self._state = working
            finally:
                self._working = None

    def join(self, handle: dict[str, Any]) -> MemoryJoined:
        if self._working is None or handle is not self._working.data:
            raise ValueError("db must be the handle of a transaction that is open: with store.begin() as transaction")
        return MemoryJoined(self._working)

    def purge(self, older_than: timedelta) -> int:
        with self._lock:
            limit = time.time() - older_than.total_seconds()
            old = [step for step, (_, at) in self._state.steps.items() if at < limit]
            for step in old:
                del self._state.steps[step]
            names = self._state.names.items()
            self._state.names = {name: step for name, step in names if step in self._state.steps}
            return len(old)

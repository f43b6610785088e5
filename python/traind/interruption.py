"""interruption.py: lets one thread end what others ask of the daemon, which may take long: they follow jobs, and calls that are
refused for the number of connections are made again for a minute, or for as long as those others have connections."""
from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import CancelledError
from typing import Dict, Iterator, Optional, Set

_thread = threading.local()


def current() -> Optional[Interruption]:
    """That of the block in which this thread is."""
    found: Optional[Interruption] = getattr(_thread, "interruption", None)
    return found


class Interruption:
    """After set() a thread in the block of here() makes no call, nor makes a refused one again, and streams end: by CancelledError.
    A call that the daemon has is answered, so no job that it has taken gets lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: Set[socket.socket] = set()
        self._answered: Dict[socket.socket, int] = {}  # of the streams: that the daemon has taken, and their threads
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._lock:
            self._set = True
            for stream in self._streams:
                try:
                    stream.shutdown(socket.SHUT_RDWR)
                except OSError:  # the daemon has hung up
                    pass

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        before = current()
        _thread.interruption = self
        try:
            yield
        finally:
            _thread.interruption = before

    def check(self) -> None:
        if self._set:
            raise CancelledError()

    def add(self, stream: socket.socket) -> None:
        with self._lock:
            self.check()
            self._streams.add(stream)

    def note_answer(self, stream: socket.socket) -> None:
        with self._lock:
            self._answered[stream] = threading.get_ident()

    def holds_connections(self) -> bool:
        """Whether streams of other such threads have some of the user's connections, which come free when they end. A thread that
        has one itself should not wait for those: they may wait for it."""
        with self._lock:
            return bool(self._answered) and threading.get_ident() not in self._answered.values()

    def remove(self, stream: socket.socket) -> None:
        """Before the socket is closed: set() would meet another file of its number."""
        with self._lock:
            self._streams.discard(stream)
            self._answered.pop(stream, None)

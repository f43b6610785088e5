"""varlink.py: calls over the daemon's socket: JSON objects, each ended by a NUL byte (varlink.org)."""
from __future__ import annotations

import json
import math
import numbers
import os
import socket
import struct
import time
import warnings
from typing import Any, Dict, Iterator, Optional

from . import address, errors, interruption, values

Reply = Dict[str, Any]

INTERFACE = "io.traind."
MESSAGE_MAX = 1 << 20  # bytes of a call
RECONNECT_SECONDS = 0.1
REFUSED_SECONDS_MAX = 1  # between two attempts to get one of the connections that a user may have
PATIENCE_SECONDS = 60  # how long a daemon may be away before a stream gives up
RETURN_SECONDS = 1  # how long a connection lasts that counts as the daemon's return although nothing was said on it
ANSWER_SECONDS = 1  # that a daemon has at least for what it answers at once, although the caller's time is over
SOCKET_SECONDS_MAX = 3600  # of one wait; sockets know no months
FOREVER_SECONDS = 1e9  # a longer timeout is none
SILENCE_SECONDS = 10  # without an answer: then a warning says so
STACK_LEVEL = 6  # of a warning: who called a function of this package, more or less


class TimeOver(TimeoutError):
    """The deadline has come. The daemon had told all that it tells at once."""


class Unanswered(TimeOver):
    """The deadline has come before the daemon answered. The text says what it has not done."""


def encode(method: str, parameters: Reply, more: bool) -> bytes:
    given = {key: values.plain(value, key, values.PARAMETERS_DEPTH + 1) for key, value in parameters.items() if value is not None}
    message: Reply = {"method": INTERFACE + method, "parameters": given}
    if more:
        message["more"] = True
    data = json.dumps(message, ensure_ascii=False).encode() + b"\0"
    if len(data) > MESSAGE_MAX:
        raise errors.MessageTooLarge(INTERFACE + "MessageTooLarge", {
            "message": f"{method} has {len(data)} bytes, and a call may have {MESSAGE_MAX}: hand large things over in files"})
    return data


def moment_after(timeout: Optional[float]) -> Optional[float]:
    """The moment of time.monotonic() at which that many seconds are over, of any type of numbers, such as NumPy's; None: never."""
    if timeout is None:
        return None
    if not isinstance(timeout, numbers.Real):
        raise TypeError(f"timeout is {timeout!r}; it must be a number of seconds, or None")
    try:
        seconds = float(timeout)
    except OverflowError:  # an integer of hundreds of digits
        seconds = math.inf if timeout > 0 else 0
    if math.isnan(seconds):
        raise ValueError("timeout is NaN; it must be a number of seconds, or None")
    return None if seconds >= FOREVER_SECONDS else time.monotonic() + max(seconds, 0)


def moment_of_answer(deadline: Optional[float]) -> Optional[float]:
    """The deadline, or a later one for what is answered at once: a timeout of 0 asks, too."""
    return None if deadline is None else max(deadline, time.monotonic() + ANSWER_SECONDS)


class Connection:
    """One connection, for one call after the other."""

    def __init__(self, path: Optional[str] = None, deadline: Optional[float] = None) -> None:
        self.path = address.choose(path)
        self.buffer = bytearray()
        self.process = os.getpid()
        self.interruption = interruption.current()
        self.open(deadline)

    def open(self, deadline: Optional[float]) -> None:
        if self.interruption:
            self.interruption.check()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.connect(deadline)
        except BlockingIOError as error:
            self.socket.close()
            if deadline is not None and time.monotonic() >= deadline:
                raise Unanswered(f"the daemon at {self.path} has taken no connection: it may be stopped, or busy") from error
            raise errors.DaemonUnreachable(f"the daemon at {self.path} has taken no connection for {PATIENCE_SECONDS} s: it may "
                                           "be stopped, or busy") from error
        except OSError as error:
            self.socket.close()
            raise address.explain(self.path, error) from error

    def connect(self, deadline: Optional[float]) -> None:
        """Waits for room in the queue of a daemon that takes no connections; BlockingIOError where that lasts. The option of the
        socket does that: with settimeout() connect() would not wait at all."""
        answer = moment_of_answer(deadline)
        patience = PATIENCE_SECONDS if answer is None else min(PATIENCE_SECONDS, answer - time.monotonic())
        whole = int(patience)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", whole, int((patience - whole) * 1e6)))
        self.socket.connect(self.path)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.interruption:
            self.interruption.remove(self.socket)
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # the daemon may have said why before it hung up: receive() tells

    def ask(self, data: bytes, deadline: Optional[float] = None, asked: Optional[str] = None, streams: bool = False) -> Reply:
        """Sends a call and returns its first reply. Where the daemon has refused the connection it has read nothing of the call,
        which is made again until others have closed theirs: for a minute in which no other thread of the interruption has one.
        `asked`: as in receive(); it has a moment to answer after the deadline, too. `streams`: an interruption ends it at any
        moment."""
        begun = time.monotonic()
        pause = RECONNECT_SECONDS
        while True:
            if streams and self.interruption:
                self.interruption.add(self.socket)
            self.send(data)
            try:
                reply = self.receive(moment_of_answer(deadline) if asked else deadline, asked)
                if streams and self.interruption:
                    self.interruption.note_answer(self.socket)
                return reply
            except errors.TooManyConnections as error:
                now = time.monotonic()
                if deadline is not None and now >= deadline:
                    raise Unanswered(str(error)) from error
                if self.interruption and self.interruption.holds_connections():
                    begun = now
                if now - begun > PATIENCE_SECONDS:
                    raise
            time.sleep(pause if deadline is None else min(pause, deadline - now))
            pause = min(2 * pause, REFUSED_SECONDS_MAX)
            self.close()
            self.buffer.clear()
            self.open(deadline)

    def receive(self, deadline: Optional[float] = None, asked: Optional[str] = None) -> Reply:
        """The next message. TimeOver after the deadline, a moment of time.monotonic(). `asked`: the method that is answered at
        once by a daemon that works; Unanswered then."""
        searched = 0
        begun = time.monotonic()
        told = False
        if os.getpid() != self.process:  # two readers would each get a part of what comes; stream() calls again
            raise errors.DaemonUnreachable("the connection belongs to the process that this one was forked from")
        while (end := self.buffer.find(0, searched)) < 0:
            searched = len(self.buffer)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                if asked:
                    raise Unanswered(f"the daemon at {self.path} has not answered {asked}: it may be stopped, or busy")
                raise TimeOver("the time is over")
            longest = SILENCE_SECONDS if asked and not told else SOCKET_SECONDS_MAX
            self.socket.settimeout(longest if left is None else min(longest, left))
            try:
                data = self.socket.recv(1 << 16)
            except socket.timeout:
                if asked and not told and time.monotonic() - begun >= SILENCE_SECONDS:
                    warnings.warn(f"the daemon at {self.path} has not answered {asked} for {SILENCE_SECONDS} s: it may be stopped, "
                                  "or busy; waiting on", stacklevel=STACK_LEVEL)
                    told = True
                continue
            except OSError as error:
                raise errors.DaemonUnreachable(f"the connection to {self.path} broke: {error}") from error
            if not data:
                raise errors.DaemonUnreachable(f"the daemon at {self.path} has closed the connection")
            self.buffer += data
        message = self.parse(bytes(self.buffer[:end]))
        del self.buffer[:end + 1]
        if "error" in message:
            raise errors.from_reply(message["error"], message.get("parameters") or {})
        return message

    def parse(self, data: bytes) -> Reply:
        try:
            message = json.loads(data.decode())
        except ValueError:
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("parameters") or {}, dict):
            raise errors.TraindError(f"what listens on {self.path} is no traind: its answer is no message of Varlink")
        return message

    def call(self, method: str, **parameters: Any) -> Reply:
        reply: Reply = self.ask(encode(method, parameters, more=False), asked=method).get("parameters") or {}
        return reply

    def stream(self, method: str, parameters: Reply, deadline: Optional[float] = None, at_once: int = 0) -> Iterator[Reply]:
        """`at_once`: how many replies tell what is so already, and come whenever the daemon is asked."""
        message = self.ask(encode(method, parameters, more=True), deadline, method if at_once else None, streams=True)
        replies = 1
        yield message.get("parameters") or {}
        while message.get("continues", False):
            due = replies < at_once
            message = self.receive(moment_of_answer(deadline) if due else deadline, method if due else None)
            replies += 1
            yield message.get("parameters") or {}


def call(method: str, *, socket: Optional[str] = None, **parameters: Any) -> Reply:
    """Any method of io.traind (proto/io.traind.varlink) on a connection of its own; None is left out."""
    with Connection(socket) as connection:
        return connection.call(method, **parameters)


def stream(method: str, parameters: Reply, *, socket: Optional[str] = None,
           deadline: Optional[float] = None, at_once: int = 0) -> Iterator[Reply]:
    """The replies of a call with `more`. Jobs outlive a restart of their daemon, and so does this: it calls again, with
    what the caller has made of `parameters` meanwhile (a cursor); and in a process that was forked meanwhile. A daemon that
    is away from the start is an error."""
    lost_since: Optional[float] = None
    connected = False
    while True:
        connected_since: Optional[float] = None
        try:
            with Connection(socket, deadline) as connection:
                connected, connected_since = True, time.monotonic()
                for reply in connection.stream(method, parameters, deadline, at_once):
                    lost_since = None
                    yield reply
                return
        except errors.DaemonUnreachable as error:
            now = time.monotonic()
            if lost_since is None or (connected_since is not None and now - connected_since >= RETURN_SECONDS):
                lost_since = now
            if not connected or now - lost_since > PATIENCE_SECONDS:
                raise
            if deadline is not None and now > deadline:
                raise Unanswered(str(error)) from error
            time.sleep(RECONNECT_SECONDS)

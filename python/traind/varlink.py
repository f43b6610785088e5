"""varlink.py: calls over the daemon's socket: JSON objects, each ended by a NUL byte (varlink.org)."""
from __future__ import annotations

import json
import numbers
import operator
import os
import socket
import time
from typing import Any, Dict, Iterator, Optional

from . import address, errors

Reply = Dict[str, Any]

INTERFACE = "io.traind."
MESSAGE_MAX = 1 << 20  # bytes of a call
RECONNECT_SECONDS = 0.1
PATIENCE_SECONDS = 60  # how long a daemon may be away before a stream gives up


def plain(value: object) -> object:
    """What JSON does not know: paths, jobs (by their number), NumPy's numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return float(value)
    return operator.index(value)  # type: ignore[arg-type]  # a TypeError that names the type is the answer


def encode(method: str, parameters: Reply, more: bool) -> bytes:
    message: Reply = {"method": INTERFACE + method,
                      "parameters": {key: value for key, value in parameters.items() if value is not None}}
    if more:
        message["more"] = True
    text = json.dumps(message, default=plain, allow_nan=False, ensure_ascii=False)
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("a text holds a NUL character, which no job can be given")
    data = text.encode() + b"\0"
    if len(data) > MESSAGE_MAX:
        raise errors.MessageTooLarge(INTERFACE + "MessageTooLarge", {
            "message": f"{method} has {len(data)} bytes, and a call may have {MESSAGE_MAX}: hand large things over in files"})
    return data


class Connection:
    """One connection, for one call after the other."""

    def __init__(self, path: Optional[str] = None) -> None:
        self.path = address.choose(path)
        self.buffer = bytearray()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(self.path)
        except OSError as error:
            self.socket.close()
            raise address.explain(self.path, error) from error

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # the daemon may have said why before it hung up: receive() tells

    def receive(self, deadline: Optional[float] = None) -> Reply:
        """The next message. TimeoutError after the deadline, a moment of time.monotonic()."""
        searched = 0
        while (end := self.buffer.find(0, searched)) < 0:
            searched = len(self.buffer)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("the time is over")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 16)
            except socket.timeout:
                continue
            except OSError as error:
                raise errors.DaemonUnreachable(f"the connection to {self.path} broke: {error}") from error
            if not data:
                raise errors.DaemonUnreachable(f"the daemon at {self.path} has closed the connection")
            self.buffer += data
        message: Reply = json.loads(self.buffer[:end].decode())
        del self.buffer[:end + 1]
        if "error" in message:
            raise errors.from_reply(message["error"], message.get("parameters") or {})
        return message

    def call(self, method: str, **parameters: Any) -> Reply:
        self.send(encode(method, parameters, more=False))
        reply: Reply = self.receive().get("parameters") or {}
        return reply

    def stream(self, method: str, parameters: Reply, deadline: Optional[float] = None) -> Iterator[Reply]:
        self.send(encode(method, parameters, more=True))
        continues = True
        while continues:
            message = self.receive(deadline)
            continues = message.get("continues", False)
            yield message.get("parameters") or {}


def call(method: str, *, socket: Optional[str] = None, **parameters: Any) -> Reply:
    """Any method of io.traind (proto/io.traind.varlink) on a connection of its own; None is left out."""
    with Connection(socket) as connection:
        return connection.call(method, **parameters)


def stream(method: str, parameters: Reply, *, socket: Optional[str] = None,
           deadline: Optional[float] = None) -> Iterator[Reply]:
    """The replies of a call with `more`. Jobs outlive a restart of their daemon, and so does this: it calls again, with
    what the caller has made of `parameters` meanwhile (a cursor). A daemon that is away from the start is an error."""
    lost_since: Optional[float] = None
    connected = False
    while True:
        try:
            with Connection(socket) as connection:
                connected = True
                for reply in connection.stream(method, parameters, deadline):
                    lost_since = None
                    yield reply
                return
        except errors.DaemonUnreachable as error:
            now = time.monotonic()
            lost_since = lost_since or now
            if not connected or now - lost_since > PATIENCE_SECONDS:
                raise
            if deadline is not None and now > deadline:
                raise TimeoutError("the time is over") from error
            time.sleep(RECONNECT_SECONDS)

"""fake_daemon: a Varlink service whose answers a test chooses. It shows a client what a real daemon does rarely, or at
moments that no test can choose.

    with FakeDaemon(path, {"Ping": lambda call: {"version": …}}) as daemon: …

A handler gets the call's parameters and returns the reply's parameters, or raises Refusal. A generator yields replies
with `continues` and returns the last one; yielding HANG_UP closes the connection.
"""
import json
import os
import socket
import threading

HANG_UP = object()


class Refusal(Exception):
    def __init__(self, name, **parameters):
        super().__init__(name)
        self.name = name
        self.parameters = parameters


class FakeDaemon:
    def __init__(self, path, handlers):
        self.path = path
        self.handlers = handlers
        self.calls = []  # (method, parameters), in order
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        pending = b""
        with connection:
            while True:
                piece = connection.recv(65536)
                if not piece:
                    return
                pending += piece
                while b"\0" in pending:
                    message, pending = pending.split(b"\0", 1)
                    try:
                        if not self.answer(connection, json.loads(message)):
                            return
                    except (BrokenPipeError, ConnectionResetError):
                        return

    def answer(self, connection, call):
        method = call["method"].rpartition(".")[2]
        parameters = call.get("parameters") or {}
        self.calls.append((method, parameters))

        def send(reply):
            connection.sendall(json.dumps(reply).encode() + b"\0")

        try:
            result = self.handlers[method](parameters)
            if isinstance(result, dict):
                send({"parameters": result})
                return True
            while True:
                try:
                    reply = next(result)
                except StopIteration as end:
                    send({"parameters": end.value or {}})
                    return True
                if reply is HANG_UP:
                    return False
                send({"parameters": reply, "continues": True})
        except Refusal as refusal:
            send({"error": "io.traind." + refusal.name, "parameters": refusal.parameters})
            return True


def job(identity=7, state="running", **changes):
    """A Job of io.traind."""
    result = {"id": identity, "name": "fashion", "kind": "native", "state": state, "user": "ada", "uid": 1000,
              "priority": 0, "device": "cpu", "reason": None, "wait_reason": None, "attempt": 1,
              "submitted": 1e9, "started": 1e9 + 1, "ended": None, "exit_status": None, "progress": None,
              "metrics": {}, "best": None}
    result.update(changes)
    return result

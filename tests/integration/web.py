"""web.py: a private traind-web for tests, and raw requests to it.

    with traind.Daemon() as daemon, web.Web(daemon.socket) as site:
        status, headers, body = site.post("/api/call", {"method": "Ping"})
"""
import http.client
import json
import os
import re
import socket
import subprocess
import urllib.parse

import traind

PROGRAM = os.path.join(traind.BIN, "traind-web")


def need():
    if not os.access(PROGRAM, os.X_OK):
        traind.skip("traind-web is not built: libmicrohttpd-dev is missing")


class Web:
    """Runs it at a free port of 127.0.0.1, unless the arguments name another one, or a socket."""

    def __init__(self, daemon_socket, *arguments, wrapper=()):
        self.command = [*wrapper, PROGRAM, "--daemon", daemon_socket, *arguments]
        if "--socket" not in arguments and "--port" not in arguments:
            self.command += ["--port", "0"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        match = re.search(r"(https?)://([^/]*)/(?:#token=(\w+))?", line)
        assert match, f"traind-web said: {line!r}"
        self.address, self.host, self.token = match.group(0), match.group(2), match.group(3)
        self.origin = f"{match.group(1)}://{self.host}"
        self.port = urllib.parse.urlsplit(self.origin).port
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.status = self.process.wait(traind.PATIENCE)
        self.process.stdout.close()

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))

    def request(self, method, path, body=None, **headers):
        """(status, headers, body) of one request; a header of None is not sent, `host` is one of them."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=traind.PATIENCE)
        sent = {"Host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None and "Content-Length" not in sent:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        try:
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, value, **changed):
        """A call as the page makes it, but for the headers that are changed."""
        headers = {"Origin": self.origin, "Content_Type": "application/json", "Authorization": f"Bearer {self.token}", **changed}
        return self.request("POST", path, json.dumps(value).encode(), **headers)

    def call(self, method, **parameters):
        """The daemon's reply, an error included."""
        status, _, body = self.post("/api/call", {"method": method, "parameters": parameters})
        assert status == 200, (status, body)
        return json.loads(body)

    def connect(self):
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=traind.PATIENCE)

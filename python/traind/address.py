"""address.py: at which socket the daemon listens, and what to do where none does. The rules are those of trainctl."""
from __future__ import annotations

import os
import stat
from typing import Optional

from .errors import DaemonUnreachable

SYSTEM_SOCKET = "/run/traind/traind.sock"


def usable(path: str) -> bool:
    """Whether the socket is there and this user may connect to it."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)
    except OSError:
        return False


def user_socket() -> Optional[str]:
    """That of a user's own daemon: in the runtime directory, else in the state directory. None: there is neither."""
    for variable, folder in (("XDG_RUNTIME_DIR", ""), ("XDG_STATE_HOME", ""), ("HOME", ".local/state")):
        base = os.environ.get(variable, "")
        if base.startswith("/"):
            return os.path.join(base, folder, "traind/traind.sock")
    return None


def choose(given: Optional[str] = None) -> str:
    """`given`, else $TRAIND_SOCKET, else the system's daemon or the user's own: the first that this user may use."""
    named = given or os.environ.get("TRAIND_SOCKET")
    if named:
        return named
    user = user_socket()
    for path in (SYSTEM_SOCKET, user):
        if path and usable(path):
            return path
    if os.path.exists(SYSTEM_SOCKET):
        raise DaemonUnreachable(
            f"you may not use {SYSTEM_SOCKET}: join the group traind (sudo adduser {os.environ.get('USER', 'USER')} "
            "traind, then log in anew), or run a daemon of your own: systemctl --user start traind.socket")
    raise DaemonUnreachable(
        f"no daemon runs here: there is neither {SYSTEM_SOCKET} nor "
        f"{user or '$XDG_RUNTIME_DIR/traind/traind.sock'}, and TRAIND_SOCKET is not set. Start it with `sudo systemctl "
        "start traind.socket`, or one of your own with `systemctl --user start traind.socket` or `traind`")


def explain(path: str, error: OSError) -> DaemonUnreachable:
    """Why the socket could not be connected to, as a sentence with its remedy."""
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        remedy = "Start it: sudo systemctl start traind.socket" if path == SYSTEM_SOCKET else \
            f"Start one there: traind --socket {path}"
        return DaemonUnreachable(f"no daemon listens on {path}. {remedy}")
    if isinstance(error, PermissionError):
        return DaemonUnreachable(f"you may not connect to {path}: join its group (sudo adduser "
                                 f"{os.environ.get('USER', 'USER')} traind, then log in anew)")
    return DaemonUnreachable(f"cannot reach the daemon at {path}: {error.strerror or error}")

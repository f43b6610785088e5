"""address.py: at which socket the daemon listens, and what to do where none does. The rules are those of trainctl."""
from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import Callable, List, Optional, Sequence

from .errors import DaemonUnreachable

SYSTEM_SOCKET = "/run/traind/traind.sock"


def usable(path: str) -> bool:
    """Whether the socket is there and this user may connect to it."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK)
    except OSError:
        return False


def user_sockets() -> List[str]:
    """Those of a user's own daemon: in the runtime directory of a session, and in the state directory, for one that was started
    outside of a session."""
    found = []
    for places in (("XDG_RUNTIME_DIR", ""),), (("XDG_STATE_HOME", ""), ("HOME", ".local/state")):
        bases = ((os.environ.get(variable, ""), folder) for variable, folder in places)
        found += [os.path.join(base, folder, "traind/traind.sock") for base, folder in bases if base.startswith("/")][:1]
    return found


def choose(given: Optional[str] = None) -> str:
    """`given`, else $TRAIND_SOCKET, else the system's daemon or the user's own: the first that this user may use."""
    named = given or os.environ.get("TRAIND_SOCKET")
    if named:
        return named
    users = user_sockets()
    for path in (SYSTEM_SOCKET, *users):
        if usable(path):
            return path
    if os.path.exists(SYSTEM_SOCKET):
        raise DaemonUnreachable(
            f"you may not use {SYSTEM_SOCKET}: join the group traind (sudo adduser {os.environ.get('USER', 'USER')} "
            "traind, then log in anew), or run a daemon of your own: systemctl --user start traind.socket")
    raise DaemonUnreachable(
        f"no daemon runs here: there is neither {SYSTEM_SOCKET} nor "
        f"{users[0] if users else '$XDG_RUNTIME_DIR/traind/traind.sock'}, and TRAIND_SOCKET is not set. Start it with `sudo systemctl "
        "start traind.socket`, or one of your own with `systemctl --user start traind.socket` or `traind`")


def name_of(find: Callable[[int], Sequence[object]], number: int) -> str:
    try:
        return str(find(number)[0])
    except KeyError:
        return str(number)


def explain_refusal(path: str) -> str:
    """Why this user may not connect: whoever may write to a socket may."""
    try:
        found = os.stat(path)
    except OSError:
        return (f"you may not enter the folder of {path}: it is of somebody else's daemon, and socket= or TRAIND_SOCKET names "
                "another one")
    if path == SYSTEM_SOCKET or found.st_mode & stat.S_IWGRP:
        return (f"you may not connect to {path}: join its group (sudo adduser {os.environ.get('USER', 'USER')} "
                f"{name_of(grp.getgrgid, found.st_gid)}, then log in anew)")
    return (f"you may not connect to {path}: it serves {name_of(pwd.getpwuid, found.st_uid)} alone, and socket= or TRAIND_SOCKET "
            "names another one")


def explain(path: str, error: OSError) -> DaemonUnreachable:
    """Why the socket could not be connected to, as a sentence with its remedy."""
    if os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
        return DaemonUnreachable(f"{path} is no socket: name that of a daemon by socket= or TRAIND_SOCKET")
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        remedy = "Start it: sudo systemctl start traind.socket" if path == SYSTEM_SOCKET else \
            f"Start one there: traind --socket {path}"
        return DaemonUnreachable(f"no daemon listens on {path}. {remedy}")
    if isinstance(error, PermissionError):
        return DaemonUnreachable(explain_refusal(path))
    return DaemonUnreachable(f"cannot reach the daemon at {path}: {error.strerror or error}")

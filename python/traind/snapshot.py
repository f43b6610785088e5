"""snapshot.py: freezes the code that a command runs. `trainctl` takes the copy, as for its own submissions."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from typing import Any, Dict, Optional

from . import address
from .errors import TraindError

SEEN = ("name", "command", "directory", "environment")  # keys that a snapshot depends on, or names in its messages
STACK_LEVEL = 4  # of a warning: the caller of submit()


class SnapshotFailed(TraindError):
    """The code of a command could not be frozen; no job was submitted. The text says why."""


def take(spec: Dict[str, Any], folder: Optional[str], socket: Optional[str]) -> Dict[str, Any]:
    """The keys that name the copy. `folder`: None takes the working tree of git that the job's directory lies in."""
    program = shutil.which("trainctl")
    if not program:
        raise SnapshotFailed("trainctl takes the snapshot, and it is not in PATH; install it, or add its folder to PATH")
    option = "--snapshot" if folder is None else f"--snapshot={folder}"
    seen = {key: spec[key] for key in SEEN if key in spec}
    taken = subprocess.run([program, "--socket", address.choose(socket), "snapshot", option, "-"], text=True,
                           input=json.dumps(seen), capture_output=True, check=False)
    said = taken.stderr.splitlines()
    if taken.returncode:
        raise SnapshotFailed("\n".join(line.replace("trainctl: ", "", 1) for line in said))
    for line in said[1:]:  # behind what was taken: what is missing, and what leads out of the copy
        warnings.warn(line, stacklevel=STACK_LEVEL)
    keys: Dict[str, Any] = json.loads(taken.stdout)
    return keys


def with_snapshot(spec: Dict[str, Any], socket: Optional[str]) -> Dict[str, Any]:
    """The specification; with snapshot=True or snapshot=FOLDER it names a copy of the code, which is taken now."""
    wanted = spec.get("snapshot")
    if wanted is False:
        return {key: value for key, value in spec.items() if key != "snapshot"}
    if wanted is True:
        return {**spec, **take(spec, None, socket)}
    if isinstance(wanted, (str, os.PathLike)):
        return {**spec, **take(spec, os.fspath(wanted), socket)}
    return spec

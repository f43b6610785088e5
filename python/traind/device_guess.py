"""device_guess.py: where a command that names no device probably belongs. `trainctl` takes a look at what the command is, as
it does for its own submissions; what functions use is seen from what this program has imported."""
from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, Mapping

FRAMEWORKS = ("torch", "jax", "tensorflow", "cupy")  # whose programs use a GPU
LOOK_SECONDS = 10  # a look ends by itself after less than one
TASK = ("-m", "traind.task")  # a function as a job: executor.py


def names_device(spec: Mapping[str, Any]) -> bool:
    """Whether the specification says where its job is to run. One that is wrong is left to the daemon."""
    device, resources = spec.get("device") or {}, spec.get("resources") or {}
    if not isinstance(device, Mapping) or not isinstance(resources, Mapping):
        return True
    return bool({"allow", "force", "guess"} & device.keys() or device.get("prefer", "auto") != "auto" or
                "device_memory" in resources)


def look(spec: Mapping[str, Any]) -> Dict[str, str]:
    """What trainctl guesses of the command: keys of `device`. Nothing where it does not know, or is not there."""
    program = shutil.which("trainctl")
    if not program:
        return {}
    seen = {key: spec[key] for key in ("command", "directory", "environment", "shell_environment") if key in spec}
    try:
        found = subprocess.run([program, "guess", "-"], input=json.dumps(seen), capture_output=True, text=True,
                               timeout=LOOK_SECONDS, check=True)
        return {key: value for key, value in json.loads(found.stdout).items() if value}
    except (OSError, subprocess.SubprocessError, TypeError, ValueError):
        return {}  # an older trainctl, or a specification that the daemon will refuse


def with_guess(spec: Dict[str, Any]) -> Dict[str, Any]:
    """The specification; of a command that names no device, with device.guess."""
    command = spec.get("command")
    if not isinstance(command, (list, tuple)) or names_device(spec) or tuple(command[1:3]) == TASK:
        return spec
    guess = look(spec)
    return {**spec, "device": {**(spec.get("device") or {}), **guess}} if guess else spec


@functools.lru_cache(maxsize=1)
def look_at_main() -> Mapping[str, str]:
    """What trainctl guesses of this program. Imports within functions count."""
    main = sys.modules["__main__"]
    name, path = getattr(main.__spec__, "name", None), getattr(main, "__file__", None)
    try:
        program = ["-m", name] if name else [os.path.abspath(path)] if path else None
        return look({"command": [sys.executable, *program], "directory": os.getcwd()}) if program else {}
    except FileNotFoundError:  # the current directory is not there any more
        return {}


def of_functions() -> Mapping[str, str]:
    """The guess for functions of this program: whether it uses a GPU."""
    for framework in FRAMEWORKS:
        if framework in sys.modules:
            return {"guess": "gpu", "guess_reason": f"the program of the function has imported {framework}"}
    return look_at_main()

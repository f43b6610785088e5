"""specification.py: completes what was handed in to a specification, as `trainctl run` and `trainctl submit` do."""
from __future__ import annotations

import json
import os
import warnings
from typing import Any, Dict, List, Mapping, Sequence, Union

from .device_guess import with_guess
from .values import SPECIFICATION_DEPTH, is_utf8, plain

Specification = Union[Mapping[str, Any], Sequence[str], "os.PathLike[str]"]

# Variables that a job's programs need, in `environment` unless it has them
INHERITED = ("PATH", "LANG", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH")
# Those of the shell itself, and those that select a device, which the daemon sets
LEFT_OUT = ("_", "SHLVL", "PWD", "OLDPWD", "CUDA_VISIBLE_DEVICES")
NAME_BYTES_MAX = 128
SHELL_ENVIRONMENT_MAX = 256 * 1024  # bytes
STACK_LEVEL = 4  # of a warning: the caller of submit()


def shell_environment() -> Dict[str, str]:
    """The environment of this process, for a command. traind does not tell commands apart by it."""
    wanted = {name: value for name, value in os.environ.items()
              if name not in LEFT_OUT and (name == "TRAIND_SOCKET" or not name.startswith("TRAIND_"))}
    found = {name: value for name, value in wanted.items() if is_utf8(name + value) and len(name.encode()) < 256}
    for name in wanted.keys() - found.keys():
        if not is_utf8(name + wanted[name]):
            warnings.warn(f"the variable {name!r} is no UTF-8, which all texts are: the job goes without it", stacklevel=STACK_LEVEL)
    size = sum(len(f"{name}={value}".encode()) for name, value in found.items())
    if size > SHELL_ENVIRONMENT_MAX:
        raise ValueError(f"the environment has {size} bytes, more than a job takes along ({SHELL_ENVIRONMENT_MAX}); give "
                         "shell_environment={} and what the command needs as environment")
    found.setdefault("PYTHONUNBUFFERED", "1")  # a script's output appears in its log at once
    return found


def command_words(given: Sequence[Any]) -> List[str]:
    """The words of a command as texts. A number is left to the caller, who knows how it is to be written."""
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"a job is a command as a list of words, a specification as a dict, or the pathlib.Path of a JSON "
                        f"file, not {given!r}")
    words = []
    for word in given:
        if not isinstance(word, (str, os.PathLike)):
            text = os.fsdecode(word) if isinstance(word, bytes) else str(word)
            raise TypeError(f"a command is a list of texts and paths; {word!r} is neither: write {text!r}")
        text = os.fspath(word)
        if not isinstance(text, str) or not is_utf8(text):
            raise ValueError(f"{text!r} is no UTF-8, which the texts of a job are; rename the file or give it a link")
        words.append(text)
    return words


def program_name(program: str) -> str:
    """The job's name after its program, as far as that may be a name."""
    base = os.path.basename(program) or program
    printable = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in base)
    return printable.encode()[:NAME_BYTES_MAX].decode(errors="ignore")


def current_folder() -> str:
    try:
        folder = os.getcwd()
    except FileNotFoundError as error:
        raise FileNotFoundError("the current directory is not there any more: change to another one, or give the job a directory") \
            from error
    if not is_utf8(folder):
        raise ValueError(f"the current directory {folder!r} is no UTF-8, as all texts of a job are: rename it, or give the job another "
                         "directory")
    return folder


def complete(given: Specification, keys: Mapping[str, Any]) -> Dict[str, Any]:
    """A specification of a mapping, the words of a command, or the path of a JSON file. `keys` override its keys."""
    if isinstance(given, (str, bytes)):
        raise TypeError(f"a command is a list of words, not the text {given!r}; for a shell write [\"sh\", \"-c\", TEXT]")
    if isinstance(given, os.PathLike):
        with open(given, encoding="utf-8") as file:
            try:
                content = json.load(file)
            except RecursionError as error:
                raise ValueError(f"{os.fspath(given)} is nested too deeply") from error
        if not isinstance(content, dict):
            raise ValueError(f"{os.fspath(given)} holds no specification: it must be a JSON object")
        spec = {**content, **keys}
    elif isinstance(given, Mapping):
        spec = {**given, **keys}
    else:
        words = command_words(given)
        spec = {"command": words, "name": program_name(words[0]) if words else None, **keys}
        spec.setdefault("shell_environment", shell_environment())
    spec = {key: value for key, value in spec.items() if value is not None}
    if "directory" not in spec:
        spec["directory"] = current_folder()
    own = spec.get("environment", {})
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ and name not in own}
    for name, value in inherited.items():
        if not is_utf8(value):
            raise ValueError(f"the variable {name} is no UTF-8, which all texts are; set it so, or give the job another one: "
                             f"environment={{{name!r}: ...}}")
    spec["environment"] = {**inherited, **own}
    return with_guess(plain(spec, "", SPECIFICATION_DEPTH))

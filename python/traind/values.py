"""values.py: what a call may carry: values as JSON has them, within the bounds of the daemon's reader (proto/json_parse.c). The
daemon hangs up on a message that it cannot read, so what is wrong with one is said here."""
from __future__ import annotations

import math
import numbers
import operator
import os
from typing import Any, Mapping

INTEGER_MIN, INTEGER_MAX = -(1 << 63), (1 << 63) - 1
DEPTH_MAX = 32  # levels of nesting in a message
PARAMETERS_DEPTH = 2  # the level of a call's parameters
SPECIFICATION_DEPTH = 3  # the level of the specification among them
SHOWN_CHARACTERS = 80  # of a text that is refused, or of the name of a key


def is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(value: Any, name: str, depth: int) -> Any:
    """The value with what JSON does not know as what it does: paths, jobs (by their number), NumPy's numbers. ValueError says what
    no message can hold. `name`: of its key, for the error. `depth`: its level in the message."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text_of(value, name)
    if isinstance(value, numbers.Real):
        return number_of(value, name)
    if isinstance(value, (Mapping, list, tuple)):
        if depth > DEPTH_MAX:
            raise ValueError(f"{shortened(name)} is nested too deeply, or holds itself: a message has {DEPTH_MAX} levels")
        return members_of(value, name, depth) if isinstance(value, Mapping) else \
            [plain(each, f"{name}[{index}]", depth + 1) for index, each in enumerate(value)]
    try:
        return number_of(operator.index(value), name)
    except TypeError as error:
        raise TypeError(f"{name} is of the type {type(value).__name__}, for which JSON has no form") from error


def members_of(given: Mapping[Any, Any], name: str, depth: int) -> Any:
    members = {}
    for key, value in given.items():
        if not isinstance(key, (str, int)) or isinstance(key, bool):
            raise TypeError(f"{name or 'the specification'} has the key {key!r}; keys are texts")
        text = text_of(str(key), f"a key of {name or 'the specification'}")
        if text in members:
            raise ValueError(f"{name or 'the specification'} has the key {text} twice, as a text and as a number")
        members[text] = plain(value, f"{name}.{text}" if name else text, depth + 1)
    return members


def number_of(value: Any, name: str) -> Any:
    if isinstance(value, numbers.Integral):
        integer = operator.index(value)
        if not INTEGER_MIN <= integer <= INTEGER_MAX:  # not shown: Python refuses to write one of thousands of digits
            raise ValueError(f"{name} is an integer beyond 64 bits ({INTEGER_MIN} to {INTEGER_MAX})")
        return integer
    real = float(value)
    if not math.isfinite(real):
        raise ValueError(f"{name} is {real}: a number that is NaN or infinite can be given to no job")
    return real


def text_of(text: str, name: str) -> str:
    if not is_utf8(text):
        raise ValueError(f"{name} is {shortened(text)!r}, which is no UTF-8, as all texts are")
    if "\0" in text:
        raise ValueError(f"{name} is {shortened(text)!r}: a text that holds a NUL character can be given to no job")
    return text


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"

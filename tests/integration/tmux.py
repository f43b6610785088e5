"""tmux: runs a program in tmux, a whole terminal, and compares its screen with a recorded one.

    with tmux.Tmux(folder, 80, 24) as terminal:
        terminal.start([TRAINCTL, "top"], TRAIND_SOCKET=…)
        terminal.wait_for("1 running")
        terminal.keys("j", "Enter")
        tmux.compare(self, terminal, "top", [(r"\\d\\d:\\d\\d", "##:##")])

RECORD_SCREENS=1 in the environment writes the screens of tests/integration/screens anew instead of comparing.
"""
import os
import re
import shutil
import subprocess
import time

import traind
from terminal import WITHOUT_LEAKS

SCREENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "screens")
LIMIT_SECONDS = traind.PATIENCE
RECORD = os.environ.get("RECORD_SCREENS") == "1"
# of the terminal that the program sees; a pane without a status line has the whole size
CONFIG = "set -g default-terminal screen\nset -g status off\nset -s escape-time 0\n"
# When the program has ended, its status is printed, and the pane stays. Ctrl-C is for the program alone
SHELL = ["sh", "-c", 'trap : INT; "$@"; echo "status $?"; exec cat', "sh"]
STYLES = {1: "bold", 2: "dim", 7: "reverse"}
COLOURS = {31: "red", 32: "green", 33: "yellow", 36: "cyan"}


def skip_without():
    if not shutil.which("tmux"):
        traind.skip("tmux is not installed (make deps)")


def cells(text):
    """The characters of a screen with SGR sequences, each with its style; a style goes on in the next line."""
    found, styles, colour = [], set(), ""
    for part in re.split(r"(\x1b\[[\d;]*m|\x1b\([0AB]|[\x0e\x0f])", text):
        match = re.fullmatch(r"\x1b\[([\d;]*)m", part)
        if not match:
            if not part.startswith("\x1b") and part not in ("\x0e", "\x0f"):
                style = " ".join([*sorted(styles), *([colour] if colour else [])])
                found += [(character, style) for character in part]
            continue
        for number in [int(value or 0) for value in match[1].split(";")]:
            if number == 0:
                styles, colour = set(), ""
            elif number in STYLES:
                styles.add(STYLES[number])
            elif number in COLOURS:
                colour = COLOURS[number]
            elif number == 39:
                colour = ""
            elif number != 49:
                raise AssertionError(f"unexpected style {number} in {text!r}")
    return found


def marked(text, curves):
    """The screen's lines as text: "{bold}traind {}2 running". The style of a blank is seen only where it is reversed.
    Without `curves` blanks stand for them."""
    lines, line, last = [], "", ""
    for character, style in [*cells(text), ("\n", "")]:
        if character == "\n":
            lines.append((line + ("{}" if last else "")).rstrip())
            line, last = "", ""
            continue
        if 0x2800 <= ord(character) < 0x2900 and not curves:
            character = " "
        if character == " " and "reverse" not in style + last:
            style = last
        if style != last:
            line += "{" + style + "}"
            last = style
        line += character
    return lines


class Tmux:
    count = 0

    def __init__(self, folder, columns, rows):
        self.columns, self.rows = columns, rows
        Tmux.count += 1  # a server that ends may still hold its socket
        self.socket = os.path.join(folder, f"tmux.{Tmux.count}")
        self.config = self.socket + ".conf"
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(CONFIG)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("kill-server", check=False)

    def run(self, *arguments, check=True):
        process = subprocess.run(["tmux", "-S", self.socket, "-f", self.config, *arguments], capture_output=True, text=True,
                                 timeout=60, check=False,
                                 env={**os.environ, **WITHOUT_LEAKS, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"})
        assert process.returncode == 0 or not check, f"tmux {arguments}: {process.stderr}"
        return process.stdout

    def start(self, command, **environment):
        """Runs it; "status N" appears on the screen when it has ended."""
        # `env` in place of -e: what is set to None is not there
        words = ["env", *(f"-u{name}" for name, value in environment.items() if value is None),
                 *(f"{name}={value}" for name, value in environment.items() if value is not None), *SHELL, *command]
        self.run("new-session", "-d", "-x", str(self.columns), "-y", str(self.rows), *words)

    def screen(self):
        return self.run("capture-pane", "-p").rstrip("\n")

    def styled(self, curves=True):
        return marked(self.run("capture-pane", "-p", "-e").rstrip("\n"), curves)

    def keys(self, *names):
        self.run("send-keys", *names)

    def type(self, text):
        self.run("send-keys", "-l", "--", text)

    def mouse(self, button, row, column, release=True):
        """Presses a button of the mouse in SGR form; row and column from 0."""
        self.type(f"\x1b[<{button};{column + 1};{row + 1}M" + (f"\x1b[<{button};{column + 1};{row + 1}m" if release else ""))

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_for(self, condition):
        """Until the screen's text fulfils `condition`, a substring or a function; the text."""
        test = condition if callable(condition) else lambda text: condition in text
        deadline = time.monotonic() + LIMIT_SECONDS
        while not test(text := self.screen()):
            assert time.monotonic() < deadline, f"never seen: {condition!r}; the screen shows:\n{text}"
            time.sleep(0.02)
        return text


def normalised(lines, replacements):
    """Each match becomes its replacement, filled with blanks or cut to the same width."""
    def fit(match, replacement):
        return replacement[:len(match[0])].ljust(len(match[0]))
    for pattern, replacement in replacements:
        lines = [re.sub(pattern, lambda match: fit(match, replacement), line).rstrip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def compare(test, terminal, name, replacements=(), curves=True):
    """Waits until the normalised screen is the recorded one; shows the difference if it never is. Without
    `curves` these may be any."""
    path = os.path.join(SCREENS, f"{name}-{terminal.columns}x{terminal.rows}.txt")
    if RECORD:
        os.makedirs(SCREENS, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(normalised(terminal.styled(curves), replacements)) + "\n")
        return
    with open(path, encoding="utf-8") as file:
        expected = file.read().rstrip("\n").split("\n")
    deadline = time.monotonic() + LIMIT_SECONDS / 2
    while (lines := normalised(terminal.styled(curves), replacements)) != expected:
        if time.monotonic() > deadline:
            test.maxDiff = None
            test.assertEqual("\n".join(lines), "\n".join(expected),
                             f"the screen is not {path}; RECORD_SCREENS=1 writes it anew (CONTRIBUTING.md)")
        time.sleep(0.05)

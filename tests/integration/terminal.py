"""terminal: runs a program on a pseudo-terminal and shows what a person would see: a screen that implements the few
sequences that trainctl sends."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

LIMIT_SECONDS = 20
# For programs on terminals: one that closes sends SIGCONT behind SIGHUP, which undoes the stop that LeakSanitizer waits for at the
# end of the program. It would wait for ever, on a processor of its own.
WITHOUT_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}
SEQUENCE = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[[\d;]*m|\x1b\[\?(\d+)([hl])")


class Screen:
    """Lines without a bottom: nothing scrolls away, so that tests see all of it."""

    def __init__(self, columns):
        self.columns = columns
        self.lines = [""]
        self.row = self.column = 0
        self.modes = set()  # private ones that are on: "25" (a hidden cursor takes it off), "1049"
        self.kept = None  # the main screen's content while the alternate screen is shown

    def set_mode(self, mode, on):
        if mode == "1049" and on:
            self.kept, self.lines = (self.lines, self.row, self.column), [""]
            self.row = self.column = 0
        elif mode == "1049" and self.kept:
            (self.lines, self.row, self.column), self.kept = self.kept, None
        (self.modes.add if on else self.modes.discard)(mode)

    def put(self, character):
        if self.column == self.columns:
            self.newline()
            self.column = 0
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + character + line[self.column + 1:]
        self.column += 1

    def newline(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def feed(self, text):
        while text:
            match = SEQUENCE.match(text)
            if match and match[3]:
                self.set_mode(match[3], match[4] == "h")
                text = text[match.end():]
                continue
            if match:
                count, action = int(match[1] or 1) if match[2] else 1, match[2]
                if action == "K":
                    self.lines[self.row] = self.lines[self.row][:self.column]
                elif action == "J":
                    self.lines[self.row] = self.lines[self.row][:self.column]
                    del self.lines[self.row + 1:]
                elif action == "H":
                    self.row = self.column = 0
                elif action == "A":
                    self.row = max(0, self.row - count)
                elif action is not None and action != "m":
                    raise AssertionError("unexpected sequence " + repr(match[0]))
                text = text[match.end():]
                continue
            character, text = text[0], text[1:]
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.newline()
            elif character == "\x1b" or ord(character) < 32:
                raise AssertionError("unexpected character " + repr(character))
            else:
                self.put(character)

    def resize(self, columns):
        """As terminals do: lines that became too long are folded."""
        folded = []
        for number, line in enumerate(self.lines):
            parts = [line[i:i + columns] for i in range(0, len(line), columns)] or [""]
            if number == self.row:
                self.row = len(folded) + len(parts) - 1
                self.column = min(self.column, columns)
            folded += parts
        self.lines, self.columns = folded, columns

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


class Terminal:
    def __init__(self, arguments, columns=100, **environment):
        self.screen = Screen(columns)
        self.raw = b""
        self.pending = b""
        self.master, slave = pty.openpty()
        self.set_size(columns)
        self.attributes = termios.tcgetattr(slave)  # as they were before the program

        def adopt():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=adopt,
            env={**os.environ, **WITHOUT_LEAKS, "TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **environment})
        os.close(slave)

    def set_size(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def resize(self, columns):
        self.screen.resize(columns)
        self.set_size(columns)

    def read(self, timeout):
        """Reads what has arrived; False at the end."""
        if not select.select([self.master], [], [], timeout)[0]:
            return True
        try:
            piece = os.read(self.master, 65536)
        except OSError:  # EIO: the other side is closed
            piece = b""
        self.raw += piece
        self.pending += piece
        text = self.pending.decode(errors="surrogateescape")
        # keep an unfinished character or sequence for the next time
        cut = len(text)
        while cut and "\udc80" <= text[cut - 1] <= "\udcff":
            cut -= 1
        last = text.rfind("\x1b", 0, cut)
        if last >= 0 and not SEQUENCE.match(text, last):
            cut = last
        self.screen.feed(text[:cut])
        self.pending = text[cut:].encode(errors="surrogateescape")
        return bool(piece)

    def wait_for(self, condition):
        """Until the screen's text fulfils `condition`, a substring or a function."""
        deadline = time.monotonic() + LIMIT_SECONDS
        test = condition if callable(condition) else lambda text: condition in text
        while not test(self.screen.text()):
            if time.monotonic() > deadline or not self.read(0.05):
                if test(self.screen.text()):
                    return
                raise AssertionError(f"never seen: {condition!r}; the screen shows:\n{self.screen.text()}")

    def type(self, keys):
        os.write(self.master, keys)

    def finish(self):
        """Exit status once it has ended and everything is read."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.read(0.05):
            if time.monotonic() > deadline:
                self.process.send_signal(signal.SIGKILL)
                raise AssertionError("does not end; the screen shows:\n" + self.screen.text())
        return self.process.wait(LIMIT_SECONDS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)

"""Progress for the person who waits: a bar in a terminal or a notebook, a line a minute in a log."""

import sys
import time
from typing import Any, TextIO

from tqdm.auto import tqdm

QUIET = 60  # seconds between the lines of a log; what takes less says nothing


class Lines:
    """A stream in which a state of a bar is a line of its own, if the last one was long enough ago."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.last = stream, time.monotonic()

    def write(self, text: str) -> None:
        words = text.strip("\r\n ")
        if words and time.monotonic() - self.last >= QUIET:
            self.last = time.monotonic()
            self.stream.write(f"{words}\n")

    def flush(self) -> None:
        self.stream.flush()


def in_notebook() -> bool:
    return "ipykernel" in sys.modules


def progress_bar(iterable: Any = None, *, show: bool = True, **options: Any) -> tqdm:
    """tqdm with its own options; `show` False hides it."""
    if not (in_notebook() or sys.stderr.isatty()):
        options = {"mininterval": QUIET, "delay": QUIET, "file": Lines(sys.stderr), **options, "leave": False}
    return tqdm(iterable, disable=not show, **options)

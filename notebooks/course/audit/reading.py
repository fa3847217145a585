"""Reading a folder that somebody else filled: regular files only, as data, never as code, with a limit on everything.

Nothing is unpickled, imported or executed, no link is followed, nothing is written. What cannot be read is named, with
the place.
"""

import csv
import json
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

LARGEST = 10_000_000  # bytes of a file that is parsed
MOST_BYTES = 12_000_000  # of all files together
MOST_ENTRIES = 3_000  # files and folders
MOST_READ = 300  # files with results
MOST_ROWS = 5_000  # of a table or a log
MOST_OBJECTS, MOST_COMMAS = 100_000, 200_000  # in a JSON file
DEEPEST = 12  # folders within folders
SECONDS = 2.5  # after these no further file is read

RESULTS = {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".log", ""}
PROBLEMS = {"problem1", "problem2"}
TABLES = {".csv": ",;\t|", ".tsv": "\t"}  # and what may separate their fields
IGNORED = {"__pycache__", "node_modules", "site-packages", "venv", "env"}  # and whatever begins with a dot


SKIPPED = "was not read: the files before it took all the time and room there is"


class Unreadable(Exception):
    """Why a file cannot be read, and where in it."""


@dataclass
class File:
    name: str  # path within the folder
    size: int = 0
    document: Any = None  # of JSON; a table or a log is a list of rows; None if it was not read
    unread: str = ""  # why not
    notes: list[str] = field(default_factory=list)  # what is odd about one that was read
    damaged: str = ""  # where and how, although something of it was read

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.name)

    @property
    def holds_results(self) -> bool:
        """By its name."""
        return self.path.suffix.lower() in RESULTS


def read_folder(folder: str | Path) -> list[File]:
    """Every file of the folder, in the order of their names; those that hold results with what is in them."""
    started, left, count = time.monotonic(), MOST_BYTES, 0
    files = []
    for file, place in listed(Path(folder).resolve()):
        files.append(file)
        if file.unread or not file.holds_results:
            continue
        if file.size > LARGEST:
            file.unread = f"is larger than {LARGEST // 1_000_000} MB and was not read"
        elif file.size > left or count == MOST_READ or time.monotonic() - started > SECONDS:
            file.unread = SKIPPED
        else:
            left, count = left - file.size, count + 1
            try:
                read(file, place)
            except Unreadable as error:
                file.unread = str(error)
    return sorted(files, key=lambda file: file.name)


# --- which files there are -------------------------------------------------------------------------------------------


def listed(folder: Path) -> Iterator[tuple[File, Path]]:
    """Files and what else is no folder, those near the top first; of a problem only its results, if there are."""
    queue, left = deque([(folder, "", 0)]), MOST_ENTRIES
    while queue:
        place, prefix, depth = queue.popleft()
        try:
            with os.scandir(place) as entries:
                found = sorted(islice(entries, left + 1), key=lambda entry: entry.name)
        except OSError as error:
            yield File(prefix.rstrip("/") or ".", unread=f"is a folder that cannot be read: {error.strerror}"), place
            continue
        if place.name in PROBLEMS and any(
            entry.name == "results" and entry.is_dir(follow_symlinks=False) for entry in found
        ):
            found = [entry for entry in found if entry.name == "results"]  # where the assignment wants them
        for entry in found:
            name = prefix + entry.name
            if entry.name.startswith(".") or entry.name in IGNORED or entry.name.endswith(".egg-info"):
                continue
            left -= 1
            if left < 0:
                yield File(name, unread=f"and what follows was not looked at: more than {MOST_ENTRIES:,} files"), place
                return
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                yield File(name, unread=f"cannot be read: {error.strerror}"), place
                continue
            if stat.S_ISDIR(status.st_mode) and depth < DEEPEST:
                queue.append((place / entry.name, f"{name}/", depth + 1))
            else:
                yield File(name, status.st_size, unread=no_file(status.st_mode)), place / entry.name


def no_file(mode: int) -> str:
    """What it is if it is no regular file."""
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISLNK(mode):
        return "is a link, and links are not followed"
    if stat.S_ISDIR(mode):
        return f"is a folder more than {DEEPEST} levels deep and was not looked at"
    return "is no regular file (a pipe, a socket or a device) and was not opened"


def content(place: Path) -> bytes:
    """Of a regular file, also if it was something else a moment ago."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):  # as far as the system has them
        flags |= getattr(os, name, 0)
    try:
        with open(os.open(place, flags), "rb") as stream:
            if problem := no_file(os.fstat(stream.fileno()).st_mode):
                raise Unreadable(problem)
            return stream.read(LARGEST)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None


# --- what is in them -------------------------------------------------------------------------------------------------


def read(file: File, place: Path) -> None:
    data = content(place)
    if not data.strip():
        raise Unreadable("is empty")
    text, note = decoded(data)
    file.notes += [note] if note else []
    suffix = file.path.suffix.lower()
    if text.lstrip()[:1] in ("{", "[") or suffix == ".json":
        if text.count("{") + text.count("[") > MOST_OBJECTS or text.count(",") > MOST_COMMAS:
            raise Unreadable("holds far more values than results do, and was not read")
        try:
            file.document = json_document(text, file)
        except Unreadable as error:
            document = json_lines(text, file) or json_in_part(text)
            if not document:
                raise
            file.document = document
            if suffix == ".json" or isinstance(file.document, dict):
                file.damaged = str(error)
    elif suffix in TABLES:
        file.document = table(text, TABLES[suffix], file)
    else:
        file.document = log_lines(text)


def decoded(data: bytes) -> tuple[str, str]:
    """The text, and what to say of its encoding."""
    marks = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    name = next((name for mark, name in marks.items() if data.startswith(mark)), "utf-8-sig")
    half = data[:400]
    if name == "utf-8-sig" and half.count(0) > len(half) // 3:  # every other byte of UTF-16 is 0 in English text
        name = "utf-16-le" if half[1::2].count(0) > half[::2].count(0) else "utf-16-be"
    try:
        text, note = data.decode(name), "" if name == "utf-8-sig" else f"is in {name.upper()}, not in UTF-8"
    except UnicodeDecodeError as error:
        if name != "utf-8-sig":
            raise Unreadable(f"is no text: byte {error.start} does not fit {name.upper()}") from None
        text, note = data.decode("latin-1"), f"is not in UTF-8 (byte {error.start}), and was read as Latin-1"
    if "\0" in text:
        raise Unreadable(f"is no text: character {text.index(chr(0))} is a zero")
    return text, note


def whole_number(text: str) -> float:
    return int(text) if len(text) <= 300 else float("inf")  # Python refuses to read thousands of digits


def decimal_number(text: str) -> float:
    return float(text) if len(text) <= 300 else float("nan")


def json_document(text: str, file: File) -> Any:
    repeated = dict[str, None]()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                repeated[key] = None
            found[key] = value
        return found

    document = parsed(text, unique)
    if repeated:
        file.damaged = f"has {next(iter(repeated))!r} twice in one object, and JSON keeps only the last"
    return document


def parsed(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_int=whole_number, parse_float=decimal_number)
    except json.JSONDecodeError as error:
        line = error.doc.split("\n", error.lineno)[error.lineno - 1].strip()
        near = f", near {line[:60]!r}" if line else ""
        raise Unreadable(f"is no valid JSON: {error.msg}, line {error.lineno}, column {error.colno}{near}") from None
    except RecursionError:
        raise Unreadable("is nested too deeply to be read") from None


def json_lines(text: str, file: File) -> list[Any]:
    """JSON, a value on each line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return []
    rows = []
    for number, line in enumerate(lines[:MOST_ROWS], start=1):
        try:
            rows.append(parsed(line))
        except Unreadable:
            if number < 3 or not all(isinstance(row, dict) for row in rows):
                return []
            file.damaged = f"stops being valid JSON on line {number} of {len(lines)}"
            break
    return rows if all(isinstance(row, dict) for row in rows) else []


PAIR = re.compile(r'"([^"\\\n]{1,60})"\s*:\s*(-?\d{1,20}(?:\.\d{1,25})?(?:[eE][-+]?\d{1,3})?)\s*(?=[,}\n]|$)')


def json_in_part(text: str) -> dict[str, float]:
    """The pairs of a name and a number in a damaged object without further objects in it."""
    if text.count("{") != 1 or "[" in text:
        return {}
    return {name: float(value) for name, value in PAIR.findall(text)}


def table(text: str, separators: str, file: File) -> list[dict[str, str]]:
    """One dictionary for each row; values stay text."""
    first = text.lstrip().partition("\n")[0]
    separator = max(separators, key=first.count)
    try:
        rows = list(islice(csv.reader(text.splitlines(), delimiter=separator), MOST_ROWS))
    except csv.Error as error:
        raise Unreadable(f"is no table: {error}") from None
    rows = [row for row in rows if any(map(str.strip, row))]
    header = [name.strip() for name in rows[0]] if rows else []
    if len(header) < 2:
        raise Unreadable("is no table: its first line has one field only")
    odd = [number for number, row in enumerate(rows, start=1) if len(row) != len(header)]
    if odd:
        file.damaged = f"has {len(rows[odd[0] - 1])} fields in row {odd[0]}, its header has {len(header)}"
    return [dict(zip(header, row, strict=False)) for row in rows[1:]]


LOGGED = re.compile(
    r"([A-Za-z][A-Za-z_ -]{0,30}?)\s*[:= ]\s*(-?\d{1,9}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?%?)(?![\w.])"
)


def log_lines(text: str) -> list[dict[str, str]] | None:
    """Lines such as `epoch 3: train loss 0.69, val_acc=0.51`."""
    rows = [
        dict(LOGGED.findall(line[:300]))
        for line in text.splitlines()[: MOST_ROWS // 2]
        if "loss" in line.lower() or "acc" in line.lower()
    ]
    rows = [row for row in rows if any("loss" in name.lower() or "acc" in name.lower() for name in row)]
    return rows if len(rows) > 1 else None

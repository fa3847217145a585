"""Hand-in folders damaged at random, and audited: `python -m course.damage --folders 300`.

The audit must end in 5 seconds with a status of its own, write nothing, and show no control character and nothing from
outside the folder, whatever was done to the files.
"""

import contextlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course.audit.command import main as audit_command
from course.handins import LAYOUTS, RESULTS, write_handin
from problem1.shared.commands import Parser, parse_count, parse_int

LIMIT = 5.0  # seconds
SECRET = "what stands outside of the folder"
OUTSIDE = Path(tempfile.gettempdir()) / f"outside-{os.getpid()}.json"  # links may lead there
Damage = Callable[[Path, random.Random], None]  # of one file or its folder
DAMAGES: dict[str, Damage] = {}


def damage(function: Damage) -> Damage:
    DAMAGES[function.__name__.replace("_", " ")] = function
    return function


# --- what can happen to a file ---------------------------------------------------------------------------------------


@damage
def cut(file: Path, draw: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: draw.randrange(file.stat().st_size + 1)])


@damage
def bytes_changed(file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes() or b"{}")
    for _ in range(draw.randint(1, 30)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    file.write_bytes(data)


@damage
def lines_shuffled(file: Path, draw: random.Random) -> None:
    lines = file.read_bytes().split(b"\n")
    draw.shuffle(lines)
    file.write_bytes(b"\n".join(lines))


@damage
def other_encoding(file: Path, draw: random.Random) -> None:
    text = file.read_bytes().decode(errors="replace").replace("e", "é", 3)
    file.write_bytes(
        text.encode(draw.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "latin-1", "utf-32"]), "replace")
    )


@damage
def other_format(file: Path, draw: random.Random) -> None:
    """Under the old name."""
    contents = [
        b"",
        b"\n \n",
        b"\x89PNG\r\n\x1a\n" + bytes(99),
        b'a,b\n1\n1,2,3\n"',
        b"<html>",
        b"- 1\n- 2",
        pickle.dumps(EVIL),
    ]
    file.write_bytes(draw.choice(contents))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("unpickled",)


EVIL = Evil()

ODD: list[Any] = [
    *(float("nan"), float("inf"), -float("inf"), 10**400, -(10**30), 1e300, 1e-320, -0.0, 0, 1, -1, True, False, None),
    *("", "nan", "1e999", "12e345", "41.2 %", "0,5", "\x1b[31mred\x07", "\u202e", "\ud800", "x" * 100_000, "9" * 5_000),
    *([], {}, [[]], [{}], [[[]]], [1, "a", None, [2]], {"": {"": []}}, {"length": 32, "head": -1, "layer": 10**30}),
    *({"encoding": ["a"]}, {"ranking": [0, {}, [None]]}),
]


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document, with every key or index of it."""
    waiting = [document]
    while waiting:
        inner = waiting.pop()
        entries = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for key, value in entries:
            yield inner, key
            waiting.append(value)


@damage
def other_values(file: Path, draw: random.Random) -> None:
    """Numbers become text, lists, NaN and what else there is."""
    try:
        document = json.loads(file.read_bytes())
    except ValueError:
        file.write_text(
            file.read_text(errors="replace").replace("0.", draw.choice(["nan", "1e999", "-", "9" * 5_000, "0.0."]))
        )
        return
    found = list(places(document)) or [([document], 0)]
    for container, key in draw.sample(found, min(len(found), draw.choice([1, 5, 50]))):
        container[key] = draw.choice([*ODD, document if draw.random() < 0.1 and len(found) < 50 else 7])
    with contextlib.suppress(ValueError, RecursionError):  # a document that holds itself
        sys.set_int_max_str_digits(0)
        file.write_bytes(json.dumps(document).encode("utf-8", "surrogatepass"))


@damage
def names_changed(file: Path, draw: random.Random) -> None:
    text = file.read_text(errors="replace")
    words = [
        "head",
        "layer",
        "encoder",
        "decoder",
        "accuracy",
        "baseline",
        "loss",
        "sinusoidal",
        "learned",
        "length",
        "epoch",
        "32",
        "0",
    ]
    for _ in range(3):
        text = text.replace(draw.choice(words), draw.choice([*words, "\x1b]0;", "*", "", "\u202e", "<b>"]))
    file.write_text(text)


@damage
def deep(file: Path, draw: random.Random) -> None:
    depth, (left, right) = (
        draw.choice([30, 500, 990, 5_000, 100_000]),
        draw.choice([("[", "]"), ('{"a":', "}"), ('{"encoder":[', "]}")]),
    )
    file.write_text(
        left * depth + draw.choice(["1", '{"accuracy": 0.412}', ""]) + right * draw.choice([depth, depth - 1])
    )


@damage
def wide(file: Path, draw: random.Random) -> None:
    """Nine megabytes of one kind."""
    kinds = [
        "[" + "0.5," * 2_000_000 + "1]",
        "[" + "[]," * 2_500_000 + "[]]",
        '{"a": "' + "x" * 9_000_000 + '"}',
        '{"sinusoidal": {' + ",".join(f'"{n}": 0.5' for n in range(500_000)) + "}}",
        "a,b\n" + "1,2\n" * 2_000_000,
        "," * 9_000_000,
        "9" * 9_000_000,
    ]
    file.write_text(draw.choice(kinds))


@damage
def too_large(file: Path, draw: random.Random) -> None:
    with file.open("r+b") as stream:
        stream.truncate(draw.choice([10_000_001, 50_000_000_000]))


@damage
def link(file: Path, draw: random.Random) -> None:
    file.unlink()
    file.symlink_to(draw.choice([str(OUTSIDE), "/", "/dev/zero", "/dev/stdin", file.name, "nowhere", "/proc/self/mem"]))


@damage
def pipe(file: Path, draw: random.Random) -> None:
    file.unlink()
    os.mkfifo(file)


@damage
def folder_for_file(file: Path, draw: random.Random) -> None:
    file.unlink()
    inner = file
    for name in draw.choice([["x"], ["d"] * 40, ["é\n", "\x1b[2J"]]):
        inner = inner / name
    inner.mkdir(parents=True)
    (inner / "results.json").write_text('{"baseline": 0.412}')


@damage
def odd_name(file: Path, draw: random.Random) -> None:
    names = [
        b"\xff\xfe.json",
        b"\x1b[31m.json",
        b"a\nb.json",
        b"*_`<b>@all.json",
        "\u202egpj.json".encode(),
        b"-rf.json",
        b"x" * 240 + b".csv",
    ]
    os.rename(file, os.path.join(os.fsencode(file.parent), draw.choice(names)))


@damage
def many_files(file: Path, draw: random.Random) -> None:
    for number in range(4_000):
        (file.parent / f"more-{number}.json").write_bytes(
            b'{"baseline": 0.5, "enc_L0_H0": 0.4, "val_acc": [0.5, 0.5, 0.5]}'
        )


@damage
def gone(file: Path, draw: random.Random) -> None:
    file.unlink()


@damage
def locked(file: Path, draw: random.Random) -> None:
    file.chmod(0)


# --- one folder ------------------------------------------------------------------------------------------------------


def state(folder: Path) -> dict[str, tuple[int, ...]]:
    """Of everything in a folder: kind, size and when it was written."""
    found: dict[str, tuple[int, ...]] = {}
    for place, _, names in os.walk(os.fsencode(folder)):
        for name in [b".", *names]:
            status = os.lstat(os.path.join(place, name))
            found[os.fsdecode(os.path.join(place, name))] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


class TooLong(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Outcome:
    """Of one folder."""

    done: list[str]  # damages
    seconds: float = 0.0
    status: int | None = None
    problems: list[str] = field(default_factory=list)


def ask(folder: Path, options: list[str], outcome: Outcome) -> str:
    """Run the command in this process; what it printed."""
    arguments, printed = sys.argv, io.BytesIO()
    output = io.TextIOWrapper(printed, encoding="utf-8")
    started = time.perf_counter()
    try:
        with time_limit(3 * LIMIT), contextlib.redirect_stdout(output):
            sys.argv = ["audit", str(folder), *options]
            audit_command()
    except SystemExit as ended:
        outcome.status = ended.code if isinstance(ended.code, int) else None
    except TooLong:
        outcome.problems.append("no end")
    except BaseException:
        outcome.problems.append(f"traceback\n{traceback.format_exc()}")
    finally:
        sys.argv = arguments
    outcome.seconds = max(outcome.seconds, time.perf_counter() - started)
    output.flush()
    return printed.getvalue().decode()


def try_folder(seed: int, parent: Path) -> Outcome:
    """Write a hand-in, damage it, audit it twice: as text and as Markdown."""
    draw, folder = random.Random(seed), parent / "handin"
    write_handin(draw.choice(list(RESULTS)), draw.choice(list(LAYOUTS)), folder)
    outcome = Outcome([])
    for name in draw.choices(list(DAMAGES), k=draw.randint(1, 4)):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        files = [path for path in files if path.suffix != ".png" and path.stat().st_size < 10**7]
        if files:
            with contextlib.suppress(PermissionError, IsADirectoryError):  # what an earlier damage left
                DAMAGES[name](draw.choice(files[:50]), draw)
            outcome.done.append(name)
    before, here = state(parent), state_here()
    for options in ([], ["--markdown"]):
        printed = ask(folder, options, outcome)
        if any(not c.isprintable() and c != "\n" for c in printed):
            outcome.problems.append("control characters printed")
        if SECRET in printed:
            outcome.problems.append("followed a link")
    if outcome.status not in (0, 1):
        outcome.problems.append(f"status {outcome.status}")
    if state(parent) != before or state_here() != here:
        outcome.problems.append("something was written")
    if outcome.seconds > LIMIT:
        outcome.problems.append(f"{outcome.seconds:.1f} s")
    return outcome


def state_here() -> set[str]:
    return set(os.listdir("."))


def try_folders(count: int, first: int = 0) -> list[Outcome]:
    """Of folders number `first` to `first + count - 1`, one after the other, each in a place of its own."""
    outcomes = []
    for seed in range(first, first + count):
        parent = Path(tempfile.mkdtemp(prefix="damage-"))
        try:
            OUTSIDE.write_text(json.dumps({"baseline": 0.412, SECRET: 1, f"{SECRET} L0 H0": 0.5}))
            outcomes.append(try_folder(seed, parent))
        finally:
            OUTSIDE.unlink(missing_ok=True)
            shutil.rmtree(parent, ignore_errors=True)
    return outcomes


def in_rows(outcomes: list[Outcome]) -> list[str]:
    """A line for each kind of damage."""
    kinds = defaultdict(list)
    for outcome in outcomes:
        for name in {*outcome.done, "all"}:
            kinds[name].append(outcome)
    lines = [f"{'damage':<16} {'folders':>7} {'findings':>8} {'none':>5} {'slowest s':>9} {'problems':>8}"]
    for name in [*DAMAGES, "all"]:
        own = kinds[name]
        slowest = max((outcome.seconds for outcome in own), default=0.0)
        found = [sum(outcome.status == status for outcome in own) for status in (1, 0)]
        problems = sum(bool(outcome.problems) for outcome in own)
        lines.append(f"{name:<16} {len(own):>7} {found[0]:>8} {found[1]:>5} {slowest:>9.2f} {problems:>8}")
    return lines


def main() -> None:
    parser = Parser(prog="python -m course.damage", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folders", type=parse_count, default=300, help="how many (default 300)")
    parser.add_argument("--first", type=parse_int, default=0, help="number of the first one, its seed (default 0)")
    arguments = parser.parse_args()
    outcomes = try_folders(arguments.folders, arguments.first)
    print(*in_rows(outcomes), sep="\n")
    wrong = [(number, outcome) for number, outcome in enumerate(outcomes, arguments.first) if outcome.problems]
    for number, outcome in wrong:
        print(f"\nfolder {number} ({', '.join(outcome.done)}): {'; '.join(outcome.problems)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

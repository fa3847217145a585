"""Both ends of a pipe: a process that calls the functions of notebooks, and whoever asks it to.

A question is a line of JSON, and so is the answer, which repeats the question's token; any other line is ignored, and
what the functions print goes nowhere. The answer holds what the functions returned and no judgement.
"""

import contextlib
import importlib
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .cells import NotThere, load, text_of
from .unpack import Refused, unpack

ANSWER = 8_000_000  # characters of one answer
TEXT = 100_000  # characters of a text
SECONDS_TO_START = 120
ENDED = {75: "It used more memory than allowed.", 76: "It started more processes than allowed."}  # see contain.py

# --- the process that calls ------------------------------------------------------------------------------------------


def command(code: Path, *files: str) -> list[str]:
    """The process; `code` is the folder that holds checks.py and this package."""
    words = f"import sys; sys.path.insert(0, {str(code)!r}); from handin.runner import serve; serve(*sys.argv[1:])"
    return [sys.executable, "-P", "-c", words, *files]  # -P: what lies in the current folder does not come first


def serve(zip_file: str = "") -> None:
    """Answer until nobody asks; with a zip, unpack it here first."""
    questions, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    for descriptor in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    sys.path.append(os.getcwd())
    run = importlib.import_module("checks").run
    refused = ""
    if zip_file:
        try:
            unpack(Path(zip_file), Path.cwd())
        except Refused as error:
            refused = str(error)
    for line in questions:
        question = json.loads(line)
        reply: dict[str, Any] = {"sentence": refused} if refused else answer(question, run)
        text = json.dumps({"token": question["token"], **reply})
        if len(text) > ANSWER:
            text = json.dumps({"token": question["token"], "sentence": "It returns more than can be taken in."})
        answers.write(text + "\n")
        answers.flush()


def answer(question: dict[str, Any], run: Any) -> dict[str, Any]:
    """{"results": [...]}, one for each call, or {"sentence": why there are none}."""
    try:
        notebook = find(Path(question["notebook"]))
        if question.get("text"):
            return {"results": [text_of(notebook, question["task"])[:TEXT]]}
        function = load(notebook, question["task"])
        return {"results": [result_of(run, function, call) for call in question["calls"]]}
    except NotThere as error:
        return {"sentence": str(error)}
    except BaseException as error:
        return {"sentence": f"It cannot be run: {type(error).__name__}: {str(error)[:300]}."}


def result_of(run: Any, function: Any, call: dict[str, Any]) -> dict[str, Any]:
    try:
        result: dict[str, Any] = run(function, call)
        json.dumps(result)
    except BaseException as error:  # sys.exit() in a function is an answer like any other
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    return result


def find(path: Path) -> Path:
    """The notebook of this name, in whatever folder of the zip it lies; the least nested one."""
    found = [each for each in Path.cwd().rglob(path.name) if "__MACOSX" not in each.parts]
    return min(found, key=lambda each: (len(each.parts), str(each)), default=path)


# --- whoever asks ----------------------------------------------------------------------------------------------------


class Failed(Exception):
    """There is no answer; its sentence says why."""


class Runner:
    """A process that is asked, and started again when it was killed."""

    def __init__(
        self, command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.command, self.folder, self.environment = command, folder, environment
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str]
        self.reader: threading.Thread

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
        )
        self.process, self.lines = process, queue.Queue(maxsize=1)
        self.reader = threading.Thread(target=self.read, args=(process, self.lines), daemon=True)
        self.reader.start()
        try:
            self.exchange({"notebook": "", "task": "", "calls": []}, SECONDS_TO_START)
        except Failed as failed:
            raise Failed(f"The process that calls the functions does not start. {failed}") from None
        return process

    @staticmethod
    def read(process: subprocess.Popen[str], lines: "queue.Queue[str]") -> None:
        """Hand lines on, never more than one answer's length at once; at the end, nothing."""
        assert process.stdout
        with contextlib.suppress(OSError, ValueError):
            while line := process.stdout.readline(ANSWER + 1_000):
                lines.put(line)
        lines.put("")

    def ask(self, question: dict[str, Any], seconds: float) -> list[Any]:
        """The results of the calls, or Failed. After a wrong turn the process is another one."""
        if self.process is None:
            self.start()
        reply = self.exchange(question, seconds)
        results = reply.get("results")
        if not isinstance(results, list) or len(results) != len(question.get("calls", [""])):
            raise Failed(str(reply.get("sentence", "The answer is not one.")))
        return results

    def exchange(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self.process and self.process.stdin
        token = secrets.token_hex(16)
        until = time.monotonic() + seconds
        sender = threading.Thread(target=self.send, args=(self.process, {"token": token, **question}), daemon=True)
        sender.start()
        while True:
            try:
                line = self.lines.get(timeout=max(0.001, until - time.monotonic()))
            except queue.Empty:
                self.stop()
                raise Failed(f"It took longer than {seconds:.0f} s: is there a loop that does not end?") from None
            if not line:
                raise Failed(ENDED.get(self.stop(), "It ended the process: by an exit, a crash, or lack of memory."))
            if token in line:
                with contextlib.suppress(ValueError, RecursionError):
                    reply = json.loads(line)
                    if isinstance(reply, dict) and reply.get("token") == token:
                        return reply

    @staticmethod
    def send(process: subprocess.Popen[str], question: dict[str, Any]) -> None:
        """In a thread of its own: a process that does not read would hold us up."""
        assert process.stdin
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()

    def stop(self) -> int:
        """How the process ended. It is asked first, so that contain.py can clear up."""
        process, self.process = self.process, None
        if process is None:
            return 0
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        until = time.monotonic() + 5
        while self.reader.is_alive() and time.monotonic() < until:  # what is left in the pipe
            with contextlib.suppress(queue.Empty):
                self.lines.get(timeout=0.1)
        return process.returncode

"""Processes for tests: scripts that run on their own, and processes that are killed."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[2]


def until(condition, seconds=60):
    """Wait for it, but not for ever."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def start_script(file, code, **options):
    """Run this code as a script with a session of its own; it hears Ctrl-C even if these tests are a background job."""
    file.write_text(f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{code}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, str(file)], cwd=file.parent, env=environment, start_new_session=True, **pipes, **options
    )


def killed_in(function, *arguments):
    """Call this in a process that kills itself by kill -9 when the call is over; for what never gets to its end."""

    def call():
        function(*arguments)
        kill_me()

    process = get_context("fork").Process(target=call)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def is_gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return (
        Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )  # nobody has asked for its end


def group_is_gone(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False

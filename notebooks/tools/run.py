"""Run notebooks, by default all, and make a PDF of them: `python notebooks/tools/run.py [notebook ...] [--code]`.

They run side by side, as many at once as there are cores. Executed copies go to report/ (a quick look: report-quick/);
`--in-place` renews the stored outputs instead.
"""

import atexit
import contextlib
import hashlib
import heapq
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import nbformat
from jupyter_client.provisioning import LocalProvisioner
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from pdf import NOTEBOOKS, REPORT, WIDGET, default_output, find_notebook, read_notebook, write_pdf

from problem1.shared.commands import Parser, one_sentence, parse_path
from problem1.shared.errors import UserError
from problem1.shared.settings import QUICK, banner, cores
from problem1.shared.storage import atomic_path, check_file_path, write_json
from problem1.shared.words import listing

TIMINGS = REPORT / "timings.json"
SHARP = [  # figures for the PDF: as vectors, and what is made of pixels, fine enough; stored notebooks stay small
    "--InlineBackend.figure_formats=retina",
    "--InlineBackend.figure_formats=pdf",
    "--InlineBackend.print_figure_kwargs={'bbox_inches': 'tight', 'dpi': 200}",
]


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


class Progress:
    """Where the run is, how long it has taken, and how long it will take if all cells take as long as last time."""

    def __init__(self, notebooks: Mapping[Path, NotebookNode], timings: dict[str, float], at_once: int) -> None:
        self.sources: dict[Path, list[str]] = {}
        for path, notebook in notebooks.items():  # a cell of text takes no time
            self.sources[path] = [cell.source if cell.cell_type == "code" else "" for cell in notebook.cells]
        self.timings = timings  # digest of a cell's source -> seconds
        self.at_once = at_once
        self.cells = dict.fromkeys(notebooks, 0)  # of the notebooks that are not over
        self.cell_started: dict[Path, float] = {}
        self.started = time.time()

    def start_cell(self, path: Path, cell: int) -> None:
        self.cells[path], self.cell_started[path] = cell, time.time()

    def end_cell(self, path: Path) -> None:
        source = self.sources[path][self.cells[path]]
        self.timings[digest(source)] = round(time.time() - self.cell_started[path], 2)

    def end_notebook(self, path: Path) -> None:
        del self.cells[path]

    def running(self) -> list[Path]:
        """They begin in the order given."""
        return list(self.cells)[: self.at_once]

    def minutes(self) -> str:
        return f"{(time.time() - self.started) / 60:.1f} min"

    def seconds_left(self, path: Path) -> list[float | None]:
        """What each cell from the present one on took last time, less what the present one has taken by now."""
        after = self.sources[path][self.cells[path] :]
        seconds = [self.timings.get(digest(source)) for source in after if source.strip()]
        if seconds and seconds[0] is not None and path in self.cell_started:
            seconds[0] = max(0, seconds[0] - (time.time() - self.cell_started[path]))
        return seconds

    def minutes_left(self) -> str:
        """Cells that are new since the last run are not guessed at."""
        left = [self.seconds_left(path) for path in self.cells]
        known = [[second for second in seconds if second is not None] for seconds in left]
        if any(left) and not any(known):
            return "first run, so no estimate"
        busy = [0.0] * self.at_once  # for how long each core is; a notebook takes the one that is free first
        for seconds in known:
            heapq.heapreplace(busy, busy[0] + sum(seconds))
        return f"{'about' if known == left else 'at least'} {max(busy) / 60:.1f} min left"

    def line(self, width: int) -> str:
        """What matters most comes first, and the places are shorter where they would not fit."""
        for form in ("{} cell {} of {}", "{} {}/{}"):
            places = [form.format(path.stem, self.cells[path] + 1, len(self.sources[path])) for path in self.running()]
            line = "  ".join([f"{self.minutes()}, {self.minutes_left()}", *places])
            if len(line) <= width:
                break
        return line


def columns() -> int:
    """How long a line may be; in a log, as long as it likes."""
    return shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else sys.maxsize


def tell(words: str, passing: bool = False) -> None:
    """Print a line; in a terminal the next one is written over a `passing` one."""
    if sys.stdout.isatty():
        width = columns()
        print(f"\r{words[:width]:{width}}", end="" if passing else "\n", flush=True)
    else:
        print(words, flush=True)


def client_of(path: Path, notebook: NotebookNode, progress: Progress, options: Sequence[str]) -> NotebookClient:
    """What executes a notebook in its own folder."""
    return NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
        extra_arguments=["--log-level=CRITICAL", *options],
        on_cell_start=lambda cell, cell_index: progress.start_cell(path, cell_index),
        on_cell_executed=lambda cell, cell_index, execute_reply: progress.end_cell(path),
        record_timing=False,
        store_widget_state=False,
    )


def stop(clients: Sequence[NotebookClient], futures: Iterable[Future[NotebookNode]]) -> None:
    """Kill what is still running. Kernels, and trainings that they have started, would go on alone."""
    while not all(future.done() for future in futures):  # a kernel that is just starting can be killed a moment later
        for client in clients:
            provisioner = client.km.provisioner if client.km else None
            if isinstance(provisioner, LocalProvisioner) and provisioner.pgid:
                with contextlib.suppress(OSError):  # it is over
                    os.killpg(provisioner.pgid, signal.SIGKILL)
        time.sleep(0.1)
    for client in clients:  # where a kernel did not start, nbclient leaves this behind, and it complains
        atexit.unregister(client._cleanup_kernel)


def failure(error: Exception, path: Path, progress: Progress) -> str:
    """What went wrong, and where."""
    words = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # the source of the cell and the traceback, without colours
    cell = progress.cells[path]
    if isinstance(error, DeadKernelError):
        source = progress.sources[path][cell]
        words = f"{source}\n\nThe kernel died while it ran this cell. Perhaps there was not enough memory."
    return f"{path.name} failed in cell {cell + 1}.\n{words}"


def write(notebook: NotebookNode, path: Path) -> None:
    for cell in notebook.cells:  # a progress bar is for the person who waits; it is not a result
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    with atomic_path(path) as temporary:
        nbformat.write(notebook, temporary)


def run_all(paths: Sequence[Path], in_place: bool) -> tuple[list[Path], list[str]]:
    """Run notebooks side by side, saying how far they are: every second, in a log every minute. What is fine is written
    at once. Returns what was written and what failed, both in the order of `paths`."""
    notebooks = {path: read_notebook(path) for path in paths}
    timings = json.loads(TIMINGS.read_text()) if TIMINGS.exists() else {}
    progress = Progress(notebooks, timings, at_once=cores())
    clients = [client_of(path, notebooks[path], progress, [] if in_place else SHARP) for path in paths]
    written: dict[Path, Path] = {}
    with ThreadPoolExecutor(progress.at_once) as threads:  # in the main thread nbclient would take Ctrl-C for itself
        running = {threads.submit(client.execute): path for client, path in zip(clients, paths, strict=True)}
        try:
            while running:
                tell(progress.line(columns()), passing=True)
                for future in wait(running, 1 if sys.stdout.isatty() else 60, FIRST_COMPLETED).done:
                    path, error = running[future], future.exception()
                    if isinstance(error, CellExecutionError | RuntimeError):  # a kernel that died or did not start
                        tell("")
                        print(failure(error, path, progress), file=sys.stderr)
                    else:
                        target = path if in_place else REPORT / path.name
                        write(future.result(), target)
                        write_json(TIMINGS, dict(timings))  # a copy: others go on adding to it
                        written[path] = target
                        tell(f"{path.name}  {len(notebooks[path].cells)} cells, done after {progress.minutes()}")
                    progress.end_notebook(path)
                    del running[future]
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
            places = listing(f"cell {progress.cells[path] + 1} of {path.name}" for path in progress.running())
            tell("")
            sys.exit(f"Stopped in {places}. Finished: {len(written)} of {len(paths)}.")
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            stop(clients, running)
    return [written[path] for path in paths if path in written], [path.name for path in paths if path not in written]


def main() -> None:
    parser = Parser(prog="run.py", description="Run notebooks, by default all, and make a PDF of them.")
    parser.add_argument("notebooks", nargs="*", default=NOTEBOOKS, help="paths or names; by default all")
    parser.add_argument("--code", action="store_true", help="show the code in the PDF")
    parser.add_argument("--output", type=parse_path, help="the PDF; by default report.pdf, or report/<names>.pdf")
    parser.add_argument("--in-place", action="store_true", help="renew the outputs stored in the notebooks themselves")
    arguments = parser.parse_args()
    if QUICK:
        print(banner())
    with one_sentence(parser.prog):
        if QUICK and arguments.in_place:
            raise UserError("a quick look is not stored in the notebooks: leave out QUICK=1 or --in-place.")
        paths = list(dict.fromkeys(find_notebook(name) for name in arguments.notebooks))
        output = Path(arguments.output or default_output(paths))
        check_file_path(output)
        written, failed = run_all(paths, arguments.in_place)
        if written and not arguments.in_place:
            write_pdf(written, output, arguments.code, left_out=failed)
            print(f"The report is {output}")
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()

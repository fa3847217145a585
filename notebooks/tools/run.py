"""Run notebooks, by default all, and make a PDF of them: `python notebooks/tools/run.py [notebook ...] [--code]`.

Executed copies go to report/ (a quick look: report-quick/); `--in-place` renews the stored outputs instead.
"""

import asyncio
import hashlib
import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from pdf import NOTEBOOKS, REPORT, WIDGET, default_output, find_notebook, read_notebook, write_pdf

from problem1.shared.commands import Parser, one_sentence, parse_path
from problem1.shared.errors import UserError
from problem1.shared.settings import QUICK, banner
from problem1.shared.storage import atomic_path, check_file_path, write_json

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

    def __init__(self, paths: Sequence[Path], timings: dict[str, float]) -> None:
        self.sources: dict[Path, list[str]] = {}
        for path in paths:  # a cell of text takes no time
            cells = read_notebook(path).cells
            self.sources[path] = [cell.source if cell.cell_type == "code" else "" for cell in cells]
        self.timings = timings  # digest of a cell's source -> seconds
        self.started = time.time()

    def start_cell(self, path: Path, cell: int) -> None:
        self.path, self.cell, self.cell_started = path, cell, time.time()

    def end_cell(self) -> None:
        self.timings[digest(self.sources[self.path][self.cell])] = round(time.time() - self.cell_started, 2)

    def minutes(self) -> str:
        return f"{(time.time() - self.started) / 60:.1f} min"

    def minutes_left(self) -> str:
        """Cells that are new since the last run are not guessed at."""
        paths = list(self.sources)
        after = self.sources[self.path][self.cell :]
        after += [source for path in paths[paths.index(self.path) + 1 :] for source in self.sources[path]]
        seconds = [self.timings.get(digest(source)) for source in after if source.strip()]
        known = [second for second in seconds if second is not None]
        if seconds and not known:
            return "first run, so no estimate of what is left"
        spent = min(time.time() - self.cell_started, seconds[0] or 0) if seconds else 0
        return f"{'about' if len(known) == len(seconds) else 'at least'} {(sum(known) - spent) / 60:.1f} min left"

    def __str__(self) -> str:
        place = f"{list(self.sources).index(self.path) + 1} of {len(self.sources)}"
        cell = f"cell {self.cell + 1} of {len(self.sources[self.path])}"
        return f"{self.path.name} ({place})  {cell}  {self.minutes()}, {self.minutes_left()}"


def tell(words: str, passing: bool = False) -> None:
    """Print a line; in a terminal the next one is written over a `passing` one."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{words[:width]:{width}}", end="" if passing else "\n", flush=True)
    else:
        print(words, flush=True)


async def kill(kernel: AsyncKernelManager) -> None:
    """Otherwise the kernel, and trainings that it has started, would go on alone."""
    await kernel.signal_kernel(signal.SIGKILL)


def run(path: Path, progress: Progress, options: Sequence[str] = ()) -> NotebookNode:
    """Execute a notebook in its own folder, saying how far it is: every second, in a log every minute."""
    notebook = read_notebook(path)
    progress.start_cell(path, 0)
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
        extra_arguments=["--log-level=CRITICAL", *options],
        on_cell_start=lambda cell, cell_index: progress.start_cell(path, cell_index),
        on_cell_executed=lambda cell, cell_index, execute_reply: progress.end_cell(),
        record_timing=False,
        store_widget_state=False,
    )
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(client.execute)
        try:
            while not running.done():
                tell(str(progress), passing=True)
                wait([running], timeout=1 if sys.stdout.isatty() else 60)
        except KeyboardInterrupt:
            if isinstance(client.km, AsyncKernelManager):
                asyncio.run(kill(client.km))
            raise
    running.result()
    for cell in notebook.cells:  # a progress bar is for the person who waits; it is not a result
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    tell(f"{path.name}  {len(notebook.cells)} cells, done after {progress.minutes()}")
    return notebook


def failure(error: Exception, progress: Progress) -> str:
    """What went wrong, and where."""
    words = re.sub(r"\x1b\[[0-9;]*m", "", str(error))  # the source of the cell and the traceback, without colours
    if isinstance(error, DeadKernelError):
        source = progress.sources[progress.path][progress.cell]
        words = f"{source}\n\nThe kernel died while it ran this cell. Perhaps there was not enough memory."
    return f"{progress.path.name} failed in cell {progress.cell + 1}.\n{words}"


def run_all(paths: Sequence[Path], in_place: bool) -> tuple[list[Path], list[str]]:
    """Run one notebook after the other, writing what is fine at once; returns what was written and what failed."""
    timings = json.loads(TIMINGS.read_text()) if TIMINGS.exists() else {}
    progress = Progress(paths, timings)
    written: list[Path] = []
    failed: list[str] = []
    for path in paths:
        try:
            notebook = run(path, progress, options=[] if in_place else SHARP)
        except (CellExecutionError, DeadKernelError) as error:
            failed.append(path.name)
            tell("")
            print(failure(error, progress), file=sys.stderr)
            continue
        except KeyboardInterrupt:
            tell("")
            sys.exit(f"Stopped in {path.name}, cell {progress.cell + 1}. Finished: {len(written)} of {len(paths)}.")
        written.append(path if in_place else REPORT / path.name)
        with atomic_path(written[-1]) as temporary:
            nbformat.write(notebook, temporary)
        write_json(TIMINGS, progress.timings)
    return written, failed


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
        paths = [find_notebook(name) for name in arguments.notebooks]
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

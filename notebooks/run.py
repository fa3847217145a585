"""Run notebooks top to bottom: `python notebooks/run.py [notebook ...]`, by default all of them.

Executed copies go to report/ (a quick look: report-quick/); `--in-place` renews the stored outputs instead.
"""

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from problem1.settings import QUICK, banner
from problem1.storage import atomic_path

HERE = Path(__file__).resolve().parent
WIDGET = "application/vnd.jupyter.widget-view+json"


def run(path):
    """Execute a notebook in its own folder, telling the terminal which cell is running."""
    notebook = nbformat.read(path, as_version=4)
    started, cells = time.time(), len(notebook.cells)

    def tell(cell, cell_index):
        print(
            f"\r{path.name}  cell {cell_index + 1} of {cells}  {(time.time() - started) / 60:.1f} min",
            end="",
            flush=True,
        )

    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
        on_cell_start=tell,
        record_timing=False,
        store_widget_state=False,
    )
    client.execute()
    for cell in notebook.cells:  # a progress bar is for the person who waits; it is not a result
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    print(f"\r{path.name}  {cells} cells  {(time.time() - started) / 60:.1f} min" + " " * 20)
    return notebook


def write(notebook, path):
    with atomic_path(path) as temporary:
        nbformat.write(notebook, temporary)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(HERE.glob("*.ipynb")))
    parser.add_argument("--in-place", action="store_true", help="renew the outputs stored in the notebooks themselves")
    arguments = parser.parse_args()
    if QUICK:
        print(banner())
    if QUICK and arguments.in_place:
        sys.exit("a quick look is not stored in the notebooks: leave out QUICK=1 or --in-place.")
    report, failed = HERE.parent / ("report-quick" if QUICK else "report"), []
    for path in arguments.notebooks:
        if not path.exists():
            sys.exit(
                f"{path} does not exist; the notebooks are {', '.join(p.name for p in sorted(HERE.glob('*.ipynb')))}."
            )
        try:
            write(run(path.resolve()), path if arguments.in_place else report / path.name)
        except CellExecutionError as error:
            failed.append(path.name)
            print(f"\n{path.name} failed:\n{error}", file=sys.stderr)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

"""Every notebook in JupyterLab in a real browser, run in quick mode, and the explorers tried: `make browser-test`.

Copies without outputs are served from a temporary folder, so whatever is seen was made here and now, and no notebook is
changed. Screenshots go to report-quick/browser.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from pdf import NOTEBOOKS, ROOT
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from problem1.explorer import answer
from problem1.published import published_adder

SCREENSHOTS = ROOT / "report-quick" / "browser"
MINUTES = 60  # seconds

SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells off the screen are there, too
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
CHROMIUM = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
CHROMIUM += ["--disable-component-update", "--disable-sync"]
ERROR = '.jp-OutputArea [data-mime-type="application/vnd.jupyter.stderr"]'  # tracebacks, and warnings

# --- browser and server ----------------------------------------------------------------------------------------------


def chromium() -> dict[str, Any]:
    """Where Chromium is; Debian's package is installed if it is missing and may be."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not shutil.which("chromium") and root and shutil.which("apt-get"):
        subprocess.run(["apt-get", "-qq", "update"], check=True)
        subprocess.run(["apt-get", "-qq", "install", "--yes", "chromium", "fonts-dejavu-core"], check=True)
    path = shutil.which("chromium")
    if path is None:
        pytest.exit("Chromium is missing: install your system's package `chromium`, then repeat.", returncode=1)
    return {"executable_path": path, "args": CHROMIUM + ["--no-sandbox"] * root}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium())
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    yield page
    page.close()


class Server:
    """JupyterLab on a folder; what it writes stays in that folder."""

    def __init__(self, folder: Path) -> None:
        self.token = secrets.token_hex(16)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        settings = folder / "settings"
        for name, values in SETTINGS.items():
            path = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(values))
        own = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
        own |= {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
        environment = os.environ | {name: str(folder / place) for name, place in own.items()}
        environment |= {"QUICK": "1", "OMP_NUM_THREADS": "1"}  # beside a browser two threads are slower than one
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--notebook-dir={folder}"]
        command += [f"--IdentityProvider.token={self.token}", f"--ServerApp.port={self.address.rsplit(':')[-1]}"]
        command += ["--ServerApp.port_retries=0", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        self.log = folder / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def get(self, path: str) -> Any:
        headers = {"Authorization": f"token {self.token}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}/{path}", headers=headers)) as response:
            return json.load(response)

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            return bool(self.get("api/status"))
        return False

    def kernel_is_ready(self, name: str) -> bool:
        kernels = [session["kernel"] for session in self.get("api/sessions") if session["path"] == name]
        return any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)


def wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, f"{what}: not within {seconds} seconds."
        time.sleep(0.3)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("lab")
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                cell.metadata.pop("jupyter", None)  # it may hide the source, and with it the prompt
        nbformat.write(notebook, folder / path.name)
    server = Server(folder)
    try:
        wait(server.is_up, 2 * MINUTES, "JupyterLab's start")
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


# --- a notebook ------------------------------------------------------------------------------------------------------


def run_all_cells(page: Page, server: Server, name: str) -> list[int]:
    workspace = name.removesuffix(".ipynb")  # its own: JupyterLab would open again what was open before
    page.goto(f"{server.address}/lab/workspaces/{workspace}/tree/{name}?token={server.token}")
    wait(lambda: server.kernel_is_ready(name), 2 * MINUTES, f"{name}: its kernel")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    prompts = page.locator(".jp-CodeCell .jp-InputArea-prompt")

    def done() -> bool:
        for error in page.locator(ERROR).all():
            pytest.fail(f"{name}: {error.inner_text()}")
        return all(re.fullmatch(r"\[\d+\]:", prompt) for prompt in prompts.all_inner_texts())

    wait(done, 20 * MINUTES, f"{name}: all cells")
    return [int(prompt.strip("[]:")) for prompt in prompts.all_inner_texts()]


def check_outputs(page: Page, stored: list[NotebookNode]) -> None:
    """Every type of output that is stored with a cell is seen below it: pictures, tables, words in Markdown."""
    cells = page.locator(".jp-Notebook .jp-Cell")
    for number, cell in enumerate(stored):
        seen = cells.nth(number)
        types = {mime_type for output in cell.get("outputs", []) for mime_type in output.get("data", {})}
        if "image/png" in types:
            assert seen.locator(".jp-OutputArea img").first.evaluate("image => image.naturalWidth") > 0, cell.source
        if "text/html" in types:
            assert seen.locator(".jp-OutputArea table").count(), cell.source
        if "text/markdown" in types:
            assert seen.locator(".jp-OutputArea .jp-RenderedMarkdown").inner_text().strip(), cell.source


def check_maths(page: Page, stored: list[NotebookNode]) -> None:
    """What is written between dollars is set by MathJax, and no dollar of it is left."""
    cells = page.locator(".jp-Notebook .jp-Cell")
    for number, cell in enumerate(stored):
        if cell.cell_type == "markdown" and "$" in cell.source:
            seen = cells.nth(number).locator(".jp-RenderedMarkdown")
            expect(seen.locator("mjx-container").first).to_be_attached()
            assert "$" not in seen.inner_text(), cell.source
    assert not page.locator("mjx-merror, [data-mjx-error]").count()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(page: Page, server: Server, path: Path) -> None:
    started = time.monotonic()
    complaints: list[str] = []  # uncaught exceptions, and what JupyterLab reports as an error (a missing file, too)
    page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
    page.on("console", lambda message: complaints.extend([message.text] if message.type == "error" else []))
    stored = nbformat.read(path, as_version=4).cells

    counts = run_all_cells(page, server, path.name)
    print(f"\n{path.name}: {len(counts)} cells in {time.monotonic() - started:.0f} s")
    assert counts == list(range(1, sum(cell.cell_type == "code" for cell in stored) + 1))
    check_outputs(page, stored)
    check_maths(page, stored)
    take_pictures(page, path.stem)

    explorers = [number for number, cell in enumerate(stored) if "explorer" in cell.metadata.get("tags", [])]
    for number in explorers:
        explorer = page.locator(".jp-Notebook .jp-Cell").nth(number)
        TRIALS[path.stem](explorer)
        explorer.screenshot(path=SCREENSHOTS / f"{path.stem}-explorer.png")
    assert not complaints


def take_pictures(page: Page, name: str) -> None:
    """The whole notebook, a screen at a time."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for old in SCREENSHOTS.glob(f"{name}-*.png"):
        old.unlink()
    panel = page.locator(".jp-WindowedPanel-outer")
    height, screen = panel.evaluate("panel => [panel.scrollHeight, panel.clientHeight]")
    for number, top in enumerate(range(0, height, screen), 1):
        panel.evaluate("(panel, top) => panel.scrollTo(0, top)", top)
        panel.screenshot(path=SCREENSHOTS / f"{name}-{number:02}.png")


# --- the explorers ---------------------------------------------------------------------------------------------------

CLICK = """(control) => new Promise(done => {  // milliseconds from a click to the new picture
    const output = control.closest(".jp-OutputArea"), start = performance.now();
    new MutationObserver(async (changes, observer) => {
        const picture = changes.flatMap(change => [...change.addedNodes]).find(node => node.tagName === "IMG");
        if (!picture) return;
        observer.disconnect();
        await picture.decode();
        done(performance.now() - start);
    }).observe(output, {subtree: true, childList: true});
    control.click();
})"""


def picture(explorer: Locator) -> Locator:
    return explorer.locator(".widget-html img")


def shows(explorer: Locator, words: str) -> None:
    expect(picture(explorer)).to_have_attribute("alt", re.compile(words))


def try_bad_input(explorer: Locator, field: Locator, text: str, sentence: str) -> None:
    """Bad input is answered by a sentence, and the last good picture stays."""
    before = picture(explorer).get_attribute("alt")
    field.fill(text)
    expect(explorer.get_by_text(sentence)).to_be_visible()
    assert picture(explorer).get_attribute("alt") == before


def head_box(explorer: Locator, site: str, head: str) -> Locator:
    group = explorer.locator(".widget-vbox", has_text=site).last  # the outer box holds that text as well
    return group.get_by_role("checkbox", name=head)


def try_adder(explorer: Locator) -> None:
    shows(explorer, r"663\+497 = 1160 \(right\)$")
    adder, (site, head) = published_adder()[0], ("Decoder Cross L0", "H2")
    box = head_box(explorer, site, head)
    box.click()
    without = str(answer(adder, "663+497", [f"{site} {head}"]))
    assert "wrong" in without
    shows(explorer, re.escape(without))
    times = [box.evaluate(CLICK) for _ in range(21)]
    print(f"from a click to the new picture: {statistics.median(times):.0f} ms, at most {max(times):.0f} ms")
    shows(explorer, r"\(right\)$")
    field = explorer.get_by_label("sum")
    field.fill("457+543")
    shows(explorer, r"457\+543 = 1000 \(right\)")
    try_bad_input(explorer, field, "66+497", "'66+497' is not a sum of two 3-digit numbers; write it like 123+997.")
    field.fill("457+543")
    explorer.get_by_label("attention of").select_option("Encoder L1 H3")
    explorer.get_by_role("button", name="all off").click()
    shows(explorer, "without 24 heads")
    explorer.get_by_role("button", name="all on").click()
    shows(explorer, r"457\+543 = 1000 \(right\)$")  # only now the boxes are on
    head_box(explorer, "Encoder L1", "H3").click()
    shows(explorer, re.escape(str(answer(adder, "457+543", ["Encoder L1 H3"]))))


def try_classifiers(explorer: Locator) -> None:
    shows(explorer, r"sinusoidal: sorted \(right\), .*, length 16")
    explorer.locator(".noUi-handle").press("ArrowRight")
    shows(explorer, r"sinusoidal: unsorted \(wrong, it is sorted\), .*, length 24")
    explorer.get_by_label("policy").select_option("interpolate")
    shows(explorer, r"sinusoidal, interpolate: sorted \(right\)")
    times = [explorer.get_by_role("button", name="draw another").evaluate(CLICK) for _ in range(21)]
    print(f"from a click to the new picture: {statistics.median(times):.0f} ms, at most {max(times):.0f} ms")
    field = explorer.get_by_label("sequence")
    field.fill("3 5 9 5 12 40 41 80")
    shows(explorer, "length 8")
    explorer.get_by_label("classifier").select_option("certified")
    shows(explorer, r"certified: unsorted \(right\)")
    try_bad_input(explorer, field, "3 5 120", "value 120 is outside the vocabulary 0..99.")
    field.fill("3 5 5 9 12 40 41 80")
    shows(explorer, r"certified: sorted \(right\)")


TRIALS = {"problem1": try_adder, "problem2": try_classifiers}

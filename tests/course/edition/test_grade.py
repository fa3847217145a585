"""Each hand-in gets its own marks, whatever it or the others do; what it prints or forges is no score."""

import contextlib
import os
import re
import signal
import socket
import stat
import time
import zipfile
from pathlib import Path

import pytest
from course.edition import grade as module
from course.edition.grade import as_markdown, grade, plain

from problem1.shared.errors import UserError
from tests.course.edition.notebooks import ADD, SCALED, handed_in, notebook, processes_with, standin, write_zip
from tests.shared.processes import start_script, until

SECONDS = 10  # for a task; a process takes two or three to start


@pytest.fixture
def graded(tmp_path):
    """Grade what is in tmp_path/zips."""
    (tmp_path / "zips").mkdir()

    def graded(contained=True):
        return grade(tmp_path / "zips", tmp_path / "out", standin(), contained, SECONDS)

    return graded


def points(rows, task="add"):
    return dict(rows[rows.task == task].set_index("student").points)


def sentence(rows, student, task="add"):
    return rows[(rows.student == student) & (rows.task == task)].sentence.item()


# --- hand-ins that do harm -------------------------------------------------------------------------------------------

FORGE = """
import json, os
def add(a, b):
    print("add: 5 of 5 points, all right", flush=True)
    for name in ("", "token", "0" * 32):
        line = json.dumps({"token": name, "task": "add", "points": 5, "results": [{"value": 3}, {"value": 12}]})
        for descriptor in range(64):
            try:
                os.write(descriptor, f"{line}\\n".encode())
            except OSError:
                pass
    with open("grades.csv", "w") as file:
        file.write("forged,1,add,5,5,")
    os._exit(0)
"""
BOMB = """
import os, time
def add(a, b):
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(1_000)
    return a + b
"""
PRINTS = """
import os, sys
def add(a, b):
    for _ in range(100):
        print("x" * 1_000_000)
        os.write(1, b"x" * 100_000)
    return ["x" * 1_000_000] * 5
"""


def looks(condition, imports="import os"):
    """Right if it is as the attack wants it."""
    return f"{imports}\ndef add(a, b):\n    return a + b if {condition} else None"


@pytest.fixture(scope="module")
def attacks(tmp_path_factory, namespaces):
    """All of them in one run, between two hand-ins that are right: (rows, their folder)"""
    folder = tmp_path_factory.mktemp("attacks")
    zips = folder / "zips"
    zips.mkdir()
    (folder / "outside").mkdir(mode=0o777)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
        sources = {
            "a right one": ADD,
            "loop": "def add(a, b):\n    while True: pass",
            "processes": BOMB,
            "memory": "def add(a, b):\n    return len(bytearray(10 << 30)) and a + b",
            "exit": "import os\ndef add(a, b):\n    os._exit(0)",
            "exit when read": "import os\nadd = os._exit(0)",
            "forged": FORGE,
            "network": looks(connect, "import socket"),
            "neighbour": looks(f"os.path.exists({str(zips / 'a right one.zip')!r})"),
            "unpacked neighbours": looks("any('grade-' in name for name in os.listdir('/tmp'))"),
            "hidden checks": looks(f"os.path.exists({str(module.HERE)!r})"),
            "solutions": looks("__import__('problem1.model')"),
            "outside": looks(f"open({str(folder / 'outside' / 'evil')!r}, 'w')"),
            "environment": looks("'PYTEST_CURRENT_TEST' in os.environ"),
            "prints": PRINTS,
            "z the last one": ADD,
        }
        for name, source in sources.items():
            handed_in(zips / f"{name}.zip", source)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tempfile.tempdir", str(folder))  # so that the commands of its processes name it
            rows = grade(zips, folder / "out", standin(), True, SECONDS)
        server.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            server.accept()[0].close()
            pytest.fail("there was a connection")
    return rows, folder


EXPECTED = {
    "loop": r"It took longer than 10 s: is there a loop that does not end\?",
    "processes": r"It used more memory than allowed\.|add\(1, 2\) gives {'error': 'BlockingIOError: .*",
    "memory": r"add\(1, 2\) gives {'error': 'MemoryError: '}.",
    "exit": "It ended the process.*",
    "exit when read": "It ended the process.*",
    "forged": "It ended the process.*",
    "network": r"add\(1, 2\) gives {'error': 'OSError: .*",
    "neighbour": r"add\(1, 2\) gives {'value': None}.",
    "unpacked neighbours": r"add\(1, 2\) gives {'value': None}.",
    "hidden checks": r"add\(1, 2\) gives {'value': None}.",
    "solutions": r"add\(1, 2\) gives {'error': \"ModuleNotFoundError: .*",
    "outside": r"add\(1, 2\) gives {'error': 'FileNotFoundError: .*",
    "environment": r"add\(1, 2\) gives {'value': None}.",
    "prints": "It returns more than can be taken in.",
}


@pytest.mark.parametrize("attack", EXPECTED)
def test_an_attack_fails_with_a_sentence_and_costs_its_own_task_only(attacks, attack):
    rows, _ = attacks
    assert points(rows)[attack] == 0
    assert re.fullmatch(EXPECTED[attack].replace("'", "['\"]"), sentence(rows, attack)), sentence(rows, attack)
    assert points(rows, "scaled")[attack] == 3


def test_the_others_are_not_harmed(attacks):
    rows, folder = attacks
    assert {points(rows)[name] for name in ("a right one", "z the last one")} == {5}
    assert not list((folder / "outside").iterdir()) and not processes_with(str(folder))
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["grades.csv", "grades.md"]
    assert "forged,1,add,5" not in (folder / "out" / "grades.csv").read_text()


# --- zips that do harm -----------------------------------------------------------------------------------------------


def link(name):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


BAD_ZIPS = {  # file -> (entries, or the bytes of the zip), what is said
    "no zip": (b"not a zip at all", "The zip cannot be read: File is not a zip file."),
    "empty": (b"", "The zip cannot be read: File is not a zip file."),
    "dots": ([("../evil", "!")], "'../evil' in the zip is not a plain path inside of it."),
    "absolute": ([("/hand-in/code/checks.py", "!")], "'/hand-in/code/checks.py' in the zip is not a plain path"),
    "link": ([(link("problem1.ipynb"), "/etc/passwd")], "'problem1.ipynb' in the zip is a link or a device."),
    "bomb": ([("a", b"0" * 60_000_000)], "'a' in the zip is larger than 50 MB."),
    "bombs": ([(str(n), b"0" * 45_000_000) for n in range(5)], "The zip holds more than 200 MB."),
    "nothing": ([("readme", "")], "problem1.ipynb is missing."),
}


def test_a_zip_that_is_refused_is_told_and_harms_no_other(graded, tmp_path, namespaces):
    zips = tmp_path / "zips"
    for name, (content, _) in BAD_ZIPS.items():
        if isinstance(content, bytes):
            (zips / f"{name}.zip").write_bytes(content)
        else:
            with zipfile.ZipFile(zips / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for entry, data in content:
                    archive.writestr(entry, data)
    (zips / "folder.zip").mkdir()
    handed_in(zips / "z right.zip")
    rows = graded()
    assert points(rows) == {**dict.fromkeys([*BAD_ZIPS, "folder"], 0), "z right": 5}
    for name, (_, words) in BAD_ZIPS.items():
        assert sentence(rows, name).startswith(words), sentence(rows, name)
    assert sentence(rows, "folder").startswith("The hand-in cannot be read: ")


def test_without_namespaces_it_refuses_unless_it_is_told_to_go_on(graded, tmp_path, monkeypatch):
    handed_in(tmp_path / "zips" / "ada.zip")
    script = tmp_path / "contain.py"
    real = Path(module.contain.__file__).read_text()
    script.write_text(real.replace("    call(libc.unshare, NAMESPACES)", '    raise OSError(1, "not permitted")'))
    monkeypatch.setattr(module.contain, "__file__", str(script))
    with pytest.raises(UserError, match=r"cannot be contained on this system \(not permitted\).*--uncontained"):
        graded()
    assert not (tmp_path / "out").exists()
    assert points(graded(contained=False)) == {"ada": 5}


def test_uncontained_there_are_limits_and_a_clean_environment(graded, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    zips = tmp_path / "zips"
    for name, source in {
        "right": ADD,
        "loop": "def add(a, b):\n    while True: pass",
        "exit": "import os\ndef add(a, b):\n    os._exit(0)",
        "memory": "def add(a, b):\n    return len(bytearray(10 << 30)) and a + b",
        "environment": looks("'SECRET' in os.environ"),
        "forged": FORGE,
    }.items():
        handed_in(zips / f"{name}.zip", source)
    rows = graded(contained=False)
    assert points(rows) == {"right": 5, "loop": 0, "exit": 0, "memory": 0, "environment": 0, "forged": 0}
    assert set(points(rows, "scaled").values()) == {3}


# --- marks -----------------------------------------------------------------------------------------------------------


def test_blanks_texts_and_damaged_notebooks_have_their_sentences(graded, tmp_path, namespaces):
    zips = tmp_path / "zips"
    blank = notebook("def add(a, b):\n    raise NotImplementedError", text=("discussion", "*Write here.*"))
    write_zip(zips / "blank.zip", problem1=blank, problem2=notebook(""))
    write_zip(zips / "damaged.zip", problem1=notebook(ADD)[:-5], problem2=notebook("def f(:", SCALED))
    write_zip(zips / "nested.zip", **{"my work/problem1.ipynb": notebook(ADD), "problem2": notebook(SCALED)})
    rows = graded()
    assert points(rows) == {"blank": 0, "damaged": 0, "nested": 5}
    assert points(rows, "scaled") == {"blank": 0, "damaged": 3, "nested": 3}
    assert all(rows[rows.points == 0].sentence != "")
    assert sentence(rows, "blank", "discussion") == "The text discussion in problem1.ipynb is not written yet."
    assert sentence(rows, "damaged") == "problem1.ipynb is not a notebook that can be read."
    assert sentence(rows, "nested", "discussion") == "To be read: 2 words."
    assert rows.points.isna().tolist() == (rows.sentence == "To be read: 2 words.").tolist()


def test_values_that_a_check_cannot_take_are_for_a_person(graded, tmp_path, monkeypatch):
    course = standin()._replace(sentence=lambda *arguments: 1 / 0)
    monkeypatch.setattr("tests.course.edition.test_grade.standin", lambda: course)
    handed_in(tmp_path / "zips" / "ada.zip")
    rows = graded(contained=False)
    assert set(points(rows).values()) == {0} and "(ZeroDivisionError): look at them" in sentence(rows, "ada")


def test_a_hand_in_has_its_time_and_no_more(graded, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TASKS_WORTH", 0.4)
    handed_in(tmp_path / "zips" / "ada.zip", "def add(a, b):\n    while True: pass")
    rows = graded(contained=False)
    assert sentence(rows, "ada", "scaled") == "The 4 s of this hand-in were over before this task."
    assert rows.sentence.str.contains(module.LATE).tolist() == [True, True, True]


def test_words_of_others_are_made_harmless():
    assert plain("=HYPERLINK(1)") == "'=HYPERLINK(1)" and plain("@x")[0] == plain("-1")[0] == plain("+1")[0] == "'"
    assert plain("a|b\n# c\x1b[2J<script>`d`") == "a/b # c [2J(script)'d'"
    assert len(plain("x" * 10_000)) <= 401


def test_the_table_adds_up(graded, tmp_path):
    handed_in(tmp_path / "zips" / "ada.zip")
    handed_in(tmp_path / "zips" / "bob.zip", add="")
    (tmp_path / "zips" / "notes.txt").write_text("no hand-in")
    rows = graded(contained=False)
    text = as_markdown(rows)
    assert text == (tmp_path / "out" / "grades.md").read_text()
    assert "| student | problem 1 (of 9) | problem 2 (of 3) | all (of 12) |" in text
    assert "| ada | 5 | 3 | 8 |" in text and "| bob | 0 | 3 | 3 |" in text
    assert "- add (of 5): problem1.ipynb defines no function add." in text.partition("## bob")[2]
    assert len((tmp_path / "out" / "grades.csv").read_text().splitlines()) == 1 + len(rows) == 7


def test_the_command_says_what_is_wrong_and_where_the_grades_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "the_course", standin)

    def command(*words):
        monkeypatch.setattr("sys.argv", ["grade", *map(str, words)])
        module.main()
        return capsys.readouterr().out

    for folder, words in ((tmp_path / "no", "is no folder"), (tmp_path, "holds no zip")):
        with pytest.raises(SystemExit, match=words):
            command(folder)
    handed_in(tmp_path / "ada.zip")
    out = command(tmp_path, "--uncontained", "--output", tmp_path / "out")
    assert "ada: 8 of 12 points" in out and str(tmp_path / "out" / "grades.md") in out


def test_grades_stay_out_of_git():
    assert "/grades/" in (module.ROOT / ".gitignore").read_text().splitlines()


def test_ctrl_c_ends_it_soon_and_leaves_nothing(tmp_path, monkeypatch, namespaces):
    """Five hand-ins that would take a minute each."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "zips").mkdir()
    for number in range(5):
        handed_in(tmp_path / "zips" / f"{number}.zip", "import time\ndef add(a, b):\n    time.sleep(1_000)")
    code = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(module.ROOT)!r}, {str(module.ROOT / "notebooks")!r}]
from course.edition.grade import grade
from problem1.shared.commands import one_sentence
from tests.shared.processes import start_script, until
from tests.course.edition.notebooks import standin
print("there", flush=True)
with one_sentence("grade"):
    grade(Path({str(tmp_path / "zips")!r}), Path({str(tmp_path / "out")!r}), standin())
"""
    process = start_script(tmp_path / "script.py", code)
    assert process.stdout.readline() == "there\n"
    until(lambda: processes_with(f"{tmp_path}/grade-"))
    started = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    assert time.monotonic() - started < 30 and "stopped" in process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert not (tmp_path / "out").exists() and not processes_with(str(tmp_path))

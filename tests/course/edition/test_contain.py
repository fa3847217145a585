"""What a contained process cannot do. Where it can be told, the same is done uncontained to see that the try is one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from course.edition import grade
from course.edition.contain import MEMORY_EXCEEDED, PROCESSES_EXCEEDED

from tests.course.edition.notebooks import MARK, processes_with
from tests.shared.processes import until

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path, namespaces):
    """Run a script, contained or not, and return what it prints as the last word."""
    folder = tmp_path / "run"
    (folder / "code").mkdir(parents=True)

    def job(script, contained=True, private=(), **changes):
        command = [sys.executable, "-I", "-c", script]
        return grade.contain_command(grade.job_for(folder, command, private, contained) | changes)

    def run(script, contained=True, private=(), code=0, **changes):
        done = subprocess.run(
            job(script, contained, private, **changes), capture_output=True, text=True, timeout=60, env={}
        )
        assert done.returncode == code, done
        return done.stdout.strip()

    run.job = job
    return run


def tried(action, imports="os"):
    """A script that prints what an action gives, or the name of its error."""
    lines = [f"import {imports}", "try:", f"    print({action})"]
    return "\n".join([*lines, "except BaseException as error:", "    print(type(error).__name__)"])


# --- files -----------------------------------------------------------------------------------------------------------


def test_it_sees_python_the_libraries_and_its_own_folder_only(run):
    top = {Path(place).parts[1] for place in grade.readable()}
    assert set(run("import os; print(*os.listdir('/'))").split()) == top | {"hand-in", "tmp", "dev"}
    assert set(run("import os; print(*os.listdir('/dev'))").split()) == {"null", "zero", "urandom"}
    assert run("import os; print(os.getcwd(), os.listdir('.'))") == "/hand-in/work []"


@pytest.mark.parametrize("place", ["the neighbour", "the project", "/etc/passwd", "/proc/self/status", "/sys"])
def test_it_reads_nobody_elses_files(run, tmp_path, place):
    (tmp_path / "neighbour.zip").write_text("a hand-in")
    place = {"the neighbour": tmp_path / "neighbour.zip", "the project": ROOT / "pyproject.toml"}.get(place, place)
    script = tried(f"os.path.exists({str(place)!r})")
    assert run(script) == "False" and run(script, contained=False) == "True"


def test_a_private_folder_inside_of_what_is_readable_is_empty(run, tmp_path):
    """The project may be installed where Python's packages are."""
    (tmp_path / "lib" / "course").mkdir(parents=True)
    (tmp_path / "lib" / "course" / "hidden.py").write_text("")
    (tmp_path / "lib" / "torch").mkdir()
    places = [*grade.readable(), str(tmp_path / "lib")]
    hidden = grade.hidden([tmp_path / "lib" / "course"], places)
    script = f"import os; print(os.listdir({str(tmp_path / 'lib')!r}), os.listdir({str(tmp_path / 'lib/course')!r}))"
    assert "hidden.py" in run(script, readable=places)
    seen = run(script, readable=places, hidden=hidden)
    assert "course" in seen and "torch" in seen and "hidden.py" not in seen


def test_the_packages_of_the_project_are_hidden_wherever_they_are(tmp_path):
    places = [str(tmp_path), sys.prefix]
    assert str(tmp_path / "a") in grade.hidden([tmp_path / "a"], places)
    packages = Path(grade.sysconfig.get_path("purelib"))
    assert {str(packages / name) for name in ("problem1", "problem2", "course")} <= set(grade.hidden([], places))
    (tmp_path / "link").symlink_to(tmp_path)
    assert str(tmp_path / "link" / "a") in grade.hidden([tmp_path / "a"], [str(tmp_path / "link")])


@pytest.mark.parametrize("place", ["elsewhere", "Python", "/usr"])
def test_it_writes_nowhere_else(run, tmp_path, place):
    place = {"elsewhere": tmp_path, "Python": Path(sys.prefix)}.get(place, Path(place)) / "written-by-a-test"
    assert run(tried(f"open({str(place)!r}, 'w')")) in ("FileNotFoundError", "OSError", "PermissionError")
    assert not place.exists()
    assert run("open('own', 'w').write('x'); open('/tmp/own', 'w').write('x'); print('written')") == "written"


def test_what_is_readable_is_not_writable_even_for_all(run, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib").chmod(0o777)
    script = tried(f"open({str(tmp_path / 'lib' / 'new')!r}, 'w')")
    assert run(script, readable=[*grade.readable(), str(tmp_path / "lib")]) == "OSError"
    assert not list((tmp_path / "lib").iterdir())


def test_what_it_writes_is_bounded_and_gone(run):
    script = "for i in range(100):\n    with open(f'{i}', 'wb') as file:\n        file.write(b'x' * 10_000_000)"
    assert run(tried("exec(code)", "errno").replace("try:", f"code = {script!r}\ntry:"), disk=40 << 20) == "OSError"
    assert run("import os; print(os.listdir('.'))") == "[]"


# --- the rest of the system ------------------------------------------------------------------------------------------


def test_there_is_no_network(run):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = tried(f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)", "socket")
        assert run(script) in ("OSError", "ConnectionRefusedError")
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
        assert run(script, contained=False).startswith("<socket.socket")


def test_an_abstract_socket_is_no_way_out(run):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0test-contain-{os.getpid()}")
        server.listen()
        script = tried(f"socket.socket(socket.AF_UNIX).connect({server.getsockname().decode()!r})", "socket")
        assert run(script) == "ConnectionRefusedError" and run(script, contained=False) == "None"


def test_other_processes_are_not_there(run):
    """Its own number is small, and ours is nobody's."""
    assert int(run("import os; print(os.getpid())")) < 5
    assert run(tried(f"os.kill({os.getpid()}, 0)")) == "ProcessLookupError"
    if os.geteuid() == 0:
        assert run(tried(f"os.kill({os.getpid()}, 0)"), contained=False) == "None"


@pytest.mark.parametrize(
    "call",
    [
        "os.setuid(0) or True",
        "os.chown('/hand-in/work', 0, 0) or True",
        "ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
        "ctypes.CDLL(None).umount2(b'/usr', 2) == 0",
        "ctypes.CDLL(None).unshare(0x10000000) == 0",
        "ctypes.CDLL(None).sethostname(b'x', 1) == 0",
    ],
)
def test_it_has_no_privileges_and_gets_none(run, call):
    assert run(tried(call, "ctypes, os")) in ("False", "PermissionError", "OSError")


@pytest.mark.parametrize("contained", [True, False])
def test_the_environment_is_clean(run, monkeypatch, contained):
    monkeypatch.setenv("SECRET", "1")
    names = set(run("import os; print(*os.environ)", contained=contained).split())
    assert names - {"LC_CTYPE"} == set(grade.job_for(Path("/"), [], [], contained)["environment"])


# --- limits ----------------------------------------------------------------------------------------------------------

MANY = f"""
import os, time
count = 0
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        count += 1
    except OSError:
        pass
print(count, flush=True)
time.sleep(1)  # {MARK}1
"""


def test_the_kernel_refuses_too_many_processes(run):
    assert 5 < int(run(MANY)) <= grade.PROCESSES
    assert not processes_with(f"{MARK}1")


def test_uncontained_too_many_processes_are_the_end(run):
    run(MANY, contained=False, code=PROCESSES_EXCEEDED)
    assert not processes_with(f"{MARK}1")


@pytest.mark.parametrize("contained", [True, False])
def test_ten_gigabytes_are_refused(run, contained):
    assert run(tried("len(bytearray(10 << 30))"), contained) == "MemoryError"


HOARD = f"""
import os, time
for _ in range(3):
    if os.fork() == 0:
        break
x = b"x" * (60 << 20)
time.sleep(60)  # {MARK}2
"""


@pytest.mark.parametrize("contained", [True, False])
def test_memory_is_counted_over_all_processes(run, contained):
    """Each of them is below the limit."""
    run(HOARD, contained, code=MEMORY_EXCEEDED, memory=150 << 20)
    assert not processes_with(f"{MARK}2")


@pytest.mark.parametrize("contained", [True, False])
def test_processor_time_ends(run, contained):
    limits = grade.LIMITS | {"CPU": 1}
    limits.pop("NPROC")
    run("while True: pass", contained, code=1, limits=limits)


@pytest.mark.parametrize("contained", [True, False])
def test_what_is_left_in_the_background_ends_too(run, contained):
    sleeper = f"import time; time.sleep({MARK}3)"
    script = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleeper!r}], start_new_session=True)"
    run(script, contained)
    assert not processes_with(f"{MARK}3")


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_all_ends_with_the_outermost_process(run, by):
    script = f"import os, time\nos.fork()\nos.setsid()\nprint('there', flush=True)\ntime.sleep({MARK}4)"
    process = subprocess.Popen(run.job(script), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env={})
    timer = threading.Timer(30, process.kill)
    timer.start()
    assert process.stdout.readline() == "there\n"
    process.send_signal(by)
    process.wait(10)
    until(lambda: not processes_with(f"{MARK}4"), 10)
    timer.cancel()
    process.stdout.close()
    process.stdin.close()
    assert not processes_with(f"{MARK}4")


def test_what_cannot_be_contained_is_not_run(run, tmp_path):
    shutil.rmtree(tmp_path / "run")
    done = subprocess.run(run.job("print('ran')"), capture_output=True, text=True, timeout=60, env={})
    assert done.returncode == 1 and done.stderr.strip() and not done.stdout

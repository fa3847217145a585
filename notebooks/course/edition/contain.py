"""A process that can do no harm: `python -I contain.py '{...}'`, which grade.py calls. Linux only.

It runs a command in a folder of its own, with limits, a clean environment and low claims on memory. Contained, it also
has namespaces of its own: a file system that holds Python, the system's libraries (read-only) and the folder, which is
in memory; no network, no other processes, no privileges. The outermost process stays outside. It counts the memory and
the processes of all the others and ends them with it.
"""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

MEMORY_EXCEEDED, PROCESSES_EXCEEDED = 75, 76  # exit codes, see handin/runner.py
USER, NOBODY = 1000, 65534  # inside; outside, if we are root
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
NAMESPACES = 0x00020000 | 0x08000000 | 0x04000000 | 0x10000000 | 0x20000000 | 0x40000000  # mount ipc uts user pid net
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000  # the same number on every architecture; Linux 5.12
INSIDE = "/hand-in"  # the folder, as it is called there
libc = ctypes.CDLL(None, use_errno=True)


def call(function: Any, *arguments: Any) -> None:
    if function(*(a.encode() if isinstance(a, str) else a for a in arguments)):
        raise OSError(ctypes.get_errno(), f"{function.__name__}: {os.strerror(ctypes.get_errno())}")


# --- inside ----------------------------------------------------------------------------------------------------------


def bind(source: str, root: str, read_only: bool = True) -> None:
    """`source` and all that is mounted in it, at the same place below `root`; no devices, no privileges."""
    target = root + source
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").close()
    call(libc.mount, source, target, None, MS_BIND | MS_REC, None)
    if read_only:
        attributes = (ctypes.c_uint64 * 4)(MS_RDONLY | MS_NOSUID | MS_NODEV, 0, 0, 0)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        if libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, target.encode(), AT_RECURSIVE, attributes, size):
            raise OSError(ctypes.get_errno(), "mount_setattr: Linux 5.12 or newer is needed")


def build_root(job: dict[str, Any]) -> None:
    """The file system in memory. `hidden` folders inside of what is readable become empty ones."""
    root = job["folder"]
    call(libc.mount, "none", "/", None, MS_REC | MS_PRIVATE, None)
    inner = f"{root}/.root"
    os.makedirs(inner, exist_ok=True)
    options = f"size={job['disk']},nr_inodes=20000,mode=755"
    call(libc.mount, "tmpfs", inner, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for place in job["readable"]:
        if os.path.islink(place):
            os.makedirs(os.path.dirname(inner + place), exist_ok=True)
            os.symlink(os.readlink(place), inner + place)
        elif os.path.exists(place):
            bind(place, inner)
    for device in ("null", "zero", "urandom"):
        bind(f"/dev/{device}", inner, read_only=False)
    for place in job["hidden"]:
        if os.path.isdir(inner + place):
            call(libc.mount, "tmpfs", inner + place, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=4k")
    shutil.copytree(f"{root}/code", f"{inner}{INSIDE}/code")
    for place in (f"{INSIDE}/work", "/tmp"):
        os.makedirs(inner + place, exist_ok=True)
        os.chmod(inner + place, 0o777)
    os.chdir(inner)
    call(libc.pivot_root, ".", ".")
    call(libc.umount2, ".", 2)  # the old root, which lies on top of the new one
    os.chdir(f"{INSIDE}/work")


def set_limits(job: dict[str, Any]) -> None:
    """What the kernel counts by itself, for each process."""
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for name, value in job["limits"].items():
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))


def contained(job: dict[str, Any], ready: int, go: int) -> None:
    """Three processes: one that waits outside of the new process namespace, its first one, and the runner."""
    if os.geteuid() == 0:
        os.setgroups([])
    call(libc.unshare, NAMESPACES)
    os.write(ready, b"1")
    if os.read(go, 1) != b"1":  # until then we are nobody
        raise OSError("the user namespace got no users")
    with contextlib.suppress(OSError):  # no further ones inside
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    first = os.fork()
    if first:
        sys.exit(exit_code(os.waitpid(first, 0)[1]))
    build_root(job)
    if os.getuid() != USER:
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    set_limits(job)
    runner = os.fork()  # a second process, since the first of a namespace hears few signals
    if runner == 0:
        os.execve(job["command"][0], job["command"], job["environment"])
    while True:
        process, status = os.wait()  # orphans, too
        if process == runner:
            os._exit(exit_code(status))  # and the kernel ends all others of the namespace


def exit_code(status: int) -> int:
    return 1 if os.waitstatus_to_exitcode(status) else 0


def uncontained(job: dict[str, Any]) -> None:
    os.setsid()
    work = f"{job['folder']}/work"
    shutil.rmtree(work, ignore_errors=True)  # another copy, if it is not the first time
    os.mkdir(work)
    os.chdir(work)
    set_limits(job)
    os.execve(job["command"][0], job["command"], job["environment"])


# --- outside ---------------------------------------------------------------------------------------------------------


def descendants() -> dict[int, int]:
    """{process: bytes of memory} of all that come from us, orphans included: the kernel gives them to us."""
    parents, memory = {}, {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{int(name)}/stat").read_text(errors="replace").rpartition(")")[2].split()
            parents[int(name)], memory[int(name)] = int(fields[1]), int(fields[21]) * resource.getpagesize()
    family: set[int] = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return {process: memory[process] for process in family - {os.getpid()}}


def end_all() -> None:
    """Contained, the end of the first one is enough; uncontained, there may be orphans."""
    for _ in range(100):
        left = descendants()
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.02)


def watch(child: int, job: dict[str, Any]) -> int:
    """The exit code, when it is over or has to be."""
    while True:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == child:
            return exit_code(status)
        family = descendants()
        if sum(family.values()) > job["memory"]:
            return MEMORY_EXCEEDED
        if len(family) > job["processes"]:
            return PROCESSES_EXCEEDED
        time.sleep(0.1)


def map_users(child: int) -> None:
    """Inside, the one user is 1000. Of root, 0 is there, too, until the file system is built."""
    for kind, outside in (("uid", os.geteuid()), ("gid", os.getegid())):
        lines = f"0 0 1\n{USER} {NOBODY} 1" if os.geteuid() == 0 else f"{USER} {outside} 1"
        if os.geteuid() and kind == "gid":
            Path(f"/proc/{child}/setgroups").write_text("deny")
        Path(f"/proc/{child}/{kind}_map").write_text(lines)


def main() -> None:
    job = json.loads(sys.argv[1])
    Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, we and ours go first
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # a grader that is killed takes us with it
    (ready, say_ready), (go, say_go) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.close(ready)
        os.close(say_go)
        try:
            contained(job, say_ready, go) if job["contained"] else uncontained(job)
        except OSError as error:
            print(error.strerror or error, file=sys.stderr)
            os._exit(1)
    os.close(say_ready)
    os.close(go)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    code = 1
    try:
        if job["contained"]:
            if os.read(ready, 1) == b"1":
                map_users(child)
                os.write(say_go, b"1")
            os.close(say_go)
        os.close(0)
        os.close(1)  # whoever asks hears when the runner has ended
        code = watch(child, job)
    finally:
        end_all()
    sys.exit(code)


if __name__ == "__main__":
    main()

"""A zip that somebody else made: nothing leaves its folder, and nothing grows beyond the limits."""

import os
import stat
import zipfile
from pathlib import Path, PurePosixPath

ZIP_BYTES = 50_000_000
BYTES = 200_000_000  # unpacked, counted while unpacking: what a zip says of itself may be wrong
FILE_BYTES = 50_000_000
FILES = 2_000
NAME = 200  # characters of a path in the zip
CHUNK = 1 << 20


class Refused(Exception):
    """Its sentence says why."""


def unpack(zip_path: Path, folder: Path) -> None:
    """All files of the zip into `folder`, or Refused. Whoever calls throws away what a refused zip left behind."""
    if zip_path.stat().st_size > ZIP_BYTES:
        raise Refused(f"The zip is larger than {ZIP_BYTES // 1_000_000} MB.")
    try:
        with zipfile.ZipFile(zip_path) as archive:
            entries = archive.infolist()
            if len(entries) > FILES:
                raise Refused(f"The zip holds {len(entries)} files; {FILES} are allowed.")
            room = BYTES
            for entry in entries:
                check(entry)
                room = extract(archive, entry, folder, room)
    except Refused:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise Refused(f"The zip cannot be read: {error}.") from None
    except Exception as error:  # zlib.error, lzma.LZMAError, struct.error, ...
        raise Refused(f"The zip cannot be read: {type(error).__name__}.") from None


def check(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    mode = entry.external_attr >> 16
    if entry.flag_bits & 1:
        raise Refused(f"{name[:NAME]!r} in the zip has a password.")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise Refused(f"{name[:NAME]!r} in the zip is a link or a device.")
    path = PurePosixPath(name)
    odd = len(name) > NAME or not path.parts or any(sign in name for sign in "\\:\0") or not name.isprintable()
    if odd or path.is_absolute() or ".." in path.parts:
        raise Refused(f"{name[:NAME]!r} in the zip is not a plain path inside of it.")


def extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, room: int) -> int:
    """Write one entry; the room that is left. A file that is there already is not written over."""
    path = folder / entry.filename
    if entry.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return room
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, 0o644)
    except FileExistsError:
        raise Refused(f"{entry.filename!r} is in the zip twice.") from None
    with archive.open(entry) as source, os.fdopen(descriptor, "wb") as target:
        while data := source.read(CHUNK):
            room -= len(data)
            if room < 0:
                raise Refused(f"The zip holds more than {BYTES // 1_000_000} MB.")
            if target.tell() + len(data) > FILE_BYTES:
                raise Refused(f"{entry.filename!r} in the zip is larger than {FILE_BYTES // 1_000_000} MB.")
            target.write(data)
    return room

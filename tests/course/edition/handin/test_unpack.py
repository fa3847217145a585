"""Nothing of a zip lands outside of its folder, and nothing grows beyond the limits."""

import stat
import struct
import zipfile

import pytest
from course.edition.handin import unpack as module
from course.edition.handin.unpack import Refused, unpack


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in" / "side").mkdir(parents=True)
    return tmp_path / "in" / "side"


@pytest.fixture
def write(tmp_path):
    def write(*entries):
        """(name or ZipInfo, content), ..."""
        with zipfile.ZipFile(tmp_path / "some.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in entries:
                archive.writestr(name, content)
        return tmp_path / "some.zip"

    return write


def of_kind(name, kind):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (kind | 0o777) << 16
    return entry


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_and_folders_come_out(write, folder):
    unpack(write(("a.txt", b"1"), ("b/", b""), ("b/c.txt", b"2"), (of_kind("d", stat.S_IFREG), b"3")), folder)
    assert files(folder) == {"a.txt": b"1", "b/c.txt": b"2", "d": b"3"}


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/evil", "C:/evil", "..\\evil", "a\nb", "x" * 300, "..", "\x1b[2J", ".", "c/.."]
)
def test_a_path_outside_is_refused(write, folder, tmp_path, name):
    before = files(tmp_path)
    path = write((name, b"!"))
    with pytest.raises(Refused, match="is not a plain path"):
        unpack(path, folder)
    assert files(tmp_path) == {**before, "some.zip": path.read_bytes()}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_devices_are_refused(write, folder, kind):
    with pytest.raises(Refused, match="is a link or a device"):
        unpack(write((of_kind("link", kind), b"/etc/passwd")), folder)
    assert files(folder) == {}


def test_a_file_that_is_there_is_not_written_over(write, folder, tmp_path):
    (tmp_path / "kept").write_text("as it was")
    (folder / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(Refused, match="'link' is in the zip twice"):
        unpack(write(("link", b"!")), folder)
    assert (tmp_path / "kept").read_text() == "as it was"
    with pytest.warns(UserWarning, match="Duplicate"):
        path = write(("a", b"1"), ("a", b"2"))
    with pytest.raises(Refused, match="twice"):
        unpack(path, folder)


@pytest.mark.parametrize("limit", ["BYTES", "FILE_BYTES"])
def test_a_bomb_stops_at_the_limit(write, folder, monkeypatch, limit):
    monkeypatch.setattr(module, "CHUNK", 1_000)
    monkeypatch.setattr(module, limit, 50_000)
    path = write(("fine", b"0" * 10_000), ("bomb", b"0" * 10_000_000))
    assert path.stat().st_size < 50_000
    with pytest.raises(Refused, match=r"more than|larger than"):
        unpack(path, folder)
    assert sum(map(len, files(folder).values())) <= 60_000


def test_a_size_that_is_a_lie_is_not_believed(write, folder, monkeypatch):
    """The bytes that come out are counted, and what a zip says of itself is checked against them."""
    monkeypatch.setattr(module, "BYTES", 50_000)
    path = write(("bomb", b"0" * 1_000_000))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<I", 1_000_000), struct.pack("<I", 100)))
    with pytest.raises(Refused):
        unpack(path, folder)
    assert sum(map(len, files(folder).values())) <= 50_000


def test_too_many_files_and_too_large_zips_are_refused(write, folder, monkeypatch):
    path = write(*((str(number), b"") for number in range(20)))
    monkeypatch.setattr(module, "FILES", 19)
    with pytest.raises(Refused, match="holds 20 files; 19 are allowed"):
        unpack(path, folder)
    monkeypatch.setattr(module, "ZIP_BYTES", 100)
    with pytest.raises(Refused, match="larger than"):
        unpack(path, folder)


def test_what_is_no_zip_or_damaged_is_refused_in_a_sentence(write, folder, tmp_path):
    path = tmp_path / "no.zip"
    good = write(("a", b"0123456789" * 100)).read_bytes()
    for cut in range(0, len(good), 7):
        for data in (good[:cut], good[:cut] + b"\xff\xff" + good[cut + 2 :]):
            path.write_bytes(data)
            target = tmp_path / f"{cut}-{len(data)}"
            target.mkdir()
            try:
                unpack(path, target)
            except Refused as error:
                assert str(error).endswith(".")
            assert set(files(tmp_path)) >= {"no.zip", "some.zip"}


def test_a_password_is_said(write, folder):
    path = write(("a", b"1"))
    data = bytearray(path.read_bytes())
    for sign, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(sign) + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(Refused, match="'a' in the zip has a password"):
        unpack(path, folder)

"""Files are read as data, regular ones only, and whatever cannot be read is named with the place."""

import json
import os
import pickle

import pytest
from course.audit import reading
from course.audit.reading import read_folder


def one(folder, name, data):
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    (file,) = [file for file in read_folder(folder) if file.name == name]
    return file


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_text_in_any_encoding_is_read(tmp_path, encoding):
    file = one(tmp_path, "a.json", '{"baseline": 0.412, "é": 1}'.encode(encoding))
    assert file.document == {"baseline": 0.412, "é": 1} and not file.unread
    assert bool(file.notes) == (not encoding.startswith("utf-8"))


def test_the_place_of_an_error_is_named(tmp_path):
    file = one(tmp_path, "a.json", '{"a": [1,\n2,, 3]}')
    assert "line 2, column 3" in file.unread and file.document is None


def test_a_flat_object_with_damaged_lines_is_read_in_part(tmp_path):
    file = one(tmp_path, "a.json", '{\n"baseline": 0.5495,\n"enc_l0_h0": 0.5, =======\n"enc_l0_h1": 3.5e-2\n}')
    assert file.document == {"baseline": 0.5495, "enc_l0_h0": 0.5, "enc_l0_h1": 0.035} and "line 3" in file.damaged


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("", "is empty"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 50_000, "nested too deeply"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "no text"),
        (pickle.dumps({"a": 1}), "no text"),
        ("[" + "1," * 300_000 + "1]", "far more values"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path, data, words):
    assert words in one(tmp_path, "a.json", data).unread


def test_numbers_that_python_refuses_are_read(tmp_path):
    file = one(tmp_path, "a.json", f'{{"a": {"9" * 5_000}, "b": 1e400, "c": NaN, "d": 0.{"1" * 5_000}}}')
    assert file.document["a"] == file.document["b"] == float("inf") and file.document["c"] != file.document["c"]


def test_a_name_given_twice_is_told(tmp_path):
    assert "'a' twice" in one(tmp_path, "a.json", '{"a": 1, "a": 2}').damaged


def test_lines_of_json_tables_and_logs(tmp_path):
    assert one(tmp_path, "a.jsonl", '{"a": 1}\n{"a": 2}\n').document == [{"a": 1}, {"a": 2}]
    assert one(tmp_path, "b.csv", "head;accuracy\nx;0,5\n").document == [{"head": "x", "accuracy": "0,5"}]
    assert one(
        tmp_path, "c.txt", "hello\nepoch 1: loss 0.7, val_acc=0.5\nepoch 2: loss 0.6, val_acc=0.6\n"
    ).document == [
        {"epoch": "1", "loss": "0.7", "val_acc": "0.5"},
        {"epoch": "2", "loss": "0.6", "val_acc": "0.6"},
    ]
    assert "row 3" in one(tmp_path, "d.csv", "a,b\n1,2\n3\n").damaged


def test_links_pipes_and_deep_folders_are_named_and_left_alone(tmp_path):
    inside = tmp_path / "handin"
    inside.mkdir()
    (tmp_path / "secret.json").write_text('{"baseline": 0.412}')
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (inside / "folder").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe.json")
    deep = inside.joinpath(*["d"] * 20)
    deep.mkdir(parents=True)
    (deep / "a.json").write_text("{}")
    found = {file.name: file for file in read_folder(inside)}
    assert (
        "link" in found["link.json"].unread and "link" in found["folder"].unread and "pipe" in found["pipe.json"].unread
    )
    assert all(file.document is None for file in found.values())


def test_a_file_that_became_a_link_is_not_opened(tmp_path):
    (tmp_path / "a").write_text("{}")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(reading.Unreadable):
        reading.content(tmp_path / "b")


def test_large_files_are_named_and_not_opened(tmp_path, monkeypatch):
    with (tmp_path / "a.json").open("wb") as stream:
        stream.truncate(reading.LARGEST + 1)
    monkeypatch.setattr(reading, "content", lambda place: pytest.fail("opened"))
    (file,) = read_folder(tmp_path)
    assert "10 MB" in file.unread


def test_there_is_an_end_to_files(tmp_path, monkeypatch):
    for number in range(5):
        (tmp_path / f"{number}.json").write_text("{}")
    monkeypatch.setattr(reading, "MOST_READ", 3)
    assert [file.unread for file in read_folder(tmp_path)] == ["", "", "", reading.SKIPPED, reading.SKIPPED]
    monkeypatch.setattr(reading, "MOST_ENTRIES", 3)
    assert "more than 3 files" in read_folder(tmp_path)[-1].unread


def test_of_a_problem_only_its_results_are_read(tmp_path):
    for name in ("problem1/results/a.json", "problem1/published/b.json", "problem2/c.json", "problem2/.hidden/d.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps({}))
    assert [file.name for file in read_folder(tmp_path)] == ["problem1/results/a.json", "problem2/c.json"]


@pytest.mark.parametrize("name", [".git", "__pycache__", "venv", "site-packages", "small_transformers.egg-info"])
def test_what_tools_leave_in_a_folder_is_not_looked_at(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "empty.txt").touch()
    assert read_folder(tmp_path) == []

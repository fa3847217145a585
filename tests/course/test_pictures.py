"""The README's pictures."""

from course import pictures


def test_both_are_drawn_where_the_readme_finds_them(tmp_path, monkeypatch, capsys):
    drawn = {name: (pictures.FOLDER / name).stat().st_size for name in ("adder.png", "encodings.png")}
    monkeypatch.setattr(pictures, "FOLDER", tmp_path)
    pictures.main()
    assert {path.name for path in tmp_path.iterdir()} == drawn.keys() and str(tmp_path) in capsys.readouterr().out
    for name, size in drawn.items():  # a stored picture that shows something else has another size
        assert abs((tmp_path / name).stat().st_size / size - 1) < 0.05

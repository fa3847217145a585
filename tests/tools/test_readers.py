"""What a reader has to get through, counted."""

import subprocess
import sys
from pathlib import Path

import pytest
import readers
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

COLLAPSED = {"jupyter": {"source_hidden": True}, "tags": ["caption"]}


def shows(source="x", metadata=None, **data):
    """A code cell with one output."""
    output = new_output("display_data", data={kind.replace("_", "/"): content for kind, content in data.items()})
    return new_code_cell(source, outputs=[output], metadata=metadata or {})


def counts(*cells):
    return readers.counts_of(new_notebook(cells=list(cells)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two words", 2),
        ("# A heading, too", 3),  # the sign that makes it one is not read
        ("- [a link](#with-an-address) here", 3),
        ("![a picture](file.png)", 2),
        ("the term $a + b = c$ counts once", 5),
        ("$$\nx = y + z\n$$", 1),
        ("| a | b |\n|---|:-:|\n| c | d e |", 5),
        ("a<br>b &mdash; 0.998 (`code`)", 5),
    ],
)
def test_words_are_what_is_read(text, expected):
    assert readers.count_words(text) == expected


def test_the_main_text_ends_at_the_heading_that_says_appendix():
    for heading in ("# Appendix", "### Appendix: tables"):
        before, after = new_markdown_cell(f"one two\n\n{heading}\n\nthree"), new_markdown_cell("four five")
        found = counts(shows(text_markdown="a b c"), before, after)
        assert found.words == 5 and found.words_of_appendix == readers.count_words(heading) + 3
    assert counts(new_markdown_cell("see the Appendix"), new_markdown_cell("more")).words_of_appendix == 0


def test_code_and_tables_of_pandas_are_no_words_and_markdown_outputs_are():
    found = counts(
        new_code_cell("a = 1"), shows(text_html="<table>many words here</table>"), shows(text_markdown="a b")
    )
    assert found.words == 2


def test_reading_time_is_that_of_the_main_text():
    words = " ".join(["word"] * 10 * readers.WORDS_PER_MINUTE)
    assert counts(new_markdown_cell(words), new_markdown_cell(f"## Appendix\n\n{words}")).minutes == 10


def test_captions_are_markdown_that_begins_with_a_figure_or_a_table():
    found = counts(
        shows(text_markdown="**Figure 1.** three words more", metadata=COLLAPSED),
        shows(text_markdown="**Tables 2 and 3.** one"),
        shows(text_markdown="Figure 1 shows no caption"),
    )
    assert (found.captions, found.captions_open, found.longest_caption) == (2, 1, 5)


def test_a_paragraph_ends_at_an_empty_line_a_list_or_a_heading():
    text = "# one two three four five six\n\na b\nc\n\n- d e\n- f\n\n| a table | has | no | paragraphs | at | all |"
    assert [readers.count_words(part) for part in readers.paragraphs(text)] == [3, 2, 1]
    assert counts(new_markdown_cell(text), shows(text_markdown="a b c d")).longest_paragraph == 4


def test_lines_of_code_are_those_that_are_shown_and_the_longest_of_all():
    hidden = new_code_cell("\n".join("abcdefg"), metadata=COLLAPSED)
    found = counts(hidden, new_code_cell("a\n\nb"), new_code_cell("a"), new_code_cell("a\nb\nc"))
    assert (found.set_up_lines, found.median_lines, found.most_lines) == (2, 2, 7)


def test_a_picture_needs_words_of_its_own():
    found = counts(
        shows(image_png="", text_plain="<Figure size 640x480 with 1 Axes>"),
        shows(image_png="", text_plain="Accuracy against length."),
        shows(application_pdf=""),
        new_markdown_cell("![](a.png) and ![a drawing](b.png)"),
        shows(text_plain="no picture"),
    )
    assert (found.pictures, found.pictures_without_words) == (5, 3)


def test_an_empty_notebook_has_nothing_to_read():
    assert set(vars(counts()).values()) == {0}


def test_the_command_prints_a_column_for_each_notebook():
    command = [sys.executable, Path(readers.__file__), "problem1", "problem2"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].split() == ["problem1", "problem2"]
    assert [line.split("  ")[0] for line in lines[1:]] == [
        f.name.replace("_", " ") for f in readers.fields(readers.Counts)
    ]

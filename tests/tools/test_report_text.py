"""Words on their way into the PDF: numbers of figures by chapter, Markdown to Typst."""

import pytest
from report_text import NOTEBOOKS, chapter_of, markdown, numbered, string, to_typst


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Table 13 and Figure 13.", "Table 2.13 and Figure 2.13."),
        ("(Tables 11 to 13, Figure 7; causal)", "(Tables 2.11 to 2.13, Figure 2.7; causal)"),
        ("Table 6, Figures 3 and 4. Nine", "Table 2.6, Figures 2.3 and 2.4. Nine"),
        ("Figures 3, 4 and 5 and 6 seeds", "Figures 2.3, 2.4 and 2.5 and 6 seeds"),
        ("Table 5, 4 heads; Tables 5 and 6, 7 heads", "Table 2.5, 4 heads; Tables 2.5 and 2.6, 7 heads"),
        ("section 7 and sections 5 to 7", "section 2.7 and sections 2.5 to 2.7"),
        ("Problem 1, Figure 10; Table 4 of problem 1", "Problem 1, Figure 1.10; Table 1.4 of problem 1"),
        ("Figure 1.10, table 3 of the paper", "Figure 1.10, table 2.3 of the paper"),
    ],
)
def test_references(text, expected):
    assert numbered(text, 2) == expected
    assert numbered(expected, 3) == expected  # what has its chapter keeps it
    assert numbered(text, None) == text  # a notebook alone keeps its numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"$\mathrm{head}_h$", '$upright("head")_h$'),
        (r"$a\!b\;c$", "$a b med c$"),
        ("\\begin{align} a &= b \\end{align}", "$ a & = b $"),
        ("[section 3](problem1.ipynb) and [here](#there)", "section 1.3 and here"),
        ("## 4. Title", "== 2.4 Title"),
    ],
)
def test_markdown_as_pandoc_should_read_it(text, expected):
    assert to_typst(markdown(text, 2)).strip() == expected


def test_chapters_are_counted_as_in_the_whole_report():
    assert [path.name for path in NOTEBOOKS] == ["problem1.ipynb", "problem2.ipynb", "reports.ipynb"]
    assert chapter_of("problem2", 9) == 2 and chapter_of("another", 9) == 9


def test_nothing_in_a_string_is_markup():
    assert string('a "b" #c\\d\te\x1b[31mf\x00\n') == r'"a \"b\" #c\\d    ef\n"'

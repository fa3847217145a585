"""The whole audit in words: nothing that a file holds reaches the terminal or a comment as it stands."""

import pytest
from course.audit import audit
from course.audit.report import MOST_OF_A_KIND, markdown, terminal

from tests.course.audit.folders import heads, log, write

EVIL = "\x1b[31m\x07\r\u202e*_`<b>@all[x](http://y)|#1\ud800"


def test_text_says_what_was_read_and_lists_findings_worst_first(tmp_path):
    folder = write(tmp_path, problem1__ablation=heads(0.412, decoding=""), problem1__log=log(), problem1__broken="{")
    text = audit(folder).text()
    assert "problem1/ablation.json: 25 values" in text and "problem1/broken.json is no valid JSON" in text
    assert text.index("[certain] share of sums") < text.index("deliverables missing")
    assert text.count("Check: ") == text.count("Mend: ") == len(audit(folder).findings)


def test_nothing_moves_the_cursor_or_formats():
    assert all(c.isprintable() for c in terminal(EVIL)) and "\\x1b" in terminal(EVIL)
    shown = markdown(EVIL)
    assert "<" not in shown and "@" not in shown and "://" not in shown and "\\*" in shown and "\\`" in shown


@pytest.mark.parametrize("style", ["text", "markdown"])
def test_names_and_keys_are_escaped(tmp_path, style):
    folder = write(
        tmp_path, problem1__log={f"val_acc {EVIL[:-1]}": [0.1, 1.4, 0.2]}, problem1__bad='{"\x1b[31m@all" 1}'
    )
    (folder / "problem1" / "a\n\x1b*@all.json").write_text("{")
    shown = getattr(audit(folder), style)()
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert style == "text" or "@all" not in shown
    shown.encode()


def test_many_findings_of_a_kind_are_counted(tmp_path):
    folder = write(tmp_path, **{f"problem1__{number}": "{" for number in range(30)}, problem1__log=log())
    text = audit(folder).text()
    assert text.count("[certain] unreadable") == MOST_OF_A_KIND and "and 18 more" in text


def test_markdown_is_a_list(tmp_path):
    shown = audit(write(tmp_path, problem1__ablation=heads(0.412))).markdown()
    assert shown.startswith("### Audit of") and "1. **\\[certain\\] share of sums" in shown

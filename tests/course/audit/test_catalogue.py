"""Every kind of finding says what it means, how to check it and how to mend it; every kind is used, and no other."""

import re
from pathlib import Path

import course.audit
from course.audit.catalogue import KINDS, finding


def test_every_kind_is_in_words():
    for kind, words in KINDS.items():
        assert words.weight in (1, 2, 3), kind
        assert all(text.endswith((".", "?")) and not re.search(r"  |\w- ", text) for text in words[1:]), kind


def test_every_kind_is_used_and_no_other():
    sources = [file.read_text() for file in Path(course.audit.__file__).parent.glob("*.py") if file.stem != "catalogue"]
    used = {kind for source in sources for kind in re.findall(r'"([a-z0-9 ]+)"', source)} & KINDS.keys()
    assert used == KINDS.keys()
    called = {kind for source in sources for kind in re.findall(r'finding\(\s*"([a-z0-9 ]+)"', source)}
    assert called <= KINDS.keys() and len(called) > 30


def test_more_words_and_another_weight():
    made = finding("heads missing", "certain", "x.json", "Two.", "These.", 1)
    assert made.means == f"{KINDS['heads missing'].means} These." and made.weight == 1

"""How many sums are right: counted on every pair, by cases, and the same as when each is run."""

import numpy as np
import pytest
import torch

from problem1 import published
from problem1.dataset import encode_pairs, every_pair, from_digits, shift_right
from problem1.every_pair import margins, random_pairs
from problem1.program.counts import STAGES, case_logits, check_program


def spoiled(program):
    """One that does not carry: the head that says it says the same in every sum."""
    head = "Decoder Cross L0 H2"
    tables = [table.mean(0, keepdim=True).expand_as(table) for table in program.tables[head]]
    return program.replaced(head, program.choice[head], tables)


def test_cases_have_the_logits_of_each_of_their_sums(program):
    source, target = encode_pairs(random_pairs(2_000, seed=5))
    difference = case_logits(program, source, shift_right(target)) - program(source, shift_right(target))
    assert difference.abs().max() < 1e-3


def test_the_published_program_is_right_on_as_many_sums_as_its_table_says(program):
    """All 810,000, here and now."""
    log, check = published.published_log(), check_program(program, progress=False)
    row = published.table("programs").set_index("seed").loc[log["recipe"]["seed"]]
    assert len(check.wrong) == row["wrong, all"] and check.margin == pytest.approx(row["margin, all"], abs=0.01)


def test_what_is_wrong_is_what_free_running_decoding_gets_wrong(program):
    pairs = random_pairs(3_000, seed=6)
    bad = spoiled(program)
    source, target = encode_pairs(pairs)
    expected = pairs[(bad.generate(source) != target).any(1).numpy()]
    check = check_program(bad, pairs)
    assert 0 < len(expected) < len(pairs) and np.array_equal(check.wrong[["a", "b"]].to_numpy(), expected)
    answers = from_digits(bad.generate(encode_pairs(expected)[0]).numpy())
    assert check.wrong["answer"].tolist() == answers.tolist()
    assert check.margin == pytest.approx(margins(bad(source, shift_right(target)), target).min().item(), abs=1e-3)


def test_stages_with_computed_heads_are_right_on_a_sample(program, some):
    """Encoder heads as tables, the decoder as it is on what they leave; then the self-attention, too."""
    kept = {stage: program.only(kinds) for stage, kinds in STAGES.items()}
    assert [len(part.choice) for part in kept.values()] == [8, 16, 24]
    for part in kept.values():
        assert len(check_program(part, some, progress=False).wrong) == 0
    source, target = encode_pairs(some)
    first, last = (kept[stage](source, shift_right(target)) for stage in ("encoder", "all"))
    assert not torch.allclose(first, last, atol=1e-2), "computed heads and tables are not the same"


def test_pairs_are_all_there_are_unless_they_are_named(program):
    whole = check_program(program, progress=False)
    assert len(whole.closest) == 1_000
    part = check_program(program, next(iter(every_pair(3, 90_000))))
    assert part.margin >= whole.margin

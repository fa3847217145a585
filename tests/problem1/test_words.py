"""The notebook's sentences say what the tables say, whatever that is."""

import numpy as np
import pandas as pd
import pytest

from problem1 import words
from problem1.dataset import parse
from problem1.every_pair import Check
from problem1.program import published_program

RANKING = pd.DataFrame(
    {
        "head": ["Encoder L1 H3", "Decoder Cross L0 H2", "Decoder Self L0 H0", "Encoder L0 H0", "Encoder L0 H1"],
        "zero drop": [0.9, 0.8, 0.7, 0.01, 0.0],
        "mean drop": [0.6, 0.04, 0.0, 0.2, 0.0],
    }
)
GREEDY = pd.DataFrame(
    {
        "removed": range(5),
        "head": ["none", "Encoder L0 H0", "Encoder L0 H1", "Decoder Self L0 H0", "Encoder L1 H3"],
        "accuracy": [1.0, 0.985, 0.995, 0.99, 0.2],
    }
)
PRUNING = {"zero": {"count": 7, "share": 7 / 24, "accuracy without all of them": {"mean": 0.125}}}


def rates(**by_head):
    """Flip rates of heads in three questions."""
    questions = [("tens", "next column"), ("hundreds", "through a 9"), ("thousands", "next column")]
    rows = [
        {"patched": head, "digit": digit, "carry from": source, "flip rate": rate}
        for head, each in by_head.items()
        for (digit, source), rate in zip(questions, each, strict=True)
    ]
    return pd.DataFrame(rows)


def test_many_heads_are_named_in_few_words():
    heads = ["Encoder L1 H3", "Encoder L0 H0", "Decoder Self L0 H1", "Encoder L1 H2"]
    assert words.by_site(heads) == "Encoder L0 H0, L1 H2 H3; Decoder Self L0 H1"
    assert words.by_site([]) == "none"


def test_the_answers_link_to_numbered_sections_and_name_the_published_adder():
    rows = words.answer_rows()
    assert [section for _, _, section, _ in rows] == list(range(2, 2 + len(rows)))
    assert all(anchor.startswith(f"{section}.-") for _, _, section, anchor in rows)
    shown = words.answers().data
    assert all(asked in shown and answer in shown for asked, answer, _, _ in rows)
    assert "**0 of 810,000** sums wrong, in each of 10 training seeds" in shown


def test_a_head_is_critical_only_if_both_replacements_say_so():
    assert words.critical_heads(RANKING) == ["Encoder L1 H3"]
    text = words.critical_and_redundant(RANKING).data
    critical, redundant, constant = text.splitlines()
    assert critical.endswith("Encoder L1 H3.")
    assert redundant.endswith("Encoder L0 H0 H1.")  # the tolerance itself is allowed
    assert constant.endswith("Decoder Self L0 H0.")
    assert "constant" not in words.critical_and_redundant(RANKING.drop(2)).data


def test_the_ranking_is_claimed_by_its_first_row():
    assert words.most_lost(RANKING) == "Without Encoder L1 H3 accuracy falls by 0.90"


def test_heads_are_jointly_prunable_until_accuracy_stays_below_the_tolerance():
    assert words.jointly_prunable(GREEDY) == ["Encoder L0 H0", "Encoder L0 H1", "Decoder Self L0 H0"]
    assert words.single_is_not_joint(PRUNING, GREEDY) == "3 heads can go together; all 7 that can go alone leave 0.125"
    alone, at_once, together = words.pruned(PRUNING, GREEDY).data.splitlines()
    assert "7 of 24 heads, 29.2%" in alone and "0.125" in at_once
    assert "3 heads, 12.5%: Encoder L0 H0 H1; Decoder Self L0 H0." in together


def test_a_carrier_flips_more_than_half_and_groups_are_none():
    table = rates(**{"A": [0.5, 0.2, 0.1], "B": [0.6, 0.1, 0.9], "C": [0.9, 1.0, 0.0], "all Encoder": [1, 1, 1]})
    assert words.carriers(table) == ["C", "B"]
    assert words.flips(table) == "C flips 90% to 100% of the tens and hundreds"


def test_an_adder_that_forgets_to_carry_is_told_from_one_that_does_not(adder, pairs):
    assert "**100%** of 1 answers" in words.forgets(adder, "Decoder Self L1 H1", parse("123+456")).data
    assert "**100%**" not in words.forgets(adder, "Decoder Self L1 H1", pairs).data


def test_the_counts_of_a_check_are_told(adder):
    wrong = pd.DataFrame({"a": [100, 101], "b": [100, 100], "answer": [0, 0]})
    check = Check(wrong, pd.DataFrame({"a": [100], "b": [899], "margin": [-1.25]}))
    assert words.checked(check).data.startswith("**2 of 810,000 sums are wrong.** The nearest call is 100 + 899")
    program = published_program()
    text = words.counted(check, program).data
    assert "**809,998 of 810,000 sums are right**" in text and f"{program.entries:,} rows" in text
    assert words.speaking(program).startswith(f"{len(program.speaking)} of 24 heads")


def test_prefixes_of_other_adders_are_counted_apart_from_the_one_that_is_studied():
    columns = ["seed", "digit", "sums", "wrong"]
    rows = [(23, "hundreds", 810_000, 8_100), (23, "ones", 810_000, 0)]
    rows += [(20, "hundreds", 81_000, 8_100), (20, "ones", 81_000, 5), (21, "hundreds", 81_000, 40_500)]
    possible = pd.DataFrame({"digit": ["hundreds", "ones"], "sums": 500, "wrong": [3, 0]})
    text = words.prefixes(pd.DataFrame(rows, columns=columns), possible, 23).data
    assert "over all 810,000 sums, 1.0% of the hundreds change." in text
    assert "**3 digits of 500 sums** change" in text and "In 2 other adders 10% to 50%" in text


def test_a_head_that_says_which_digit_is_due_is_needed_as_a_constant_only():
    columns = ["seed", "head", "zero drop", "mean drop", "digit", "right", "instead", "share"]
    rows = [
        (20, "Decoder Self L0 H0", 0.9, 0.0, "ones", 0.1, "tens", 0.97),
        (20, "Decoder Self L0 H0", 0.9, 0.0, "tens", 1.0, "ones", 0.1),
        (21, "Decoder Self L0 H1", 0.9, 0.5, "ones", 0.1, "tens", 0.99),  # says more
        (21, "Decoder Self L0 H2", 0.0, 0.0, "ones", 1.0, "tens", 0.1),  # says nothing
    ]
    text = words.due(pd.DataFrame(rows, columns=columns)).data
    assert text.startswith("In 1 of 2 adders") and "In seed 20, without Decoder Self L0 H0, 97.0% " in text
    assert "repeat the tens where the ones are due" in text


def test_programs_that_break_are_named():
    counts = pd.DataFrame(
        {
            "seed": [20, 21, 22],
            "wrong, all": [0, 7, 0],
            "rows": [400, 900, 500],
            "speaking heads": [9, 12, 10],
            "whole": True,
        }
    )
    text = words.programs(counts).data
    assert "2 of 3 adders are right on all 810,000 sums (seed 21: 7 wrong)" in text
    assert "400 to 900 rows, and 9 to 12 heads" in text
    assert "(" not in words.programs(counts[counts["seed"] != 21]).data
    computed = words.programs(counts.assign(whole=[True, True, False])).data
    assert "In 1 of them (seeds 22) self-attention stays computed" in computed


def test_what_all_adders_share_is_told_and_nothing_else():
    glance = pd.DataFrame(
        {"seed 20": [1, 2], "seed 21": [3, 0], "some head": [2, 1], "the same head": [1, 1]},
        index=["says the sum", "passes on a digit"],
    )
    text = words.shared(glance).data
    assert text == "1 of 2 rows hold in all 2 adders, and with the same head, by layer and number, in 1 of them."


def test_controls_are_told_by_their_worst_counts():
    table = pd.DataFrame(
        {
            "head": ["A", "B", "C"],
            "sums": 20_000,
            "next row, right": [20_000, 5_000, 19_999],
            "unnamed, changed": [0, 3, 1],
        }
    )
    text = words.controlled(table).data
    assert "On 20,000 sums" in text and "3 answers change at most" in text
    assert "0 to 15,000 answers break, for 2 of 3 heads at least one" in text


def test_a_recipe_is_a_row_with_the_wrong_sums_of_its_seeds():
    rows = pd.DataFrame(
        {
            "recipe": ["homework", "homework", "pre-norm, AdamW", "published"],
            "seed": [20, 21, 20, 20],
            "steps": [7850, 7850, 2000, 4000],
            "batch_size": [64, 64, 64, 32],
            "cpu seconds": [300.0, 320.0, 77.5, 92.0],
            "validation loss": [1e-3, 3e-3, 1e-4, 1e-7],
            "wrong": [4182, 124, 11, 0],
            "smallest margin": [-10.0, -3.0, -1.0, 11.1],
            "test accuracy": [0.9, 0.99, 1.0, 1.0],
            "examples": ["100+100=201", "", "109+899=1018, 1+1=3", ""],
        }
    )
    steps = words.steps(rows)
    assert steps.index.tolist() == ["homework", "pre-norm, AdamW", "published"]
    assert (
        steps.loc["homework", "wrong sums"] == "124, 4,182"
        and steps.loc["homework", "smallest margin"] == "-10.0 to -3.0"
    )
    text = words.bought(rows).data
    assert "from 2,153 to 11, in 0.25 of the time" in text
    assert "an adder with 11 wrong sums, among them 109+899=1018, gets all 2,000" in text


def test_the_files_of_the_assignment_are_counted():
    assert words.written([words.RESULTS / "training_log.json"] * 3).data.startswith(
        "3 files were written to `problem1/"
    )


def test_claims_over_figures_name_a_number():
    special = pd.DataFrame(
        {"head": ["A", "B"], "measure": "same column", "mean": [0.95, 0.5]},
    )
    assert words.roles(special) == "1 heads give more than 0.9 of their attention to one column"
    by_sum = pd.DataFrame({"digit sum": [8, 9], "attends to": "two columns lower", "mean": [0.1, 0.625]})
    assert words.past_nine(by_sum, "A") == "Where the tens add up to 9, A gives 0.62 of its attention to the ones"
    table = pd.DataFrame([[1, 0.25], [0.25, 1]], index=["zero drop", "gradient"], columns=["zero drop", "gradient"])
    assert words.apart(table) == "The zero drop and the gradient agree least: 0.25"
    greedy = pd.DataFrame({"seed": [20, 20, 21, 21], "removed": [0, 1, 0, 1], "accuracy": [1.0, 1.0, 1.0, 0.5]})
    assert words.by_number(greedy).startswith("On average 0.5 heads can go together")


def test_ten_adders_are_summed_up_by_lowest_and_highest():
    summary = pd.DataFrame(
        {
            "singly prunable (zero)": [15, 20],
            "jointly prunable (greedy)": [8, 15],
            "accuracy without all of them (zero)": [0.0, 0.118],
        },
        index=[20, 21],
    )
    text = words.spread(summary).data
    assert "Over 2 seeds 15 to 20 heads can go one at a time and 8 to 15 together" in text and "0.00 to 0.12" in text


def test_roles_are_told_by_name():
    measures = {
        "same column": [0.95, 0.2, 0.1],
        "next lower column": [0, 0.6, 0.1],
        "+": [0, 0, 0.9],
        "BOS": [0, 0.1, 0.7],
    }
    rows = [
        {"head": head, "measure": measure, "mean": each[number]}
        for measure, each in measures.items()
        for number, head in enumerate(["Encoder L0 H0", "Decoder Cross L0 H1", "Decoder Self L0 H2"])
    ]
    text = words.roles_by_name(pd.DataFrame(rows)).data.splitlines()
    assert text[0].endswith("Encoder L0 H0.") and "Decoder Cross L0 H1 (0.60)" in text[1]
    assert "Decoder Self L0 H2 (0.90)" in text[2] and "Decoder Self L0 H2 (0.70)" in text[3]


def test_training_and_splits_are_told():
    rows = [{"step": step, "validation free-running accuracy": share} for step, share in ((400, 0.2), (4_000, 1.0))]
    assert words.learned({"rows": rows}) == "After 4,000 steps the adder gets 100.0% of the validation sums right"
    text = words.unseen(np.zeros((1_842, 2)), np.zeros((1_870, 2))).data
    assert "1,842 test sums and 1,870 validation sums remain" in text


def test_scores_of_head_stability_stand_beside_their_parts():
    pairs = pd.DataFrame(
        {
            "kind": "Encoder",
            "seed": [0, 0, 1],
            "other seed": [1, 2, 2],
            "matched": [0.9, 0.8, 0.7],
            "by place": 0.5,
            "at random": 0.4,
            "unrelated": 0.6,
            "score": [0.75, 0.5, 0.25],
        }
    )
    row = words.stability(pairs).loc["Encoder"]
    assert row["matched"] == pytest.approx(0.8) and row["score"] == pytest.approx(0.5)


def test_counts_of_programs_keep_their_seeds():
    columns = ["whole", "speaking heads", "rows", "numbers", "wrong, all", "margin, all"]
    counts = pd.DataFrame([[20, True, 9, 400, 12_800, 0, 2.956]], columns=["seed", *columns])
    assert words.program_counts(counts).loc[20].tolist() == [True, 9, 400, 12_800, 0, 2.96]


def test_stages_are_told_by_their_wrong_sums():
    names = ["encoder", "encoder and self", "all"]
    table = pd.DataFrame(
        {"tables": [*names, *(f"{name}, idle heads left out" for name in names)], "wrong": range(1, 7)}
    )
    text = words.stages(table).data
    assert "computed 1 sums are wrong" in text and "too, 2, and with all heads as tables 3." in text
    assert "leave 5 sums wrong while cross heads are computed, and 6 in" in text

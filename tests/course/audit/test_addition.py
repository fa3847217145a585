"""What the numbers of heads give away; right ones give no finding."""

import pytest

from tests.course.audit.folders import HEADS, findings, heads, kinds, log, write


def with_heads(folder, document, **files):
    return write(folder, problem1__ablation=document, **files)


def test_right_results_give_no_finding(tmp_path):
    assert not kinds(with_heads(tmp_path, heads(), problem1__training_log=log()))


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        (0.412, "sums below 1000 among"),
        (0.349, "sums below 1000 without a further 0"),
        (0.589, "batch of 64"),
        (0.596, "batch of 32"),
    ],
)
def test_a_baseline_that_is_a_share_of_sums_is_certain(tmp_path, baseline, words):
    (finding,) = findings(with_heads(tmp_path, heads(baseline, **{HEADS[0]: 0.2005})), "share of sums")
    assert finding.certainty == "certain" and words in finding.says and "to the last item" in finding.says


def test_one_item_beside_a_share_is_no_such_finding(tmp_path):
    assert "share of sums" not in kinds(with_heads(tmp_path, heads(0.4125, **{HEADS[0]: 0.2005})))


def test_nearly_a_share_is_likely_when_the_log_says_nearly_all(tmp_path):
    folder = with_heads(tmp_path, heads(0.4115, **{HEADS[0]: 0.2005}), problem1__training_log=log(0.9995))
    assert [finding.certainty for finding in findings(folder, "share of sums")] == ["likely"]
    other = with_heads(tmp_path / "other", heads(0.4115, **{HEADS[0]: 0.2005}), problem1__training_log=log(0.42))
    assert "share of sums" not in kinds(other)


def test_few_digits_are_less_certain(tmp_path):
    assert [
        finding.certainty
        for finding in findings(with_heads(tmp_path, {"baseline": 0.41, "enc_L0_H0": 0.2}), "share of sums")
    ] == ["question"]


def test_a_baseline_far_from_the_log(tmp_path):
    folder = with_heads(tmp_path, heads(0.5495), problem1__training_log=log(0.8665, test_acc=0.9305))
    (finding,) = findings(folder, "far from the training log")
    assert "0.5495" in finding.says and "0.9305" in finding.says and finding.certainty == "certain"
    assert "far from the training log" not in kinds(
        with_heads(tmp_path / "near", heads(0.97), problem1__training_log=log(0.99))
    )


def test_a_baseline_near_0(tmp_path):
    (finding,) = findings(with_heads(tmp_path, heads(0.0065), problem1__training_log=log()), "baseline near 0")
    assert "0.0065" in finding.says and "1.0" in finding.says


@pytest.mark.parametrize(
    ("decoding", "expected"),
    [("", {"decoding not stated"}), ("teacher-forced", {"teacher forcing"}), ("greedy from BOS", set())],
)
def test_a_high_baseline_asks_how_answers_were_decoded(tmp_path, decoding, expected):
    assert kinds(with_heads(tmp_path, heads(decoding=decoding))) == expected


def test_heads_that_are_missing_are_counted(tmp_path):
    (finding,) = findings(
        with_heads(tmp_path, {"baseline": 0.9, "enc_L0_H0": 0.8, "dec_self_L1_H1": 0.7}), "heads missing"
    )
    assert "2 of 24" in finding.says and "1 (encoder)" in finding.says
    halves = {name: {"baseline": 0.9, "decoding": "greedy"} | {head: 0.8 for head in part} for name, part in
              [("a__one", HEADS[:8]), ("a__two", HEADS[8:])]}  # fmt: skip
    assert "heads missing" not in kinds(write(tmp_path / "halves", **halves))


def test_four_numbers_leave_open_what_was_removed(tmp_path):
    (finding,) = findings(with_heads(tmp_path, {"head_importance": [0.1, 0.2, 0.3, 0.4]}), "heads missing")
    assert "4 of 24" in finding.says and "all layers at once" in finding.means


def drops(**changed):
    return {"baseline": 0.9, "decoding": "greedy", "drops": dict.fromkeys(HEADS, 0.0) | {HEADS[2]: 0.5} | changed}


def test_drops_larger_than_the_baseline_are_impossible(tmp_path):
    assert not kinds(with_heads(tmp_path, drops()))
    (finding,) = findings(with_heads(tmp_path / "more", drops(**{HEADS[1]: 0.95})), "impossible numbers")
    assert "0.95" in finding.says and "0.9" in finding.says


def test_relative_and_scaled_importance_may_be_larger(tmp_path):
    relative = {"baseline": 0.4005, "decoding": "greedy", "relative_drop": dict.fromkeys(HEADS, 0.9)}
    assert not findings(with_heads(tmp_path, relative), "impossible numbers")
    scaled = {"baseline": 0.4005, "decoding": "greedy", "importance": dict.fromkeys(HEADS, 0.2) | {HEADS[0]: 1.0}}
    assert [found.certainty for found in findings(with_heads(tmp_path / "b", scaled), "impossible numbers")] == [
        "likely"
    ]


def test_importance_above_1_is_no_drop_of_an_accuracy(tmp_path):
    (finding,) = findings(with_heads(tmp_path, {"head_importance": [0.001, 0.00007, 4.7, 0.02]}), "loss as importance")
    assert finding.certainty == "likely" and "4.7" in finding.says
    loss = {"baseline": 0.9, "delta_loss": dict.fromkeys(HEADS, 0.3)}
    assert findings(with_heads(tmp_path / "said", loss), "loss as importance")[0].certainty == "certain"


def test_accuracy_and_drop_must_add_up(tmp_path):
    rows = {head: {"accuracy": 0.5005, "drop": 0.4} for head in HEADS}
    assert "numbers that do not add up" not in kinds(with_heads(tmp_path, {"baseline": 0.9005, **rows}))
    rows[HEADS[5]] = {"accuracy": 0.5005, "drop": 0.3}
    assert "numbers that do not add up" in kinds(with_heads(tmp_path / "wrong", {"baseline": 0.9005, **rows}))


def test_a_removal_without_effect_and_one_that_helps(tmp_path):
    assert "nothing removed" in kinds(with_heads(tmp_path, {"baseline": 0.9, **dict.fromkeys(HEADS, 0.9)}))
    assert "better without a head" in kinds(with_heads(tmp_path / "up", heads(0.8, **{HEADS[0]: 0.9})))


def test_a_single_item_and_few_items(tmp_path):
    ones = {"baseline": 1.0, **dict.fromkeys(HEADS, 1.0), HEADS[1]: 0.0}
    assert [finding.certainty for finding in findings(with_heads(tmp_path, ones), "few items")] == ["certain"]
    few = {"baseline": 1.0, "accuracy": {head: number / 16 for number, head in enumerate(HEADS[:16])}}
    assert findings(with_heads(tmp_path / "few", few), "few items")[0].certainty == "question"


def test_a_share_of_no_whole_number_of_items(tmp_path):
    (finding,) = findings(with_heads(tmp_path, heads(**{HEADS[0]: 0.91237})), "no whole number of items")
    assert "0.91237" in finding.says and "1824.74" in finding.says
    stated = heads(**{HEADS[0]: round(1_700 / 1_842, 6)}) | {"items": 1_842, HEADS[3]: round(737 / 1_842, 6)}
    assert not kinds(with_heads(tmp_path / "stated", stated))


def test_a_ranking_must_descend(tmp_path):
    rows = [{"rank": rank, "head": head, "drop": round(0.3 - rank / 100, 3)} for rank, head in enumerate(HEADS, 1)]
    right = {"baseline": 1.0, "decoding": "greedy", "heads": rows}
    assert not kinds(with_heads(tmp_path, right))
    rows[4]["drop"], rows[5]["drop"] = rows[5]["drop"], rows[4]["drop"]
    (finding,) = findings(with_heads(tmp_path / "wrong", right), "ranking out of order")
    assert "does not descend" in finding.says
    for row, loss in zip(rows, range(24, 0, -1), strict=True):  # ranked by another column
        row["loss_increase"] = loss / 10
    assert "ranking out of order" not in kinds(with_heads(tmp_path / "other", right))
    indices = {"head_importance": [0.1, 0.4, 0.3, 0.2], "ranking": [1, 2, 0, 3]}
    assert "ranking out of order" in kinds(with_heads(tmp_path / "indices", indices))


def test_attention_above_1_and_heads_without_attention(tmp_path):
    document = {"encoder": {"avg_to_operator": [1.38, 3.29, 0.5, 0.6], "entropy": [1.9, 1.2, 1.1, 1.0]}}
    assert kinds(write(tmp_path, problem1__head_analysis=document)) == {"attention above 1", "heads missing"}
    aligned = {"decoder_cross": {"0": {f"head_{h}": {"column_alignment": 7e-5} for h in range(4)}}}
    assert "no column alignment" in kinds(write(tmp_path / "cross", problem1__specialization=aligned))


def test_a_vocabulary_without_room_for_bos_and_pad(tmp_path):
    assert "small vocabulary" in kinds(write(tmp_path, problem1__log=log(config={"vocab_size": 12})))
    assert "small vocabulary" not in kinds(write(tmp_path / "right", problem1__log=log(config={"vocab_size": 13})))

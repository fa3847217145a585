"""What accuracies by length give away; those of models that learned give no finding."""

import pytest

from tests.course.audit.folders import CHANCE, INSIDE, SORTED, UNSORTED, findings, kinds, write

LIVE = {"32": 0.7, "64": 0.602, "128": 0.55, "256": 0.532}


def folder_of(folder, **encodings):
    rows = {"sinusoidal": LIVE, "learned": {n: a + 0.02 for n, a in LIVE.items()}, "none": CHANCE} | encodings
    return write(
        folder,
        problem2__results={
            name: INSIDE | row if name != "none" else {"8": 0.5, "12": 0.51, "16": 0.49} | row
            for name, row in rows.items()
        },
    )


def test_results_of_models_that_learned_give_no_finding(tmp_path):
    assert not kinds(folder_of(tmp_path))


def test_class_shares_at_every_length_are_certain(tmp_path):
    (finding,) = findings(folder_of(tmp_path, sinusoidal=SORTED), "class share")
    assert finding.certainty == "certain" and "4 of 4" in finding.says and "answers 'sorted'." in finding.means


def test_one_length_can_be_chance(tmp_path):
    assert "class share" not in kinds(folder_of(tmp_path, sinusoidal=LIVE | {"64": 0.514}))
    (finding,) = findings(folder_of(tmp_path / "end", sinusoidal=LIVE | {"128": 0.482, "256": 0.488}), "class share")
    assert finding.certainty == "likely"
    alone = write(tmp_path / "alone", problem2__results={"sinusoidal": {"64": 0.514}})
    assert [finding.certainty for finding in findings(alone, "class share")] == ["question"]


def test_rounded_class_shares_are_a_question(tmp_path):
    rounded = {"sinusoidal": {"32": 0.45, "64": 0.51, "128": 0.52, "256": 0.51}}
    assert [finding.certainty for finding in findings(write(tmp_path, problem2__results=rounded), "class share")] == [
        "question"
    ]


def test_without_positions_one_answer_is_no_finding(tmp_path):
    assert not kinds(folder_of(tmp_path, none=SORTED))


def test_who_says_that_predictions_are_constant_is_believed(tmp_path):
    rows = [{"length": int(n), "items": 500, "accuracy": a, "constant prediction": True} for n, a in SORTED.items()]
    assert "class share" not in kinds(write(tmp_path, problem2__results={"sinusoidal": rows, "learned": rows}))


def test_halves_belong_to_other_sets(tmp_path):
    (finding,) = findings(folder_of(tmp_path, learned={"32": 0.492, "64": 0.5, "128": 0.5, "256": 0.5}), "class share")
    assert finding.certainty == "likely" and "0.500" in finding.says


def test_two_encodings_with_the_same_or_opposite_numbers(tmp_path):
    assert kinds(folder_of(tmp_path, sinusoidal=LIVE, learned=LIVE)) == {"the same numbers"}
    found = kinds(folder_of(tmp_path / "classes", sinusoidal=SORTED, none=SORTED))
    assert found == {"class share", "the same numbers"}
    opposite = {"8": 0.498, **SORTED}
    mirrored = {"8": 0.502, **UNSORTED}
    folder = write(tmp_path / "opposite", problem2__results={"sinusoidal": opposite, "learned": mirrored})
    assert "opposite numbers" in kinds(folder)


def test_two_that_are_right_everywhere_are_no_copies(tmp_path):
    right = dict.fromkeys(SORTED, 1.0)
    assert "the same numbers" not in kinds(folder_of(tmp_path, rope=right, alibi=right))


def test_plain_positions_that_work_and_order_without_positions_are_questions(tmp_path):
    found = findings(folder_of(tmp_path, sinusoidal=dict.fromkeys(SORTED, 1.0), none=LIVE))
    assert {(finding.kind, finding.certainty) for finding in found} == {
        ("plain positions extrapolate", "question"),
        ("order without positions", "question"),
    }


@pytest.mark.parametrize(("value", "kind"), [(1.2, "impossible numbers"), (0.7013, "no whole number of items")])
def test_numbers_that_cannot_be(tmp_path, value, kind):
    assert kind in kinds(folder_of(tmp_path, learned=LIVE | {"32": value}))


def test_means_over_seeds_need_no_whole_number_of_items(tmp_path):
    means = {n: {"mean": a + 0.0003, "std": 0.01} for n, a in LIVE.items()}
    assert not kinds(folder_of(tmp_path, learned=means))


def test_missing_lengths_and_encodings_are_named(tmp_path):
    folder = write(tmp_path, problem2__results={"sinusoidal": LIVE, "learned": {n: a + 0.02 for n, a in LIVE.items()}})
    found = {finding.kind: finding.says for finding in findings(folder)}
    assert "8, 12 and 16" in found["lengths missing"] and "none" in found["encodings missing"]

"""Missing, damaged and foreign files."""

from course.audit.facts import pair_items
from course.audit.files import deliverable

from tests.course.audit.folders import findings, heads, kinds, log, write


def test_missing_deliverables_are_named_for_each_problem_that_is_there(tmp_path):
    (finding,) = findings(write(tmp_path, problem1__results__training_log=log()), "deliverables missing")
    assert finding.file == "problem 1" and "4 of 5" in finding.says and "training_log" not in finding.says
    folder = write(tmp_path / "other", problem1__ablation=heads())
    assert "problem1/ablation.json holds such numbers" in findings(folder, "deliverables missing")[0].means


def test_a_results_folder_by_itself_will_do(tmp_path):
    folder = write(
        tmp_path, training_log=log(), head_analysis__ablation_results=heads(), head_analysis__head_specialization=[]
    )
    assert "2 of 5" in findings(folder, "deliverables missing")[0].says


def test_what_cannot_be_read_is_named_with_the_place(tmp_path):
    (finding,) = findings(write(tmp_path, problem1__log=log(), problem1__ablation='{"a": [1,,}'), "unreadable")
    assert "line 1, column 10" in finding.says and finding.certainty == "certain"
    (merge,) = findings(
        write(tmp_path / "merge", problem1__ablation='{\n"baseline": 0.9, =======\n"enc_L0_H0": 0.8}'), "damaged"
    )
    assert "line 2" in merge.says and "merge" in merge.means and "2 values" in merge.means


def test_an_empty_folder_and_one_without_results(tmp_path):
    assert kinds(tmp_path) == {"no results"}
    assert kinds(write(tmp_path, a={"b": "c"})) == {"no results"}


def test_an_empty_picture_is_no_deliverable(tmp_path):
    picture = tmp_path / "problem1" / "results" / "head_analysis" / "head_importance.png"
    picture.parent.mkdir(parents=True)
    picture.touch()
    assert findings(tmp_path, "unreadable")[0].says == "This is empty."
    assert deliverable("x/head_analysis/head_importance.png") and not deliverable("x/head.png")


def test_other_sets_than_the_assignments(tmp_path):
    items = pair_items("test")
    assert "other items" not in kinds(write(tmp_path, data__test=items))
    assert "other items" in kinds(write(tmp_path / "b", data__test=items[1:]))

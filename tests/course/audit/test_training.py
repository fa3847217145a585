"""What training curves give away."""

from course.audit import audit

from tests.course.audit.folders import CHANCE, INSIDE, alive, dead, findings, kinds, log, write


def test_trainings_that_learned_give_no_finding(tmp_path):
    assert not kinds(
        write(
            tmp_path,
            problem1__training_log=log(),
            problem2__sinusoidal__training_log=alive(),
            problem2__none__log=dead(),
        )
    )


def test_a_dead_training_is_certain(tmp_path):
    (finding,) = findings(
        write(tmp_path, problem2__sinusoidal__training_log=dead() | {"test_acc": 0.51}), "dead training"
    )
    assert (
        finding.certainty == "certain"
        and "last 6 epochs" in finding.says
        and "0.494" in finding.says
        and "ln 2" in finding.says
    )
    assert "0.5093, the share of unsorted items in the training set" in finding.means and "0.51" in finding.means


def test_without_positions_or_without_a_name_it_is_none_or_a_question(tmp_path):
    folder = write(tmp_path, problem2__none__training_log=dead())
    assert not kinds(folder) and any("chance" in remark for remark in audit(folder).remarks)
    assert [f.certainty for f in findings(write(tmp_path / "x", problem2__log=dead()), "dead training")] == ["question"]


def test_balanced_sets_are_others(tmp_path):
    (finding,) = findings(write(tmp_path, problem2__learned__training_log=dead(0.5, 0.5)), "dead training")
    assert "this is another one" in finding.means


def test_two_equal_epochs_are_no_death(tmp_path):
    curves = alive(0.494) | {"val_acc": [0.8, 0.9, 0.494, 0.7, 0.494]}
    assert "dead training" not in kinds(write(tmp_path, problem2__learned__training_log=curves))


def test_a_training_that_never_learned(tmp_path):
    curves = {"train_loss": [0.70, 0.69, 0.684], "train_acc": [0.5, 0.53, 0.5547], "val_acc": [0.496, 0.5005, 0.4935]}
    (finding,) = findings(write(tmp_path, problem2__learned__training_log=curves), "never learned")
    assert "0.5005" in finding.says and "0.4935" in finding.says
    rising = {"train_loss": [2.3, 2.2, 2.1], "val_acc": [0.0005, 0.001, 0.0045]}
    assert "never learned" in kinds(write(tmp_path / "adder", problem1__training_log=rising))
    half = {"train_loss": [2.3, 1.0, 0.5], "val_acc": [0.0005, 0.5, 0.8665]}
    assert kinds(write(tmp_path / "half", problem1__training_log=half)) == {"not trained to the end"}


def test_test_far_from_validation(tmp_path):
    assert "validation far from test" in kinds(
        write(tmp_path, problem2__learned__training_log=alive() | {"test_acc": 0.6125})
    )
    assert not kinds(write(tmp_path / "near", problem2__learned__training_log=alive() | {"test_acc": 0.9505}))


def test_lengths_far_from_validation(tmp_path):
    rows = {
        "learned": INSIDE | {"32": 0.7, "64": 0.602, "128": 0.55, "256": 0.532},
        "sinusoidal": {"8": 0.5, "12": 0.52, "16": 0.51, **CHANCE},
    }
    folder = write(
        tmp_path, problem2__results=rows, problem2__learned__log=alive(), problem2__sinusoidal__log=alive(0.9)
    )
    (finding,) = findings(folder, "far from the training log")
    assert finding.says.startswith("sinusoidal")


def test_means_over_batches(tmp_path):
    means = [0.0341796875, 0.56103515625, 0.94189453125, 0.99853515625, 1.0]
    (finding,) = findings(
        write(tmp_path, problem1__training_log=log() | {"val_acc": means}), "no whole number of items"
    )
    assert "batches of 64" in finding.says and "the last batch of 64 has 16" in finding.means


def test_impossible_curves_copies_and_nan(tmp_path):
    assert "impossible numbers" in kinds(write(tmp_path / "a", problem1__log=log() | {"train_loss": [1.0, -0.5, 0.1]}))
    assert "impossible numbers" in kinds(write(tmp_path / "b", problem1__log=log() | {"val_acc": [0.5, 1.2, 0.3]}))
    assert "the same training twice" in kinds(
        write(tmp_path / "c", problem2__learned__log=alive(), problem2__sinusoidal__log=alive())
    )
    assert "no number" in kinds(write(tmp_path / "d", problem1__log=log() | {"train_loss": [1.0, float("nan"), 0.1]}))

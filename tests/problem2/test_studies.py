"""What was declared before any classifier of a study had read a long set."""

from dataclasses import asdict

import pandas as pd

from problem2.encodings import ENCODINGS
from problem2.evaluation import DEVELOPMENT_LENGTHS, DEVELOPMENT_SEED, FAR_LENGTHS, LENGTHS, NEW_SEED
from problem2.studies import CHOICE_SEEDS, HARD_STUDY, STUDIES, hard_trainings, reaching, study_seeds, trainings
from problem2.train import ClassifierRecipe


def test_what_chooses_and_what_is_reported_have_nothing_in_common():
    assert not {training.recipe.seed for training in trainings()} & set(CHOICE_SEEDS)
    assert not set(DEVELOPMENT_LENGTHS) & {*LENGTHS, *FAR_LENGTHS} and DEVELOPMENT_SEED != NEW_SEED


def test_seeds_by_which_something_was_chosen_are_left_out():
    assert study_seeds(3) == [0, 1, 2] and not set(study_seeds(30)) & set(CHOICE_SEEDS)
    assert len(study_seeds(30)) == 30
    assert {training.recipe.seed for training in trainings(11)} == {*range(10), 12}


def test_every_encoding_is_studied_with_ten_seeds_plain_and_augmented():
    for study in ("plain", "augmented"):
        assert list(STUDIES[study]) == list(ENCODINGS)
        seeds = pd.DataFrame([{"name": t.name, "seed": t.recipe.seed} for t in trainings() if t.study == study])
        assert (seeds.groupby("name")["seed"].nunique() == 10).all()


def test_a_factor_study_changes_one_factor_at_a_time():
    classifiers = STUDIES["what breaks sinusoidal"]
    base = asdict(ClassifierRecipe(**classifiers["as it is"]))
    for name, options in classifiers.items():
        changed = {key for key, value in asdict(ClassifierRecipe(**options)).items() if base[key] != value}
        factor = {"positions": {"encoding", "options", "steps"}, "pooling": {"pooling"}, "attention": {"window"}}
        factor |= {"data": {"data", "augment", "narrow", "adjacent"}, "as it is": set()}
        assert changed <= factor[name.split(":")[0]], name


def test_the_hard_study_has_every_encoding_with_and_without_scalable_softmax_and_no_window():
    recipes = {name: ClassifierRecipe(**options) for name, options in HARD_STUDY.items()}
    assert {(r.encoding, "ssmax=1" in r.options) for r in recipes.values()} == {
        (name, scalable) for name in ENCODINGS for scalable in (True, False)
    }
    assert len({recipe.key for recipe in recipes.values()}) == len(HARD_STUDY) == 2 * (len(ENCODINGS) + 1)
    assert {(r.window, r.pooling, r.data, r.adjacent) for r in recipes.values()} == {(0, "min", "online", 0.5)}


def test_a_configuration_of_the_hard_study_is_a_name_and_every_field_of_its_recipe():
    first, *_, last = hard_trainings([3, 4], ["shaw", "shaw with values, scalable softmax"])
    assert first == {"name": "shaw", **asdict(ClassifierRecipe(seed=3, **HARD_STUDY["shaw"]))}
    assert (last["name"], last["seed"], last["options"]) == (
        "shaw with values, scalable softmax",
        4,
        "clip=1,ssmax=1,values=1",
    )


def test_what_goes_on_reaches_the_score_at_that_length_in_each_of_its_seeds():
    def row(name, seed, at_96, at_1024=0.5):
        scores = {48: 1.0, 96: at_96, 1_024: at_1024}
        return {"name": name, "seed": seed, "rows": [{"length": n, "balanced accuracy": x} for n, x in scores.items()]}

    hard = pd.DataFrame([row("a", 0, 0.99, 1.0), row("b", 0, 1.0), row("a", 1, 1.0, 0.995), row("b", 1, 0.98)])
    assert reaching(hard, 96, 0.99) == ["a"] == reaching(hard, 1_024, 0.995)
    assert reaching(hard, 96, 0.98) == ["a", "b"] and reaching(hard, 1_024, 0.996) == []

"""The sentences of the appendix say what its tables say."""

import numpy as np
import pandas as pd
import torch

from problem2 import analysis, appendix, comparisons, published
from problem2.certificate import Certificate, Tables
from problem2.encodings import ENCODINGS
from problem2.evaluation import new_group


def test_the_claims_of_the_published_study():
    assert "no $q$ is below 0.05: likely, not shown" in appendix.harmed().data
    assert f"{comparisons.EXTRAPOLATES:.3f}" in appendix.chosen().data and appendix.later_seeds() == 5
    assert appendix.lasting(comparisons.new_sets()).startswith("At 1,024, 6 of 16")
    tables = [comparisons.ahead_of_each_other(study) for study in ("plain", "augmented")]
    beyond = [(table["q"] <= 0.05).sum() for table in tables]
    assert f"{beyond[0]} (plain) and {beyond[1]} (augmented) differ" in appendix.beyond_chance().data
    shares = comparisons.class_table()["descending neighbours, unsorted items"].loc[[32, 64, 128, 256]]
    assert (
        f"{shares.min():.0%} to {shares.max():.0%} of all neighbours"
        in appendix.descending(comparisons.class_table()).data
    )


def test_scalable_softmax_is_told_by_what_it_changes():
    rows = pd.DataFrame(
        [
            {"name": f"shaw, {softmax}", "encoding": "shaw", "softmax": softmax, "seed": seed, "length": 1_024}
            | {"balanced accuracy": score, "constant prediction": False}
            for softmax, score in (("scalable softmax", 1.0), ("softmax", 0.5))
            for seed in (0, 1, 2)
        ]
    )
    text = appendix.scaled(rows).data
    assert "by 0.50: up by more than 0.1 for Shaw (clipped); down for none" in text
    assert "4,096 was asked of none, because none reaches 0.995 at 1,024" in text
    assert appendix.nearest(rows).endswith("is 1.00")


def test_a_refused_model_is_told_with_its_counterexample():
    class Fooled:
        def says_sorted(self, sequence):
            return True

    found = {"bound": 1e-6, "float_difference": 1e-5, "table_difference": 1e-9, "rejected": 0, "cpu_seconds": 1}
    bad = Certificate(3.6, 0.5, hardest=[3, 95, 94], counterexamples=[[3, 95, 94]], **found)
    assert appendix.refused(Fooled(), bad).data == "Certified: False. It says that 3 95 94 is sorted; it is unsorted."


def test_shares_of_descents_are_counted_below_the_diagonal():
    first = np.triu(np.ones((4, 4))) - 1.0
    first[3, :] = 1  # of six descents three are accepted
    tables = Tables(first, np.zeros((4, 4, 4)), first)
    assert "accepts at 50% of all descents" in appendix.shared_work(tables)


def test_encodings_of_distances_are_counted():
    classifiers = {name: published.published_classifier(name) for name in ("none", "learned", "alibi", "sinusoidal")}
    assert appendix.only_distance(classifiers).startswith("2 of 4 encodings see nothing but the distance")


def test_moved_thresholds_are_those_with_order_and_without_accuracy():
    cases = (("learned", 0.8, 0.99), ("rope", 0.5, 0.6), ("causal", 1.0, 1.0))
    rows = [{"name": name, "length": 32, "accuracy": accuracy, "AUROC": order} for name, accuracy, order in cases]
    assert "for learned (0.99): there" in appendix.threshold_moved(pd.DataFrame(rows)).data


def test_shifts_are_told_with_the_mask():
    rows = comparisons.shifted_rows()
    text = appendix.small_shifts(comparisons.own_policies(rows)).data
    assert "with a causal mask NoPE and CoPE" in text and "1.00 behind one (Transformer-XL" in text
    plain = rows.query("study == 'plain' and policy != 'log-length scaling' and name != 'none' and shift < 0.2")
    plain = plain[[not ENCODINGS[name].causal for name in plain["name"]]]
    share = (plain["balanced accuracy"] >= 0.99).mean()
    assert f"less than 0.2, {share:.0%} of the tests of plain classifiers" in appendix.reach_by_shift(rows).data


def test_changes_of_training_are_counted():
    rows = pd.DataFrame(
        [
            {"name": name, "set": "exact", "corruption": "swaps", "length": 256, "seed": seed, "balanced accuracy": x}
            for name, scores in {"as it is": (0.5, 0.5), "window": (1, 1), "max": (1, 0.6)}.items()
            for seed, x in enumerate(scores)
        ]
    )
    assert appendix.cures(rows) == (
        "1 of 2 changes cure it on the assignment's sets; the others leave at most 0.80 at 256"
    )
    hard = rows.assign(set="new", corruption="adjacent").replace({"name": {"as it is": "everything"}})
    assert appendix.costliest(hard) == "Hard test at 256: 0.50 with everything, 0.80 max"


def test_without_positions_order_does_not_matter_and_with_a_mask_it_does():
    models = {name: published.published_classifier(name) for name in ("none", "causal")}
    text = appendix.order_blind(models, new_group("shuffle", 32).tokens[:20]).data
    assert "on 20 sequences of length 32" in text and "at most 0.0000 without" in text and "by more than 1" in text


def test_cost_is_told_by_its_growth():
    table = published.table("cost")
    full = table[table["attention"] == "full attention"].set_index("length")["ms per sequence"]
    assert f"costs {full[1_024] / full[16]:.0f} times as much" in appendix.grows(table)
    assert "it is cheaper from 256 on" in appendix.cost(table).data


def test_buckets_beyond_training_are_counted():
    model = published.published_classifier("t5")
    trained = set(model.positions.bucket(torch.arange(-15, 16)).tolist())
    everything = set(model.positions.bucket(torch.arange(-255, 256)).tolist())
    assert appendix.untrained_buckets(model).startswith(f"{len(everything - trained)} of {len(everything)} buckets")


def test_profiles_are_compared_at_the_same_head_and_difference():
    profile = pd.DataFrame(
        [
            {
                "head": 0,
                "difference": difference,
                "length": length,
                "attention": difference * (1 if length < 256 else -1),
            }
            for difference in (1, 2, 3)
            for length in (64, 256)
        ]
    )
    assert appendix.attends_to_values(profile).endswith("correlate at -1.00")


def test_seeds_of_the_certificate_and_its_measures_are_counted():
    rows = published.table("certificates")
    assert appendix.certified_seeds(rows).data.startswith(f"{len(rows)} of {len(rows)} trainings end certified")
    rows.loc[0, "certified"] = False
    assert appendix.certified_seeds(rows).data.startswith(f"{len(rows) - 1} of {len(rows)}")
    scores = pd.DataFrame({"balanced accuracy": [1.0, 0.97], "items": [10, 1_000], "length": [16, 1_024]})
    assert "at least 0.970 on each of 2 sets, 1,010 items, up to length 1,024" in appendix.measured(scores).data


def test_policies_of_other_encodings_are_told():
    rows = comparisons.shifted_rows().query("study == 'augmented'")
    text = appendix.other_policies(rows).data
    t5 = rows.query("name == 't5' and policy == 'clamp'")["balanced accuracy"]
    assert f"gives {t5.min():.2f} to {t5.max():.2f}: untrained buckets" in text
    assert f"{analysis.far_share(2, 256):.2f} at 256" in appendix.beyond_clip().data

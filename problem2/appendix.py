"""The sentences of the notebook's appendix, and the claims over its figures, made from its tables."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown
from torch import Tensor

from problem1.shared.words import listing, span
from problem2 import comparisons, published
from problem2.analysis import far_share
from problem2.bench import growth
from problem2.certificate import Certificate, Tables
from problem2.dataset import LONG_LENGTHS, LONGEST
from problem2.encodings import ENCODINGS, T5
from problem2.evaluation import LOG_LENGTH
from problem2.model import Classifier
from problem2.plots import label_of, seen_by_attention
from problem2.studies import COMPARED, FARTHEST_FROM, SEEDS
from problem2.words import by_mask

CLEAR = 0.1  # a change of balanced accuracy that is worth a word


# --- the sets, the encodings, every encoding in numbers --------------------------------------------------------------


def descending(facts: pd.DataFrame) -> Markdown:
    """How easy the assignment's sets are; `facts` is `comparisons.class_table`."""
    shares = facts.loc[list(LONG_LENGTHS), "descending neighbours, unsorted items"]
    return Markdown(
        f"In unsorted items of the long sets {span(shares, '.0%')} of all neighbours descend, at every length: they "
        "are easy, and length does not make them easier."
    )


def only_distance(classifiers: Mapping[str, Classifier], length: int = 48) -> str:
    """The claim over what attention sees of positions."""
    found = 0
    for classifier in classifiers.values():
        logits = seen_by_attention(classifier.positions, length)
        diagonals = [np.diagonal(logits, offset) for offset in range(1 - length, length)]
        alike = all(np.isnan(each).all() or np.ptp(each) < 1e-3 for each in diagonals)
        found += alike and np.nanmax(logits) - np.nanmin(logits) > 1e-3
    return f"{found} of {len(classifiers)} encodings see nothing but the distance while all values are alike"


def chosen() -> Markdown:
    return Markdown(
        "Chosen: *augmented*, for accuracy in range, beside the plain items (clipped schemes were tried on plain items "
        "only); clips of 2 for both clipped schemes, the widest that holds; a range of 2,048 for randomized positions "
        "(all three hold; it was set beforehand and leaves room for the longest sequences). What the assignment names "
        f"had no options to choose. In the {later_seeds()} seeds that were trained after the plain recipe had been put "
        f"first, the lowest accuracy of those that extrapolate on it is {later_accuracy():.3f}."
    )


FIRST_SEEDS = 5  # had been trained when the plain recipe was put first


def later() -> pd.DataFrame:
    rows = comparisons.long_sets()
    names = comparisons.extrapolating(rows)["plain"]
    return rows[(rows["study"] == "plain") & rows["name"].isin(names) & (rows["seed"] >= FIRST_SEEDS)]


def later_seeds() -> int:
    return int(later()["seed"].nunique())


def later_accuracy() -> float:
    return float(later()["accuracy"].min())


def harmed() -> Markdown:
    """Does augmentation harm? `effect_of_augmentation` as a sentence."""
    effect = comparisons.effect_of_augmentation()
    below, sure = effect[effect["high"] < 0], effect[effect["q"] <= 0.05]
    shown = f"$q \\leq 0.05$ for {listing(map(label_of, sure.index))}" if len(sure) else "no $q$ is below 0.05"
    return Markdown(
        f"Augmentation helps inside the range. Beyond it {listing(map(label_of, below.index))} lose (interval below "
        f"zero, $p$ = {span(below['p'], '.3f')}), but after correction for {len(effect)} comparisons {shown}: "
        f"{'certain for some' if len(sure) else 'likely, not shown'}."
    )


def threshold_moved(rows: pd.DataFrame) -> Markdown:
    """Where the order of the logits is kept at 32 and accuracy is not; `rows` are of one recipe, on the exact sets."""
    means = rows[rows["length"] == 32].groupby("name")[["accuracy", "AUROC"]].mean()
    moved = means[(means["accuracy"] < 0.95) & (means["AUROC"] > 0.95)].sort_values("AUROC", ascending=False)
    said = listing(f"{label_of(name)} ({row.AUROC:.2f})" for name, row in moved.iterrows())
    return Markdown(
        f"At 32 accuracy is below 0.95 and AUROC above it for {said}: there the order of the logits is kept, and the "
        "threshold has moved. New sets are half sorted, the exact ones not quite, so a constant answer scores "
        "differently on them."
    )


def in_pieces(rows: pd.DataFrame) -> Markdown:
    """What pieces and narrow items say; `rows` are those of both controls."""
    known = rows[rows["name"] != "none"]
    means = known.groupby(["set", "length", "name"])["balanced accuracy"].mean()
    answered = known[(known["set"] == "pieces") & (known["length"] == 256)].groupby("name")["share answered sorted"]
    strict = [name for name in ENCODINGS if name in set(answered.mean()[answered.mean() < 0.1].index)]
    return Markdown(
        f"Pieces of 256 get {span(means['pieces', 256])}. The low scores come from classifiers that call nearly "
        f"everything unsorted: {listing(map(label_of, strict))} answer *sorted* for less than a tenth, although half "
        "are. A piece does not rise from 0 to 99; they behave as if each value had to *fit its place*. Narrow windows "
        f"get {span(means['narrow', 32])} at 50 values and {span(means['narrow', 256])} at 6: fine differences are not "
        "seen, and an adjacent swap is one."
    )


# --- interpolation and distances -------------------------------------------------------------------------------------


def other_policies(rows: pd.DataFrame) -> Markdown:
    """What changes of policy say of RoPE, T5 and Shaw; `rows` are augmented ones with all policies."""

    def of(name: str, policy: str, length: int | None = None) -> pd.Series:
        found = rows[(rows["name"] == name) & (rows["policy"] == policy)]
        return found[found["length"] == length]["balanced accuracy"] if length else found["balanced accuracy"]

    scaled = pd.concat([of(name, LOG_LENGTH) for name in ("sinusoidal", "rope", "t5")])
    return Markdown(
        f"Interpolated, RoPE gets {span(of('rope', 'interpolate'))} over all seeds and lengths, T5, whose whole "
        f"distances cannot be squeezed exactly, {span(of('t5', 'interpolate'))}. Clamping T5's distances, so that no "
        f"untrained bucket is used, gives {span(of('t5', 'clamp'))}: untrained buckets are not what breaks it. "
        f"Log-length scaling gives sinusoidal, RoPE and T5 {span(scaled)}, so dilution alone is not their trouble; for "
        f"Shaw's clipped keys it raises the mean at 256 from {of('shaw', 'as trained', 256).mean():.2f} to "
        f"{of('shaw', 'log-length scaling', 256).mean():.2f}."
    )


def small_shifts(rows: pd.DataFrame) -> Markdown:
    """Balanced accuracy where the shift at 256 is small, and where not; `rows` is `own_policies` of `shifted_rows`."""
    at_256 = rows[(rows["length"] == 256) & (rows["name"] != "none")].groupby("name", sort=False)
    table = at_256[["shift", "balanced accuracy"]].mean()
    near = table["shift"] < 0.2
    masked = np.array([ENCODINGS[name].causal for name in table.index])
    parts = [table[near], table[~near & ~masked], table[~near & masked]]
    close, far, held = (span(part["balanced accuracy"]) for part in parts)
    return Markdown(
        f"Where the shift at 256 is below 0.2 ({by_mask(parts[0].index)}), balanced accuracy is {close}. Where it is "
        f"larger, {far} without a causal mask ({listing(map(label_of, parts[1].index))}) and {held} behind one "
        f"({listing(map(label_of, parts[2].index))}). {len(table)} encodings are few, they differ in more than this "
        "number, and the values at each distance shift with it."
    )


def by_clip(rows: pd.DataFrame) -> str:
    """The claim over balanced accuracy and shift; `rows` is `comparisons.clipped_rows`."""
    at_256 = rows[rows["length"] == 256].groupby("name", sort=False)["balanced accuracy"].mean()
    (near, high), (far, low) = at_256.iloc[[0, -1]].items()
    return f"Clipped at {near}, the bias gets {high:.2f} at 256; clipped at {far}, {low:.2f}"


def reach_by_shift(rows: pd.DataFrame) -> Markdown:
    """How often 0.99 is reached without a causal mask, by shift; `rows` is `comparisons.shifted_rows`."""
    rows = rows[(rows["policy"] != LOG_LENGTH) & (rows["name"] != "none")]
    rows = rows[[not ENCODINGS[name].causal for name in rows["name"]]]
    parts = {"less than 0.2": rows["shift"] < 0.2, "more than 0.5": rows["shift"] > 0.5}
    said = []
    for words, part in parts.items():
        rates = {study: rows[part & (rows["study"] == study)]["balanced accuracy"] >= 0.99 for study in COMPARED}
        said.append(
            f"where the shift is {words}, {rates['plain'].mean():.0%} of the tests of plain classifiers reach 0.99 "
            f"({rates['augmented'].mean():.0%} of the augmented ones)"
        )
    return Markdown(
        f"All encodings without a causal mask, all policies, seeds and lengths: {'; '.join(said)}. This is a "
        "correlation over few schemes, defined after the first results were seen. It does not weigh keys by the "
        "attention that they get; ALiBi, which turns away from far keys, does better than its shift."
    )


def beyond_clip(clips: Sequence[int] = (2, 8)) -> Markdown:
    said = [
        f"clipped at {clip}, {far_share(clip, 16):.2f} of the keys lie beyond the clip at length 16 and "
        f"{far_share(clip, 256):.2f} at 256"
        for clip in clips
    ]
    return Markdown(f"How much of it changes: {'; '.join(said)}.")


def untrained_buckets(model: Classifier) -> str:
    """The claim over T5's biases."""
    encoding = cast(T5, model.positions)
    distance = torch.arange(-255, 256)
    trained = set(encoding.bucket(distance[distance.abs() < encoding.trained]).tolist())
    used = set(encoding.bucket(distance).tolist())
    return f"{len(used - trained)} of {len(used)} buckets hold distances that training never showed"


# --- one factor of the training at a time, the hard test -------------------------------------------------------------


def cures(rows: pd.DataFrame) -> str:
    """The claim over what breaks sinusoidal."""
    final = rows[(rows["set"] == "exact") & (rows["length"] == 256)].groupby("name")["balanced accuracy"]
    cured = final.min() > 0.99
    left = final.mean()[~cured].max()
    found = f"{cured.sum()} of {len(cured) - 1} changes cure it on the assignment's sets"
    return f"{found}; the others leave at most {left:.2f} at 256"


def costliest(rows: pd.DataFrame) -> str:
    """The claim over what the hard test needs."""
    hard = rows[(rows["corruption"] == "adjacent") & (rows["set"] == "new") & (rows["length"] == 256)]
    means = hard.groupby("name", sort=False)["balanced accuracy"].mean()
    worst = means.drop("everything").idxmin()
    return f"Hard test at 256: {means['everything']:.2f} with everything, {means[worst]:.2f} {worst}"


def nearest(rows: pd.DataFrame) -> str:
    """The claim over the hard study."""
    length, _ = FARTHEST_FROM
    best = comparisons.first_seeds(rows, SEEDS["studies"], [length])["mean"].max()
    return f"On single adjacent swaps at {length:,} the best mean with full attention is {best:.2f}"


def scaled(rows: pd.DataFrame) -> Markdown:
    """What scalable softmax changes, and who was asked about the longest sequences; `rows` is the hard study."""
    length, least = FARTHEST_FROM
    three = comparisons.first_seeds(rows, SEEDS["studies"], [length])
    wide = three.pivot(index="name", columns="softmax", values="mean")
    gained = wide["scalable softmax"] - wide["softmax"]
    up, down = (listing(map(label_of, gained.index[sign * gained > CLEAR])) for sign in (1, -1))
    asked = rows[rows["length"] == LONGEST]["name"].unique()
    farthest = f"{LONGEST:,} was asked of {listing(asked)}, because {'they reach' if len(asked) else 'none reaches'}"
    return Markdown(
        f"Scalable softmax changes the mean at {length:,} by {span(gained)}: up by more than {CLEAR} for {up}; down "
        f"for {down}. Dilution is part of the trouble, not all of it. {farthest} {least} at {length:,} in every seed."
    )


# --- the mathematics -------------------------------------------------------------------------------------------------


def position_term(facts: pd.DataFrame) -> str:
    """The claim over the position terms of the heads."""
    beyond = facts["logits explained by distance, length 64"].mean()
    return f"With trained weights the distance explains {beyond:.2f} of the position term at length 64"


def order_blind(models: Mapping[str, Classifier], items: Tensor) -> Markdown:
    """What sorting a sequence changes in the logit, without positions and with a causal mask."""
    ordered, moved = items.sort(dim=1).values, {}
    with torch.inference_mode():
        for name in ("none", "causal"):
            moved[name] = (models[name](items).logits - models[name](ordered).logits).abs().max()
    return Markdown(
        f"Computed on {len(items)} sequences of length {items.shape[1]}: sorting them changes the logit by at most "
        f"{moved['none'].item():.4f} without positions. With a causal mask it changes by "
        f"{'more' if moved['causal'] > 1 else 'less'} than 1."
    )


def attends_to_values(profile: pd.DataFrame, lengths: Sequence[int] = (64, 256)) -> str:
    """The claim over attention by difference."""
    wide = profile.pivot(index=["head", "difference"], columns="length", values="attention")
    alike = np.corrcoef(wide[lengths[0]], wide[lengths[1]])[0, 1]
    return f"NoPE attends by value: the profiles at {lengths[0]} and {lengths[1]} correlate at {alike:.2f}"


# --- the certificate -------------------------------------------------------------------------------------------------


def shared_work(tables: Tables) -> str:
    """The claim over the token logits."""
    falling = np.tril(np.ones_like(tables.first, dtype=bool), -1)
    share = (tables.first[falling] > 0).mean()
    return f"No token does it alone: the first one accepts at {share:.0%} of all descents from it"


def refused(model: Classifier, certificate: Certificate) -> Markdown:
    """The first counterexample of a model that is not certified."""
    wrong = certificate.counterexamples[0]
    said = {True: "sorted", False: "unsorted"}
    return Markdown(
        f"Certified: {certificate.certified}. It says that {' '.join(map(str, wrong))} is "
        f"{said[model.says_sorted(wrong)]}; it is {said[wrong == sorted(wrong)]}."
    )


def seeds_of_certificates() -> pd.DataFrame:
    """Trainings until the proof holds, a row for each seed."""
    table = published.table("certificates").set_index("seed").drop(columns="code")
    return table.astype({"certified": bool}).round({"lowest sorted logit": 3, "highest unsorted logit": 3})


def certified_seeds(rows: pd.DataFrame) -> Markdown:
    return Markdown(
        f"{int(rows['certified'].sum())} of {len(rows)} trainings end certified, after {span(rows['rounds'], '.0f')} "
        f"rounds of counterexamples and {span(rows['cpu seconds'], '.0f')} CPU seconds. Before the first round "
        f"{span(rows['counterexamples before'], ',.0f')} pieces of sequences were wrong, or right by less than the "
        "margin asked for: training alone came close and did not get there."
    )


def measured(rows: pd.DataFrame) -> Markdown:
    """The certified classifier, as one would measure it without a proof."""
    return Markdown(
        f"Measured, as one would without a proof: balanced accuracy at least {rows['balanced accuracy'].min():.3f} on "
        f"each of {len(rows)} sets, {rows['items'].sum():,} items, up to length {rows['length'].max():,}. A set of 500 "
        f"alone would allow an error rate of up to {1 - 0.025 ** (1 / 500):.1%}; the certificate allows none."
    )


# --- cost, seeds -----------------------------------------------------------------------------------------------------


def grows(table: pd.DataFrame) -> str:
    """The claim over the cost."""
    times = growth(table).loc[(slice(None), 1_024), :].droplevel("length")["measured"]
    return (
        f"From 16 to 1,024 full attention costs {times['full attention']:.0f} times as much; with a window of 1 it is "
        f"{times['window 1']:.0f} times"
    )


def cost(table: pd.DataFrame) -> Markdown:
    grown = growth(table).loc[(slice(None), 1_024), :].droplevel("length")
    wide = table.pivot(index="length", columns="attention", values="ms per sequence")
    cheaper = wide.index[wide["window 1"] < wide["full attention"]].min()
    return Markdown(
        f"Counting operations predicts {grown.loc['full attention', 'expected']:.0f} and "
        f"{grown.loc['window 1', 'expected']:.0f}. A window is not free: at length 16 a window of 1 takes "
        f"{wide.loc[16, 'window 1'] / wide.loc[16, 'full attention']:.1f} times as long as full attention, whose fused "
        f"kernel it cannot use; it is cheaper from {cheaper} on."
    )


def lasting(rows: pd.DataFrame) -> str:
    """The claim over the panels; `rows` is `comparisons.new_sets`."""
    far = rows[(rows["length"] == 1_024) & (rows["corruption"] == "swaps")]
    lowest = far.groupby(["name", "study"])["balanced accuracy"].min().unstack()
    held = (lowest >= 0.99).all(axis=1).sum()
    return f"At 1,024, {held} of {len(lowest)} encodings still have 0.99 or more in every seed of both recipes"


def beyond_chance() -> Markdown:
    tables = {study: comparisons.ahead_of_each_other(study) for study in COMPARED}
    counts = listing(f"{(table['q'] <= 0.05).sum()} ({study})" for study, table in tables.items())
    seeds = SEEDS["encodings"]
    return Markdown(
        f"Of {len(tables['plain'])} pairs of encodings {counts} differ beyond chance ($q \\leq 0.05$, corrected for "
        f"all pairs of a recipe). With {seeds} seeds no $p$ can be smaller than {2 / 2**seeds:.3f}. Chance means other "
        "seeds, not other tasks. An encoding that fails for one seed in five passes all of ours with a probability of "
        f"{0.8**seeds:.0%}."
    )

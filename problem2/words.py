"""The notebook's sentences, made from its tables.

`answers` is the table at the top. All else is a sentence, or the claim that a figure has for its title.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown
from torch import Tensor
from torch.nn.functional import cosine_similarity

from problem1.shared.settings import banner
from problem1.shared.statistics import shared_by_all
from problem1.shared.training import Log
from problem1.shared.words import listing, number, span
from problem2 import comparisons, published
from problem2.analysis import evaluated, far_share, live_recipe, rows_before_and_after
from problem2.bench import growth
from problem2.certificate import Certificate, Tables
from problem2.comparisons import INTERPOLATION, losses
from problem2.dataset import LONG_LENGTHS, LONGEST
from problem2.encodings import ENCODINGS, T5
from problem2.evaluation import LOG_LENGTH, evaluate, exact_sets
from problem2.mathematics import invariant_share
from problem2.model import Classifier
from problem2.plots import label_of, seen_by_attention
from problem2.studies import COMPARED, FARTHEST_FROM, SEEDS
from problem2.train import RESULTS

ABSOLUTE = ["sinusoidal", "learned"]  # the assigned encodings that add rows
CLEAR = 0.1  # a change of balanced accuracy that is worth a word


def by_mask(names: Iterable[str]) -> str:
    """The encodings in words: 'with a causal mask NoPE and FIRE; without one Shaw (clipped)'."""
    names = list(names)
    masked = [ENCODINGS[name].label.removesuffix(", causal") for name in names if ENCODINGS[name].causal]
    others = [ENCODINGS[name].label for name in names if not ENCODINGS[name].causal]
    parts = [f"with a causal mask {listing(masked)}"] if masked else []
    return "; ".join(parts + ([f"without one {listing(others)}" if masked else listing(others)] if others else []))


def in_both(rows: pd.DataFrame) -> list[str]:
    """The encodings that extrapolate under both recipes."""
    found = comparisons.extrapolating(rows)
    return [name for name in found["plain"] if name in found["augmented"]]


# --- the table at the top --------------------------------------------------------------------------------------------


def answers() -> Markdown:
    """What the assignment asks, what came out, and where it is shown."""
    rows = [f"| {asked} | {answer} | [{section}](#{anchor}) |" for asked, answer, section, anchor in answer_rows()]
    notice = [f"# {banner()}", ""] if banner() else []
    return Markdown("\n".join([*notice, "| The assignment asks | Answer | Section |", "|---|---|---|", *rows]))


def answer_rows() -> list[tuple[str, str, int, str]]:
    rows, seeds = comparisons.long_sets(), SEEDS["encodings"]
    constant = rows[rows["name"] == "sinusoidal"]["constant prediction"]
    learned = rows.query("name == 'learned' and length == 32 and study == 'augmented'")["accuracy"]
    before, after = rows_before_and_after(live_recipe("learned"), published.published_classifier("learned"))
    unseen, _, values = costs(comparisons.absolute_taken_apart())
    held = in_both(rows)
    hard = evaluated("augmented", set="new", corruption="adjacent", length=256, name=held)["balanced accuracy"]
    return [
        (
            "Train on lengths 8 to 16, test at 32, 64, 128, 256: sinusoidal, learned, no positions",
            f"Sinusoidal does not extrapolate: constant prediction in **{constant.sum()} of {len(constant)}** tests "
            f"(both recipes, {seeds} seeds). Learned gets {learned.mean():.2f} at 32 (augmented), then falls; none is "
            "at chance",
            1,
            "1.-Sinusoidal-positions-fail-at-once,-learned-ones-later",
        ),
        (
            "Draw the encodings and the learned table",
            f"The learned table looks like noise: training moved its 16 rows by only "
            f"{row_moves(before, after)[:16].mean():.2f} of their norm",
            2,
            "2.-What-the-encodings-add",
        ),
        (
            "Why does an encoding extrapolate or not?",
            f"Positions never seen alone cost {unseen} of balanced accuracy at 64, values at other positions than in "
            f"training {values} (sinusoidal and learned, augmented, {seeds} seeds)",
            3,
            "3.-Why:-positions-never-seen,-values-at-other-positions",
        ),
        (
            "Can the same weights be repaired?",
            f"Yes, without training: with positions interpolated into the trained range accuracy is at least "
            f"**{repaired_accuracy():.1%}** at every length (sinusoidal and learned, both recipes, {seeds} seeds)",
            4,
            "4.-Position-interpolation-repairs-the-same-weights",
        ),
        (
            "Which encodings extrapolate?",
            f"Of {rows['name'].nunique()}, under both recipes and in all {seeds} seeds, **{len(held)}**: "
            f"{by_mask(held)}",
            5,
            "5.-A-few-of-sixteen-encodings-extrapolate",
        ),
        (
            "Have these learned what sorted means?",
            f"No: with one adjacent swap their balanced accuracy at 256 is **{hard.mean():.2f}**, chance (augmented, "
            f"{seeds} seeds)",
            6,
            "6.-They-have-not-learned-what-sorted-means",
        ),
        (
            "Can a classifier be right at every length?",
            "One is *proved* right at every length, in exact arithmetic: window 1, min pooling, items of its own, then "
            "counterexamples. It says nothing of the models above, or of full attention",
            7,
            "7.-One-classifier-is-right-at-every-length",
        ),
        (
            "Show failures",
            "Sinusoidal rejects what is longer, a clipped bias overlooks a swap, ALiBi takes falling for rising: three "
            "kinds",
            8,
            "8.-Wrong-answers-are-sure-of-themselves",
        ),
    ]


# --- the assigned encodings ------------------------------------------------------------------------------------------


def at_32(table: pd.DataFrame) -> str:
    """The claim over the curves; `table` is accuracy over seeds."""
    found = table[table["length"] == 32].set_index("name")
    sinusoidal, learned = found.loc["sinusoidal"], found.loc["learned"]
    constant = sinusoidal["constant prediction"] == sinusoidal["seeds"]
    what = ", a constant answer" if constant else ""
    return f"At 32, sinusoidal positions get {sinusoidal['mean']:.2f}{what}; learned ones {learned['mean']:.2f}"


def assigned(rows: pd.DataFrame) -> Markdown:
    """What the three assigned encodings do; `rows` is `comparisons.long_sets`."""
    constant = rows[rows["name"] == "sinusoidal"]["constant prediction"]
    at_32 = rows[rows["length"] == 32].groupby(["name", "study"])
    accuracy, order = at_32["accuracy"].agg(["mean", "min", "max"]), at_32["AUROC"].mean()
    learned = "; ".join(
        f"{study} {accuracy.loc[('learned', study), 'mean']:.2f} "
        f"(seeds: {span(accuracy.loc[('learned', study), ['min', 'max']])})"
        for study in COMPARED
    )
    return Markdown(
        f"- *Sinusoidal* answers the same to everything in **{constant.sum()} of {len(constant)}** tests "
        f"({len(COMPARED)} recipes, {SEEDS['encodings']} seeds, {len(LONG_LENGTHS)} lengths).\n"
        "- *Learned*: all positions past the last trained one share its row, as the assignment says (*clamp*). At 32 "
        f"accuracy is {learned}; further out it falls.\n"
        "- *None* is at chance at every length. It cannot know an order ([Appendix H](#H.-The-mathematics)).\n"
        "- At 32 something is left: AUROC, the chance that a sorted sequence gets a higher logit than an unsorted one, "
        f"is {order['sinusoidal', 'augmented']:.2f} for sinusoidal and {order['learned', 'augmented']:.2f} for learned "
        "(augmented). For learned the order is kept, and the threshold has moved."
    )


def in_range(rows: pd.DataFrame) -> Markdown:
    """How good they are where they were trained; `rows` is the published table of classifiers."""
    rows = rows[rows["name"].isin(ABSOLUTE)]
    accuracy = {study: rows[rows["study"] == study]["test accuracy"] for study in COMPARED}
    return Markdown(
        f"Inside the trained range both work: sinusoidal and learned get {accuracy['plain'].mean():.1%} of the 2,000 "
        f"test items right on average (plain), and with augmentation at least {accuracy['augmented'].min():.2%} in "
        f"every one of {SEEDS['encodings']} seeds."
    )


def validated(log: Log) -> str:
    """The claim over training curves."""
    last = log["rows"][-1]
    return f"After {last['step']:,} steps {last['validation accuracy']:.1%} of the validation items are right"


def live_lines(live: Mapping[str, tuple[Classifier, Log]]) -> str:
    """The live classifiers on the long sets. What another processor may change begins with a dot."""
    long_sets = [part for part in exact_sets() if part.length in LONG_LENGTHS]
    lines = []
    for name, (model, _) in live.items():
        rows = evaluate(model, long_sets)
        shown = ["constant" if row["constant prediction"] else f"{row['accuracy']:.3f}" for row in rows]
        safe = name == "causal" or all(row["constant prediction"] for row in rows)
        lines.append(f"{'' if safe and name != 'none' else '· '}{ENCODINGS[name].label}: {', '.join(shown)}")
    return "\n".join(lines)


def new_positions(length: int, trained: int = 16) -> str:
    """The claim over the pictures of encodings."""
    return f"At length {length} training has reached {trained} positions; the other {length - trained} are new"


# --- the learned table -----------------------------------------------------------------------------------------------


def row_moves(before: Tensor, after: Tensor) -> Tensor:
    """How far each row moved, in units of its norm."""
    return (after - before).norm(dim=1) / before.norm(dim=1)


def moved_rows(before: Tensor, after: Tensor, trained: int) -> str:
    """The claim over the learned table."""
    moved = row_moves(before, after)
    return (
        f"Training moved its {trained} rows by {moved[:trained].mean():.2f} of their norm, the others by "
        f"{moved[trained:].mean():.2f}"
    )


def noise(before: Tensor, after: Tensor, trained: int) -> Markdown:
    """Is the learned table noise?"""
    turned = cosine_similarity(before[trained:], after[trained:]).min().item()
    near = cosine_similarity(after[:-1], after[1:])
    return Markdown(
        f"To the eye the learned table is noise: neighbouring trained rows are as unlike as untrained ones (cosine "
        f"{number(near[: trained - 1].mean().item())} and {number(near[trained:].mean().item())}). But that is the "
        f"random start. What was learned is what was added to {trained} rows; the others only shrank, by weight decay, "
        f"and kept their direction (cosine {turned:.3f})."
    )


# --- why -------------------------------------------------------------------------------------------------------------


def costs(tables: Mapping[str, pd.DataFrame], length: int = 64) -> list[str]:
    """What unseen positions, shared positions and other values cost each by itself, over the tables."""
    alone = list(INTERPOLATION)[1:4]
    return [span([losses(table, length)[change] for table in tables.values()]) for change in alone]


def unseen_and_values(tables: Mapping[str, pd.DataFrame]) -> str:
    """The claim over interpolation taken apart."""
    unseen, _, values = costs(tables)
    return f"At 64, unseen positions alone cost {unseen} of balanced accuracy, other values alone {values}"


def why(tables: Mapping[str, pd.DataFrame], windowed: pd.DataFrame) -> Markdown:
    """What absolute positions fail of, and where that was not found. `tables` is {encoding: balanced accuracy over
    seeds}, `windowed` the same of the sinusoidal classifier with a window of 1."""
    unseen, shared, values = costs(tables)
    seeds = {int(table["seeds"].max()) for table in tables.values()}
    narrow = span([losses(windowed, length)["positions unseen"] for length in (64, 256)])
    return Markdown(
        f"Each alone, at 64 (sinusoidal and learned, augmented, {span(seeds, '.0f')} seeds): unseen positions cost "
        f"**{unseen}** of balanced accuracy, all there is to lose; other values **{values}**; shared positions "
        f"{shared}, on the same items as other values. So these classifiers have learned *which value stands where*. "
        f"All this is for full attention: with attention to the two neighbours only ({windowed['seeds'].max()} seeds), "
        f"unseen positions cost {narrow} at 64 and 256 ([Appendix D](#D.-Interpolation-taken-apart))."
    )


def theory(facts: pd.DataFrame) -> Markdown:
    """How little of the position term depends on the distance; `facts` are the rows of sinusoidal classifiers."""
    share = facts["share of W in the invariant subspace"].mean()
    inside, beyond = (facts[f"logits explained by distance, length {length}"].mean() for length in (16, 64))
    return Markdown(
        f"The trained weights are hardly there: {share:.3f} of the squared norm of $W$ lies in that subspace, "
        f"{chance_share():.3f} would by chance. The distance explains {inside:.2f} of the variance of the position "
        f"term inside the trained range and {beyond:.2f} at length 64 (mean over {len(facts)} seeds, augmented, and "
        "the heads of the first layer)."
    )


def chance_share(size: int = 64) -> float:
    """The share of random matrices that lies in the translation-invariant subspace."""
    generator = torch.Generator().manual_seed(0)
    return float(invariant_share(torch.randn(1_000, size, size, generator=generator)).mean())


# --- what repairs it -------------------------------------------------------------------------------------------------


def repaired_accuracy() -> float:
    """The lowest accuracy of interpolated positions, over both recipes, all seeds and all long sets."""
    parts = [evaluated(study, "interpolate", set="exact", length=LONG_LENGTHS, name=ABSOLUTE) for study in COMPARED]
    return float(pd.concat(parts)["accuracy"].min())


def repaired() -> Markdown:
    far = [
        evaluated(study, "interpolate", set="new", corruption="swaps", length=1_024, name=ABSOLUTE)["accuracy"]
        for study in COMPARED
    ]
    hard = [
        evaluated(study, "interpolate", set="new", corruption="adjacent", length=LONG_LENGTHS, name=ABSOLUTE)
        for study in COMPARED
    ]
    return Markdown(
        f"Interpolated, the same weights get at least **{repaired_accuracy():.1%}** at every length up to 256, "
        f"sinusoidal and learned, both recipes, all {SEEDS['encodings']} seeds. At 1,024 accuracy is "
        f"{span(pd.concat(far), '.3f')} (new sets). What it does not repair is the hard test of "
        "[section 6](#6.-They-have-not-learned-what-sorted-means): balanced accuracy "
        f"{span(pd.concat(hard)['balanced accuracy'])}."
    )


def textbook() -> Markdown:
    """By how much clamped learned positions are ahead of sinusoidal ones."""
    found = pd.DataFrame({study: comparisons.ahead_of("sinusoidal", study).loc["learned"] for study in COMPARED}).T
    said = listing(f"{text} ({study})" for study, text in comparisons.with_brackets(found).items())
    return Markdown(
        "The textbook sentence: sinusoidal positions extrapolate because they are a function of the position, learned "
        "ones fail because their rows are untrained. Here the first half fails in every seed. The second is true of "
        "untrained rows; but the assignment clamps, which avoids them, and then learned positions are *ahead*. Mean "
        f"balanced accuracy over the four lengths, same seeds, with 95 % interval: {said}."
    )


# --- which extrapolate -----------------------------------------------------------------------------------------------


def how_many(rows: pd.DataFrame) -> str:
    """The claim over the lowest accuracy of each seed."""
    return (
        f"{len(in_both(rows))} of {rows['name'].nunique()} encodings get at least {comparisons.EXTRAPOLATES:.1%} at "
        "every length, in every seed of both recipes"
    )


def extrapolate(rows: pd.DataFrame, far: pd.DataFrame) -> Markdown:
    """Who does, who does not; `rows` is `comparisons.long_sets`, `far` is `comparisons.new_sets`."""
    found, both = comparisons.extrapolating(rows), in_both(rows)
    worst = rows.groupby(["name", "study", "seed"])["accuracy"].min()
    reach = (worst >= comparisons.EXTRAPOLATES).groupby("name").any()
    never = [name for name in ENCODINGS if name in reach.index and not reach[name] and name != "none"]
    one = {study: [name for name in found[study] if name not in both] for study in COMPARED}
    some = [name for name in ENCODINGS if reach.get(name, False) and name not in {*found["plain"], *found["augmented"]}]
    at_1024 = far[(far["length"] == 1_024) & (far["corruption"] == "swaps") & far["name"].isin(both)]
    only = "; ".join(f"{study}: {listing(map(label_of, names))}" for study, names in one.items())
    return Markdown(
        f"- *Under both recipes*: {by_mask(both)}. On new sets of length 1,024 they get at least "
        f"{at_1024['accuracy'].min():.3f} in every seed.\n"
        f"- *Under one only*: {only}. *In some seeds*: {listing(map(label_of, some))}.\n"
        f"- *In no seed*: {listing(map(label_of, never))}, and none, which cannot."
    )


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


# --- the hard test ---------------------------------------------------------------------------------------------------


def best_at_256(rows: pd.DataFrame) -> str:
    """The claim over the controls; `rows` are of one recipe."""
    hard = rows[(rows["corruption"] == "adjacent") & (rows["length"] == 256)]
    best = hard.groupby("name")["balanced accuracy"].mean().max()
    return f"With one adjacent swap the best mean balanced accuracy at 256 is {best:.3f}, chance"


def caught(rows: pd.DataFrame) -> pd.Series:
    """The share of unsorted sequences that is called unsorted, from balanced accuracy and the share answered sorted."""
    share = rows["share sorted"]
    return 2 * share * rows["balanced accuracy"] + 1 - share - rows["share answered sorted"]


def overlooked(rows: pd.DataFrame) -> Markdown:
    """What those that extrapolate miss; `rows` are the hard test under both recipes."""
    names = in_both(comparisons.long_sets())
    mine = rows[rows["name"].isin(names) & (rows["length"] == 256)]
    rates = caught(mine).groupby([mine["study"], mine["name"]]).mean()
    at_16 = rows[(rows["length"] == 16) & (rows["study"] == "augmented")].groupby("name")["balanced accuracy"].mean()
    return Markdown(
        f"At 256 the {len(names)} encodings of section 5 have a balanced accuracy of "
        f"**{span(mine.groupby('name')['balanced accuracy'].mean())}** on the hard test (both recipes, "
        f"{SEEDS['encodings']} seeds): they find {span(rates, '.1%')} of the swapped sequences. Even at 16, inside the "
        f"trained range, the best of all is {label_of(at_16.idxmax())} with {at_16.max():.2f}, the median "
        f"{at_16.median():.2f} (augmented). A symmetric bias cannot even tell rising from falling: ALiBi has "
        f"{at_reversed():.2f} on reversed sequences."
    )


def at_reversed() -> float:
    rows = evaluated("augmented", set="new", corruption="reversed", length=16, name="alibi")
    return float(rows["balanced accuracy"].mean())


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


def full_attention(rows: pd.DataFrame) -> Markdown:
    """Can full attention learn it from hard items? `rows` is `comparisons.hard_study`."""
    ten, (length, least) = comparisons.with_all_seeds(rows, SEEDS["encodings"]), FARTHEST_FROM
    at_end = ten[ten["length"] == length].groupby("name", sort=False)["balanced accuracy"]
    reached = list(at_end.min().index[at_end.min() >= least])
    best = at_end.mean().idxmax()
    scores = at_end.get_group(best)
    asked = f"{listing(reached)}" if reached else "no encoding"
    return Markdown(
        f"Trained on hard items with min pooling, full attention does better, but not reliably: at {length:,} {asked} "
        f"reaches {least:.1%} balanced accuracy in every seed. Nearest comes {best}: {(scores >= least).sum()} of "
        f"{len(scores)} seeds, mean {scores.mean():.2f}, lowest {scores.min():.2f} "
        "([Appendix G](#G.-The-hard-test-with-full-attention))."
    )


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


def nearest(rows: pd.DataFrame) -> str:
    """The claim over the hard study."""
    length, _ = FARTHEST_FROM
    best = comparisons.first_seeds(rows, SEEDS["studies"], [length])["mean"].max()
    return f"On single adjacent swaps at {length:,} the best mean with full attention is {best:.2f}"


# --- the certificate -------------------------------------------------------------------------------------------------


def proved(certificate: Certificate) -> Markdown:
    """What the enumeration found."""
    found = "**Certified: right on every sequence over 0..99 of every length from 2 on.**"
    return Markdown(
        f"{found if certificate.certified else '**Not certified.**'} Every sorted sequence gets a logit of at least "
        f"{certificate.lowest_sorted:.2f}, every unsorted one at most {certificate.highest_unsorted:.2f} (for example "
        f"{' '.join(map(str, certificate.hardest))}). {certificate.conclusion} The margin is "
        f"{'more' if certificate.ratio > 1e6 else 'less'} than a million times the bound on rounding."
    )


def refused(model: Classifier, certificate: Certificate) -> Markdown:
    """The first counterexample of a model that is not certified."""
    wrong = certificate.counterexamples[0]
    said = {True: "sorted", False: "unsorted"}
    return Markdown(
        f"Certified: {certificate.certified}. It says that {' '.join(map(str, wrong))} is "
        f"{said[model.says_sorted(wrong)]}; it is {said[wrong == sorted(wrong)]}."
    )


def shared_work(tables: Tables) -> str:
    """The claim over the token logits."""
    falling = np.tril(np.ones_like(tables.first, dtype=bool), -1)
    share = (tables.first[falling] > 0).mean()
    return f"No token does it alone: the first one accepts at {share:.0%} of all descents from it"


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


# --- failures, limits, files -----------------------------------------------------------------------------------------


def sure_of_it(cases: Mapping[str, pd.DataFrame]) -> str:
    """The claim over wrong answers."""
    logits = pd.concat(cases.values())["logit"].abs()
    return f"Wrong, and sure of it: logits from {logits.min():.1f} to {logits.max():.1f} on the wrong side of zero"


def how_sure() -> Markdown:
    seeds = SEEDS["encodings"]
    return Markdown(
        f"- *{seeds} seeds, one task, one small shape.* What holds in all {seeds} seeds holds, with 95 % confidence, "
        f"in at least {shared_by_all(seeds):.0%} of all seeds, for a claim that was fixed beforehand. The encodings of "
        "section 5 were picked from sixteen because they hold, so less is known of them."
    )


def written(files: Iterable[Path]) -> Markdown:
    """Which files of the assignment were written."""
    names = sorted(str(file.relative_to(RESULTS)) for file in files)
    return Markdown(f"Written to `problem2/results`: {listing(f'`{name}`' for name in names)}.")


# --- the appendix ----------------------------------------------------------------------------------------------------


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


def by_clip(rows: pd.DataFrame) -> str:
    """The claim over balanced accuracy and shift; `rows` is `comparisons.clipped_rows`."""
    at_256 = rows[rows["length"] == 256].groupby("name", sort=False)["balanced accuracy"].mean()
    return (
        f"Clipped at {at_256.index[0]} the bias gets {at_256.iloc[0]:.2f} at 256, at {at_256.index[-1]} "
        f"{at_256.iloc[-1]:.2f}: the further, the more shift"
    )


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


def cures(rows: pd.DataFrame) -> str:
    """The claim over what breaks sinusoidal."""
    final = rows[(rows["set"] == "exact") & (rows["length"] == 256)].groupby("name")["balanced accuracy"]
    cured = final.min() > 0.99
    left = final.mean()[~cured].max()
    return f"{cured.sum()} of {len(cured) - 1} changes cure it; the others leave at most {left:.2f} at 256"


def costliest(rows: pd.DataFrame) -> str:
    """The claim over what the hard test needs."""
    hard = rows[(rows["corruption"] == "adjacent") & (rows["set"] == "new") & (rows["length"] == 256)]
    means = hard.groupby("name", sort=False)["balanced accuracy"].mean()
    worst = means.drop("everything").idxmin()
    return f"Hard test at 256: {means['everything']:.2f} with everything, {means[worst]:.2f} {worst}"


def attends_to_values(profile: pd.DataFrame, lengths: Sequence[int] = (64, 256)) -> str:
    """The claim over attention by difference."""
    wide = profile.pivot(index=["head", "difference"], columns="length", values="attention")
    alike = np.corrcoef(wide[lengths[0]], wide[lengths[1]])[0, 1]
    return f"NoPE attends by value: the profiles at {lengths[0]} and {lengths[1]} correlate at {alike:.2f}"


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


def seeds_of_certificates() -> pd.DataFrame:
    """Trainings until the proof holds, a row for each seed."""
    table = published.table("certificates").set_index("seed").drop(columns="code")
    return table.astype({"certified": bool}).round({"lowest sorted logit": 3, "highest unsorted logit": 3})

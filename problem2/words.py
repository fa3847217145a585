"""The notebook's sentences, made from its tables.

`answers` is the table at the top. All else is a sentence, or the claim that a figure has for its title. Those of the
appendix are in `appendix`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

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
from problem2.analysis import evaluated, live_recipe, rows_before_and_after
from problem2.certificate import Certificate
from problem2.comparisons import INTERPOLATION, losses
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ENCODINGS
from problem2.evaluation import evaluate, exact_sets
from problem2.mathematics import invariant_share
from problem2.model import Classifier
from problem2.plots import label_of
from problem2.studies import COMPARED, FARTHEST_FROM, SEEDS
from problem2.train import RESULTS

ABSOLUTE = ["sinusoidal", "learned"]  # the assigned encodings that add rows


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
            f"(both recipes, {seeds} seeds). Learned gets {learned.mean():.2f} at 32 (augmented), then falls; no "
            "positions: chance",
            1,
            "1.-Sinusoidal-positions-fail-at-once,-learned-ones-later",
        ),
        (
            "Draw the encodings and the learned table",
            f"The learned table looks like noise: training moved its 16 rows by only "
            f"{row_moves(before, after)[:16].mean():.2f} of their norm",
            2,
            "2.-Sinusoidal-rows-never-end,-trained-rows-end-at-position-15",
        ),
        (
            "Why does an encoding extrapolate or not?",
            f"Each alone breaks it: positions never seen cost {unseen} of balanced accuracy at 64, values at other "
            f"positions than in training {values} (sinusoidal and learned, augmented, {seeds} seeds)",
            3,
            "3.-Why:-positions-never-seen,-values-at-other-positions",
        ),
        (
            "Can the same weights be repaired?",
            f"Yes: with positions interpolated into the trained range at test time accuracy is at least "
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
            "One is *proved* right on every sequence over 0..99 of every length from 2 on, in exact arithmetic. It has "
            "window 1 and min pooling, was trained on items of its own, then on counterexamples, and says nothing of "
            "the models above, or of full attention",
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
        f"- *Under both recipes*: {by_mask(both)}. On new sets of length 1,024 the lowest "
        f"accuracy of any seed is {at_1024['accuracy'].min():.3f}.\n"
        f"- *Under one only*: {only}. *In some seeds*: {listing(map(label_of, some))}.\n"
        f"- *In no seed*: {listing(map(label_of, never))}, and none, which cannot."
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
        f"{at_reversed():.2f} on reversed sequences of length 16."
    )


def at_reversed() -> float:
    rows = evaluated("augmented", set="new", corruption="reversed", length=16, name="alibi")
    return float(rows["balanced accuracy"].mean())


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

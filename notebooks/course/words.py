"""The sentences of the notebook on the reports, made from its tables.

`answers` is the table at the top, `verdicts` are those on every claim. All else is a sentence, or the claim that a
figure has for its title.
"""

from collections.abc import Iterable

import pandas as pd
from IPython.display import Markdown

from course import claims, reports
from problem1.dataset import SPLIT_SIZES, split_pairs
from problem1.shared.settings import banner
from problem1.shared.words import listing, span
from problem2 import published as published2
from problem2.analysis import evaluated
from problem2.dataset import LONG_LENGTHS, LONG_SIZE

AS_HANDED_IN = "as handed in"
UNIFORM_PLUS, UNIFORM_NEAR = 1 / 7, 3 / 7  # seven tokens, attended to alike


def percent(shares: Iterable[float], form: str) -> str:
    """`span` as the reports print: '54.1 % to 55.0 %'."""
    return span(shares, form).replace("%", " %")


# --- the table at the top --------------------------------------------------------------------------------------------


def answers() -> Markdown:
    """What the reports say, what it is, and where that is shown."""
    rows = [
        f"| {said} | {answer} | [{section[0]}](#{section.replace(' ', '-')}) |"
        for said, answer, section in answer_rows()
    ]
    notice = [f"# {banner()}", ""] if banner() else []
    return Markdown("\n".join([*notice, "| The reports say | What it is | Section |", "|---|---|---|", *rows]))


def answer_rows() -> list[tuple[str, str, str]]:
    """(what is said, the answer, the heading of the section)"""
    below = reports.sums_below_1000(split_pairs("test"))
    shares = reports.length_numbers().query("report != 'B' and verdict == 'equal'")
    facts, deaths = reports.flawed_facts(), reports.deaths()
    handed_in = deaths[deaths.index.str.startswith(AS_HANDED_IN)]
    one_sum = reports.numbers_by_adder().set_index("variant").loc["published adder"]
    first = one_sum.sort_values("first on").iloc[-1]
    counts = reports.every_number()["verdict"].value_counts()
    heads = claims.importance_of_flawed()
    return [
        (
            "A, D: the adder gets 41.20 % and 34.9 %",
            f"The share of test sums below 1000, **{below.sum()} of {len(below):,}**, and of those without a further 0",
            "1. Most of these accuracies need no model",
        ),
        (
            "A, D: accuracies of three encodings beyond training",
            f"All **{len(shares)}** are class shares: every input got the same answer",
            "1. Most of these accuracies need no model",
        ),
        (
            "D: 99.85 % by teacher forcing, 34.9 % alone: exposure bias",
            f"Given the true first digit, both scores differ by **{gap(facts):.4f}** in all {len(facts)} adders",
            "2. Nobody asks the decoder for its first digit",
        ),
        (
            "C: the adder gets 54.95 %",
            "The decoder starts with the most common digit: the share of sums that begin so, times C's validation "
            f"accuracy, is **{percent([reports.as_c_decodes()], '.1%')}**",
            "2. Nobody asks the decoder for its first digit",
        ),
        (
            "A, D: each encoding gives one answer to every long sequence",
            f"Dead trainings: as handed in, **{handed_in['at ln 2'].sum()} of {handed_in['seeds'].sum()}** of ours end "
            "at the loss of guessing",
            "3. These trainings were dead",
        ),
        (
            "B: sinusoidal is right at every length",
            f"Its positions are stretched: **{flawless()} of 10** of ours are right on all {4 * LONG_SIZE:,} items",
            "4. Stretched positions pass the test and learn little",
        ),
        (
            "B: head 2 matters most, 3 comes second",
            f"By one sum. In our adder head {first['number']:.0f} comes first on "
            f"**{percent([first['first on']], '.0%')}** of the sums",
            "5. One sum is no ranking",
        ),
        (
            "A, D: 58 % and 71 % of the heads can be pruned",
            f"One at a time. All of these at once leave at most **{heads['without all of them'].max():.2f}** in ours",
            "D. Which heads matter",
        ),
        (
            "A: self-attention matters most. C: the encoder. B: one cross head",
            f"An accident: the first head is {claims.counted_kinds(heads['first head'])} of **{len(heads)}** adders",
            "D. Which heads matter",
        ),
        (
            "All numbers that we list",
            f"Of **{counts.sum()}**, {verdicts_counted(counts)}",
            "A. Every printed number",
        ),
    ]


def gap(facts: pd.DataFrame) -> float:
    """The largest difference between teacher forcing and free-running decoding from the true first digit."""
    return (facts["free-running from the true one"] - facts["teacher-forced answers"]).abs().max()


def flawless() -> int:
    """How many classifiers with stretched positions are right on every item of the four long sets."""
    rows = evaluated("plain", name="stretched", set="exact", length=LONG_LENGTHS)
    return int((rows.groupby("seed")["accuracy"].min() == 1).sum())


def verdicts_counted(counts: pd.Series) -> str:
    """'36 are equal to a share, 20 inside our spread, ...'"""
    words = {
        reports.EQUAL: "equal a share of the data",
        reports.INSIDE: "lie inside the spread of our trainings",
        reports.SHOWN: "follow from a mechanism",
        reports.OPEN: "stay open",
    }
    return listing(f"{counts[verdict]} {text}" for verdict, text in words.items() if counts.get(verdict))


# --- shares of the data ----------------------------------------------------------------------------------------------


def derived(table: pd.DataFrame) -> Markdown:
    """Of `reports.adder_derivations`."""
    equal = table[table["verdict"] == "equal"]
    named = listing(f"{row.reported} ({row.report})" for row in equal.itertuples())
    return Markdown(f"{named} are equal to the last digit.")


def constant(table: pd.DataFrame) -> Markdown:
    """Of `reports.length_derivations`."""
    equal = table[table["equal to"] != "neither"].groupby("report").size()
    cells = table.groupby("report").size()
    return Markdown(
        f"Class shares: {equal['A']} of {cells['A']} numbers of A, {equal['D']} of {cells['D']} of D, {equal['B']} of "
        f"{cells['B']} of B (perhaps by chance)."
    )


# --- the adder's mistakes --------------------------------------------------------------------------------------------


def five_scores(scores: pd.DataFrame) -> Markdown:
    """Of `reports.five_scores` of an adder without BOS."""
    right = scores["answers right"]
    return Markdown(
        f"Teacher forcing says {right.iloc[0]:.2f}. Started with 0, the same weights get "
        f"{right['free-running from 0']:.2f}. Nothing tells it how to begin."
    )


def begun_with_zero(runs: pd.DataFrame) -> str:
    """The claim over the figure of five scores."""
    return (
        f"Without BOS, decoding from 0 gets at most {runs['free-running from 0'].max():.3f}, however well a model adds"
    )


def as_good_as_c(runs: pd.DataFrame) -> Markdown:
    """Of `reports.flawed_facts`: what C's decoding gives when training stops where C's did."""
    stopped = runs.loc["no BOS, as good as C"]
    column = "free-running from most common of 64"
    low, high = reports.near(reports.as_c_decodes(), reports.share_begun_right())
    return Markdown(
        f"C starts with its batch's most common true digit. That share of sums, times C's validation accuracy, is "
        f"{percent([reports.as_c_decodes()], '.1%')} (95 %: {percent([low, high], '.1%')}); C printed 54.95 %. Our "
        f"trainings, stopped once they passed that accuracy, got {percent(stopped['teacher-forced answers'], '.1%')} "
        f"right and **{percent(stopped[column], '.2%')}** as C decodes ([Appendix C](#C.-How-the-flawed-adders-were-"
        "trained))."
    )


def no_exposure_bias(runs: pd.DataFrame) -> Markdown:
    return Markdown(
        "D calls the gap exposure bias. But up to its first error greedy decoding reads what teacher forcing reads: an "
        f"answer is right in both or in none. Given the first digit, the gap is {gap(runs):.4f} in all {len(runs)} "
        "adders. The rest of D's gap are the zeros that its score skips."
    )


# --- dead trainings --------------------------------------------------------------------------------------------------


def stays_dead(deaths: pd.DataFrame) -> str:
    """The claim over the losses."""
    handed_in = deaths[deaths.index.str.startswith(AS_HANDED_IN)]
    return f"As handed in, {handed_in['at ln 2'].sum()} of {handed_in['seeds'].sum()} trainings stay at ln 2"


def died(deaths: pd.DataFrame) -> Markdown:
    """How many trainings with A's set-up died, and what that looks like."""
    runs = reports.dead_runs()
    handed_in = runs[runs["variant"].str.startswith(AS_HANDED_IN)]
    dead = handed_in[handed_in["at ln 2"]]
    constant = handed_in[handed_in["test constant prediction"]]
    by_encoding = deaths[deaths.index.str.startswith(AS_HANDED_IN)]
    counts = listing(f"{name.split(', ')[1]} {row['at ln 2']}" for name, row in by_encoding.iterrows())
    return Markdown(
        f"**{len(dead)} of {len(handed_in)}** end at ln 2 ({counts} of three): loss "
        f"{span(dead['training loss'], '.3f')}, training accuracy {span(dead['training accuracy'], '.3f')} (A: the "
        f"larger class, {reports.larger_class():.4f}). {len(constant)} give one answer to all test items: "
        f"{reports.answers_of(constant['test share answered sorted'])}. Without positions nothing else was to be "
        "expected: order cannot be seen."
    )


def revived(deaths: pd.DataFrame) -> Markdown:
    """Which single change brings the sinusoidal training to life."""
    changed = deaths[~deaths.index.str.startswith(AS_HANDED_IN)]
    changed = changed[~changed.index.str.contains(", batches")]  # the last is two changes
    named = listing(
        f"{name.removesuffix(', sinusoidal')}: {row['seeds'] - row['at ln 2']}" for name, row in changed.iterrows()
    )
    return Markdown(f"How many of three sinusoidal trainings one change revives: {named}.")


def earlier(deaths: pd.DataFrame) -> Markdown:
    """Why our homework trainings of the classifier mostly lived."""
    tests = reports.homework_in_range().to_numpy().ravel()
    live = deaths["seeds"] - deaths["at ln 2"]
    first, second = "embedding of deviation 1", "batches of one length"
    return Markdown(
        f"Why did our earlier homework trainings mostly live ({(tests > 0.9).sum()} of {len(tests)} above 0.9; "
        f"[Appendix H](#H.-The-dead-trainings))? The sinusoidal ones had "
        f"embeddings of deviation 1, which alone revive {live[f'{first}, sinusoidal']} of three, and batches of one "
        f"length, which revive {live[f'{second}, sinusoidal']}; both together {live[f'{first}, {second}, sinusoidal']}."
    )


def which_class() -> Markdown:
    """Why A and D have one class for two encodings, and the other for the third."""
    runs = reports.dead_runs()
    constant = runs[runs["test constant prediction"]]
    return Markdown(
        "Which class is chance. The recipe keeps the epoch of the highest validation accuracy, and there *sorted* is "
        "the larger class: one epoch that says *sorted* is enough, and a training that never does keeps *unsorted*. "
        f"In our {len(constant)} trainings with one answer it is "
        f"{reports.answers_of(constant['test share answered sorted'])}. A and D print *sorted* for two encodings and "
        "*unsorted* for the learned one."
    )


# --- B ---------------------------------------------------------------------------------------------------------------


def stretched_far() -> Markdown:
    rows = evaluated("plain", name="stretched", set="new", corruption="adjacent", length=LONG_LENGTHS)
    return Markdown(
        f"{flawless()} of 10 seeds are right on all {4 * LONG_SIZE:,} items. With one adjacent swap in half of the "
        f"items they answer *sorted* to {percent([rows['share answered sorted'].mean()], '.1%')} of all."
    )


def one_sum(numbers: pd.DataFrame) -> Markdown:
    """Of `reports.numbers_by_adder`."""
    ours = numbers[numbers["variant"] == "published adder"].set_index("number")
    adders = [part.set_index("number") for _, part in numbers.groupby(["variant", "seed"], sort=False)]
    orders = [[list(part[by].sort_values().index) for by in ("on the first sum", "mean")] for part in adders]
    return Markdown(
        f"The four numbers have {ours['rankings'].iloc[0]} different rankings on {SPLIT_SIZES['test']:,} sums in our "
        f"right adder; {percent([ours['ranked as by the mean'].iloc[0]], '.0%')} of the sums rank them as the average "
        f"does. The first test sum has the same first head as the average in "
        f"{sum(one[-1] == mean[-1] for one, mean in orders)} of {len(orders)} adders, and the same ranking in "
        f"{sum(one == mean for one, mean in orders)}."
    )


# --- every number ----------------------------------------------------------------------------------------------------


def open_numbers() -> Markdown:
    """Which numbers stay open, and why."""
    numbers = reports.every_number()
    left = numbers[numbers["verdict"] == reports.OPEN]
    items = SPLIT_SIZES["test"]
    named = [
        f"{row.printed} ({row.report}, {row.which}) is {round(row.missed * items)} of {items:,} sums away from "
        f"{row.beside}"
        if row.what != "prunable"
        else f"{row.printed} ({row.report}, {row.which} prunable) lies beside {row.beside}"
        for row in left.rename(columns={"missed by": "missed"}).itertuples()
    ]
    return Markdown(
        f"**{len(left)} stay open.** {'; '.join(named)}. How much one head matters, and how many can go, is an "
        "accident of seed and training; three seeds of each of ours do not reach these values."
        if len(left)
        else "No number stays open."
    )


def how_wide() -> Markdown:
    """What it is worth to lie inside a spread."""
    numbers = reports.adder_numbers()
    wide = numbers[numbers["what"].eq("accuracy without") & numbers["verdict"].eq(reports.INSIDE)]
    return Markdown(
        f"To lie inside a spread is little where the spread is wide. {len(wide)} numbers are what is left without a "
        "named head (C, D). Heads have no numbers of their own, so we compare them with ours without *any* head (C: "
        "any encoder head), which reach from nearly nothing to nearly all."
    )


def whole_items() -> Markdown:
    counts = reports.item_counts()
    return Markdown(
        f"Could they be shares of the test set at all? A share of 2,000 items is a whole number of them: "
        f"{counts['possible'].sum()} of {len(counts)} are. So nothing speaks against their having been measured."
    )


def largest_drop() -> str:
    """The claim over the ranked drops."""
    first = reports.similar("A", "drop without", 0)
    return f"The most important head costs {span(first, '.2f')} in our adders without BOS"


# --- every claim -----------------------------------------------------------------------------------------------------


def verdicts() -> dict[str, tuple[str, str]]:
    """{claim: (verdict, evidence)}"""
    return {**verdicts_on_heads(), **verdicts_on_carrying(), **verdicts_on_maps(), **verdicts_on_positions()}


def listed_verdicts() -> Markdown:
    """All claims, who makes them, the verdict, and the evidence."""
    found = verdicts()
    lines = [
        f"{place}. *{claim[0].upper() + claim[1:]}* ({who}). **{found[key][0].capitalize()}:** {found[key][1]}."
        for place, (key, (who, claim)) in enumerate(claims.CLAIMS.items(), 1)
    ]
    return Markdown("\n".join(lines))


def verdicts_on_heads() -> dict[str, tuple[str, str]]:
    facts, ours, theirs = reports.flawed_facts(), claims.importance_by_seed(), claims.importance_of_flawed()
    table, difference = claims.renumbered()
    moved = table.idxmin().str.removeprefix("without ")
    return {
        "exposure bias": (
            "false",
            f"handed the true first digit, greedy decoding gets what teacher forcing gets in all {len(facts)} flawed "
            "adders "
            f"(largest difference {gap(facts):.4f})",
        ),
        "pruning": (
            "true singly, not jointly",
            f"{span(ours['singly prunable'], '.0f')} of 24 heads of our ten adders can go one at a time; all of those "
            "at once "
            f"leave {span(ours['accuracy without all of them'])}; chosen greedily, "
            f"{span(ours['jointly prunable'], '.0f')} can "
            f"go together; in the {len(theirs)} flawed adders {span(theirs['without all of them'])} is left",
        ),
        "which kind": (
            "an accident of seed and method",
            f"the first head of our ten adders is {claims.counted_kinds(ours['first by zero ablation'])} by zero "
            "ablation, "
            f"{claims.counted_kinds(ours['first by mean ablation'])} by mean ablation; in the {len(theirs)} flawed "
            "adders it is "
            f"{claims.counted_kinds(theirs['first head'])}",
        ),
        "numbered heads": (
            "no finding",
            f"renumbering the heads of a layer changes {'no answer' if difference < 1e-3 else 'answers'} and "
            f"moves the first place from {moved['as trained']} to {moved['renumbered']}; in ten seeds the first cross "
            "head is "
            f"{listing(claims.first_cross_heads())}",
        ),
    }


def verdicts_on_carrying() -> dict[str, tuple[str, str]]:
    own = claims.flip_rates()["all Decoder Self"]
    passing = own.index[own > 0.5]
    carriers, down = claims.carriers(), claims.looking_down()
    cross = carriers[carriers.index.get_level_values("head").str.contains("Cross")]
    lower = (cross["next lower column"] > cross["same column"]).sum()
    return {
        "self carries": (
            "false as a rule",
            f"patching all self-attention heads flips at most {own.drop(passing).max():.3f} of the digits in "
            f"{len(own) - len(passing)} of {len(own)} adders; in seeds {listing(map(str, passing))} they pass on a "
            "carry that "
            "the position of the thousands has fetched from the source",
        ),
        "lower inputs carry": (
            "right of cross heads, not the whole story",
            f"{lower} of the {len(cross)} cross heads that carry attend more to the next lower column than to their "
            "own, and "
            f"{(down['carries'] > 0.5).sum()} of the {len(down)} that attend mostly there carry; "
            f"{len(carriers) - len(cross)} "
            f"of the {len(carriers)} carriers are other heads",
        ),
    }


def verdicts_on_maps() -> dict[str, tuple[str, str]]:
    both = claims.attention_of_all()
    second = both[(both["layer"] == "L1") & both["on the +"].notna()]
    many = (second["on the +"] > 2 * UNIFORM_PLUS).sum()
    first = both[both["head"].str.startswith("Encoder L0")]["most common pattern"]
    heads = claims.published_tables()["heads"]
    plus = heads[heads["+"] > 2 * UNIFORM_PLUS]
    read, written = (
        reports.flawed_heads()[f"on the column of the digit {which}"].dropna() for which in ("read", "written")
    )
    return {
        "no columns": (
            "an artefact of the measure",
            f"the same heads give {read.mean():.2f} of their attention to the column of the digit they read and "
            f"{written.mean():.2f} to that of the digit they write",
        ),
        "plus": (
            "true of few heads",
            f"{many} of {len(second)} second-layer heads give the + more than twice what an even spread would; to it "
            "and its "
            f"neighbours they give {second['on the + and its neighbours'].mean():.2f} on average (even: "
            f"{UNIFORM_NEAR:.2f})",
        ),
        "same patterns": (
            "depends on what counts as the same",
            f"by the strongest key of every query, {span(first)} of the samples show a first-layer head's most common "
            "pattern",
        ),
        "subtraction": (
            "cannot be tested here",
            f"the + stands in the same place in every sum; the {len(plus)} heads of our ten adders that attend to it "
            "most cost "
            f"{span(plus['mean drop'], '.3f')} when replaced by their mean",
        ),
    }


def verdicts_on_positions() -> dict[str, tuple[str, str]]:
    far, learned, distance = claims.far_accuracies(), claims.learned_at(32), claims.explained_by_distance()
    moved, poolings, hard = claims.moved_rows(), claims.poolings(), claims.hard_without_min()
    frozen = published2.table("flawed").query("variant == 'frozen, learned'")["test accuracy"]
    trained = published2.table("classifiers").query("study == 'plain' and name == 'learned'")["test accuracy"]
    none = evaluated("plain", set="exact", length=LONG_LENGTHS, name="none")["balanced accuracy"]
    others = poolings[poolings["name"] != "as it is"]["balanced accuracy"]
    plain = claims.plain_sinusoidal()
    return {
        "function of position": (
            "false of sinusoidal, half true of learned",
            f"plain sinusoidal is constant in {far.loc['sinusoidal', 'constant']} of {far.loc['sinusoidal', 'of']} "
            "evaluations; "
            f"learned with untrained rows does fail at once ({learned['untrained'].mean():.2f} at 32), but the "
            "assignment clamps, "
            f"which avoids the premise ({learned['clamp'].mean():.2f} at 32); interpolated, the weights of both get "
            "at least "
            f"{claims.interpolated().min():.3f}",
        ),
        "function of distance": (
            "true without weights, false with them",
            f"of the variance the distance explains {distance['without weights']:.2f} without weights, "
            f"{distance['with random weights']:.2f} with random ones, "
            f"{distance['in trained classifiers, length 16']:.2f} in "
            f"trained classifiers at length 16 and {distance['in trained classifiers, length 256']:.2f} at 256",
        ),
        "absolute and relative": (
            "there are counterexamples to both",
            f"randomized sinusoidal positions are absolute and get at least {far.loc['randomized', 'lowest']:.3f} in "
            "ten seeds; "
            f"T5 buckets are relative and get at most {far.loc['t5', 'highest']:.3f}",
        ),
        "noise": (
            "they look like noise, but something was learned",
            f"the 16 trained rows moved by {moved[:16].mean():.2f} of their length, the others by "
            f"{moved[16:].mean():.3f}; and "
            f"little had to be learned: a table that never trains gets {span(frozen, '.3f')} in range, a trained one "
            f"{span(trained, '.3f')}",
        ),
        "permutations": (
            "true",
            "without positions every part treats all tokens alike, and the mean does not know their order; measured, "
            "reordering changes logits by "
            f"{'nothing but rounding' if claims.changed_by_order() < 1e-4 else 'something'}, "
            f"and balanced accuracy beyond training is {span(none)}",
        ),
        "pooling": (
            "false for length, true for the hard test",
            f"with other poolings sinusoidal classifiers still get {span(others)} (balanced) beyond training; but on "
            "one adjacent "
            f"swap at 256 the classifier that masters it falls from {hard.iloc[0]:.2f} to {hard.iloc[1]:.2f} with "
            "mean pooling",
        ),
        "perfect sinusoidal": (
            "true of stretched positions, not of the plain encoding",
            f"{plain['classifiers'].max()} classifiers with plain sinusoidal positions get at most "
            f"{plain['max'].max():.3f} "
            f"on any long set; of ten with stretched ones {flawless()} are right on every item",
        ),
    }

"""The notebook's sentences, made from its tables.

`answers` is the table at the top. All else is a sentence, or the claim that a figure has for its title.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import Markdown

from problem1 import published
from problem1.ablation import TOLERANCE
from problem1.dataset import carryless_digits, encode_pairs, pair_count
from problem1.every_pair import Check
from problem1.model import Adder
from problem1.program.tables import Program
from problem1.seeds import published_tables, seed_summary
from problem1.shared.settings import banner
from problem1.shared.statistics import mean_interval, pair_interval
from problem1.shared.training import Log
from problem1.shared.words import listing, span
from problem1.train import RESULTS

CRITICAL = 0.05  # a drop by zero ablation and by mean ablation
CARRIES = 0.5  # a flip rate; of a head that says which digit is due, a drop
CARRY_CLAIMS = ("says what the next lower column adds up to", "says what two lower columns add up to")


def by_site(heads: Iterable[str]) -> str:
    """'Encoder L0 H0, L1 H2 H3; Decoder Self L0 H1': many heads in few words."""
    kinds = dict[str, dict[str, list[str]]]()
    for head in heads:
        kind, layer, number = head.rsplit(" ", 2)
        kinds.setdefault(kind, {}).setdefault(layer, []).append(number)
    sites = {
        kind: ", ".join(" ".join([layer, *sorted(numbers)]) for layer, numbers in sorted(layers.items()))
        for kind, layers in kinds.items()
    }
    return "; ".join(f"{kind} {text}" for kind, text in sites.items()) or "none"


# --- the table at the top --------------------------------------------------------------------------------------------


def answers() -> Markdown:
    """What the assignment asks, what came out, and where it is shown."""
    rows = [f"| {asked} | {answer} | [{section}](#{anchor}) |" for asked, answer, section, anchor in answer_rows()]
    notice = [f"# {banner()}", ""] if banner() else []
    return Markdown("\n".join([*notice, "| The assignment asks | Answer | Section |", "|---|---|---|", *rows]))


def answer_rows() -> list[tuple[str, str, int, str]]:
    tables = published_tables()
    seed = published.published_log()["recipe"]["seed"]
    ours = tables["seeds"].query("recipe == 'published'")
    heads = tables["heads"].query("seed == @seed").sort_values("zero drop", ascending=False).set_index("head")
    summary = seed_summary(tables)
    mine, programs = summary.loc[seed], published.table("programs").set_index("seed")
    program = programs.loc[seed]
    carriers = heads.index[heads["carries"] > CARRIES]
    paired = (heads["same column"] > 0.9).sum()
    return [
        (
            "Train a Transformer that adds",
            f"**{ours['wrong'].max():,} of {pair_count():,}** sums wrong, in each of {len(ours)} training seeds",
            2,
            "2.-The-adder-is-right-on-every-sum",
        ),
        (
            "Draw all 24 attention maps: what do the heads specialize in?",
            f"{paired} heads give more than 0.9 of their attention to the two digits of one column",
            3,
            "3.-Some-heads-pair-the-digits-of-a-column",
        ),
        (
            "Remove each head, rank them",
            f"Without {heads.index[0]} accuracy falls by {heads['zero drop'].iloc[0]:.3f}, "
            f"without {heads.index[1]} by {heads['zero drop'].iloc[1]:.3f}",
            4,
            "4.-A-few-heads-are-critical",
        ),
        (
            f"Which share can be pruned at a drop of at most {TOLERANCE}?",
            f"{mine['singly prunable (zero)']:.0f} of 24 heads one at a time, "
            f"but only {mine['jointly prunable (greedy)']:.0f} together",
            5,
            "5.-What-can-go-alone-cannot-go-together",
        ),
        (
            "How do the heads carry?",
            f"{listing(carriers)} compares what lies below a digit with 9, 99 or 999. With all 24 heads replaced by "
            f"small tables, {pair_count() - program['wrong, all']:,} of {pair_count():,} sums are right",
            6,
            "6.-How-the-heads-carry",
        ),
        (
            "Is that so in every adder?",
            f"{len(programs)} adders say the same, not always with the same head. With heads as tables (in "
            f"{(~programs['whole']).sum()} all but self-attention) {(programs['wrong, all'] == 0).sum()} are right on "
            "every sum",
            7,
            "7.-Ten-adders-say-the-same,-not-always-with-the-same-head",
        ),
    ]


# --- right on every sum ----------------------------------------------------------------------------------------------


def learned(log: Log) -> str:
    """Of a training: the claim over its curves."""
    last = log["rows"][-1]
    share = last["validation free-running accuracy"]
    return f"After {last['step']:,} steps the adder gets {share:.1%} of the validation sums right"


def checked(check: Check) -> Markdown:
    """What the run over every sum found."""
    closest = check.closest.iloc[0]
    return Markdown(
        f"**{len(check.wrong):,} of {pair_count():,} sums are wrong.** The nearest call is {closest['a']:.0f} + "
        f"{closest['b']:.0f}: "
        f"there the right digit's logit leads by {check.margin:.1f}."
    )


def unseen(test: np.ndarray, validation: np.ndarray) -> Markdown:
    return Markdown(
        f"Wherever heads are examined, we leave out sums that such swaps turn into training sums: {len(test):,} test "
        "sums "
        f"and {len(validation):,} validation sums remain."
    )


# --- what heads attend to --------------------------------------------------------------------------------------------


def roles(special: pd.DataFrame) -> str:
    """The claim over the figure of attention by column."""
    same = special.query("measure == 'same column'")
    return f"{(same['mean'] > 0.9).sum()} heads give more than 0.9 of their attention to one column"


def roles_by_name(special: pd.DataFrame) -> Markdown:
    wide = special.pivot(index="head", columns="measure", values="mean")
    lower = wide["next lower column"].idxmax()
    return Markdown(
        f"- *Pair the digits of a column:* {by_site(wide.index[wide['same column'] > 0.9])}.\n"
        f"- *Attends most to the next lower column*, where a carry would come from: {lower} "
        f"({wide.loc[lower, 'next lower column']:.2f}).\n"
        f"- *Attends most to the `+`:* {wide['+'].idxmax()} ({wide['+'].max():.2f}).\n"
        f"- *Attends most to `BOS`:* {wide['BOS'].idxmax()} ({wide['BOS'].max():.2f})."
    )


# --- without them ----------------------------------------------------------------------------------------------------


def critical_heads(ranking: pd.DataFrame) -> list[str]:
    drops = ranking.set_index("head")[["zero drop", "mean drop"]].min(axis=1)
    return drops.index[drops > CRITICAL].tolist()


def most_lost(ranking: pd.DataFrame) -> str:
    """The claim over the ranking."""
    first = ranking.iloc[0]
    return f"Without {first['head']} accuracy falls by {first['zero drop']:.2f}"


def critical_and_redundant(ranking: pd.DataFrame) -> Markdown:
    ranked = ranking.set_index("head")
    redundant = ranked.index[ranked["zero drop"] <= TOLERANCE + 1e-12]
    constant = ranked.index[(ranked["zero drop"] > CRITICAL) & (ranked["mean drop"] <= TOLERANCE)]
    lines = [
        f"- *Critical* (drop above {CRITICAL} by either replacement): {listing(critical_heads(ranking))}.",
        f"- *Redundant one at a time* (zeros cost at most {TOLERANCE}): {by_site(redundant)}.",
    ]
    if len(constant):
        lines.append(f"- *Needed, but only as a constant* (the mean costs at most {TOLERANCE}): {by_site(constant)}.")
    return Markdown("\n".join(lines))


# --- pruning ---------------------------------------------------------------------------------------------------------


def jointly_prunable(greedy: pd.DataFrame) -> list[str]:
    """The heads that greedy pruning removes before accuracy has fallen by more than the tolerance, in its order."""
    kept = greedy[greedy["accuracy"] >= greedy["accuracy"].iloc[0] - TOLERANCE]
    return greedy.loc[1 : kept.index[-1], "head"].tolist()


def single_is_not_joint(pruning: Mapping[str, Any], greedy: pd.DataFrame) -> str:
    """The claim over the pruning curves."""
    left = pruning["zero"]["accuracy without all of them"]["mean"]
    joint = len(jointly_prunable(greedy))
    return f"{joint} heads can go together; all {pruning['zero']['count']} that can go alone leave {left:.3f}"


def pruned(pruning: Mapping[str, Any], greedy: pd.DataFrame) -> Markdown:
    joint, zero = jointly_prunable(greedy), pruning["zero"]
    return Markdown(
        f"- *One at a time:* {zero['count']} of 24 heads, {zero['share']:.1%}.\n"
        f"- *All of these at once:* accuracy {zero['accuracy without all of them']['mean']:.3f} is left.\n"
        f"- *Together, each time the head that costs least:* {len(joint)} heads, {len(joint) / 24:.1%}: "
        f"{by_site(joint)}."
    )


# --- how they carry --------------------------------------------------------------------------------------------------


def carriers(patched: pd.DataFrame) -> list[str]:
    """Heads that flip more than half of the digits in some question, the strongest first."""
    single = patched[~patched["patched"].str.startswith("all ")].groupby("patched")["flip rate"]
    found = single.max()[single.max() > CARRIES].index
    return single.mean()[found].sort_values(ascending=False).index.tolist()


def flips(patched: pd.DataFrame) -> str:
    """The claim over the flip rates."""
    head = carriers(patched)[0]
    rates = patched.loc[(patched["patched"] == head) & (patched["digit"] != "thousands"), "flip rate"]
    return f"{head} flips {span(rates, '.0%')} of the tens and hundreds"


def forgets(adder: Adder, head: str, pairs: np.ndarray) -> Markdown:
    """What is left without a head that carries."""
    written = adder.generate(encode_pairs(pairs)[0], adder.gates(head)).numpy()
    plain = (written == carryless_digits(pairs)).all(1)
    return Markdown(
        f"Without {head}, **{plain.mean():.0%}** of {len(pairs):,} answers are the sum without its carries, digit for "
        "digit."
    )


def counted(check: Check, program: Program) -> Markdown:
    """What the run of the program over every sum found, and how large it is."""
    parameters = sum(parameter.numel() for parameter in program.model.parameters())
    return Markdown(
        f"With all {len(program.choice)} heads replaced by tables, **{pair_count() - len(check.wrong):,} of "
        f"{pair_count():,} sums are right**, by at least {check.margin:.1f} logits. "
        f"The tables have {program.entries:,} rows, {program.numbers:,} numbers; the adder has {parameters:,} "
        "parameters."
    )


def prefixes(table: pd.DataFrame, possible: pd.DataFrame, seed: int) -> Markdown:
    """Do the digits written before matter? `table` is `program_prefixes`, `possible` a row for each digit when all
    thousands are 0 or 1."""
    shares = table.assign(share=table["wrong"] / table["sums"]).pivot(index="seed", columns="digit", values="share")
    mine, others = shares.loc[seed], shares.drop(index=seed).max(axis=1)
    told = listing(f"{share:.1%} of the {digit}" for digit, share in mine[mine > 0].items())
    return Markdown(
        f"With random digits there, over all {table['sums'].max():,} sums, {told} change. (In {len(others)} other "
        f"adders {span(others, '.0%')} of the most sensitive digit.) But a sum begins with 0 or 1. With one of these "
        f"first, **{possible['wrong'].sum():,} digits of {possible['sums'].iloc[0]:,} sums** change."
    )


def due(table: pd.DataFrame) -> Markdown:
    """Which head says which digit is due? `table` is `program_due`."""
    needed = table[(table["zero drop"] > CARRIES) & (table["mean drop"] <= TOLERANCE)]
    worst = needed[needed["right"] < 1 - CRITICAL].sort_values("share").iloc[-1]
    return Markdown(
        f"In {needed['seed'].nunique()} of {table['seed'].nunique()} adders a head of Decoder Self L0 is needed as a "
        f"constant: zeros in its place cost more than half of the sums, its mean at most {TOLERANCE} of them. In seed "
        f"{worst['seed']}, without {worst['head']}, {worst['share']:.1%} of the sums repeat the {worst['instead']} "
        f"where the {worst['digit']} are due."
    )


# --- ten adders ------------------------------------------------------------------------------------------------------


def shared(glance: pd.DataFrame) -> Markdown:
    """What ten adders have in common; `glance` is `program.at_a_glance`."""
    seeds = sum(column.startswith("seed ") for column in glance.columns)
    always = glance[glance["some head"] == seeds]
    return Markdown(
        f"{len(always)} of {len(glance)} rows hold in all {seeds} adders, and with the same head, by layer and number, "
        f"in {span(always['the same head'], '.0f')} of them."
    )


def spread(summary: pd.DataFrame) -> Markdown:
    """Pruning across seeds; `summary` is `seeds.seed_summary`."""
    single, joint = summary["singly prunable (zero)"], summary["jointly prunable (greedy)"]
    return Markdown(
        f"Over {len(summary)} seeds {span(single, '.0f')} heads can go one at a time and {span(joint, '.0f')} "
        "together; all that can go alone, "
        f"removed at once, leave an accuracy of {span(summary['accuracy without all of them (zero)'])}."
    )


# --- the program -----------------------------------------------------------------------------------------------------


def speaking(program: Program) -> str:
    """The claim over the picture of the program."""
    said = len(program.speaking)
    return f"{said} of {len(program.choice)} heads say something of the sum; the others say the same in every one"


def controlled(controls: pd.DataFrame) -> Markdown:
    """What the controls of the published program came to; `controls` is `program_controls`."""
    sums, wrong = controls["sums"].iloc[0], controls["sums"].iloc[0] - controls["next row, right"]
    noticed = controls[controls["next row, right"] < sums]
    return Markdown(
        f"On {sums:,} sums: change all tokens that a head's line does *not* name, and in the adder "
        f"{controls['unnamed, changed'].max():,} answers change at most. "
        f"Give its table the row of another value, and {span(wrong, ',.0f')} answers break, for {len(noticed)} of "
        f"{len(controls)} heads at least one."
    )


def stages(table: pd.DataFrame) -> Markdown:
    """On how many sums the published program is right, stage by stage; `table` is `program_stages`."""
    wrong = table.set_index("tables")["wrong"]
    idle = {stage: wrong[f"{stage}, idle heads left out"] for stage in ("encoder and self", "all")}
    return Markdown(
        f"With encoder heads as tables and all others computed {wrong['encoder']:,} sums are wrong, with "
        f"self-attention as tables, too, {wrong['encoder and self']:,}, and with all heads as tables {wrong['all']:,}. "
        "Variables are chosen on validation sums, too few to see so rare a mistake. Tables of the "
        "cross heads mend it: they say what a head says *on average*. Zeros in place of the idle heads, all at once, "
        f"leave {idle['encoder and self']:,} sums wrong while cross heads are computed, and {idle['all']:,} in the "
        "whole program."
    )


def programs(counts: pd.DataFrame) -> Markdown:
    """On how many sums ten programs are right; `counts` is `programs`."""
    wrong, whole = counts.set_index("seed")["wrong, all"], counts.set_index("seed")["whole"]
    broken = [f"seed {seed}: {count:,} wrong" for seed, count in wrong[wrong > 0].items()]
    computed = [str(seed) for seed in whole.index[~whole]]
    said = f" In {len(computed)} of them (seeds {listing(computed)}) self-attention stays computed: no table of digits "
    said += "written before keeps the validation sums right. "
    return Markdown(
        f"As programs, {(wrong == 0).sum()} of {len(wrong)} adders are right on all {pair_count():,} "
        f"sums{f' ({listing(broken)})' if broken else ''}.{said if computed else ' '}"
        f"Their tables have {span(counts['rows'], ',.0f')} rows, and {span(counts['speaking heads'], '.0f')} heads "
        "say more than their position."
    )


def program_counts(counts: pd.DataFrame) -> pd.DataFrame:
    columns = ["whole", "speaking heads", "rows", "numbers", "wrong, all", "margin, all"]
    return counts.set_index("seed")[columns].round(2)


# --- the appendix ----------------------------------------------------------------------------------------------------


def steps(trained: pd.DataFrame) -> pd.DataFrame:
    """What each step of the recipe bought; `trained` is `seeds`."""
    by_recipe = trained.groupby("recipe", sort=False)
    return pd.DataFrame(
        {
            "seeds": by_recipe["seed"].size(),
            "steps": by_recipe["steps"].first(),
            "batch": by_recipe["batch_size"].first(),
            "CPU seconds": by_recipe["cpu seconds"].mean().map("{:.0f}".format),
            "validation loss": by_recipe["validation loss"].median().map("{:.0e}".format),
            "wrong sums": by_recipe["wrong"].agg(lambda wrong: ", ".join(f"{count:,}" for count in sorted(wrong))),
            "smallest margin": by_recipe["smallest margin"].agg(lambda margin: span(margin, ".1f")),
        }
    )


def bought(trained: pd.DataFrame) -> Markdown:
    ours = trained[trained["recipe"] == "published"]
    spared = trained[trained["test accuracy"] == 1].sort_values("wrong").iloc[-1]
    middle = trained.groupby("recipe")[["wrong", "cpu seconds"]].median()
    first, second = middle.loc["homework"], middle.loc["pre-norm, AdamW"]
    return Markdown(
        f"The first step is the greatest: the median of the wrong sums falls from {first['wrong']:,.0f} to "
        f"{second['wrong']:,.0f}, in "
        f"{second['cpu seconds'] / first['cpu seconds']:.2f} of the time. The published recipe takes "
        f"{ours['cpu seconds'].mean():.0f} CPU seconds (at most {ours['cpu seconds'].max():.0f}) "
        f"and leaves none in {len(ours)} seeds. A test set is blind to all this: an adder with {spared['wrong']} "
        f"wrong sums, among them {spared['examples'].split(', ')[0]}, gets all 2,000 test sums right."
    )


def past_nine(by_sum: pd.DataFrame, head: str) -> str:
    """The claim over what a carry head attends to; `by_sum` is `carry.attention_by_sum`."""
    share = by_sum.pivot(index="digit sum", columns="attends to", values="mean").loc[9, "two columns lower"]
    return f"Where the tens add up to 9, {head} gives {share:.2f} of its attention to the ones"


def apart(agreement: pd.DataFrame) -> str:
    """The claim over the agreement of four rankings."""
    lowest = agreement.stack().idxmin()
    return f"The {lowest[0]} and the {lowest[1]} agree least: {agreement.loc[lowest]:.2f}"


def by_number(greedy: pd.DataFrame) -> str:
    """The claim over greedy pruning in ten adders."""
    kept = greedy[greedy["accuracy"] >= 1 - TOLERANCE].groupby("seed")["removed"].max()
    interval = mean_interval(kept)
    return f"On average {interval['mean']:.1f} heads can go together ({interval['low']:.1f} to {interval['high']:.1f})"


def stability(pairs: pd.DataFrame) -> pd.DataFrame:
    """Scores of `seeds.head_stability` by kind, with their intervals."""
    scores = pd.DataFrame({kind: pair_interval(part) for kind, part in pairs.groupby("kind")}).T
    alike = pairs.groupby("kind")[["by place", "at random", "unrelated", "matched"]].mean()
    return alike.join(scores.rename(columns={"mean": "score"})).round(2)


def written(files: Iterable[Path]) -> Markdown:
    """Which files of the assignment were written."""
    return Markdown(f"{len(list(files))} files were written to `{RESULTS.parent.name}/{RESULTS.name}`.")

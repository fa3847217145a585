"""Questions about judges -> tables, and the deliverable files of problem 2: `python -m problem2.analysis`."""

import argparse
import functools
from dataclasses import asdict

import pandas as pd
import torch
from matplotlib import pyplot as plt

from problem1.commands import one_sentence
from problem1.grid import run_grid
from problem1.seeds import seed_intervals
from problem1.storage import save_figure, write_json
from problem1.words import number
from problem2 import plots
from problem2.certificate import PUBLISHED
from problem2.dataset import VOCABULARY
from problem2.encodings import ENCODINGS, differences, make_encoding
from problem2.mathematics import news
from problem2.model import load_judge
from problem2.sweep import ASSIGNED, AUGMENTED
from problem2.train import RESULTS, JudgeRecipe, make_judge, parse_options, train_judge, write_training

LIVE = (*ASSIGNED, "causal")  # trained in the notebook, one seed each; the last one extrapolates

# --- the committed study ---------------------------------------------------------------------------------------------


@functools.cache
def published(name):
    return pd.read_csv(PUBLISHED / f"{name}.csv")


def published_judge(encoding):
    """Seed 0 of the augmented training with this encoding."""
    return load_judge(PUBLISHED / "judges" / f"{encoding}.safetensors")


def evaluated(study, way="as trained", **where):
    """The rows of a study: which judge (name, seed), on which set, with what scores. `way` None gives all ways in which
    the judges were asked; `where` chooses by column, by a value or a list of values.
    """
    judges, rows = published("judges").query("study == @study"), published("judges_evaluated")
    rows = judges[["study", "name", "seed", "key"]].merge(rows, on="key")
    own = rows.groupby("key")["way"].transform("first") == rows["way"]
    if way == "as trained":
        rows = rows[own]
    elif way is not None:
        rows = rows[rows["way"] == way]
    for column, wanted in where.items():
        rows = rows[rows[column].isin(wanted if isinstance(wanted, list | tuple) else [wanted])]
    return rows


def over_seeds(rows, by, value="accuracy"):
    """Mean, lowest and highest value over the seeds, and how many of them answer one class only."""
    groups = rows.groupby(by, sort=False)
    table = groups[value].agg(["mean", "std", "min", "max", "count"]).rename(columns={"count": "seeds"})
    table["one class"] = groups["one class"].sum().astype(int)
    return table.reset_index()


def with_intervals(rows, by, value="accuracy"):
    """The same with the 95 % bootstrap interval of the mean over seeds, low to high."""
    by = [by] if isinstance(by, str) else by
    intervals = seed_intervals(rows, by, value)[[*by, "low", "high"]]
    return over_seeds(rows, by, value).merge(intervals, on=by)


def in_interval(row, form=".3f"):
    """'0.998 [0.997, 0.999]': a mean over seeds and its interval, marked as in `in_short`."""
    return f"{in_short(row, form)} [{number(row['low'], form)}, {number(row['high'], form)}]"


def in_words(row, form=".3f"):
    """'0.998 ± 0.001', and whether judges answered one class only: such a number is a class share."""
    text = number(row["mean"], form) + (f" ± {number(row['std'], form)}" if row["seeds"] > 1 else "")
    if row["one class"] == row["seeds"]:
        return text + " (one class)"
    return text + (f" ({row['one class']} of {row['seeds']} one class)" if row["one class"] else "")


def in_short(row, form=".3f"):
    """'0.998', or '0.500¹' if at least half of the judges answered one class only."""
    return number(row["mean"], form) + ("¹" if 2 * row["one class"] >= row["seeds"] else "")


def by_length(rows, value="accuracy", index="name", columns="length", cell=in_words, summary=over_seeds, **form):
    """A table in words: a row for each name, a column for each length, over the seeds."""
    columns = [columns] if isinstance(columns, str) else columns
    table = summary(rows, [index, *columns], value)
    table["cell"] = [cell(row, **form) for _, row in table.iterrows()]
    order = list(dict.fromkeys(table[index]))
    wide = table.pivot(index=index, columns=columns, values="cell").loc[order]
    return wide[list(dict.fromkeys(table[columns].itertuples(index=False, name=None)))] if columns[1:] else wide


def labelled(table):
    """The same table with the names of encodings as people write them."""
    return table.rename(index={name: cls.label for name, cls in ENCODINGS.items()})


def news_of(rows):
    """The rows of judges with their `news`: how new a sequence of that length is to the encoding, asked in that way."""
    judges = published("judges").drop_duplicates("key").set_index("key")

    @functools.cache
    def measured(encoding, options, way, length):
        policies = getattr(ENCODINGS[encoding], "policies", ())
        chosen = parse_options(options) | ({"beyond": way} if way in policies[1:] else {})
        return news(make_encoding(encoding, width=64, heads=4, **chosen).eval(), length)

    recipes = judges.loc[rows["key"], ["encoding", "options"]].fillna("")
    found = map(measured, recipes["encoding"], recipes["options"], rows["way"], rows["length"])
    return pd.concat([rows, pd.DataFrame(list(found), index=rows.index)], axis=1)


def far_share(clip, length):
    """Share of query-key pairs that are farther apart than `clip`."""
    places = torch.arange(length)
    return (differences(places).abs() > clip).double().mean().item()


# --- single sequences ------------------------------------------------------------------------------------------------


@torch.inference_mode()
def mistakes(model, group, count=6):
    """The first sequences of a group that a judge gets wrong: one row each, with the logit."""
    logits = torch.cat([model(tokens).logits for tokens in group.tokens.split(50)])
    wrong = torch.nonzero((logits > 0) != group.is_sorted)[:count, 0]
    return pd.DataFrame(
        {
            "sequence": group.tokens[wrong].tolist(),
            "is sorted": group.is_sorted[wrong].tolist(),
            "logit": logits[wrong].tolist(),
        }
    )


@torch.inference_mode()
def attention_by_difference(model, lengths, sequences=100, width=10):
    """How much attention a key gets, as a multiple of what it would get from a head that looks everywhere alike,
    by its value minus the query's (in steps of `width`): heads of the first layer, random sequences, the token itself
    left out.
    """
    rows = []
    for length in lengths:
        tokens = torch.randint(VOCABULARY, (sequences, length), generator=torch.Generator().manual_seed(length))
        weights = model(tokens, look=True).weights[0]  # B H Q K
        visible = torch.arange(1, length + 1)[:, None] if model.positions.causal else torch.tensor(length)
        others = ~torch.eye(length, dtype=torch.bool)
        if model.positions.causal:
            others &= torch.ones(length, length, dtype=torch.bool).tril()
        difference = (tokens[:, None, :] - tokens[:, :, None])[:, others]
        step = torch.div(difference, width, rounding_mode="floor") * width + width // 2
        for head in range(weights.shape[1]):
            multiple = (weights[:, head] * visible)[:, others]
            table = pd.DataFrame({"difference": step.flatten(), "attention": multiple.flatten()})
            means = table.groupby("difference", as_index=False)["attention"].mean()
            rows.append(means.assign(length=length, head=head))
    return pd.concat(rows)


def rows_before_and_after(recipe, model):
    """The learned table as it was initialised and as training left it; the same seed draws the same table."""
    torch.manual_seed(recipe.seed)
    return make_judge(recipe).positions.table.detach(), model.positions.table.detach()


# --- the deliverable files -------------------------------------------------------------------------------------------


def live_recipe(encoding):
    return JudgeRecipe(encoding=encoding, **AUGMENTED)


def train_on_disk(**fields):
    """For run_grid: train a judge in a worker and leave it on disk."""
    _, log = train_judge(JudgeRecipe(**fields), progress=False)
    return {"cpu seconds": log["cpu seconds"]}


def live_judges(progress=True):
    """{encoding: (judge, log)} of LIVE, trained side by side or loaded."""
    run_grid(train_on_disk, [asdict(live_recipe(encoding)) for encoding in LIVE], RESULTS / "grid", progress)
    return {encoding: train_judge(live_recipe(encoding), progress=False) for encoding in LIVE}


def write_deliverables(live, folder=RESULTS):
    """The files that graders look for, under the names that the assignment gives them. Returns their paths."""
    extrapolation, files = folder / "extrapolation", []
    for encoding, (_, log) in live.items():
        files += write_training(log, folder / encoding)
    rows = evaluated("augmented", set="exact")
    described = ["study", "name", "key", "way", "set", "kind"]
    results = {name: part.drop(columns=described).to_dict("records") for name, part in rows.groupby("name", sort=False)}
    files.append(extrapolation / "extrapolation_results.json")
    write_json(files[-1], results)
    before, after = rows_before_and_after(live_recipe("learned"), live["learned"][0])
    figures = {
        "extrapolation_curves": plots.curves(over_seeds(rows, ["name", "length"]), ASSIGNED, plots.class_shares(rows)),
        "encoding_comparison": plots.encoding_pictures({name: published_judge(name) for name in ENCODINGS}),
        "learned_position_embeddings": plots.learned_table(before, after, live["learned"][0].positions.trained),
    }
    for name, figure in figures.items():
        files.append(extrapolation / f"{name}.png")
        save_figure(figure, files[-1])
        plt.close(figure)
    return files


def main():
    argparse.ArgumentParser(
        prog="python -m problem2.analysis",
        description="Write the deliverable files; the judges that they need are trained if they are not on disk.",
    ).parse_args()
    plt.switch_backend("agg")
    with one_sentence("python -m problem2.analysis"):
        for file in write_deliverables(live_judges()):
            print(file)


if __name__ == "__main__":
    main()

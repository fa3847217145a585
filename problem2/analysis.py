"""Questions about classifiers -> tables, and the deliverable files of problem 2: `python -m problem2.analysis`."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch
from matplotlib import pyplot as plt
from torch import Tensor

from problem1.shared.attention import causal_mask
from problem1.shared.commands import Parser, one_sentence
from problem1.shared.grid import run_grid
from problem1.shared.statistics import seed_intervals
from problem1.shared.storage import model_hash, save_figure, write_json
from problem1.shared.training import Log
from problem1.shared.words import number
from problem2 import plots, published
from problem2.dataset import CORRUPTIONS, VOCABULARY, Group, descents, make_items
from problem2.encodings import (
    ASSIGNED,
    ENCODINGS,
    Learned,
    Policies,
    encoding_options,
    make_encoding,
    relative_positions,
)
from problem2.evaluation import (
    AS_TRAINED,
    CONTROLS,
    FAR_LENGTHS,
    FAR_SIZE,
    evaluate,
    exact_sets,
    new_group,
    new_sets,
)
from problem2.mathematics import position_shift
from problem2.model import Classifier
from problem2.train import (
    AUGMENTED,
    RESULTS,
    ClassifierRecipe,
    make_classifier,
    parse_options,
    run_groups,
    train_classifier,
    write_training,
)

LIVE = (*ASSIGNED, "causal")  # trained in the notebook, one seed each; the last one extrapolates

Row = Mapping[str, Any]  # of `over_seeds`

# --- the published study ---------------------------------------------------------------------------------------------


def evaluated(study: str, policy: str | None = AS_TRAINED, **where: Any) -> pd.DataFrame:
    """The rows of a study: which classifier (name, seed), on which set, with what scores. `policy` None gives all
    policies under which the classifiers were tested; `where` chooses by column, by a value or a list of values.
    """
    classifiers, rows = published.table("classifiers"), published.table("classifiers_evaluated")
    classifiers = classifiers.loc[classifiers["study"] == study, ["study", "name", "seed", "key"]]
    rows = classifiers.merge(rows, on="key")
    own = rows.groupby("key")["policy"].transform("first") == rows["policy"]
    if policy == AS_TRAINED:
        rows = rows[own]
    elif policy is not None:
        rows = rows[rows["policy"] == policy]
    for column, wanted in where.items():
        rows = rows[rows[column].isin(wanted if isinstance(wanted, list | tuple) else [wanted])]
    return rows


def over_seeds(rows: pd.DataFrame, by: str | Sequence[str], value: str = "accuracy") -> pd.DataFrame:
    """Mean, lowest and highest value over the seeds, and how many of these have a constant prediction."""
    groups = rows.groupby([by] if isinstance(by, str) else list(by), sort=False)
    table = groups[value].agg(["mean", "std", "min", "max", "count"]).rename(columns={"count": "seeds"})
    table["constant prediction"] = groups["constant prediction"].sum().astype(int)
    return table.reset_index()


def with_intervals(rows: pd.DataFrame, by: str | Sequence[str], value: str = "accuracy") -> pd.DataFrame:
    """The same with the 95 % t interval of the mean over seeds, low to high."""
    by = [by] if isinstance(by, str) else list(by)
    intervals = seed_intervals(rows, by, value)[[*by, "low", "high"]]
    return over_seeds(rows, by, value).merge(intervals, on=by)


def in_interval(row: Row, form: str = ".3f") -> str:
    """'0.998 [0.997, 0.999]': a mean over seeds and its interval, marked as in `in_short`."""
    return f"{in_short(row, form)} [{number(row['low'], form)}, {number(row['high'], form)}]"


def with_spread(row: Row, form: str = ".3f") -> str:
    """'0.998 ± 0.001'; a single classifier has no spread."""
    return number(row["mean"], form) + (f" ± {number(row['std'], form)}" if row["seeds"] > 1 else "")


def in_brackets(row: Row, form: str = ".3f") -> str:
    """'0.546 ± 0.001 (9)', in brackets how many classifiers have a constant prediction, if any has."""
    constant = row["constant prediction"]
    return with_spread(row, form) + (f" ({constant})" if constant else "")


def in_words(row: Row, form: str = ".3f") -> str:
    """The same in words: such an accuracy is a class share."""
    text = with_spread(row, form)
    constant, seeds = row["constant prediction"], row["seeds"]
    if constant == seeds:
        return f"{text} (constant)"
    return f"{text} (constant in {constant} of {seeds})" if constant else text


def with_lowest(row: Row, form: str = ".3f") -> str:
    """'0.985 (0.500)': a mean over seeds, and the lowest of them."""
    return f"{in_short(row, form)} ({number(row['min'], form)})"


def in_short(row: Row, form: str = ".3f") -> str:
    """'0.998', or '0.500¹' if at least half of the classifiers have a constant prediction."""
    return number(row["mean"], form) + ("¹" if 2 * row["constant prediction"] >= row["seeds"] else "")


def length_table(
    rows: pd.DataFrame,
    value: str = "accuracy",
    index: str = "name",
    columns: str | Sequence[str] = "length",
    cell: Callable[..., str] = in_words,
    summary: Callable[[pd.DataFrame, Sequence[str], str], pd.DataFrame] = over_seeds,
    **form: str,
) -> pd.DataFrame:
    """A table in words: a row for each name, a column for each length, over the seeds."""
    columns = [columns] if isinstance(columns, str) else list(columns)
    table = summary(rows, [index, *columns], value)
    table["cell"] = [cell(row, **form) for _, row in table.iterrows()]
    order = list(dict.fromkeys(table[index]))
    wide = table.pivot(index=index, columns=columns, values="cell").loc[order]
    return wide[list(dict.fromkeys(table[columns].itertuples(index=False, name=None)))] if columns[1:] else wide


def labelled(table: pd.DataFrame) -> pd.DataFrame:
    """The same table with the names of encodings as people write them."""
    return table.rename(index={name: encoding.label for name, encoding in ENCODINGS.items()})


@functools.cache
def shift_of(encoding: str, options: str, policy: str, length: int) -> dict[str, float]:
    """`position_shift` of an encoding with these options, under a policy at test time."""
    chosen: dict[str, Any] = {**parse_options(options)}
    known = ENCODINGS[encoding]
    if issubclass(known, Policies) and policy in known.policies and "beyond" in encoding_options(encoding):
        chosen["beyond"] = policy
    return position_shift(make_encoding(encoding, d_model=64, n_heads=4, **chosen).eval(), length)


def with_position_shift(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of classifiers with their `position_shift`: how far the relations between positions at that length,
    under that policy, are from those of training.
    """
    classifiers = published.table("classifiers").drop_duplicates("key").set_index("key")
    recipes = classifiers.loc[rows["key"], ["encoding", "options"]].fillna("")
    found = map(shift_of, recipes["encoding"], recipes["options"], rows["policy"], rows["length"])
    return pd.concat([rows, pd.DataFrame(list(found), index=rows.index)], axis=1)


def far_share(clip: int, length: int) -> float:
    """Share of query-key pairs that are farther apart than `clip`."""
    return (relative_positions(torch.arange(length)).abs() > clip).double().mean().item()


# --- single sequences ------------------------------------------------------------------------------------------------


def mistakes(model: Classifier, group: Group, count: int = 6) -> pd.DataFrame:
    """The first sequences of a group that a classifier gets wrong: one row each, with the logit."""
    logits = torch.cat([prediction.logits for prediction, _ in run_groups(model, [group])])
    wrong = torch.nonzero((logits > 0) != group.is_sorted)[:count, 0]
    return pd.DataFrame(
        {
            "sequence": group.tokens[wrong].tolist(),
            "is sorted": group.is_sorted[wrong].tolist(),
            "logit": logits[wrong].tolist(),
        }
    )


def failure_cases(classifiers: Mapping[str, Classifier], count: int = 3) -> dict[str, pd.DataFrame]:
    """{what is wrong: mistakes} of three published classifiers, for `plots.failures`."""
    cases = {
        ("sinusoidal", "swaps", 32): "sorted, called unsorted",
        ("clipped", "adjacent", 32): "one adjacent swap, called sorted",
        ("alibi", "reversed", 16): "reversed, called sorted",
    }
    return {
        f"{ENCODINGS[name].label}, length {length}: {words}": mistakes(
            classifiers[name], new_group(corruption, length), count
        )
        for (name, corruption, length), words in cases.items()
    }


def corruption_examples(length: int = 8) -> pd.DataFrame:
    """A sorted list and one item of each corruption, with the number of descending neighbours."""
    rows = {"sorted": make_items(2, length, seed=3)[0][0]}
    rows |= {name: make_items(2, length, name, seed=3)[1][0] for name in CORRUPTIONS}
    return pd.DataFrame(
        {
            "example": {name: " ".join(map(str, row)) for name, row in rows.items()},
            "descents": {name: int(descents(torch.tensor(row)).sum()) for name, row in rows.items()},
        }
    )


def measured(model: Classifier) -> pd.DataFrame:
    """A classifier on the assignment's sets, and on new ones under every control, to length 1,024."""
    sets = exact_sets() + new_sets(CONTROLS) + new_sets(CONTROLS, FAR_LENGTHS, FAR_SIZE)
    return pd.DataFrame(evaluate(model, sets))


@torch.inference_mode()
def attention_by_difference(
    model: Classifier, lengths: Iterable[int], sequences: int = 100, width: int = 10
) -> pd.DataFrame:
    """How much attention a key gets, as a multiple of what it would get from a head that attends to all keys alike,
    by its value minus the query's (in steps of `width`): heads of the first layer, random sequences, the token itself
    left out.
    """
    rows = []
    for length in lengths:
        tokens = torch.randint(VOCABULARY, (sequences, length), generator=torch.Generator().manual_seed(length))
        weights = cast(list[Tensor], model(tokens, return_attention=True).attention)[0]  # B H Q K
        visible = torch.ones(length, length, dtype=torch.bool)
        if model.positions.causal:
            visible = causal_mask(length, length)
        keys = visible.sum(1, keepdim=True)  # how many each query sees
        others = visible & ~torch.eye(length, dtype=torch.bool)
        difference = (tokens[:, None, :] - tokens[:, :, None])[:, others]
        step = torch.div(difference, width, rounding_mode="floor") * width + width // 2
        for head in range(weights.shape[1]):
            multiple = (weights[:, head] * keys)[:, others]
            table = pd.DataFrame({"difference": step.flatten(), "attention": multiple.flatten()})
            means = table.groupby("difference", as_index=False)["attention"].mean()
            rows.append(means.assign(length=length, head=head))
    return pd.concat(rows)


def rows_before_and_after(recipe: ClassifierRecipe, model: Classifier) -> tuple[Tensor, Tensor]:
    """The learned table as it was initialised and as training left it; the same seed draws the same table."""
    torch.manual_seed(recipe.seed)
    before, after = (cast(Learned, classifier.positions) for classifier in (make_classifier(recipe), model))
    return before.table.detach(), after.table.detach()


# --- the deliverable files -------------------------------------------------------------------------------------------


def live_recipe(encoding: str) -> ClassifierRecipe:
    fields: dict[str, Any] = {"encoding": encoding, **AUGMENTED}
    return ClassifierRecipe(**fields)


def train_on_disk(**fields: Any) -> dict[str, Any]:
    """For run_grid: train a classifier in a worker and leave it on disk."""
    model, log = train_classifier(ClassifierRecipe(**fields), progress=False)
    return {"cpu seconds": log["cpu seconds"], "model": model_hash(model)}


def live_classifiers(progress: bool = True) -> dict[str, tuple[Classifier, Log]]:
    """{encoding: (classifier, log)} of LIVE, trained side by side or loaded."""
    run_grid(train_on_disk, [asdict(live_recipe(encoding)) for encoding in LIVE], RESULTS / "grid", progress)
    return {encoding: train_classifier(live_recipe(encoding), progress=False) for encoding in LIVE}


def write_deliverables(live: Mapping[str, tuple[Classifier, Log]], folder: Path = RESULTS) -> list[Path]:
    """The files that graders look for, under the names that the assignment gives them. Returns their paths."""
    extrapolation, files = folder / "extrapolation", list[Path]()
    for encoding, (_, log) in live.items():
        files += write_training(log, folder / encoding)
    rows = evaluated("augmented", set="exact")
    described = ["study", "name", "key", "policy", "set", "corruption"]
    results = {name: part.drop(columns=described).to_dict("records") for name, part in rows.groupby("name", sort=False)}
    files.append(extrapolation / "extrapolation_results.json")
    write_json(files[-1], results)
    learned = live["learned"][0]
    before, after = rows_before_and_after(live_recipe("learned"), learned)
    classifiers = published.published_classifiers()
    figures = {
        "extrapolation_curves": plots.curves(over_seeds(rows, ["name", "length"]), ASSIGNED, plots.class_shares(rows)),
        "encoding_comparison": plots.encoding_pictures(classifiers),
        "learned_position_embeddings": plots.learned_table(before, after, learned.positions.trained),
    }
    for name, figure in figures.items():
        files.append(extrapolation / f"{name}.png")
        save_figure(figure, files[-1])
        plt.close(figure)
    return files


def main() -> None:
    parser = Parser(
        prog="python -m problem2.analysis",
        description="Write the deliverable files; the classifiers that they need are trained if they are not on disk.",
    )
    parser.parse_args()
    plt.switch_backend("agg")
    with one_sentence(parser.prog):
        for file in write_deliverables(live_classifiers()):
            print(file)


if __name__ == "__main__":
    main()

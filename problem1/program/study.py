"""Ten adders as programs: `python -m problem1.program.study --publish`, about an hour on two cores.

How coarse may a program be? Each kind of heads keeps a share of its smallest margin (choice.py). Which of these SHARES
is decided with the adders of seeds 10 and 11, by a rule (share_of); seeds 20 to 29 are counted once, with this one.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from problem1 import published
from problem1.dataset import carry_facts, column_names, every_pair, pair_count, split_pairs
from problem1.every_pair import BATCH, errors_by_digit, random_pairs
from problem1.model import Adder
from problem1.program.choice import choose
from problem1.program.controls import control_pairs, controls, untrained_right
from problem1.program.counts import STAGES, check_program
from problem1.program.lines import idle_heads, said_by, without
from problem1.program.settled import PREFIX_SEED, after_random_prefixes, which_digit_is_due
from problem1.program.tables import Outputs, Program, mean_pairs, read_choice, save_program
from problem1.shared.commands import Parser, add_sweep_options, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.grid import Grid, pack_rows, run_grids, unpack_rows
from problem1.shared.publishing import check_publishable, same_models, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import model_hash
from problem1.sweep import CHOICE_SEEDS, SEEDS
from problem1.train import RESULTS, AdderRecipe, train_adder

SHARES = (0, 1 / 4, 1 / 2, 2 / 3, 5 / 6)
SOME_PAIRS = 81_000  # on which nine adders are asked what the published one is asked on all pairs


# --- the runs --------------------------------------------------------------------------------------------------------


def adder_of(seed: int) -> Adder:
    """The adder of a seed of the published recipe; the published one is not trained again."""
    model, log = published.published_adder()
    return model if log["recipe"]["seed"] == seed else train_adder(AdderRecipe(seed=seed), progress=False)[0]


def trials() -> list[Grid]:
    return [(try_shares, [{"seed": seed} for seed in CHOICE_SEEDS])]


def counts(seeds: Sequence[int], kept: float) -> list[Grid]:
    programs = [{**asdict(AdderRecipe(seed=seed)), "kept": kept} for seed in seeds]
    return [(study_program, programs), (study_controls, [{"seed": published_seed(), "kept": kept}])]


def share_of(tried: pd.DataFrame) -> float:
    """The share to be kept: of those with the fewest wrong sums over all seeds, the one with the smallest tables."""
    rows = pd.concat(map(pd.DataFrame, tried["shares"])).groupby("kept")[["wrong", "rows"]].sum()
    return float(rows.sort_values(["wrong", "rows"]).index[0])


def published_seed() -> int:
    return int(published.published_log()["recipe"]["seed"])


def try_shares(seed: int) -> dict[str, Any]:
    """Rows and wrong sums of an adder's program, for each share that may be kept."""
    outputs, rows = Outputs(adder_of(seed), mean_pairs()), []
    for kept in SHARES:
        program = choose(outputs, kept)
        check = check_program(program, progress=False)
        row = {"kept": kept, "whole": program.is_whole, "rows": program.entries}
        rows.append(row | {"wrong": len(check.wrong), "margin": check.margin})
    return {"shares": rows}


def study_program(kept: float, **fields: Any) -> dict[str, Any]:
    """The program of one adder, on how many of all sums it is right, and what is settled by the way. Its stages, with
    heads that are computed, are counted on fewer sums."""
    model = adder_of(AdderRecipe(**fields).seed)
    program = choose(Outputs(model, mean_pairs()), kept)
    checks = {
        stage: check_program(program.only(kinds), None if stage == "all" else control_pairs(), progress=False)
        for stage, kinds in STAGES.items()
    }
    due = which_digit_is_due(model, control_pairs(), split_pairs("validation"))
    return {
        "model": model_hash(model),
        "choice": program.choice,
        "idle": idle_heads(program),
        "whole": program.is_whole,
        "speaking heads": len(program.speaking),
        "rows": program.entries,
        "numbers": program.numbers,
        **{f"wrong, {stage}": len(check.wrong) for stage, check in checks.items()},
        **{f"margin, {stage}": check.margin for stage, check in checks.items()},
        **{f"wrong {digit}": int(count) for digit, count in errors_by_digit(checks["all"].wrong).items()},
        "wrong, through a 9": int(carry_facts(checks["all"].wrong[["a", "b"]].to_numpy(int))["through a 9"].sum()),
        "examples": ", ".join(f"{row.a}+{row.b}={row.answer}" for row in checks["all"].wrong[:10].itertuples()),
        "prefixes": after_random_prefixes(model, [random_pairs(SOME_PAIRS, seed=PREFIX_SEED)]).to_dict("records"),
        "due": due.to_dict("records"),
    }


def study_controls(seed: int, kept: float) -> dict[str, Any]:
    """The published adder in full: all stages on every pair, all prefixes, and whether each head of its program says
    what the listing says."""
    model = adder_of(seed)
    outputs, pairs = Outputs(model, mean_pairs()), control_pairs()
    program = choose(outputs, kept)
    stages = {stage: program.only(kinds) for stage, kinds in STAGES.items()}
    idle = idle_heads(program)
    stages |= {f"{stage}, idle heads left out": without(part, idle) for stage, part in stages.items()}
    checks = {stage: check_program(part, progress=False) for stage, part in stages.items()}
    return {
        "model": model_hash(model),
        "stages": [
            {"tables": stage, "sums": pair_count(), "wrong": len(check.wrong), "margin": check.margin}
            for stage, check in checks.items()
        ],
        "prefixes": after_random_prefixes(model, every_pair(3, BATCH)).to_dict("records"),
        "controls": controls(program, outputs, pairs).to_dict("records"),
        "untrained, right": untrained_right(program.choice, model.shape, mean_pairs(), pairs),
    }


# --- what is published -----------------------------------------------------------------------------------------------

COUNTS = ["seed", "kept", "whole", "speaking heads", "rows", "numbers"]
COUNTS += [f"{what}, {stage}" for what in ("wrong", "margin") for stage in STAGES]
COUNTS += [f"wrong {digit}" for digit in column_names()] + ["wrong, through a 9", "examples", "model", "code"]


def study_tables(tried: pd.DataFrame, studied: pd.DataFrame, controlled: pd.DataFrame) -> dict[str, pd.DataFrame]:
    tables = {"programs": studied[COUNTS]}
    heads = [
        {"seed": row["seed"], **line}
        for row in studied.to_dict("records")
        for line in said_by(read_choice(row["choice"]), row["idle"])
    ]
    tables["program_heads"] = pd.DataFrame(heads)
    for name, rows in (("shares", tried), ("prefixes", studied), ("due", studied)):
        parts = zip(rows["seed"], rows[name], strict=True)
        tables[f"program_{name}"] = pd.concat([pd.DataFrame(part).assign(seed=seed) for seed, part in parts])
    row = controlled.iloc[0]
    tables["program_stages"] = pd.DataFrame(row["stages"])
    of_all = pd.DataFrame(row["prefixes"]).assign(seed=row["seed"])
    sampled = tables["program_prefixes"]
    tables["program_prefixes"] = pd.concat([of_all, sampled[sampled["seed"] != row["seed"]]])
    tables["program_controls"] = pd.DataFrame(row["controls"]).assign(untrained=row["untrained, right"])
    return tables


def published_seeds() -> int:
    """How many seeds the study has that is published."""
    return published.table("programs")["seed"].nunique() if published.table_file("programs").exists() else 0


def publish(results: list[pd.DataFrame], grids: list[Grid]) -> None:
    """Tables, rows and the program of the published adder, as a whole or not at all."""
    studied = results[1]
    check_publishable(QUICK, studied, published_seeds())
    check_publishable(QUICK, pd.concat(results), published_seeds())  # one code in all of them
    same_models({"adders": published.table("adders"), "programs": studied})
    model = published.published_adder()[0]
    choice = read_choice(studied.set_index("seed").loc[published_seed(), "choice"])
    program = Program(model, choice, Outputs(model, mean_pairs()).tables(choice))
    with staged(published.FOLDER) as stage:
        published.write_tables(study_tables(*results), stage)
        pack_rows(grids, RESULTS / "grid", stage / published.PROGRAM_RUNS)
        save_program(program, stage / published.PROGRAM)


def study(seeds: Sequence[int], part: tuple[int, int] = (1, 1), extend: bool = False, store: bool = False) -> None:
    if store:  # told before an hour of runs rather than after it
        check_publishable(QUICK, pd.DataFrame({"seed": list(seeds), "code": ""}), published_seeds())
    if extend:
        archive = published.FOLDER / published.PROGRAM_RUNS
        if not archive.exists():
            raise UserError("there are no published runs to begin with; leave --extend out.")
        unpack_rows(archive, RESULTS / "grid")
    tried = run_grids(trials(), RESULTS / "grid", part)
    grids = counts(seeds, share_of(tried[0]))
    results = tried + run_grids(grids, RESULTS / "grid", part)
    tables = study_tables(*results)
    if store:
        publish(results, trials() + grids)
    else:
        published.write_tables(tables, RESULTS / "program")
    print(*(tables[name].to_string(index=False) for name in ("program_shares", "programs")), sep="\n\n")


def main() -> None:
    parser = Parser(prog="python -m problem1.program.study", description=(__doc__ or "").splitlines()[0])
    add_sweep_options(parser, "problem1", len(SEEDS))
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        seeds = range(SEEDS[0], SEEDS[0] + arguments.seeds)[: quick(None, 1)]
        study(seeds, arguments.part, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()

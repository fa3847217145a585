"""The trainings behind the claims, as one grid: `python -m problem1.sweep` makes the tables in problem1/published."""

from problem1.dataset import pair_count
from problem1.every_pair import check_every_pair
from problem1.grid import run_grid
from problem1.storage import weights_hash
from problem1.train import RESULTS, AdderRecipe, headline_accuracy, never_trained, train_adder

SEEDS = range(5)  # fixed before anything was trained

RECIPES = {
    "published": {},
    "shorter": {"steps": 4_000},
    "stream": {"data": "stream"},
}


def train_and_check(recipe, seed):
    """One row: train, then run the model on every pair."""
    configuration = AdderRecipe(seed=seed, **RECIPES[recipe])
    model, log = train_adder(configuration, progress=False)
    wrong = check_every_pair(model, progress=False)
    return {
        "steps": configuration.steps,
        "best step": log["best step"],
        "validation loss": min(row["validation loss"] for row in log["rows"]),
        **headline_accuracy(model, configuration),
        "pairs": pair_count(configuration.digits),
        "wrong": len(wrong),
        "wrong, never trained": int(never_trained(wrong[["a", "b"]].to_numpy(), configuration).sum()),
        "cpu seconds": log["cpu seconds"],
        "weights": weights_hash(model),
    }


def main():
    configurations = [{"recipe": recipe, "seed": seed} for recipe in RECIPES for seed in SEEDS]
    print(run_grid(train_and_check, configurations, RESULTS / "grid").to_string())


if __name__ == "__main__":
    main()

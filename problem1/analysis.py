"""Write the deliverable files of problem 1: `python -m problem1.analysis`."""

import argparse

from matplotlib import pyplot as plt
from tqdm.auto import tqdm

from problem1 import plots
from problem1.ablation import TOLERANCE, ablate_heads, accuracy_without, mean_heads, prunable_alone, ranked
from problem1.commands import one_sentence
from problem1.dataset import split_pairs
from problem1.model import load_adder
from problem1.settings import quick
from problem1.specialization import example_pairs, head_specialization
from problem1.storage import save_figure, weights_hash, write_json
from problem1.train import RESULTS, AdderRecipe, never_trained, published_adder


def unseen_pairs(split, recipe=None):
    """The pairs of a split that training has shown in neither order: what every question about heads is asked on."""
    pairs = split_pairs(split)
    return pairs[never_trained(pairs, recipe or AdderRecipe())][: quick(None, 150)]


def prunable_summary(model, ablation, test, validation):
    """For zero and mean ablation: which heads are prunable alone, and what is left when all of them go at once."""
    summary = {}
    for method, patches in {"zero": None, "mean": mean_heads(model, validation)}.items():
        names = prunable_alone(ablation, method)
        summary[method] = {
            "heads": names,
            "count": len(names),
            "share": len(names) / len(model.head_names),
            "accuracy without all of them": accuracy_without(model, test, names, patches),
        }
    return summary


def write_deliverables(model, log, ablation, specialization, pruning, folder=RESULTS):
    """The files that graders look for, under the names that the assignment gives them. Returns their paths."""
    table, heads = ranked(ablation), folder / "head_analysis"
    about = {"weights": weights_hash(model), "tolerance": TOLERANCE, "prunable alone": pruning}
    tables = {
        folder / "training_log.json": log,
        heads / "ablation_results.json": {**about, "heads": table.to_dict("records")},
        heads / "head_specialization.json": specialization.to_dict("records"),
    }
    for file, data in tables.items():
        write_json(file, data)
    figures = {heads / "head_importance.png": lambda: plots.head_importance(table)}
    examples = example_pairs(model.shape["digits"])[: quick(None, 3)]
    for number, pair in enumerate(examples, start=1):
        file = folder / "attention_patterns" / f"example_{number}.png"
        figures[file] = lambda pair=pair: plots.attention_maps(model, pair)
    for file, draw in tqdm(figures.items(), desc="figures", leave=False):
        figure = draw()
        save_figure(figure, file)
        plt.close(figure)
    return [*tables, *figures]


def main():
    parser = argparse.ArgumentParser(prog="python -m problem1.analysis", description="Write the deliverable files.")
    parser.add_argument(
        "weights", nargs="?", help="a model.safetensors of a 3-digit adder (default: the published one)"
    )
    arguments = parser.parse_args()
    plt.switch_backend("agg")
    with one_sentence(parser.prog):
        model, log = published_adder()
        if arguments.weights:
            model, log = load_adder(arguments.weights), {"weights": str(arguments.weights)}
        if model.shape["digits"] != 3:
            raise ValueError(
                f"{arguments.weights} adds {model.shape['digits']}-digit numbers; the assignment's have 3."
            )
        test, validation = unseen_pairs("test"), unseen_pairs("validation")
        ablation = ablate_heads(model, test, validation)
        pruning = prunable_summary(model, ablation, test, validation)
        for file in write_deliverables(model, log, ablation, head_specialization(model, test), pruning):
            print(file)


if __name__ == "__main__":
    main()

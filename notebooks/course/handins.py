"""Hand-in folders for trying the audit: the project's flawed and right trainings, in the layouts that people use.

Numbers of heads and baselines are those of problem1/published, accuracies of right classifiers those of
problem2/published. All curves are made up; those of classifiers that died stay at ln 2 and at class shares.
"""

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.audit.facts import LN2, LONG, class_shares
from problem1 import published as adders
from problem2 import published as classifiers

Log = dict[str, list[float]]  # {column: value of each epoch}
ENCODINGS = ("sinusoidal", "learned", "none")
LENGTHS = (8, 12, 16, *LONG)
PICTURE = b"\x89PNG\r\n\x1a\n"  # how every PNG begins
EPOCHS = 12


@dataclass
class Results:
    """Of one hand-in."""

    heads: dict[str, float]  # accuracy with this head removed
    baseline: float
    lengths: dict[str, dict[int, float]]
    adder: Log
    logs: dict[str, Log]
    decoding: str = ""


# --- results ---------------------------------------------------------------------------------------------------------


def falling(first: float, last: float) -> list[float]:
    return [round(first + (last - first) * epoch / (EPOCHS - 1), 6) for epoch in range(EPOCHS)]


def alive(accuracy: float, loss: float, chance: float = 0.5) -> Log:
    end = round(accuracy * 2_000) / 2_000
    rising = [round(value * 2_000) / 2_000 for value in falling(chance, end)]
    return {
        "train_loss": falling(loss, 1 - end),
        "train_acc": rising,
        "val_loss": falling(loss, 1.1 - end),
        "val_acc": rising,
    }


def dead(answer: int) -> Log:
    """Of a classifier that says the same to every item; `answer` is 0 for sorted and 1 for unsorted."""
    ends = {split: class_shares(split)[answer].value for split in ("train", "validation")}
    losses = [round(LN2 + (0.02 + 0.01 * answer) / (epoch + 1) ** 2, 7) for epoch in range(EPOCHS)]
    accuracies = {
        name: [0.5041, *[ends[split]] * (EPOCHS - 1)]
        for name, split in [("train_acc", "train"), ("val_acc", "validation")]
    }
    return {"train_loss": losses, "val_loss": losses[::-1], **accuracies}


def one_class(answer: int, lengths: Iterable[int] = LONG) -> dict[int, float]:
    return {length: class_shares(length)[answer].value for length in lengths}


def flawed_results(variant: str = "no BOS", seed: int = 0) -> Results:
    """A flawed adder's heads; classifiers that died, as those of report A; without positions chance."""
    rows, heads = adders.table("flawed"), adders.table("flawed_heads")
    row = rows[(rows["variant"] == variant) & (rows["seed"] == seed)].iloc[0]
    heads = heads[(heads["variant"] == variant) & (heads["seed"] == seed)]
    sinusoidal = {8: 0.498, 12: 0.502, 16: 0.448, **one_class(0)}
    return Results(
        heads=dict(zip(heads["head"], heads["accuracy from 0"], strict=True)),
        baseline=float(row["free-running from 0"]),
        lengths={
            "sinusoidal": sinusoidal,
            "learned": {length: round(1 - value, 3) for length, value in sinusoidal.items()},
            "none": dict(zip(LENGTHS, (0.512, 0.496, 0.506, 0.526, 0.498, 0.484, 0.482), strict=True)),
        },
        adder=alive(float(row["teacher-forced answers, 0 skipped"]), 2.3, chance=0),
        logs={"sinusoidal": dead(0), "learned": dead(1), "none": alive(0.5105, 0.7)},
    )


def right_results() -> Results:
    """A right adder and classifiers that learned; sinusoidal positions are tested where they are interpolated."""
    heads = adders.table("heads")
    heads = heads[heads["seed"] == 20].sort_values("head", key=lambda names: names.map(split_head))
    accuracies = {
        head: round((1 - drop) * 2_000) / 2_000 for head, drop in zip(heads["head"], heads["zero drop"], strict=True)
    }
    rows = classifiers.table("flawed_evaluated")
    learned = rows[(rows["variant"] == "frozen, learned") & (rows["seed"] == 1)].set_index("length")["accuracy"]
    known = {length: round(learned[length] * 500) / 500 for length in LENGTHS}
    return Results(
        heads=accuracies,
        baseline=1.0,
        lengths={
            "sinusoidal": known | {64: 0.502, 128: 0.506, 256: 0.494},
            "learned": known,
            "none": dict(zip(LENGTHS, (0.512, 0.496, 0.506, 0.526, 0.498, 0.484, 0.482), strict=True)),
        },
        adder=alive(1.0, 2.3, chance=0),
        logs={"sinusoidal": alive(0.966, 0.7), "learned": alive(0.9665, 0.7), "none": dead(1)},
        decoding="free-running",
    )


RESULTS: dict[str, Callable[[], Results]] = {
    "right": right_results,
    "no BOS": flawed_results,
    "0 is PAD": lambda: flawed_results("no BOS, 0 is PAD", 1),
    "homework, no BOS": lambda: flawed_results("homework, no BOS", 2),
}

# --- layouts ---------------------------------------------------------------------------------------------------------


def write_json(file: Path, data: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=1))


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def epochs(log: Log) -> list[dict[str, float]]:
    return [
        {"epoch": number, **dict(zip(log, values, strict=True))}
        for number, values in enumerate(zip(*log.values(), strict=True), 1)
    ]


def split_head(head: str) -> tuple[str, int, int]:
    """'Decoder Self L0 H1' -> decoder self, 0, 1"""
    kind, layer, number = head.rsplit(" ", 2)
    return kind.lower(), int(layer[1:]), int(number[1:])


def said(results: Results) -> dict[str, str]:
    return {"decoding": results.decoding} if results.decoding else {}


def as_assigned(results: Results, folder: Path) -> None:
    """The assignment's names; lists of heads in dictionaries of layers."""
    heads: dict[str, dict[str, list[float]]] = {}
    for head, value in results.heads.items():
        kind, layer, _ = split_head(head)
        heads.setdefault(kind.replace(" ", "_"), {}).setdefault(str(layer), []).append(value)
    one, two = folder / "problem1" / "results", folder / "problem2" / "results"
    write_json(one / "training_log.json", results.adder)
    write_json(
        one / "head_analysis" / "ablation_results.json", {**said(results), "baseline": results.baseline, **heads}
    )
    entropies = [{"head": head, "same_column": 0.2, "entropy": 1.1} for head in results.heads]
    write_json(one / "head_analysis" / "head_specialization.json", entropies)
    for encoding, log in results.logs.items():
        write_json(two / encoding / "training_log.json", log)
    write_json(two / "extrapolation" / "extrapolation_results.json", results.lengths)
    pictures = ["attention_patterns/example_1.png", "head_analysis/head_importance.png"]
    more = ["extrapolation_curves", "encoding_comparison", "learned_position_embeddings"]
    files = [one / name for name in pictures] + [two / "extrapolation" / f"{name}.png" for name in more]
    for file in [*files, *(two / encoding / "training_curves.png" for encoding in ENCODINGS)]:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(PICTURE)


def flat(results: Results, folder: Path) -> None:
    """Short names for heads; a list of lengths beside lists of accuracies."""
    short = {"encoder": "enc", "decoder self": "decSelf", "decoder cross": "decCross"}
    named = {head: split_head(head) for head in results.heads}
    heads = {f"{short[kind]}_L{layer}_H{number}": results.heads[head] for head, (kind, layer, number) in named.items()}
    write_json(folder / "p1" / "ablation.json", {**said(results), "baseline_accuracy": results.baseline, **heads})
    write_json(folder / "p1" / "history.json", results.adder)
    lists = {encoding: list(values.values()) for encoding, values in results.lengths.items()}
    write_json(folder / "p2" / "extrapolation.json", {"test_lengths": [*LENGTHS], "results": lists})
    write_json(folder / "p2" / "histories.json", results.logs)


def nested(results: Results, folder: Path) -> None:
    """Dictionaries down to accuracy and importance; epochs as rows; encodings as rows of lengths."""
    heads: dict[str, Any] = {}
    for head, value in results.heads.items():
        kind, layer, number = split_head(head)
        stack, _, part = kind.partition(" ")
        name = f"{part}_attn_head_{number}" if part else f"head_{number}"
        entry = {"accuracy": value, "importance": results.baseline - value}
        heads.setdefault(stack, {}).setdefault(f"layer_{layer}", {})[name] = entry
    write_json(folder / "problem1" / "head_ablation.json", {**said(results), "baseline": results.baseline, **heads})
    write_json(folder / "problem1" / "log.json", epochs(results.adder))
    rows = {e: [{"length": n, "accuracy": a} for n, a in values.items()] for e, values in results.lengths.items()}
    write_json(folder / "problem2" / "lengths.json", {"by_encoding": rows})
    for encoding, log in results.logs.items():
        write_json(folder / "problem2" / f"{encoding}_log.json", {"encoding_type": encoding, "history": epochs(log)})


def tables(results: Results, folder: Path) -> None:
    """CSV, with percent where a column has them."""
    rows = [{"head": "none", "accuracy (%)": f"{100 * results.baseline:.2f}", **said(results)}]
    rows += [
        {"head": head, "accuracy (%)": f"{100 * value:.2f}", **said(results)} for head, value in results.heads.items()
    ]
    write_rows(folder / "problem1" / "heads.csv", rows)
    write_rows(folder / "problem1" / "training.csv", epochs(results.adder))
    wide = [
        {"encoding": encoding, **{str(n): f"{100 * a:.1f}" for n, a in values.items()}}
        for encoding, values in results.lengths.items()
    ]
    write_rows(folder / "problem2" / "accuracy_by_length.csv", wide)
    for encoding, log in results.logs.items():
        write_rows(folder / "problem2" / encoding / "epochs.csv", epochs(log))


def one_each(results: Results, folder: Path) -> None:
    """A file for each encoding; heads as rows of their own kind, layer and number; logs as JSON lines."""
    heads = [
        dict(zip(("type", "layer", "head"), split_head(head), strict=True)) | {"accuracy": a}
        for head, a in results.heads.items()
    ]
    write_json(
        folder / "results" / "addition" / "ablation.json",
        {**said(results), "baseline": {"accuracy": results.baseline}, "heads": heads},
    )
    write_lines(folder / "results" / "addition" / "train.jsonl", epochs(results.adder))
    for encoding, values in results.lengths.items():
        write_json(
            folder / "results" / "extrapolation" / f"results_{encoding}.json",
            {f"len_{n}": a for n, a in values.items()},
        )
    for encoding, log in results.logs.items():
        write_lines(folder / "results" / "extrapolation" / f"train_{encoding}.jsonl", epochs(log))


def write_lines(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")


def in_words(results: Results, folder: Path) -> None:
    """Long names, numbers as text in percent, a long table of lengths, logs as lines of text."""
    named = {head: split_head(head) for head in results.heads}
    heads = {
        f"{k.title()} Layer {n} Head {h}": f"{100 * results.heads[head]:.2f} %" for head, (k, n, h) in named.items()
    }
    write_json(
        folder / "Problem 1" / "Ablation.json",
        {**said(results), "Baseline": f"{100 * results.baseline:.2f} %", "Heads": heads},
    )
    write_text_log(folder / "Problem 1" / "train.log", results.adder)
    rows = [
        {"Encoding": e.title(), "Length": n, "Accuracy": a}
        for e, values in results.lengths.items()
        for n, a in values.items()
    ]
    write_rows(folder / "Problem 2" / "Extrapolation.csv", rows)
    for encoding, log in results.logs.items():
        write_text_log(folder / "Problem 2" / f"{encoding}.txt", log)


def write_text_log(file: Path, log: Log) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [", ".join(f"{name}: {value}" for name, value in row.items()) for row in epochs(log)]
    file.write_text("\n".join(["Starting to train", *lines]) + "\n")


def drops(results: Results, folder: Path) -> None:
    """Drops in lists of layers and heads, a ranking, and lengths before encodings."""
    kinds: dict[str, list[list[float]]] = {}
    for head, value in results.heads.items():
        kind, layer, _ = split_head(head)
        kinds.setdefault(kind.replace(" ", "_"), [[], []])[layer].append(round(results.baseline - value, 4))
    falls = {head: round(results.baseline - value, 4) for head, value in results.heads.items()}
    ranking = sorted(falls, key=lambda head: -falls[head])
    write_json(
        folder / "problem1" / "importance.json",
        {**said(results), "baseline": results.baseline, "drops": kinds, "ranking": ranking},
    )
    write_json(folder / "problem1" / "log.json", {str(row["epoch"]): row for row in epochs(results.adder)})
    write_json(
        folder / "problem2" / "extrapolation.json",
        {str(n): {e: results.lengths[e][n] for e in ENCODINGS} for n in LENGTHS},
    )
    write_json(folder / "problem2" / "logs.json", {e: epochs(log) for e, log in results.logs.items()})


def in_one_file(results: Results, folder: Path) -> None:
    """Everything in one JSON, heads as pairs of names and numbers."""
    heads = [[head, value] for head, value in results.heads.items()]
    one = {**said(results), "training": results.adder, "ablation": {"baseline": results.baseline, "accuracy": heads}}
    two = {
        "training": results.logs,
        "accuracy": {e: {str(n): {"acc": a} for n, a in values.items()} for e, values in results.lengths.items()},
    }
    write_json(folder / "results.json", {"problem1": one, "problem2": two})


LAYOUTS: dict[str, Callable[[Results, Path], None]] = {
    layout.__name__: layout for layout in (as_assigned, flat, nested, tables, one_each, in_words, drops, in_one_file)
}


def write_handin(results: str, layout: str, folder: Path) -> None:
    LAYOUTS[layout](RESULTS[results](), folder)

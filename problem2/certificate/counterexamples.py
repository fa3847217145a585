"""Counterexample-guided training until the certificate holds: `python -m problem2.certificate.counterexamples`.

The form of this classifier was chosen for the task, and it is trained on counterexamples that enumeration finds. What
comes out is a proof of correctness, not evidence that training generalises.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from problem1.shared.commands import Parser, one_sentence, parse_int, parse_path
from problem1.shared.progress import progress_bar
from problem1.shared.settings import quick
from problem1.shared.storage import model_hash, write_json
from problem1.shared.training import one_thread
from problem2 import published
from problem2.certificate.enumeration import accepted_sequence, highest_unsorted_logit, lowest_sorted_logit
from problem2.certificate.form import check_form
from problem2.certificate.proof import Certificate, certify
from problem2.certificate.tables import Tables, tabulate
from problem2.dataset import TRAINING_LENGTHS, Group, is_sorted, online_tokens
from problem2.model import Classifier, save_classifier
from problem2.train import RESULTS, ClassifierRecipe, classifier_loss, train_classifier

ROUNDS = quick(12, 1)  # at most

Pieces = list[tuple[np.ndarray, str]]  # pieces (N, k) and where a sequence holds them: start, end, anywhere

# --- what is still wrong ---------------------------------------------------------------------------------------------


def sorted_pieces(tables: Tables, margin: float) -> Pieces:
    """Sorted pieces with a token whose logit is not above the margin."""
    first, middle, last = tables.sorted_entries()
    return [
        (np.argwhere((tables.first <= margin) & first), "start"),
        (np.argwhere((tables.last <= margin) & last), "end"),
        (np.argwhere((tables.middle <= margin) & middle), "anywhere"),
    ]


def missed_descents(tables: Tables, margin: float, draw: np.random.Generator) -> Pieces:
    """Pieces around a descent a > b that neither of its two tokens rejects by the margin.

    a accepts after x <= a or at the start, b accepts before y >= b or at the end; one x and one y are drawn for each
    descent, so a piece holds no other descent for which a token could reject it.
    """
    up = tables.sorted_entries()[0]
    accepts, down = tables.middle > -margin, ~up
    before = np.where(accepts & up[:, :, None] & down[None], draw.random(accepts.shape), -1)  # x a b
    behind = np.where(accepts & down[:, :, None] & up[None], draw.random(accepts.shape), -1)  # a b y
    x, y, has_x, has_y = before.argmax(0), behind.argmax(2), before.max(0) >= 0, behind.max(2) >= 0
    first, last = (tables.first > -margin) & down, (tables.last > -margin) & down
    a, b = np.indices(down.shape)
    found = [
        (np.stack([x, a, b, y], axis=-1)[has_x & has_y], "anywhere"),
        (np.stack([a, b, y], axis=-1)[first & has_y], "start"),
        (np.stack([x, a, b], axis=-1)[has_x & last], "end"),
    ]
    if not any(len(rows) for rows, _ in found):  # what is left needs several descents to be missed
        sequence = accepted_sequence(tables, -margin)
        found = [(np.array([sequence]), where) for where in ("anywhere", "start", "end")] if sequence else []
    return found


def put_inside(piece: np.ndarray, where: str, length: int, draw: np.random.Generator, vocabulary: int) -> np.ndarray:
    """A sequence of this length that rises to the piece and rises on from it, in steps of any size."""
    spare = length - len(piece)
    before = {"start": 0, "end": spare}.get(where, int(draw.integers(spare + 1)))
    reach = np.exp(draw.uniform(0, np.log(vocabulary), 2)).astype(int)
    below, above = np.minimum(reach, (piece[0], vocabulary - 1 - piece[-1]))
    left = np.sort(piece[0] - draw.integers(below + 1, size=before))
    right = np.sort(piece[-1] + draw.integers(above + 1, size=spare - before))
    return np.concatenate([left, piece, right])


@torch.inference_mode()
def counterexamples(
    model: Classifier, tables: Tables, margin: float, draw: np.random.Generator, each: int = 300
) -> dict[int, Tensor]:
    """{length: tokens (N, length)} for lengths 8 to 16: sequences that the classifier gets wrong in a full run, or
    right by no more than the margin; up to `each` sorted and `each` unsorted ones of every length.
    """
    found, rejected, vocabulary = {}, sorted_pieces(tables, margin), len(tables.first)
    for length in range(TRAINING_LENGTHS[0], TRAINING_LENGTHS[1] + 1):
        kept = []
        for wrong in (rejected, missed_descents(tables, margin, draw)):
            candidates = [(piece, where) for pieces, where in wrong for piece in pieces if len(piece) <= length]
            if candidates:
                chosen = [candidates[i] for i in draw.integers(len(candidates), size=each)]
                inside = [put_inside(piece, where, length, draw, vocabulary) for piece, where in chosen]
                tokens = torch.from_numpy(np.stack(inside))
                logits, label = model(tokens).logits, is_sorted(tokens)
                kept.append(tokens[torch.where(label, logits <= margin, logits > -margin)])
        if kept and sum(map(len, kept)):
            found[length] = torch.cat(kept)
    return found


# --- training on it --------------------------------------------------------------------------------------------------


def one_round(
    model: Classifier,
    pool: Mapping[int, Tensor],
    recipe: ClassifierRecipe,
    draw: np.random.Generator,
    items: int,
    learning_rate: float,
) -> None:
    """One pass over `items` sequences, half of them from the pool {length: tokens}, half ordinary online ones."""
    decay = recipe.weight_decay
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)
    lengths, half, vocabulary = list(pool), recipe.batch_size // 2, model.shape["vocabulary"]
    for _ in range(items // recipe.batch_size):
        length = lengths[draw.integers(len(lengths))]
        ordinary = online_tokens(draw, half, length, recipe.narrow, recipe.adjacent, vocabulary)
        chosen = pool[length][draw.integers(len(pool[length]), size=half)]
        tokens = torch.cat([torch.from_numpy(ordinary), chosen])
        optimizer.zero_grad()
        classifier_loss(model, Group(tokens, is_sorted(tokens))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()


def train_on_counterexamples(
    model: Classifier,
    recipe: ClassifierRecipe,
    margin: float = 2.0,
    rounds: int = ROUNDS,
    items: int = 10_000,
    learning_rate: float = 5e-4,
    progress: bool = True,
) -> tuple[Certificate, list[dict[str, Any]]]:
    """Train `model` in place on the counterexamples that are left, round by round, until every sequence is right by the
    margin or the rounds are over. Those of earlier rounds stay in the pool, so that a round does not undo the last.

    Returns the Certificate and a row for each tabulation. The tables of a round are float32; the proof comes last.
    """
    check_form(model)
    rows: list[dict[str, Any]] = []
    pool: dict[int, Tensor] = {}
    bar = progress_bar(total=rounds, desc="counterexamples", unit="round", show=progress)
    with one_thread(), bar:
        for number in range(rounds + 1):
            started, draw = time.process_time(), np.random.default_rng([recipe.seed, 4, number])
            tables = tabulate(model)
            found = counterexamples(model, tables, margin, draw)
            rows.append({"round": number} | describe(tables, margin, draw))
            bar.set_postfix_str(", ".join(f"{name} {value:.4g}" for name, value in rows[-1].items()))
            if number < rounds and found:
                for length, tokens in found.items():
                    pool[length] = torch.cat([tokens, pool.get(length, tokens[:0])])
                one_round(model, pool, recipe, draw, items, learning_rate)
                bar.update()
            rows[-1]["cpu seconds"] = round(time.process_time() - started, 2)
            if not found:
                break
    return certify(model), rows


def describe(tables: Tables, margin: float, draw: np.random.Generator) -> dict[str, float]:
    """What is still wrong, as numbers of a row."""
    return {
        "lowest sorted logit": lowest_sorted_logit(tables),
        "highest unsorted logit": highest_unsorted_logit(tables)[0],
        "sorted pieces": sum(len(pieces) for pieces, _ in sorted_pieces(tables, margin)),
        "missed descents": sum(len(pieces) for pieces, _ in missed_descents(tables, margin, draw)),
    }


# --- from nothing to a certificate -----------------------------------------------------------------------------------


def certified_recipe(seed: int = 0) -> ClassifierRecipe:
    """One layer, the two neighbours, 400,000 online items: 40 epochs of 10,000."""
    return ClassifierRecipe(
        seed=seed,
        encoding="shaw",
        options="clip=1",
        shape="single",
        pooling="min",
        window=1,
        smooth=True,
        data="online",
        steps=quick(6_250, 300),
        evaluate_every=quick(250, 100),
    )


def train_certified(
    seed: int = 0, folder: str | Path | None = None, overwrite: bool = False, progress: bool = True
) -> tuple[Classifier, Certificate, dict[str, Any]]:
    """Train, train on counterexamples, certify. Returns the classifier, its Certificate and the report.

    `folder` gets certified.safetensors, certificate.json and, in training/, the run before the counterexamples.
    """
    recipe = certified_recipe(seed)
    folder = Path(folder or RESULTS / "certified" / f"seed{seed}")
    model, log = train_classifier(recipe, folder / "training", overwrite, progress)
    certificate, rows = train_on_counterexamples(model, recipe, progress=progress)
    report = {
        "certified": certificate.certified,
        "margin": certificate.margin,
        "ratio": certificate.ratio,
        "model": model_hash(model),
        **certificate.facts,
        "rounds": rows,
        "cpu seconds of training": log["cpu seconds"],
        "cpu seconds of counterexample training": round(sum(row["cpu seconds"] for row in rows), 2),
        "recipe": asdict(recipe),
    }
    save_classifier(model, published.certified_file(folder), recipe=asdict(recipe), certified=certificate.certified)
    write_json(published.certificate_file(folder), report)
    return model, certificate, report


def main() -> None:
    parser = Parser(
        prog="python -m problem2.certificate.counterexamples",
        description="Train a classifier on counterexamples and certify it.",
    )
    parser.add_argument("--seed", type=parse_int, default=0, help="of the training (default 0)")
    parser.add_argument(
        "--folder", type=parse_path, help="where it is kept (default: its own folder in problem2/results/certified)"
    )
    parser.add_argument("--overwrite", action="store_true", help="train again even if the training is on disk")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        _, certificate, report = train_certified(arguments.seed, arguments.folder, arguments.overwrite)
    print(f"{'rounds of counterexamples':40} {len(report['rounds']) - 1}")
    print(f"{'CPU seconds of training and rounds':40} {report['cpu seconds of training']:.0f}", end=" + ")
    print(f"{report['cpu seconds of counterexample training']:.0f}")
    print(certificate)
    sys.exit(not certificate.certified)


if __name__ == "__main__":
    main()

"""Train a judge until the certificate holds: `python -m problem2.repair --seed 0`.

The form of this judge was chosen for the task, and it is repaired on counterexamples that enumeration finds. What comes
out is a proof of correctness, not evidence that training generalises.
"""

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm

from problem1.commands import one_sentence
from problem1.loop import one_thread
from problem1.settings import quick
from problem1.storage import weights_hash, write_json
from problem2.certificate import (
    SHOWN,
    accepted_sequence,
    check_form,
    highest_unsorted_logit,
    judge_tables,
    lowest_sorted_logit,
    tabulate,
)
from problem2.dataset import TRAINING_LENGTHS, Group, is_sorted
from problem2.model import save_judge
from problem2.train import RESULTS, JudgeRecipe, fresh_tokens, judge_loss, train_judge

ROUNDS = quick(12, 1)  # at most

# --- what is left to repair ------------------------------------------------------------------------------------------


def sorted_pieces(tables, margin):
    """Sorted pieces with a token that says no more than the margin: [(pieces (N, k), where a sequence holds them)]."""
    first, middle, last = tables.sorted_entries()
    return [
        (np.argwhere((tables.first <= margin) & first), "start"),
        (np.argwhere((tables.last <= margin) & last), "end"),
        (np.argwhere((tables.middle <= margin) & middle), "anywhere"),
    ]


def missed_descents(tables, margin, draw):
    """Pieces around a descent a > b to which neither of its two tokens objects by the margin, in the same form.

    a is silent after x <= a or at the start, b is silent before y >= b or at the end; one x and one y are drawn for
    each descent, so a piece holds no other descent to which a token could object.
    """
    up = tables.sorted_entries()[0]
    silent, down = tables.middle > -margin, ~up
    before = np.where(silent & up[:, :, None] & down[None], draw.random(silent.shape), -1)  # x a b
    behind = np.where(silent & down[:, :, None] & up[None], draw.random(silent.shape), -1)  # a b y
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


def put_inside(piece, where, length, draw, vocabulary):
    """A sequence of this length that rises to the piece and rises on from it, in steps of any size."""
    spare = length - len(piece)
    before = {"start": 0, "end": spare}.get(where, draw.integers(spare + 1))
    reach = np.exp(draw.uniform(0, np.log(vocabulary), 2)).astype(int)
    below, above = np.minimum(reach, (piece[0], vocabulary - 1 - piece[-1]))
    left = np.sort(piece[0] - draw.integers(below + 1, size=before))
    right = np.sort(piece[-1] + draw.integers(above + 1, size=spare - before))
    return np.concatenate([left, piece, right])


@torch.inference_mode()
def counterexamples(model, tables, margin, draw, each=300):
    """{length: tokens (N, length)} for lengths 8 to 16: sequences that the judge gets wrong in a full run, or right by
    no more than the margin; up to `each` sorted and `each` unsorted ones of every length.
    """
    found, rejected, vocabulary = {}, sorted_pieces(tables, margin), len(tables.first)
    for length in range(TRAINING_LENGTHS[0], TRAINING_LENGTHS[1] + 1):
        kept = []
        for kind in (rejected, missed_descents(tables, margin, draw)):
            candidates = [(piece, where) for pieces, where in kind for piece in pieces if len(piece) <= length]
            if candidates:
                chosen = [candidates[i] for i in draw.integers(len(candidates), size=each)]
                tokens = torch.from_numpy(np.stack([put_inside(*piece, length, draw, vocabulary) for piece in chosen]))
                logits, label = model(tokens).logits, is_sorted(tokens)
                kept.append(tokens[torch.where(label, logits <= margin, logits > -margin)])
        if kept and sum(map(len, kept)):
            found[length] = torch.cat(kept)
    return found


# --- repair ----------------------------------------------------------------------------------------------------------


def repair_pass(model, pool, recipe, draw, items, learning_rate):
    """One pass over `items` sequences, half of them from the pool {length: tokens}, half ordinary fresh ones."""
    decay = recipe.weight_decay
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)
    lengths, half, vocabulary = list(pool), recipe.batch_size // 2, model.shape["vocabulary"]
    for _ in range(items // recipe.batch_size):
        length = lengths[draw.integers(len(lengths))]
        ordinary = fresh_tokens(draw, half, length, recipe.narrow, recipe.adjacent, vocabulary)
        chosen = pool[length][draw.integers(len(pool[length]), size=half)]
        tokens = torch.cat([torch.from_numpy(ordinary), chosen])
        optimizer.zero_grad()
        judge_loss(model, Group(tokens, is_sorted(tokens))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()


def repair(model, recipe, margin=2.0, rounds=ROUNDS, items=10_000, learning_rate=5e-4, progress=True):
    """Train `model` in place on the counterexamples that are left, round by round, until every sequence is right by the
    margin or the rounds are over. Those of earlier rounds stay in the pool, so that a round does not undo the last.

    Returns the Certificate and a row for each tabulation.
    """
    check_form(model)
    rows, pool, bar = [], {}, tqdm(total=rounds, desc="repair", unit="round", disable=not progress)
    with one_thread():
        for number in range(rounds + 1):
            started, draw = time.process_time(), np.random.default_rng([recipe.seed, 4, number])
            tables = tabulate(model)
            found = counterexamples(model, tables, margin, draw)
            rows.append({"round": number} | describe(tables, margin, draw))
            bar.set_postfix_str(", ".join(f"{name} {value:.4g}" for name, value in rows[-1].items()))
            if number < rounds and found:
                for length, tokens in found.items():
                    pool[length] = torch.cat([tokens, pool.get(length, tokens[:0])])
                repair_pass(model, pool, recipe, draw, items, learning_rate)
                bar.update()
            rows[-1]["cpu seconds"] = round(time.process_time() - started, 2)
            if number == rounds or not found:
                break
        bar.close()
        certificate = judge_tables(model, tables, SHOWN, started)
    return certificate, rows


def describe(tables, margin, draw):
    """What is left to repair, as numbers of a row."""
    return {
        "lowest sorted logit": lowest_sorted_logit(tables),
        "highest unsorted logit": highest_unsorted_logit(tables)[0],
        "sorted pieces": sum(len(pieces) for pieces, _ in sorted_pieces(tables, margin)),
        "missed descents": sum(len(pieces) for pieces, _ in missed_descents(tables, margin, draw)),
    }


# --- from nothing to a certificate -----------------------------------------------------------------------------------


def certified_recipe(seed=0):
    """One layer, the two neighbours, 400,000 fresh items: 40 epochs of 10,000."""
    return JudgeRecipe(
        seed=seed,
        encoding="shaw",
        options="clip=1",
        shape="single",
        pooling="worst",
        window=1,
        smooth=True,
        data="fresh",
        steps=quick(6_250, 300),
        evaluate_every=quick(250, 100),
    )


def train_certified(seed=0, folder=None, fresh=False, progress=True):
    """Train, repair, certify. Returns the judge, its Certificate and the report.

    `folder` gets judge.safetensors, certificate.json and, in training/, the run before the repair.
    """
    recipe = certified_recipe(seed)
    folder = Path(folder or RESULTS / "certified" / f"seed{seed}")
    model, log = train_judge(recipe, folder / "training", fresh, progress)
    certificate, rows = repair(model, recipe, progress=progress)
    report = {
        "certified": certificate.certified,
        "margin": certificate.margin,
        "weights": weights_hash(model),
        **asdict(certificate),
        "repair": rows,
        "cpu seconds of training": log["cpu seconds"],
        "cpu seconds of repair": round(sum(row["cpu seconds"] for row in rows), 2),
        "recipe": asdict(recipe),
    }
    save_judge(model, folder / "judge.safetensors", recipe=asdict(recipe), certified=certificate.certified)
    write_json(folder / "certificate.json", report)
    return model, certificate, report


def main():
    parser = argparse.ArgumentParser(prog="python -m problem2.repair", description="Train, repair and certify a judge.")
    parser.add_argument("--seed", type=int, default=0, help="of the training (default 0)")
    parser.add_argument("--folder", help="where it is kept (default: its own folder in problem2/results/certified)")
    parser.add_argument("--fresh", action="store_true", help="train again even if the training is on disk")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        _, certificate, report = train_certified(arguments.seed, arguments.folder, arguments.fresh)
    print(f"{'repair rounds':40} {len(report['repair']) - 1}")
    print(f"{'CPU seconds of training and repair':40} {report['cpu seconds of training']:.0f}", end=" + ")
    print(f"{report['cpu seconds of repair']:.0f}")
    print(certificate)
    sys.exit(not certificate.certified)


if __name__ == "__main__":
    main()

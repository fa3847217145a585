"""Which heads carry? Not by the looks of a map, but by cause: remove a head, or patch in its output in another sum.

Everything is asked per digit of the answer. "Wrong in sums with a carry" would not do: sums without a carry never have
a leading 1, so a head can fail on one and not on the other for reasons that have nothing to do with carrying.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from problem1.ablation import mean_heads
from problem1.dataset import carries_in, column_names, encode_pairs, operand_range, shift_right
from problem1.model import KIND_NAMES, Activations, Adder, Head
from problem1.shared.errors import UserError
from problem1.shared.parallel import parallel_map
from problem1.shared.statistics import difference_interval, mean_interval
from problem1.specialization import record_pairs

# --- removal: is a digit wrong because a carry arrives in it? ---------------------------------------------------------


def digit_errors(
    model: Adder, pairs: np.ndarray, reference: np.ndarray, groups: Mapping[str, Sequence[Head]] | None = None
) -> pd.DataFrame:
    """Error of each digit, given the right digits before it, without each head: when a carry arrives and when not.

    Tidy: head, method, digit, error with carry, error without, their difference with a 95 % interval; 'by the carry' is
    the share of wrong digits that would be right with the other carry. `groups` ({name: heads}) asks the
    same of several heads removed at once."""
    digits = model.shape["digits"]
    groups = groups or {name: [name] for name in model.head_names}
    record, target = record_pairs(model, pairs)
    arrives = carries_in(pairs, digits)
    rows: list[dict[str, Any]] = []
    for method, patches in {"zero": None, "mean": mean_heads(model, reference)}.items():

        def written_without(heads: Sequence[Head], patches: list[Tensor] | None = patches) -> np.ndarray:
            return resume_without(model, record, heads, patches).argmax(-1).numpy()

        for name, written in zip(groups, parallel_map(written_without, groups.values()), strict=True):
            wrong = written != target.numpy()
            for column, digit in enumerate(column_names(digits)[:-1]):  # no carry ever arrives in the ones
                given = arrives[:, column]
                yes, no = wrong[given, column], wrong[~given, column]
                rows.append({"head": name, "method": method, "digit": digit, "with carry": yes.mean()})
                rows[-1] |= {"without carry": no.mean(), **difference_interval(yes, no)}
                other = (target.numpy()[:, column] + np.where(given, -1, 1)) % 10  # the digit with the other carry
                rows[-1]["by the carry"] = (
                    np.mean((written[:, column] == other)[wrong[:, column]]) if wrong[:, column].any() else np.nan
                )
    return pd.DataFrame(rows)


def resume_without(
    model: Adder, record: Activations, heads: Sequence[Head], patches: Sequence[Tensor] | None = None
) -> Tensor:
    """Logits of the recorded run when these heads give zeros, or what `patches` holds for them."""
    first_site, _ = min(map(model.site_of, heads))
    return model.resume(record, first_site, model.gates(*heads), patches)


# --- activation patching: does a digit become that of the other sum? --------------------------------------------------


def minimal_pairs(
    column: int, count: int, through_nine: bool = False, digits: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of pairs that differ in one digit of the second operand: a carry arrives in `column`, or none does.

    The changed digit is in the next lower column or, `through_nine`, two columns down with a 9 in between that passes
    the carry on. The column's own digits never add up to 9, so the digits above it are the same in both sums, and the
    decoder has read the same when it comes to write this one.
    """
    changed = column + 1 + through_nine
    if not 0 <= column < changed <= digits:
        raise UserError(f"no carry can arrive in column {column} of a {digits}-digit sum in this way.")
    draw, low = np.random.default_rng([seed, column, through_nine]), operand_range(digits)[0]
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < count:
        a, b = (draw.integers(0, 10, size=(20_000, digits)) for _ in range(2))
        other = b.copy()
        other[:, changed - 1] = draw.integers(0, 10, size=len(b))  # source column c is at index c - 1
        keep = (a[:, changed - 1] + b[:, changed - 1] >= 10) & (a[:, changed - 1] + other[:, changed - 1] <= 8)
        if column > 0:
            keep &= a[:, column - 1] + b[:, column - 1] != 9
        if through_nine:
            keep &= a[:, column] + b[:, column] == 9
        place_value = 10 ** np.arange(digits - 1, -1, -1)
        a, b, other = (digits_of @ place_value for digits_of in (a, b, other))
        numbers = np.stack([a, b, a, other], axis=1)
        kept.append(numbers[keep & (numbers >= low).all(1)])
    numbers = np.concatenate(kept)[:count]
    return numbers[:, :2], numbers[:, 2:]


def patch_groups(model: Adder) -> dict[str, list[str]]:
    """What can be patched: each head, all heads of a kind, and, as a check whose flip rate must be 1, all heads."""
    names = model.head_names
    groups = {name: [name] for name in names}
    for label in KIND_NAMES.values():
        groups[f"all {label}"] = [name for name in names if name.startswith(f"{label} L")]
    return groups | {"all heads": names}


def patch_carries(model: Adder, count: int = 500, seed: int = 0) -> pd.DataFrame:
    """Activation patching between minimal pairs, both directions together: how often it flips a digit, with 95 %
    intervals.

    'flip rate' is the share of sums whose digit becomes that of the other sum: with the carry if none arrives, without
    it if one does. Only sums whose digit is right before patching on both sides are counted ('sums')."""
    digits, groups = model.shape["digits"], patch_groups(model)
    rows: list[dict[str, Any]] = []
    settings = [(column, False) for column in range(digits)] + [(column, True) for column in range(digits - 1)]
    for column, through_nine in settings:
        pairs = minimal_pairs(column, count, through_nine, digits, seed)
        sums = np.concatenate(pairs), np.concatenate(pairs[::-1])
        (record, target), (other, other_target) = (record_up_to(model, s, sums[0], column) for s in sums)
        right = (record.logits[:, column].argmax(-1) == target) & (other.logits[:, column].argmax(-1) == other_target)

        def flips(
            heads: Sequence[Head],
            record: Activations = record,
            other: Activations = other,
            target: Tensor = other_target,
            column: int = column,
        ) -> np.ndarray:
            logits = resume_without(model, record, heads, other.head_outputs)
            return (logits[:, column].argmax(-1) == target).numpy()

        for name, flipped in zip(groups, parallel_map(flips, groups.values()), strict=True):
            interval = {key: float(value) for key, value in mean_interval(flipped[right.numpy()]).items()}
            rows.append({"patched": name, "digit": column_names(digits)[column]})
            rows[-1] |= {"carry from": "through a 9" if through_nine else "next column", "sums": int(right.sum())}
            rows[-1] |= {"flip rate": interval.pop("mean"), **interval}
    return pd.DataFrame(rows)


@torch.inference_mode()
def record_up_to(model: Adder, pairs: np.ndarray, prefix_of: np.ndarray, column: int) -> tuple[Activations, Tensor]:
    """A recorded run in which the decoder reads the answer of `prefix_of`, and the right digit of `column`."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    _, shared = encode_pairs(prefix_of, model.shape["digits"])
    return model.record(source, shift_right(shared)), target[:, column]


def attention_by_sum(model: Adder, pairs: np.ndarray, name: Head) -> pd.DataFrame:
    """What a cross head attends to while it writes the hundreds, given the digit sum of the tens: two digits that add
    up to 9 decide nothing, so that only the column after them tells whether a carry comes."""
    site, head = model.site_of(name)
    digits = model.shape["digits"]
    record, _ = record_pairs(model, pairs)
    source, _ = encode_pairs(pairs, digits)
    weights = record.attention[site][:, head, digits - 2].numpy()  # the query that predicts the hundreds
    columns = {"own column": digits - 3, "next lower column": digits - 2, "two columns lower": digits - 1}
    tens = (source[:, digits - 2] + source[:, 2 * digits - 1]).numpy()
    rows = []
    for digit_sum in np.unique(tens):
        chosen = weights[tens == digit_sum]
        for attended, column in columns.items():
            share = chosen[:, [column, digits + 1 + column]].sum(1)
            rows.append({"digit sum": digit_sum, "attends to": attended, "pairs": len(chosen), **mean_interval(share)})
    return pd.DataFrame(rows)


def strongest(patched: pd.DataFrame, digit: str, kind: str) -> str:
    """The head of this kind ('Encoder', ...) that flips a digit most often, over all ways a carry can come."""
    rows = patched[(patched["digit"] == digit) & patched["patched"].str.startswith(f"{kind} L")]
    return rows.groupby("patched")["flip rate"].mean().idxmax()


def attention_past_nine(by_sum: pd.DataFrame) -> float:
    """How much more attention goes two columns down when the next column adds up to 9 than when it does not."""
    far = by_sum[by_sum["attends to"] == "two columns lower"].set_index("digit sum")["mean"]
    return float(far[9] - far.drop(9).mean())


# --- probes: where is the carry known? --------------------------------------------------------------------------------


def carry_probes(model: Adder, train_pairs: np.ndarray, test_pairs: np.ndarray) -> pd.DataFrame:
    """Accuracy with which a linear probe reads the carry into each digit from the streams, with 95 % intervals.

    Read at the source token of the second operand one column lower, and at the decoder's position that writes the
    digit. 'constant' is what a constant guess would reach."""
    digits = model.shape["digits"]
    rows: list[dict[str, Any]] = []
    records = [record_pairs(model, pairs)[0] for pairs in (train_pairs, test_pairs)]
    labels = [carries_in(pairs, digits) for pairs in (train_pairs, test_pairs)]
    for column, digit in enumerate(column_names(digits)[:-1]):
        y_train, y_test = (label[:, column] for label in labels)
        for (stream, point), (x_train, x_test) in zip(
            PROBE_POINTS, zip(*(probe_inputs(record, column, digits) for record in records), strict=True), strict=True
        ):
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2_000)).fit(x_train, y_train)
            interval = mean_interval(probe.predict(x_test) == y_test)
            rows.append({"digit": digit, "read at": stream, "point": point, "accuracy": float(interval["mean"])})
            rows[-1] |= {"low": float(interval["low"]), "high": float(interval["high"])}
            rows[-1] |= {"constant": float(max(y_test.mean(), 1 - y_test.mean()))}
    return pd.DataFrame(rows)


def compared_probes(model: Adder, train_pairs: np.ndarray, test_pairs: np.ndarray) -> pd.DataFrame:
    """The probes of a trained adder, and of one of its shape that was never trained: what can be read without
    learning."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = Adder(**model.shape).eval()
    found = {"trained": model, "untrained": untrained}
    return pd.concat([carry_probes(adder, train_pairs, test_pairs).assign(model=name) for name, adder in found.items()])


PROBE_POINTS = [
    ("source token", "embedding"),
    ("source token", "after Encoder L0"),
    ("source token", "after Encoder L1"),
    ("answer position", "embedding"),
    ("answer position", "after Self L0"),
    ("answer position", "after Cross L0"),
    ("answer position", "after Self L1"),
]


def probe_inputs(record: Activations, column: int, digits: int) -> list[np.ndarray]:
    """The streams at `PROBE_POINTS`, in that order."""
    token = digits + 1 + column  # of the second operand, one column lower: answer column c is source column c - 1
    source = [*record.streams[:2], record.memory]
    return [stream[:, token].numpy() for stream in source] + [s[:, column].numpy() for s in record.streams[2:]]

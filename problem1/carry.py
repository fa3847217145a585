"""Which heads carry? Not by the looks of a map, but by cause: remove a head, or give it what it said in another sum.

Everything is asked per digit of the answer. "Wrong in sums with a carry" would not do: sums without a carry never have
a leading 1, so a head can fail on one and not on the other for reasons that have nothing to do with carrying.
"""

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from problem1.ablation import mean_heads
from problem1.dataset import carries_in, column_names, decoder_input, encode_pairs, operand_range
from problem1.intervals import difference_interval, mean_interval
from problem1.model import KIND_NAMES
from problem1.parallel import parallel_map
from problem1.specialization import trace_pairs

# --- removal: is a digit wrong because a carry arrives in it? ---------------------------------------------------------


def digit_errors(model, pairs, reference, groups=None):
    """Error of each digit, given the right digits before it, without each head: when a carry arrives and when not.

    Tidy: head, method, digit, error with carry, error without, their difference with a 95 % interval; 'by the carry' is
    the share of wrong digits that would be right with the other carry. `groups` ({name: numbers of heads}) asks the
    same of several heads removed at once."""
    digits = model.shape["digits"]
    groups = groups or {name: [head] for head, name in enumerate(model.head_names)}
    trace, target = trace_pairs(model, pairs)
    arrives = carries_in(pairs, digits)
    rows = []
    for method, patches in {"zero": None, "mean": mean_heads(model, reference)}.items():

        def written_without(heads, patches=patches):
            return resume_without(model, trace, heads, patches).argmax(-1).numpy()

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


def resume_without(model, trace, heads, patches=None):
    """Logits of the traced run when these heads (numbers) give zeros, or what `patches` holds for them."""
    return model.resume(trace, min(heads) // model.shape["heads"], model.gates(*heads), patches)


# --- patching: does the answer follow a head that speaks of another sum? ----------------------------------------------


def minimal_pairs(column, count, through_nine=False, digits=3, seed=0):
    """Two arrays of pairs that differ in one digit of the second operand: a carry arrives in `column`, or none does.

    The changed digit is in the next lower column or, `through_nine`, two columns down with a 9 in between that passes
    the carry on. The column's own digits never add up to 9, so the digits above it are the same in both sums, and the
    decoder has read the same when it comes to write this one.
    """
    changed = column + 1 + through_nine
    if not 0 <= column < changed <= digits:
        raise ValueError(f"no carry can arrive in column {column} of a {digits}-digit sum in this way.")
    draw, low = np.random.default_rng([seed, column, through_nine]), operand_range(digits)[0]
    kept = []
    while sum(map(len, kept)) < count:
        a, b = (draw.integers(0, 10, size=(20_000, digits)) for _ in range(2))
        other = b.copy()
        other[:, changed - 1] = draw.integers(0, 10, size=len(b))  # source column c is at index c - 1
        keep = (a[:, changed - 1] + b[:, changed - 1] >= 10) & (a[:, changed - 1] + other[:, changed - 1] <= 8)
        if column > 0:
            keep &= a[:, column - 1] + b[:, column - 1] != 9
        if through_nine:
            keep &= a[:, column] + b[:, column] == 9
        place = 10 ** np.arange(digits - 1, -1, -1)
        numbers = np.stack([a @ place, b @ place, a @ place, other @ place], axis=1)
        kept.append(numbers[keep & (numbers >= low).all(1)])
    numbers = np.concatenate(kept)[:count]
    return numbers[:, :2], numbers[:, 2:]


def patch_groups(model):
    """What can be patched: each head alone, all heads of a kind, and, as a check that must follow always, all heads."""
    kinds = np.repeat([block.kind for block in model.blocks], model.shape["heads"])
    groups = {name: [head] for head, name in enumerate(model.head_names)}
    groups |= {f"all {label}": np.flatnonzero(kinds == kind).tolist() for kind, label in KIND_NAMES.items()}
    return groups | {"all heads": list(range(len(kinds)))}


def patch_carries(model, count=500, seed=0):
    """How often a digit follows a patched head between minimal pairs, both directions together, with 95 % intervals.

    'follows' is the share of sums whose digit becomes that of the other sum: with the carry if none arrives, without
    it if one does. Only sums whose digit is right before patching on both sides are counted ('sums')."""
    digits, groups, rows = model.shape["digits"], patch_groups(model), []
    settings = [(column, False) for column in range(digits)] + [(column, True) for column in range(digits - 1)]
    for column, through_nine in settings:
        pairs = minimal_pairs(column, count, through_nine, digits, seed)
        sums = np.concatenate(pairs), np.concatenate(pairs[::-1])
        (trace, target), (other, other_target) = (traced_up_to(model, s, sums[0], column) for s in sums)
        right = (trace.logits[:, column].argmax(-1) == target) & (other.logits[:, column].argmax(-1) == other_target)

        def follows(heads, trace=trace, other=other, target=other_target, column=column):
            logits = resume_without(model, trace, heads, other.heads)
            return (logits[:, column].argmax(-1) == target).numpy()

        results = parallel_map(follows, groups.values())
        for name, followed in zip(groups, results, strict=True):
            interval = mean_interval(followed[right.numpy()])
            rows.append({"patched": name, "digit": column_names(digits)[column]})
            rows[-1] |= {"carry from": "through a 9" if through_nine else "next column", "sums": int(right.sum())}
            rows[-1] |= {
                "follows": float(interval["mean"]),
                "low": float(interval["low"]),
                "high": float(interval["high"]),
            }
    return pd.DataFrame(rows)


@torch.inference_mode()
def traced_up_to(model, pairs, prefix_of, column):
    """A traced run in which the decoder reads the answer of `prefix_of`, and the right digit of `column`."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    _, shared = encode_pairs(prefix_of, model.shape["digits"])
    return model.trace(source, decoder_input(shared)), target[:, column]


def attention_by_sum(model, pairs, name):
    """Where a cross head looks while it writes the hundreds, given the digit sum of the tens: two digits that add up to
    9 decide nothing, so a head that carries has to look one column further."""
    site, head = divmod(model.head_names.index(name), model.shape["heads"])
    digits = model.shape["digits"]
    trace, _ = trace_pairs(model, pairs)
    source, _ = encode_pairs(pairs, digits)
    weights = trace.weights[site][:, head, digits - 2].numpy()  # the query that predicts the hundreds
    columns = {"own column": digits - 3, "next lower column": digits - 2, "two columns lower": digits - 1}
    tens = (source[:, digits - 2] + source[:, 2 * digits - 1]).numpy()
    rows = []
    for digit_sum in np.unique(tens):
        chosen = weights[tens == digit_sum]
        for place, column in columns.items():
            share = chosen[:, [column, digits + 1 + column]].sum(1)
            rows.append({"digit sum": digit_sum, "looks at": place, "pairs": len(chosen), **mean_interval(share)})
    return pd.DataFrame(rows)


def strongest(patched, digit, kind):
    """The head of this kind ('Encoder', ...) that a digit follows most, over all ways a carry can come."""
    rows = patched[(patched["digit"] == digit) & patched["patched"].str.startswith(f"{kind} L")]
    return rows.groupby("patched")["follows"].mean().idxmax()


def look_past_nine(by_sum):
    """How much more attention goes two columns down when the next column adds up to 9 than when it does not."""
    far = by_sum[by_sum["looks at"] == "two columns lower"].set_index("digit sum")["mean"]
    return far[9] - far.drop(9).mean()


# --- probes: where is the carry known? --------------------------------------------------------------------------------


def carry_probes(model, train_pairs, test_pairs):
    """Accuracy with which a linear probe reads the carry into each digit from the streams, with 95 % intervals.

    Read at the source token of the second operand one column lower, and at the decoder's position that writes the
    digit. 'constant' is what a constant guess would reach."""
    digits, rows = model.shape["digits"], []
    traces = [trace_pairs(model, pairs)[0] for pairs in (train_pairs, test_pairs)]
    labels = [carries_in(pairs, digits) for pairs in (train_pairs, test_pairs)]
    for column, digit in enumerate(column_names(digits)[:-1]):
        y_train, y_test = (label[:, column] for label in labels)
        for (place, point), (x_train, x_test) in zip(
            PROBE_POINTS, zip(*(probe_inputs(trace, column, digits) for trace in traces), strict=True), strict=True
        ):
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2_000)).fit(x_train, y_train)
            interval = mean_interval(probe.predict(x_test) == y_test)
            rows.append({"digit": digit, "read at": place, "point": point, "accuracy": float(interval["mean"])})
            rows[-1] |= {"low": float(interval["low"]), "high": float(interval["high"])}
            rows[-1] |= {"constant": float(max(y_test.mean(), 1 - y_test.mean()))}
    return pd.DataFrame(rows)


PROBE_POINTS = [
    ("source token", "embedding"),
    ("source token", "after Encoder L0"),
    ("source token", "after Encoder L1"),
    ("answer position", "embedding"),
    ("answer position", "after Self L0"),
    ("answer position", "after Cross L0"),
    ("answer position", "after Self L1"),
]


def probe_inputs(trace, column, digits):
    """The streams at `PROBE_POINTS`, in that order."""
    token = digits + 1 + column  # of the second operand, one column lower: answer column c is source column c - 1
    source = [*trace.streams[:2], trace.memory]
    return [stream[:, token].numpy() for stream in source] + [s[:, column].numpy() for s in trace.streams[2:]]

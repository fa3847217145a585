"""Balls against arithmetic to 120 digits, and against float64 that sums in any order.

The network and its parts stand here once more in plain Python, over any kind of numbers: `Exact` has 120 digits,
`Shuffled` is float64 with sums in random order.
"""

import copy
import decimal
import functools
import itertools
import math
import operator
from decimal import Decimal

import numpy as np
import pytest
import torch
from torch import nn

from problem2.certificate import rounding
from problem2.certificate.rounding import Ball, BoundedLogits, bounded_tables
from problem2.model import Classifier, load_classifier
from problem2.published import CERTIFIED

SEEN = {"first": (0, 1), "middle": (-1, 0, 1), "last": (-1, 0)}  # the distances that a token sees


@pytest.fixture(autouse=True)
def many_digits():
    with decimal.localcontext() as context, torch.inference_mode():
        context.prec = 120
        yield


# --- the same formulas over any kind of numbers ----------------------------------------------------------------------


class Exact:
    number = Decimal
    root, exp, total = map(staticmethod, (Decimal.sqrt, Decimal.exp, sum))

    def moments(self, x):
        mean = sum(x) / len(x)
        return mean, sum((value - mean) ** 2 for value in x) / len(x)


class Shuffled:
    number, root, exp = float, math.sqrt, math.exp

    def __init__(self, draw):
        self.draw = draw

    def total(self, terms):
        """Adds two of the terms at random until one is left, or one after the other."""
        terms = [terms[i] for i in self.draw.permutation(len(terms))]
        in_turn = self.draw.random() < 0.5
        while len(terms) > 1:
            other = terms.pop()
            terms[-1 if in_turn else self.draw.integers(len(terms))] += other
        return terms[0]

    def moments(self, x):
        """Mean and variance in two passes, from the squares, or updated value by value (Welford)."""
        method, n = self.draw.integers(3), len(x)
        mean = self.total(x) / n
        if method == 0:
            return mean, self.total([(value - mean) ** 2 for value in x]) / n
        if method == 1:
            return mean, self.total([value * value for value in x]) / n - mean * mean
        mean = squares = 0.0
        for count, i in enumerate(self.draw.permutation(n), start=1):
            before = x[i] - mean
            mean += before / count
            squares += before * (x[i] - mean)
        return mean, squares / n


def plain(kind, tensor):
    """Nested lists of this kind of numbers."""
    return kind.number(tensor.item()) if tensor.ndim == 0 else [plain(kind, row) for row in tensor]


def add(kind, a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def dot(kind, a, b):
    return kind.total([x * y for x, y in zip(a, b, strict=True)])


def linear(kind, x, layer):
    rows = zip(plain(kind, layer.weight), plain(kind, layer.bias), strict=True)
    return [kind.total([*(w * value for w, value in zip(row, x, strict=True)), bias]) for row, bias in rows]


def over_root(kind, x, number):
    return [value / kind.root(kind.number(number)) for value in x]


def relu(kind, x):
    return [max(value, kind.number(0)) for value in x]


def layer_norm(kind, x, layer):
    (mean, variance), gain, bias = kind.moments(x), plain(kind, layer.weight), plain(kind, layer.bias)
    scale = 1 / kind.root(variance + kind.number(layer.eps))
    return [(value - mean) * scale * g + b for value, g, b in zip(x, gain, bias, strict=True)]


def softmax(kind, x):
    terms = [kind.exp(value - max(x)) for value in x]
    total = kind.total(terms)
    return [term / total for term in terms]


def logit(kind, model, tokens, distances):
    """Of the token at distance 0 among its neighbours."""
    block, attention = model.blocks[0], model.blocks[0].attention
    stream = [plain(kind, row) for row in model.embedding.weight[list(tokens)]]
    normal, own = [layer_norm(kind, x, block.norm) for x in stream], distances.index(0)
    query = linear(kind, normal[own], attention.query)
    keys, values = ([linear(kind, x, layer) for x in normal] for layer in (attention.key, attention.value))
    width, positions, found = len(query) // attention.n_heads, attention.positions, []
    for head in range(attention.n_heads):
        part, scores = slice(head * width, (head + 1) * width), []
        for key, distance in zip(keys, distances, strict=True):
            score = over_root(kind, [dot(kind, query[part], key[part])], width)
            if positions.name == "shaw":
                near = plain(kind, positions.keys[head, positions.clip + distance])
                score = add(kind, score, over_root(kind, [dot(kind, query[part], near)], width))
            if positions.name == "clipped":
                score = add(kind, score, [plain(kind, positions.bias_table[head, positions.clip + distance])])
            scores += score
        weights = softmax(kind, scores)
        found += [dot(kind, weights, column) for column in zip(*(value[part] for value in values), strict=True)]
    x = add(kind, stream[own], linear(kind, found, attention.output))
    norm, widen, _, narrow = block.feed_forward
    x = add(kind, x, linear(kind, relu(kind, linear(kind, layer_norm(kind, x, norm), widen)), narrow))
    hidden = relu(kind, linear(kind, layer_norm(kind, x, model.norm), model.head[0]))
    return linear(kind, hidden, model.head[2])[0]


def holds(ball, number):
    return abs(Decimal(number) - Decimal(ball.mid.item())) <= Decimal(ball.rad.item())


# --- each part -------------------------------------------------------------------------------------------------------


def random_ball(draw, n, scale, widest=0.3):
    """Exact, a few roundings wide, or as wide as up to `widest` of its scale."""
    mid = scale * draw.normal(size=n)
    rad = draw.choice([0, 1e-16, 1e-9, 1e-3, widest]) * scale * draw.random(n) * (draw.random(n) < 0.8)
    return Ball(torch.from_numpy(mid), torch.from_numpy(rad))


def random_layer(draw, layer):
    for parameter in layer.parameters():
        parameter.copy_(torch.from_numpy(draw.normal(size=parameter.shape)))
    return layer


def points(kind, ball, draw):
    """A number in each ball, at its end every other time."""
    chosen = []
    for mid, rad, random, end in zip(ball.mid, ball.rad, draw.uniform(-1, 1, 99), draw.random(99) < 0.5, strict=False):
        at = Decimal(math.copysign(1, random) if end else random)
        at = kind.number(Decimal(mid.item()) + at * Decimal(rad.item()))
        chosen.append(at if holds(Ball(mid, rad), at) else kind.number(mid.item()))
    return chosen


def a_sum(draw, n, scale):
    balls = [random_ball(draw, n, scale), random_ball(draw, n, scale * 10 ** draw.uniform(-2, 2))]
    return balls, lambda a, b: a + b, add


def a_dot(draw, n, scale):
    balls = [random_ball(draw, n, scale), random_ball(draw, n, 1)]
    return balls, lambda a, b: rounding.dot(a, b, 0)[None], lambda kind, a, b: [dot(kind, a, b)]


def a_linear(draw, n, scale):
    layer = random_layer(draw, nn.Linear(n, 3))
    return [random_ball(draw, n, scale)], lambda x: rounding.linear(x, layer), lambda kind, x: linear(kind, x, layer)


def an_over_root(draw, n, scale):
    d = int(draw.integers(1, 40))
    return [random_ball(draw, n, scale)], lambda x: rounding.over_root(x, d), lambda kind, x: over_root(kind, x, d)


def a_relu(draw, n, scale):
    return [random_ball(draw, n, scale, widest=3)], rounding.relu, relu


def a_layer_norm(draw, n, scale):
    layer = random_layer(draw, nn.LayerNorm(n + 1))
    ball = random_ball(draw, n + 1, scale, widest=0.03)
    ball.mid += draw.choice([0, 3, 300]) * scale
    return [ball], lambda x: rounding.layer_norm(x, layer), lambda kind, x: layer_norm(kind, x, layer)


def a_softmax(draw, n, scale):
    ball = random_ball(draw, min(n, 4), draw.choice([1, 30, 1_000]), widest=draw.choice([1e-3, 0.3]))
    return [ball], lambda x: rounding.softmax(x, 0), softmax


PARTS = [a_sum, a_dot, a_linear, an_over_root, a_relu, a_layer_norm, a_softmax]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_network_stays_in_its_ball(part):
    """At exact points and at float64 points inside the balls of the inputs, there in any order of summation."""
    draw, refused, checked = np.random.default_rng(0), 0, 0
    for _ in range(600):
        balls, bounded, plainly = part(draw, int(draw.choice([1, 2, 3, 16])), 10 ** draw.uniform(-3, 3))
        try:
            result = bounded(*balls)
        except ValueError:  # a variance that may be zero
            refused += 1
            continue
        assert result.rad.isfinite().all() and (result.rad >= 0).all()
        for kind in [Exact(), Shuffled(draw)] * 2:
            numbers = plainly(kind, *(points(kind, ball, draw) for ball in balls))
            checked += len(numbers)
            assert all(holds(ball, number) for ball, number in zip(result, numbers, strict=True)), kind
    assert refused < 60 and checked > 2_000


def test_a_ball_is_reached_up_to_its_end():
    """Where the numbers move, not the rounding, the radius is what the exact results need, nearly."""
    x = Ball(torch.tensor([1.0, -2.0, 3.0]).double(), torch.tensor([0.1, 0.2, 0.4]).double())
    layer = nn.Linear(3, 1)
    layer.weight.copy_(torch.tensor([[2.0, -1.0, 0.5]]))
    assert rounding.linear(x, layer).rad.item() == pytest.approx(2 * 0.1 + 0.2 + 0.5 * 0.4)
    assert (x + x).rad.tolist() == pytest.approx([0.2, 0.4, 0.8])
    assert rounding.dot(x, rounding.exact(torch.tensor([2.0, -1.0, 0.5])), 0).rad.item() == pytest.approx(0.6)
    assert rounding.relu(x).rad.tolist() == pytest.approx([0.1, 0, 0.4])
    small = Ball(torch.tensor([0.5, 0.0]).double(), torch.tensor([1e-6, 1e-6]).double())
    weight = 1 / (1 + math.exp(-0.5))
    slope = weight * (1 - weight) * 2e-6  # one score up, the other down
    assert rounding.softmax(small, 0).rad.tolist() == pytest.approx([slope, slope], rel=1e-4)


def test_a_thousand_equal_numbers_added_in_turn():
    """Here the errors of a sum do not cancel: they grow with its length."""
    x = rounding.exact(torch.full((1_000,), 0.1, dtype=torch.float64))
    total = functools.reduce(operator.add, x.mid.tolist())
    assert abs(total - 100) > 100 * rounding.U * 100
    assert holds(rounding.dot(x, rounding.exact(torch.ones(1_000)), 0), total)
    ones = nn.Linear(1_000, 1)
    ones.weight.fill_(1), ones.bias.fill_(0)
    assert holds(rounding.linear(x, ones)[0], total)
    norm, mean = nn.LayerNorm(1_000), total / 1_000  # the variance is 0, or what the error of the mean makes of it
    assert holds(rounding.layer_norm(x, norm)[0], (0.1 - mean) / math.sqrt((0.1 - mean) ** 2 + norm.eps))


def test_the_exponential_is_as_good_as_assumed():
    x = torch.from_numpy(np.random.default_rng(1).uniform(-744, 0, 4_000))
    for argument, result in zip(x.tolist(), x.exp().tolist(), strict=True):
        error = abs(Decimal(result) - Decimal(argument).exp())
        assert error <= 2 * Decimal(math.ulp(result))  # 4 are allowed


def test_a_variance_that_may_be_zero_gets_one_sentence():
    wide = Ball(torch.zeros(1, 4).double(), torch.ones(1, 4).double())
    with pytest.raises(
        ValueError, match=r"^no bound on rounding: float64 cannot tell a variance in a norm from zero.$"
    ):
        rounding.layer_norm(wide, nn.LayerNorm(4))


# --- the network -----------------------------------------------------------------------------------------------------


def small_model(encoding="shaw", sharp=1.0, seed=0, **changes):
    """With biases and gains of its own, and a head width whose root is not a whole number."""
    torch.manual_seed(seed)
    form = {"n_layers": 1, "pooling": "min", "window": 1, "n_heads": 2, "d_model": 16, "d_ff": 32, "vocabulary": 5}
    model = Classifier(encoding, **form | changes).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
        if "query" in name:
            parameter.mul_(sharp)
    return model


MODELS = [("shaw", 1.0, {"clip": 1}), ("shaw", 8.0, {"clip": 3}), ("clipped", 1.0, {"clip": 1}), ("none", 4.0, {})]


@pytest.fixture(params=range(len(MODELS)), ids=["shaw", "shaw-sharp", "clipped", "none"])
def model(request):
    encoding, sharp, options = MODELS[request.param]
    return small_model(encoding, sharp, request.param, options=options)


def tables_of(model):
    """{first, middle, last: its Ball}"""
    tables = zip(*bounded_tables(model, batch_size=7), strict=True)
    return {name: Ball(*map(torch.from_numpy, table)) for name, table in zip(SEEN, tables, strict=True)}


def float64_run(model):
    """The logits of the same tables, from whole runs in float64."""
    model, size = copy.deepcopy(model).double(), model.shape["vocabulary"]
    pairs, triples = (torch.cartesian_prod(*[torch.arange(size)] * n) for n in (2, 3))
    ends = model(pairs).token_logits.view(size, size, 2)
    middle = model(triples).token_logits[:, 1].view(size, size, size)
    return {"first": ends[..., 0], "middle": middle, "last": ends[..., 1]}


def all_hold(tables, logits):
    return all(((tables[name].mid - logits[name]).abs() <= tables[name].rad).all() for name in SEEN)


def test_a_run_in_float64_is_in_the_balls_and_they_are_narrow(model):
    tables = tables_of(model)
    assert all_hold(tables, float64_run(model))
    for ball in tables.values():
        assert ball.rad.isfinite().all() and (ball.rad > 0).all() and ball.rad.max() < 1e-7


def test_another_order_of_its_units_is_in_the_balls(model):
    tables, original = tables_of(model), float64_run(model)
    for seed in range(5):
        logits = float64_run(reordered(model, np.random.default_rng(seed)))
        assert all_hold(tables, logits) and not torch.equal(logits["middle"], original["middle"])


def reordered(model, draw):
    """The same network with stream and hidden units in another order: every sum is another one."""
    model = copy.deepcopy(model)
    stream, hidden = (torch.from_numpy(draw.permutation(model.shape[axis])) for axis in ("d_model", "d_ff"))
    block, attention = model.blocks[0], model.blocks[0].attention
    norm, widen, _, narrow = block.feed_forward
    for parameter in (
        *(p for layer in (block.norm, norm, model.norm) for p in layer.parameters()),
        *(p for layer in (attention.output, narrow) for p in layer.parameters()),
    ):
        parameter.copy_(parameter[stream])
    for layer in (model.embedding, attention.query, attention.key, attention.value, widen, model.head[0]):
        layer.weight.copy_(layer.weight[:, stream])
    for parameter in widen.parameters():
        parameter.copy_(parameter[hidden])
    narrow.weight.copy_(narrow.weight[:, hidden])
    return model


@pytest.mark.parametrize("part", SEEN)
def test_120_digits_and_sums_in_any_order_are_in_the_balls(model, part):
    table, draw = tables_of(model)[part], np.random.default_rng(3)
    every = list(itertools.product(range(5), repeat=len(SEEN[part])))
    for tokens in draw.permutation(every)[:4].tolist():
        for kind in (Exact(), Shuffled(draw), Shuffled(draw)):
            assert holds(table[tuple(tokens)], logit(kind, model, tokens, SEEN[part]))


def test_the_published_model_is_known_to_a_hundred_thousandth():
    model = load_classifier(CERTIFIED)
    triples = torch.from_numpy(np.random.default_rng(4).integers(100, size=(2_000, 3)))
    ball = BoundedLogits(model)(triples, SEEN["middle"])
    assert ball.rad.max() < 1e-5
    assert ((copy.deepcopy(model).double()(triples).token_logits[:, 1] - ball.mid).abs() <= ball.rad).all()
    assert holds(ball[0], logit(Exact(), model, triples[0].tolist(), SEEN["middle"]))


# --- what gets no bound ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("encoding", "name"), [("alibi", "Alibi"), ("t5", "T5"), ("rope", "Rope")])
def test_another_encoding_gets_one_sentence(encoding, name):
    sentence = f"^no bound on rounding: the encoding is {name}; it must be Shaw, ClippedBias or NoEncoding.$"
    with pytest.raises(ValueError, match=sentence):
        bounded_tables(small_model(encoding))


@pytest.mark.parametrize("changes", [{"n_layers": 2}, {"window": 2}, {"window": None}, {"pooling": "mean"}])
def test_another_form_gets_one_sentence(changes):
    with pytest.raises(ValueError, match=r"the model must have one layer, window 1 and pooling min.$"):
        bounded_tables(small_model(**changes))


@pytest.mark.parametrize("option", ["ssmax", "values"])
def test_an_option_that_changes_the_formula_gets_one_sentence(option):
    with pytest.raises(ValueError, match=r"scalable softmax and values of distances are not in its formulas.$"):
        bounded_tables(small_model("shaw", options={option: 1}))


def test_weights_that_are_not_numbers_get_one_sentence():
    model = small_model()
    model.head[2].bias.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"some logits or their radii are not finite numbers.$"):
        bounded_tables(model)

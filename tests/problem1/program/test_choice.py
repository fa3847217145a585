"""The coarsest variable with which the sums stay right by a margin."""

import pytest
import torch

from problem1.dataset import split_pairs
from problem1.model import Adder
from problem1.program.choice import best, choose, coarsest, smallest_margin
from problem1.program.tables import Outputs, kind_of
from problem1.program.variables import Part, entries, vocabulary


@pytest.fixture(scope="module")
def outputs(program):
    return Outputs(program.model, split_pairs("train")[:3_000])


def test_the_best_variable_of_a_head_that_says_a_sum_is_that_sum(outputs):
    """With outputs that are made so: nothing finer explains more, so nothing finer is taken."""
    made = Outputs.__new__(Outputs)
    made.model, made.source, made.decoder_input = outputs.model, outputs.source, outputs.decoder_input
    torch.manual_seed(0)
    says = torch.randn(19, 32)[made.source[:, 1] + made.source[:, 5]]
    made.sites = [torch.zeros_like(each) for each in outputs.sites]
    made.sites[0][:, 0, 1] = says
    assert best(made, "Encoder L0 H0", 1, vocabulary("encoder", 1)) == (Part("sum", 1),)
    assert best(made, "Encoder L0 H1", 1, vocabulary("encoder", 1)) == ()


def test_the_coarsest_is_the_first_that_keeps_the_margin(program, outputs, some):
    head, position, least = "Decoder Cross L0 H2", 2, smallest_margin(program, some) / 2
    known = vocabulary("cross", position)
    finest = known[-1]
    variables, tables = list(program.choice[head]), list(program.tables[head])
    variables[position], tables[position] = finest, outputs.table(head, position, finest)
    begun = program.replaced(head, variables, tables)
    found = coarsest(begun, outputs, head, position, known, some, least)
    taken = found.choice[head][position]
    assert entries(taken) < entries(finest) and smallest_margin(found, some) >= least
    for coarser in known[: known.index(taken)]:
        tables[position] = outputs.table(head, position, coarser)
        variables[position] = coarser
        assert smallest_margin(program.replaced(head, variables, tables), some) < least


def test_nothing_coarser_is_taken_if_none_keeps_the_margin(program, outputs, some):
    head = program.speaking[-1]
    position = next(q for q, variable in enumerate(program.choice[head]) if variable)
    found = coarsest(program, outputs, head, position, vocabulary(kind_of(head), position), some, 1e9)
    assert found is program


def test_kinds_become_tables_whole_and_what_was_asked_stays_right(outputs):
    asked = split_pairs("validation")[:10]
    program = choose(outputs, 0.5, asked)
    assert len(program.choice) >= 8 and smallest_margin(program, asked) > 0
    for kind in ("encoder", "self", "cross"):
        assert len([head for head in program.choice if kind_of(head) == kind]) in (0, 8)
    for head, variables in program.choice.items():
        for position, variable in enumerate(variables):
            assert variable in vocabulary(kind_of(head), position)


def test_an_adder_that_is_wrong_from_the_start_stays_as_it_is():
    torch.manual_seed(0)
    model = Adder().eval()
    program = choose(Outputs(model, split_pairs("train")[:100]), 0.5, split_pairs("validation")[:5])
    assert program.choice == {} and not program.is_whole

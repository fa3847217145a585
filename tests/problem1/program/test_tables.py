"""Heads as tables: a program runs as its adder does, and a head that says something else is caught."""

import numpy as np
import pytest
import torch

from problem1 import published
from problem1.dataset import encode_pairs, shift_right, split_pairs
from problem1.model import Adder
from problem1.program.choice import smallest_margin
from problem1.program.counts import check_program
from problem1.program.tables import Outputs, Program, kind_of, load_program, mean_pairs, save_program
from problem1.program.variables import Part, entries
from problem1.shared.errors import UserError

COLUMN = (Part("sum", 1),)


@pytest.fixture(scope="module")
def outputs(program, some):
    return Outputs(program.model, some)


def tokens_of(pairs):
    source, target = encode_pairs(pairs)
    return source, shift_right(target)


def wrong(program, pairs):
    return len(check_program(program, pairs, progress=False).wrong)


def test_a_program_without_tables_is_the_adder(program, some):
    bare = Program(program.model, {}, {})
    with torch.inference_mode():
        assert torch.equal(bare(*tokens_of(some)), program.model(*tokens_of(some)))
        assert torch.equal(bare.generate(tokens_of(some)[0]), program.model.generate(tokens_of(some)[0]))


def test_tables_of_a_head_that_does_say_this_change_nothing(program, some):
    """A head whose output is the same for each value of a variable is its table."""
    torch.manual_seed(0)
    model, head = Adder().eval(), "Decoder Self L0 H2"  # the first digit read is BOS in every sum
    outputs = Outputs(model, some)
    site, _ = model.site_of(head)
    names = model.head_names[site * 4 : site * 4 + 4]
    choice = {name: [tuple(Part("written", each) for each in range(1, q + 1)) for q in range(3)] for name in names}
    tables = {name: [outputs.table(name, q, variable) for q, variable in enumerate(choice[name])] for name in names}
    source, decoder_input = tokens_of(some)
    program = Program(model, choice, tables)
    with torch.inference_mode():
        difference = program(source, decoder_input[:, :3]) - model(source, decoder_input[:, :3])
    assert difference.abs().max() < 1e-4


def test_a_table_holds_the_mean_output_for_each_value(outputs):
    head, position = "Decoder Cross L0 H2", 2
    table, value = outputs.table(head, position, COLUMN), outputs.value(COLUMN)
    assert table.shape == (19, 32) and torch.equal(value, outputs.source[:, 1] + outputs.source[:, 5])
    for each in (0, 9, 18):
        expected = outputs.of(head)[value == each, position].mean(0)
        assert torch.allclose(table[each], expected, atol=1e-6)
    assert torch.allclose(outputs.table(head, position, ())[0], outputs.of(head)[:, position].mean(0), atol=1e-6)


def test_a_value_that_does_not_occur_gets_the_mean_of_all(program):
    few = Outputs(program.model, np.array([[111, 111], [222, 333]]))
    table = few.table("Encoder L0 H0", 0, (Part("sum", 0),))
    assert torch.allclose(table[0], few.of("Encoder L0 H0")[:, 0].mean(0)) and not torch.equal(table[0], table[2])


def test_a_finer_variable_explains_no_less(outputs):
    for head in ("Encoder L1 H3", "Decoder Cross L0 H2"):
        left = [outputs.unexplained(head, 1, v) for v in ((), COLUMN, (Part("digit", 1, 0), Part("digit", 1, 1)))]
        assert left[0] == pytest.approx(1, abs=1e-4) and left[0] >= left[1] >= left[2] >= 0


def test_the_published_program_is_all_tables_and_adds(program):
    assert program.is_whole and program.add("663+497") == "1160" and program.add("999+999") == "1998"
    assert program.entries == sum(len(table) for tables in program.tables.values() for table in tables)
    assert program.numbers == sum(table.numel() for tables in program.tables.values() for table in tables)
    with pytest.raises(UserError, match="'6\\+4' is not a sum"):
        program.add("6+4")


def test_its_tables_are_means_of_what_the_adder_gives(program):
    """Recomputed for one head: nothing in the file was fitted to anything."""
    head, outputs = "Decoder Cross L0 H2", Outputs(program.model, mean_pairs())
    for position, (variable, table) in enumerate(zip(program.choice[head], program.tables[head], strict=True)):
        assert torch.allclose(outputs.table(head, position, variable), table, atol=1e-4)


def test_a_head_that_says_something_else_is_caught(program, some):
    """Its output rotated: the same tables in another direction. What every head says is part of the margin; where the
    controls call it needed, sums go wrong."""
    torch.manual_seed(0)
    rotation = torch.linalg.qr(torch.randn(32, 32)).Q
    rows = published.table("program_controls").set_index("head")
    needed = rows.index[rows["next row, right"] < 0.9 * rows["sums"]]
    assert len(needed) >= 3 and set(rows.index) == set(program.speaking)
    for head in program.speaking:
        stage = program.only(("encoder", "self")) if kind_of(head) == "encoder" else program
        rotated = stage.replaced(head, stage.choice[head], [table @ rotation for table in stage.tables[head]])
        assert smallest_margin(rotated, some) < smallest_margin(stage, some), head
        assert wrong(rotated, some) > 0 or head not in needed, head


def test_other_sums_are_looked_up_where_a_head_is_named(program, some):
    tokens, other = tokens_of(some), tokens_of(some[::-1].copy())
    everything = {head: other for head in program.choice}
    as_it_is = program(*tokens)
    assert torch.equal(program(*tokens, {}), as_it_is)
    assert not torch.equal(program(*tokens, {"Decoder Cross L0 H2": other}), as_it_is)
    looked_up = program(tokens[0], other[1], everything).argmax(-1)
    assert torch.equal(looked_up, program(*other).argmax(-1)), "all that a whole program knows of a source is looked up"


def test_a_part_of_a_program_has_the_heads_of_some_kinds(program):
    part = program.only(("encoder",))
    assert list(part.choice) == program.model.head_names[:8] == list(part.tables) and not part.is_whole


def test_the_means_are_of_training_pairs_and_of_random_ones():
    pairs = mean_pairs()
    assert len(pairs) == 50_000 and np.array_equal(pairs[:10_000], split_pairs("train"))


def test_a_program_is_read_as_it_was_saved_and_for_its_adder_only(program, tmp_path):
    save_program(program, tmp_path / "program.safetensors")
    again = load_program(tmp_path / "program.safetensors", program.model)
    assert again.choice == program.choice and all(
        isinstance(p, Part) for v in again.choice.values() for e in v for p in e
    )
    for head, tables in program.tables.items():
        assert all(torch.equal(*each) for each in zip(tables, again.tables[head], strict=True))
        assert [len(table) for table in tables] == [entries(variable) for variable in program.choice[head]]
    with pytest.raises(UserError, match="is a program of the adder"):
        load_program(tmp_path / "program.safetensors", Adder())

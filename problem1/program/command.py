"""The program of the published adder: `python -m problem1.program` prints its listing, a sum, and the counts."""

import time
from dataclasses import dataclass

import pandas as pd

from problem1 import published
from problem1.dataset import column_names, decode, encode_pairs, pair_count, parse, shift_right
from problem1.program.counts import STAGES, check_program
from problem1.program.lines import lines, position_name, statement, value_words
from problem1.program.tables import Program, kind_of, load_program
from problem1.program.variables import read, reads
from problem1.shared.commands import Parser, one_sentence

EXAMPLE = "663+497"


def published_program() -> Program:
    """The published adder with all 24 heads as tables."""
    return load_program(published.FOLDER / published.PROGRAM, published.published_adder()[0])


def listing(program: Program | None = None) -> pd.DataFrame:
    """What each head reads and says, a line each: of the published adder unless another program is given."""
    return lines(program or published_program())


@dataclass(frozen=True)
class Run:
    """One sum, followed through the program."""

    answer: str
    said: pd.DataFrame  # what each head that says something says, for each token of the source and digit of the answer
    digits: pd.DataFrame  # what is written, its logit, and the next best

    def steps(self) -> pd.DataFrame:
        """A row for each digit of the answer: what the cross heads say, and what is written."""
        heard = self.said[self.said["head"].str.startswith("Decoder Cross")]
        heads = heard["head"].str.removeprefix("Decoder Cross ").groupby([heard["at"], heard["means"]], sort=False)
        by = heads.agg(", ".join).reset_index()
        told = (by["means"] + " (" + by["head"] + ")").groupby(by["at"]).agg("; ".join)
        steps = self.digits.set_index("digit")
        steps.insert(0, "cross heads say", told.reindex(steps.index))
        return steps


def run(text: str = EXAMPLE, program: Program | None = None) -> Run:
    """'663+497', number by number: what the heads of the published program say, and which digits follow."""
    program = program or published_program()
    digits = program.shape["digits"]
    source, _ = encode_pairs(parse(text, digits), digits)
    answer = program.generate(source)
    decoder_input = shift_right(answer)
    said = []
    for head in program.speaking:
        for position, variable in enumerate(program.choice[head]):
            if variable:
                value = int(read(variable, source, decoder_input))
                line = {"at": position_name(kind_of(head), position, digits), "head": head}
                told = {"says": value_words(variable, value), "means": statement(variable, value, digits)}
                said.append(line | {"reads": " ".join(reads(variable))} | told)
    logits, order = program(source, decoder_input)[0].sort(descending=True)
    written = {
        "digit": column_names(digits),
        "written": order[:, 0].tolist(),
        "logit": logits[:, 0].tolist(),
        "next best": order[:, 1].tolist(),
        "its logit": logits[:, 1].tolist(),
    }
    return Run(decode(answer[0]), pd.DataFrame(said), pd.DataFrame(written))


def main() -> None:
    parser = Parser(prog="python -m problem1.program", description="The published adder as a program.")
    parser.add_argument("sum", nargs="?", default=EXAMPLE, help=f"follow this one (default {EXAMPLE})")
    parser.add_argument("--stages", action="store_true", help="also count with heads computed (4 CPU minutes)")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        program = published_program()
        followed = run(arguments.sum, program)
    parameters = sum(parameter.numel() for parameter in program.model.parameters())
    print(listing(program).to_string(index=False), end="\n\n")
    print(
        followed.said.drop(columns="means").to_string(index=False),
        followed.digits.round(2).to_string(index=False),
        sep="\n\n",
        end="\n\n",
    )
    print(f"{arguments.sum} = {followed.answer}\n")
    print(f"tables: {program.entries:,} rows, {program.numbers:,} numbers; the adder has {parameters:,} parameters")
    for stage, kinds in STAGES.items() if arguments.stages else [("all", STAGES["all"])]:
        started = time.process_time()
        check = check_program(program.only(kinds))
        print(
            f"{stage} heads as tables: {len(check.wrong):,} of {pair_count(program.shape['digits']):,} sums wrong, "
            f"smallest margin {check.margin:.2f} ({time.process_time() - started:.0f} CPU seconds)"
        )

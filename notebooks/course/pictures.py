"""The two pictures of the project's README, drawn from what is published: `python -m course.pictures`."""

from pathlib import Path

from matplotlib.figure import Figure

from problem1 import words as words1
from problem1.program import draw_program, published_program
from problem1.shared.storage import save_figure
from problem2 import plots, words
from problem2.analysis import evaluated, over_seeds
from problem2.encodings import ASSIGNED

FOLDER = Path(__file__).parent


def draw() -> dict[str, Figure]:
    """{file name: figure}: the first figure of either notebook."""
    program = published_program()
    exact = evaluated("augmented", set="exact")
    summary = over_seeds(exact, ["name", "length"])
    return {
        "adder.png": draw_program(program, claim=words1.speaking(program)),
        "encodings.png": plots.curves(summary, ASSIGNED, plots.class_shares(exact), words.at_32(summary)),
    }


def main() -> None:
    for name, figure in draw().items():
        save_figure(figure, FOLDER / name)
        print(FOLDER / name)


if __name__ == "__main__":
    main()

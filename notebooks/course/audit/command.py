"""`python -m course.audit PATH`: exit status 0 without a finding, 1 with findings, 2 if there is no such folder."""

import argparse
import os
import sys
from typing import NoReturn

from .report import audit


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help shows all options)\n")


def main() -> None:
    parser = Parser(
        prog="python -m course.audit",
        description="Audit the result files of a hand-in. Exit status: 0 no finding, 1 findings, 2 no such folder.",
        allow_abbrev=False,
    )
    parser.add_argument("path", nargs="?", help="the folder; nothing in it is run or changed")
    parser.add_argument("--markdown", action="store_true", help="for a comment instead of a terminal")
    arguments = parser.parse_args()
    if arguments.path is None:
        parser.error("name the folder of a hand-in")
    try:
        is_folder = os.path.isdir(arguments.path)
    except ValueError:  # a name that no folder can have
        is_folder = False
    if not is_folder:
        parser.exit(2, f"{parser.prog}: {arguments.path!r} is no folder; name the folder of a hand-in.\n")
    found = audit(arguments.path)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        print(found.markdown() if arguments.markdown else found.text(), flush=True)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1 if found.findings else 0)

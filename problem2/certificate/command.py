"""Prove a saved classifier right, or show where it is not: `python -m problem2.certificate`."""

import sys

from problem1.shared.commands import Parser, one_sentence, parse_path
from problem2.certificate.proof import certify
from problem2.model import load_classifier
from problem2.published import CERTIFIED


def main() -> None:
    parser = Parser(
        prog="python -m problem2.certificate",
        description="Prove that a classifier is right on every sequence, or show where not.",
    )
    parser.add_argument(
        "weights", type=parse_path, nargs="?", default=CERTIFIED, help="a safetensors file (default: the published one)"
    )
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        certificate = certify(load_classifier(arguments.weights))
    print(certificate)
    sys.exit(not certificate.certified)

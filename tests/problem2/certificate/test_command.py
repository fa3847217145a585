"""The command, on classifiers that it certifies, refuses and cannot read."""

import sys

import pytest

from problem2.certificate.command import main
from problem2.model import save_classifier
from tests.problem2.certificate.common import local_classifier


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["certificate", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_the_command_certifies_a_saved_classifier(trained, tmp_path, monkeypatch, capsys):
    save_classifier(trained, tmp_path / "classifier.safetensors")
    assert not run_command(monkeypatch, tmp_path / "classifier.safetensors")
    assert capsys.readouterr().out.startswith("CERTIFIED: right on every sequence of every length")
    save_classifier(local_classifier(), tmp_path / "untrained.safetensors")
    assert run_command(monkeypatch, tmp_path / "untrained.safetensors")
    assert "wrongly" in capsys.readouterr().out


def test_the_command_says_in_one_sentence_what_cannot_be(tmp_path, monkeypatch):
    save_classifier(local_classifier(n_layers=2), tmp_path / "deep.safetensors")
    for arguments, sentence in [
        (["nowhere.safetensors"], "nowhere.safetensors does not exist."),
        (
            [tmp_path / "deep.safetensors"],
            "n_layers is 2; a certificate needs 1: with more a token sees beyond its neighbours.",
        ),
    ]:
        assert run_command(monkeypatch, *arguments) == f"python -m problem2.certificate: {sentence}"

"""The frame of an explorer: it follows its controls, and what cannot be shown is told without losing the picture."""

import ipywidgets as widgets
import pytest

from problem1.shared import explorer as frame
from problem1.shared.canvas import Canvas
from problem1.shared.errors import UserError
from problem1.shared.explorer import Explorer


class Doubler(Explorer):
    """Doubles a number; 13 is a mistake of the user, 14 one of ours."""

    def __init__(self):
        super().__init__()
        self.number, self.other = widgets.IntText(1), widgets.IntText(1)
        self.asked = 0
        self.follow(self.number, self.other)
        self.widget = widgets.VBox([self.number, self.other, self.trouble, self.canvas])
        self.refresh()

    def ask(self):
        self.asked += 1
        if self.number.value == 13:
            raise UserError("13 & <b>more</b> cannot be doubled.")
        if self.number.value == 14:
            raise ValueError("a bug")
        return 2 * self.number.value

    def picture(self, shown):
        return Canvas(20, 10, f"twice is {shown}")


@pytest.fixture
def doubler():
    return Doubler()


def test_the_picture_follows_the_controls(doubler):
    assert doubler.shown == 2 and 'alt="twice is 2"' in doubler.canvas.value
    doubler.number.value = 4
    assert doubler.shown == 8 and 'alt="twice is 8"' in doubler.canvas.value


def test_what_a_user_did_wrong_is_told_in_a_sentence_and_the_last_good_picture_stays(doubler):
    doubler.number.value = 5
    before = doubler.canvas.value
    doubler.number.value = 13
    assert "13 &amp; &lt;b&gt;more&lt;/b&gt; cannot be doubled." in doubler.trouble.value
    assert doubler.canvas.value == before and doubler.shown == 10
    doubler.number.value = 6
    assert doubler.trouble.value == "" and doubler.shown == 12


def test_a_mistake_of_ours_is_not_hidden(doubler):
    with pytest.raises(ValueError, match="a bug"):
        doubler.number.value = 14


def test_many_controls_are_set_with_one_refresh(doubler):
    doubler.set([doubler.number, doubler.other], 7)
    assert doubler.asked == 2 and doubler.shown == 14 and doubler.other.value == 7 and not doubler.paused


def test_a_paused_explorer_does_not_ask(doubler):
    doubler.paused = True
    doubler.number.value = 3
    assert doubler.asked == 1 and doubler.shown == 2


def test_a_notebook_shows_the_widgets(doubler, monkeypatch):
    displayed = []
    monkeypatch.setattr(frame, "display", displayed.append)
    doubler._ipython_display_()
    assert displayed == [doubler.widget]


def test_a_frame_without_a_model_says_so():
    with pytest.raises(NotImplementedError):
        Explorer().ask()
    with pytest.raises(NotImplementedError):
        Explorer().picture(None)

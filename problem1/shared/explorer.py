"""The frame of an explorer: widgets around a picture that follows them."""

import html
from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from problem1.shared.canvas import Canvas
from problem1.shared.errors import UserError
from problem1.shared.training import one_thread


class Explorer:
    """Widgets around a picture. What cannot be shown is told in one sentence, and the last good picture stays."""

    widget: widgets.Widget

    def __init__(self) -> None:
        self.shown: Any = None
        self.paused = False
        self.canvas, self.trouble = widgets.HTML(), widgets.HTML()

    def ask(self) -> Any:
        """What the model says to what the widgets are set to; a UserError tells what is wrong with that."""
        raise NotImplementedError

    def picture(self, shown: Any) -> Canvas:
        raise NotImplementedError

    def follow(self, *controls: widgets.Widget) -> None:
        for control in controls:
            control.observe(self.refresh, "value")

    def refresh(self, change: Any = None) -> None:
        if self.paused:
            return
        try:
            with one_thread():
                self.shown = self.ask()
        except UserError as error:
            self.trouble.value = f'<span style="color: #c0282d">{html.escape(str(error))}</span>'
        else:
            self.trouble.value, self.canvas.value = "", self.picture(self.shown).tag()

    def set(self, controls: Iterable[widgets.Widget], value: Any) -> None:
        """Set many controls, refresh once."""
        self.paused = True
        for control in controls:
            control.value = value
        self.paused = False
        self.refresh()

    def _ipython_display_(self) -> None:
        display(self.widget)

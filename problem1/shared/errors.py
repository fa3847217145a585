"""What a user did wrong, told in one sentence."""


class UserError(ValueError):
    """Its sentence names the value and what is allowed. Commands print it; any other error keeps its traceback."""

"""The ways in which a command ends early by the user's doing."""


class UserError(ValueError):
    """Bad input, told in one line. The command line prints it and exits with code 2."""


class Interrupted(Exception):  # noqa: N818  # an outcome, not an error
    """The user stopped a training; its checkpoint is saved and it can go on."""

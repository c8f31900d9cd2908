"""The one exception for mistakes that the user can mend."""


class UserError(ValueError):
    """Bad input, told in one line. The command line prints it and exits with code 2."""

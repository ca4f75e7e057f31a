"""Why a measurement could not be made."""


class Failure(Exception):
    """str() says it in one line; `paceline` prints that and exits with 2."""

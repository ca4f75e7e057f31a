"""Output where the terminal has no Unicode (LANG=C): each character becomes one of ASCII that looks like it.

One for one, so that what was lined up stays so. What has no likeness becomes a question mark.
"""

import codecs

NAME = "paceline_plain_text"
LIKE = str.maketrans(
    {
        **dict.fromkeys("█▇▆▓", "#"),
        **dict.fromkeys("▅▄▒", "+"),
        **dict.fromkeys("▃▂▁░", "-"),
        "·": ".",
        "…": "~",
        "×": "x",
        "÷": "/",
        "±": "~",
        "µ": "u",
        "°": "o",
        "≤": "<",
        "≥": ">",
        "→": ">",
        **dict.fromkeys("–—−─━", "-"),
        **dict.fromkeys("│┃", "|"),
        **dict.fromkeys("‘’", "'"),
        **dict.fromkeys("“”", '"'),
    }
)


def register() -> str:
    """The name of the error handler, for `reconfigure(errors=...)`."""
    codecs.register_error(NAME, _replaced)
    return NAME


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    refused = error.object[error.start : error.end]
    return refused.translate(LIKE).encode("ascii", "replace").decode(), error.end

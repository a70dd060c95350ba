"""Numbers of things, as people read them."""


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "block"), counted(2, "block"), counted(0, "error")
    ('1 block', '2 blocks', '0 errors')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

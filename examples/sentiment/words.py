"""Words of a text: letters and digits, an apostrophe between them; everything else divides.

words("It's GOOD – really.") -> ["it's", "good", "really"]
"""

import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words(text: str) -> list[str]:
    """Return the words of a text in order, in small letters.

    >>> words("It’s GOOD, isn't it? 10/10")
    ["it's", 'good', "isn't", 'it', '10', '10']
    """
    found = _WORD.findall(unicodedata.normalize("NFC", text).casefold())
    return [word.replace("’", "'") for word in found]

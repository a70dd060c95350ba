"""The errors of the language's surface: every kind with its code and its texts.

Imported only when a file has an error.
"""

from xg.syntax.errors.characters import (
    ForbiddenCharacter,
    ForeignLetters,
    ForeignSpelling,
    NotText,
    UnclosedText,
    UnknownCharacter,
)
from xg.syntax.errors.grammar import (
    ArrowAsComparison,
    AssignedChain,
    AxisFormula,
    ColonBeforeShape,
    ColonForBrace,
    DefaultAmongData,
    InfixInChain,
    InfixWord,
    MissingComma,
    MissingTimes,
    NumberInChain,
    OperandWithoutArrow,
    OtherWord,
    ReservedName,
    Semicolon,
    ShapeElsewhere,
    StackedPower,
    StackedSign,
    StrayBracket,
    UnclosedBlock,
    UnclosedBracket,
    Unexpected,
    WrongBracket,
)
from xg.syntax.errors.lines import FileBeforeNames, LinesInOne, StatementOutside, UnquotedFile
from xg.syntax.errors.trees import (
    ArgumentOrder,
    FractionInPath,
    FrozenElsewhere,
    FrozenIntegers,
    InfiniteNumber,
    MissingShape,
    NamelessResult,
    NamesInTheMiddle,
    NumberedAxis,
    RangeWithoutShape,
    UnknownMemory,
    WildcardOutsidePlan,
    WrongEdition,
)

__all__ = [
    "ArgumentOrder", "ArrowAsComparison", "AssignedChain", "AxisFormula", "ColonBeforeShape",
    "ColonForBrace", "DefaultAmongData", "FileBeforeNames", "ForbiddenCharacter", "ForeignLetters",
    "ForeignSpelling", "FractionInPath", "FrozenElsewhere", "FrozenIntegers", "InfiniteNumber",
    "InfixInChain", "InfixWord", "LinesInOne", "MissingComma", "MissingShape", "MissingTimes",
    "NamelessResult", "NamesInTheMiddle", "NotText", "NumberInChain", "NumberedAxis",
    "RangeWithoutShape", "OperandWithoutArrow", "OtherWord", "ReservedName", "Semicolon",
    "ShapeElsewhere", "StackedPower", "StackedSign", "StatementOutside", "StrayBracket",
    "UnclosedBlock", "UnclosedBracket", "UnclosedText", "Unexpected", "UnknownCharacter",
    "UnknownMemory", "UnquotedFile", "WildcardOutsidePlan", "WrongBracket", "WrongEdition",
]  # fmt: skip

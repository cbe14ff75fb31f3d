"""A number of JSON with a fraction or an exponent, with the characters that the message has: 1.50 is not 1.5."""


class SentNumber:
    """The number as its text. Two objects are never equal: compare what their texts become."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

"""Text for cells of CSV files that people open in a spreadsheet. Standard library only."""

FORMULA = ("=", "+", "-", "@", "\t")  # how a spreadsheet recognises a formula


def no_formula(text: str) -> str:
    """Return ``text`` so that no spreadsheet takes it for a formula: it may come from other people."""
    return f"'{text}" if text.startswith(FORMULA) else text

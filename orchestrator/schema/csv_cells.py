"""Text for cells of CSV files that people open in a spreadsheet. Standard library only."""

FORMULA = ("=", "+", "-", "@", "\t")  # how a spreadsheet recognises a formula


def no_formula(text: str) -> str:
    """Return ``text`` so that no spreadsheet takes it for a formula: it may come from other people. Numbers stay."""
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.startswith("\t")

"""Published measurements compared with predictions."""

import re

from orchestrator import packaged_files, recipes
from orchestrator.prediction import backtest

DOCS = packaged_files.PACKAGE.parent / "docs"


def test_most_published_rows_are_predicted() -> None:
    """At least 12 rows without a fitted constant, of which at least three quarters are within 10 points."""
    counted = [test for test in backtest.test() if not test.calibrates]
    assert len(counted) >= 12
    assert sum(test.near for test in counted) >= max(9, 0.75 * len(counted))


def test_every_miss_has_a_reason_and_no_other_row_has() -> None:
    assert all(bool(test.why) != test.near for test in backtest.test())


def test_rows_have_a_source_a_known_model_and_one_number() -> None:
    for entry in backtest.published():
        assert entry.source
        assert entry.model in recipes.models()
        for row in entry.rows:
            assert (row.efficiency is None) != (row.images is None)


def test_published_images_become_efficiency() -> None:
    row = next(test for test in backtest.test() if test.entry.name == "horovod #416" and test.gpus == 16)
    assert round(row.published, 4) == 0.7334  # as printed in the issue


def test_pages_have_the_numbers_of_the_backtest() -> None:
    tests = backtest.test()
    counted = [test for test in tests if not test.calibrates]
    missed = [test for test in counted if not test.near]
    near, gpus = len(counted) - len(missed), [test.gpus for test in tests]
    names = ("prediction-model.md", "guide/prediction.md")
    model, guide = (" ".join((DOCS / name).read_text().split()) for name in names)
    assert f"predicts {len(tests)} published measurements" in model
    assert f"on {min(gpus)} to {max(gpus)} GPUs" in model
    assert f"Of the other {len(counted)}, {near} are within 10 points of efficiency" in model
    assert re.search(rf"Of {len(counted)} \[published measurements\]\(\S+\), {near} are predicted within 10", guide)
    assert ("The other five are predicted too fast" in model, len(missed)) == (True, 5)
    assert all(test.error > 0 for test in missed)

"""What engines train on: the samples and learning rates of `train`, and files of weights."""

from pathlib import Path

import numpy as np
import pytest

from orchestrator.trainer.data.order import epoch_order
from orchestrator.trainer.engines import step_inputs, weights
from tests import samples

ROWS = 70


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(samples.mnist(tmp_path / "data", {"train": ROWS, "t10k": 9}))


def ranks(data: str, world: int, **changes: object) -> list[step_inputs.Course]:
    config = samples.train_config(data=data, **{"batch_size": 16, **changes})
    return [step_inputs.load(config, rank, world) for rank in range(world)]


@pytest.mark.parametrize("epoch", [1, 2])
def test_ranks_train_on_their_parts_of_the_order_of_train(data: str, epoch: int) -> None:
    order = epoch_order(ROWS, seed=1, epoch=epoch)
    for mine in ranks(data, 2):
        assert mine.batches(epoch).tolist() == order[mine.rank :: 2][:32].reshape(2, 16).tolist()


def test_ranks_evaluate_every_sample_once(data: str) -> None:
    evaluated = [number for mine in ranks(data, 2, batch_size=4) for batch in mine.test_batches() for number in batch]
    assert sorted(evaluated) == list(range(9))
    assert [len(batch) for batch in ranks(data, 2, batch_size=4)[0].test_batches()] == [4, 1]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize(("limit", "evaluated"), [(None, 9), (1, 1), (5, 5), (9, 9), (64, 9)])
def test_ranks_evaluate_the_first_samples_of_the_test_split(
    data: str, world: int, limit: int | None, evaluated: int
) -> None:
    courses = ranks(data, world, batch_size=4, test_samples=limit)
    whole = ranks(data, 1)[0].test
    found = [number for mine in courses for batch in mine.test_batches() for number in batch]
    assert sorted(found) == list(range(evaluated))
    for mine in courses:
        assert all(np.array_equal(part, all_[:evaluated]) for part, all_ in zip(mine.test, whole, strict=True))
        assert len(mine.train[1]) == ROWS


def test_steps_end_a_course_within_an_epoch(data: str) -> None:
    mine = ranks(data, 2, steps=3)[0]
    assert mine.total_steps == 3
    assert list(mine.epochs()) == [1, 2]
    assert [len(mine.batches(epoch)) for epoch in mine.epochs()] == [2, 1]


def test_the_learning_rate_grows_with_ranks_unless_an_engine_scales_it_otherwise(data: str) -> None:
    mine = ranks(data, 2)[0]
    assert (mine.peak, mine.rate(0)) == (0.2, 0.2)
    assert step_inputs.load(mine.config, 0, 2, scale=1).peak == 0.1


def test_a_batch_is_no_larger_than_the_part_of_a_rank(data: str) -> None:
    assert ranks(data, 3, batch_size=64)[0].batch == ROWS // 3


def test_more_ranks_than_images_end_the_program(data: str) -> None:
    with pytest.raises(SystemExit, match="70 training images for 71 ranks: use --np 70 or fewer"):
        step_inputs.load(samples.train_config(data=data), 0, 71)


def test_data_that_is_missing_ends_the_program(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"rank 1: .*t10k-.*missing"):
        step_inputs.load(samples.train_config(data=str(tmp_path)), 1, 2)


def test_weights_are_written_whole_and_read_by_every_rank(tmp_path: Path) -> None:
    written = {"convolution/0/kernel": np.ones((3, 3, 1, 6), np.float32), "dense/0/bias": np.zeros(2, np.float32)}
    weights.write(tmp_path / weights.INITIAL, written)
    for rank in (0, 1):
        read = weights.initial(tmp_path, rank)
        assert {name: values.tolist() for name, values in read.items()} == {
            name: values.tolist() for name, values in written.items()
        }
    assert [path.name for path in tmp_path.iterdir()] == [weights.INITIAL]


def test_the_digest_follows_every_number_and_no_order() -> None:
    first, second = np.zeros(2, np.float32), np.ones(3, np.float32)
    assert weights.digest({"a": first, "b": second}) == weights.digest({"b": second, "a": first})
    assert weights.digest({"a": first, "b": second}) != weights.digest({"a": first, "b": second + 1})


def test_weights_that_never_come_end_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "LIMIT_SECONDS", 0.1)
    with pytest.raises(SystemExit, match="rank 1: rank 0 wrote no"):
        weights.initial(tmp_path, 1)

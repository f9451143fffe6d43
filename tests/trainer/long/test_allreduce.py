"""Means of gradients over real ranks, for every route and compression."""

from pathlib import Path

import pytest
import tensorflow as tf

from orchestrator.trainer.comm import allreduce
from tests.trainer import launcher

# Every rank can compute all ranks' gradients, so it knows the mean. Groups are small, so that there are several.
EVERY_WAY = """
import hashlib, sys
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf
from orchestrator.trainer.comm import allreduce
from tests import samples
from tests.trainer import two_per_node

SHAPES = [(3, 3, 4, 8), (8,), (33, 10), (1,), (700, 3)]
allreduce.GROUP_BYTES = 4096
allreduce.begin()
HIERARCHICAL = hvd.size() > 3
if HIERARCHICAL:
    two_per_node.pretend()
def of(rank):
    random = np.random.default_rng(rank)
    return [random.standard_normal(shape).astype(np.float32) for shape in SHAPES]
everyones = [of(rank) for rank in range(hvd.size())]
means = [np.mean([mine[n].astype(np.float64) for mine in everyones], axis=0) for n in range(len(SHAPES))]
largest = max(float(np.abs(one).max()) for mine in everyones for one in mine)
ROUNDED = 3 if HIERARCHICAL else 2
UNIT = {"none": 2.0**-22, "fp16": 2.0**-11, "bf16": 2.0**-8}  # half a last bit, of numbers up to 1
for compression, unit in UNIT.items():
    for predivide in (1.0, 2.0):
        config = samples.train_config(
            compression=compression, gradient_predivide_factor=predivide, hierarchical=HIERARCHICAL
        )
        @tf.function
        def step():
            return allreduce.allreduce_mean([tf.constant(one) for one in of(hvd.rank())], config)[0]

        for _ in range(2):
            found = [one.numpy() for one in step()]
        for one, mean in zip(found, means, strict=True):
            assert one.dtype == np.float32 and one.shape == mean.shape
            np.testing.assert_allclose(one, mean, rtol=0, atol=ROUNDED * unit * largest)
        digests = hvd.allgather_object(hashlib.sha256(b"".join(one.tobytes() for one in found)).hexdigest())
        assert len(set(digests)) == 1, (compression, digests)
        print(f"rank {hvd.rank()}: {compression} by {allreduce.route(config)}")
"""
# A gradient that a layer computed in bfloat16 and TensorFlow widened for its variable is sent in bfloat16: the result
# equals that of a float32 gradient rounded before and after the sum.
WIDENED = """
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf
from orchestrator.trainer.comm import allreduce
from tests import samples
from tests.trainer import two_per_node

allreduce.begin()
HIERARCHICAL = hvd.size() > 3
if HIERARCHICAL:
    two_per_node.pretend()
config = samples.train_config(compression="bf16", hierarchical=HIERARCHICAL)
def of(rank):
    random = np.random.default_rng(rank)
    return [tf.cast(random.standard_normal(shape), tf.bfloat16) for shape in [(3, 3, 4, 8), (1000,), (1,), (700, 3)]]
def averages(between):
    @tf.function
    def step(mine):
        wide = [between(tf.cast(one, tf.float32)) for one in mine]
        print(f"rank {hvd.rank()}: {allreduce.before_upcast(wide, config)[0].dtype.name}")
        return allreduce.allreduce_mean(wide, config)[0]
    return step(of(hvd.rank()))
widened, in_32_bits = averages(lambda one: one), averages(lambda one: one + 0.0)
everyones = [of(rank) for rank in range(hvd.size())]
for number, (one, other) in enumerate(zip(widened, in_32_bits, strict=True)):
    whole = tf.add_n([tf.cast(mine[number], tf.float32) for mine in everyones]) * (1.0 / hvd.size())
    np.testing.assert_array_equal(one, other)
    if not HIERARCHICAL:  # which rounds once more
        np.testing.assert_array_equal(one, tf.cast(tf.cast(whole, tf.bfloat16), tf.float32))
print(f"rank {hvd.rank()}: the same bits")
"""
# The seven gradients of each rank become ready at different times, which change with every step.
JITTER = """
import hashlib, sys, time
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf
from orchestrator.trainer.comm import allreduce
from tests import samples
from tests.trainer import two_per_node

allreduce.GROUP_BYTES = 400_000
allreduce.begin()
HIERARCHICAL = hvd.size() > 3
if HIERARCHICAL:
    two_per_node.pretend()
random, moments = np.random.default_rng(hvd.rank()), np.random.default_rng([7, hvd.rank()])
gradients = [random.standard_normal(30_000 + 777 * number).astype(np.float32) for number in range(7)]
config = samples.train_config(compression=sys.argv[1], hierarchical=HIERARCHICAL)
def late(number):
    time.sleep(float(moments.random()) * 0.01)
    return gradients[number]
@tf.function
def step():
    own = [tf.ensure_shape(tf.numpy_function(late, [n], tf.float32), gradients[n].shape) for n in range(7)]
    return allreduce.allreduce_mean(own, config)[0]
digests = {hashlib.sha256(b"".join(one.numpy().tobytes() for one in step())).hexdigest() for _ in range(40)}
print(f"rank {hvd.rank()}: {len(digests)} different results of 40")
"""
ADASUM = """
import horovod.tensorflow as hvd, numpy as np, tensorflow as tf
from orchestrator.trainer.comm import allreduce
from tests import samples

allreduce.begin()
config = samples.train_config(adasum=True)
pairs = [[np.float32([3, 0]), np.float32([0, 5])], [np.float32([2, 4]), np.float32([2, 4])],
         [np.float32([1, 2, 3]), np.float32([4, -1, 0.5])]]
@tf.function
def step():
    return allreduce.allreduce_mean([tf.constant(pair[hvd.rank()]) for pair in pairs], config)[0]
def by_the_paper(a, b):
    return (1 - a @ b / (2 * a @ a)) * a + (1 - a @ b / (2 * b @ b)) * b
for found, pair in zip(step(), pairs, strict=True):
    np.testing.assert_allclose(found.numpy(), by_the_paper(*pair), rtol=1e-6)
assert (allreduce.route(config), allreduce.scale(config)) == ("adasum", 1)
"""

LARGE = """
import horovod.tensorflow as hvd, tensorflow as tf
from orchestrator.trainer.comm import allreduce

allreduce.begin()
received = hvd.alltoall(tf.fill([4 << 20], float(hvd.rank())), name="large")
assert received.numpy().sum() == 2 << 20
"""


@pytest.mark.parametrize("ranks", [2, 3, 4, 6])
def test_means_are_exact_to_half_a_bit_and_equal_on_all_ranks(tmp_path: Path, ranks: int) -> None:
    half = "hierarchical" if ranks > 3 else "exchange"
    routes = {"none": "exchange" if ranks == 2 else "allreduce", "fp16": half, "bf16": half}
    lines = launcher.printed_lines(tmp_path, EVERY_WAY, ranks)
    assert lines == {f"rank {rank}: {kind} by {way}" for rank in range(ranks) for kind, way in routes.items()}


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bfloat16_gradients_travel_without_upcast(tmp_path: Path, ranks: int) -> None:
    output = {f"rank {rank}: {word}" for rank in range(ranks) for word in ("bfloat16", "float32", "the same bits")}
    assert launcher.printed_lines(tmp_path, WIDENED, ranks) == output


@pytest.mark.parametrize(("compression", "ranks"), [("none", 3), ("bf16", 3), ("bf16", 4)])
def test_sums_are_independent_of_timing(tmp_path: Path, compression: str, ranks: int) -> None:
    lines = launcher.printed_lines(tmp_path, JITTER, ranks, compression)
    assert lines == {f"rank {rank}: 1 different results of 40" for rank in range(ranks)}


def test_open_mpi_writes_nothing_about_large_messages_within_a_node(tmp_path: Path) -> None:
    launcher.printed_lines(tmp_path, LARGE, 2, controller="mpi")
    assert "Read -1" not in (tmp_path / "run" / "log").read_text()


def test_adasum_equals_the_paper(tmp_path: Path) -> None:
    """Maleki et al. 2020, section 3.1: orthogonal vectors are added, parallel vectors are averaged."""
    launcher.printed_lines(tmp_path, ADASUM, 2, controller="mpi")


def test_groups_are_filled_from_the_last_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allreduce, "GROUP_BYTES", 40)
    shapes = [tf.TensorShape([size]) for size in (3, 20, 4, 6, 1)]
    assert allreduce.groups(shapes) == [[4, 3], [2], [1], [0]]
    assert allreduce.groups([]) == []


@pytest.mark.parametrize(("threshold", "groups"), [("0", [[2], [1], [0]]), ("47", [[2, 1], [0]]), ("99", [[2, 1, 0]])])
def test_groups_follow_the_fusion_threshold(
    monkeypatch: pytest.MonkeyPatch, threshold: str, groups: list[list[int]]
) -> None:
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", threshold)
    assert allreduce.groups([tf.TensorShape([size]) for size in (3, 4, 5)]) == groups

"""Checks of horovod.torch, run by a program of two ranks."""

import os
from typing import Any

import horovod.torch as hvd
import torch
from torch.testing import assert_close

from tests.trainer.horovod_checks import execute, named

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "RMSprop": {"centered": True},
    "Adagrad": {},
}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}  # of values around 100


def network() -> torch.nn.Module:
    """Return two layers whose weights differ between ranks."""
    torch.manual_seed(hvd.rank())
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))


def same(tensors: Any) -> None:
    """Assert that both ranks have the same tensors."""
    first, second = hvd.allgather_object([tensor.detach() for tensor in tensors])
    assert_close(first, second, rtol=0, atol=0)


def stepped(steps: int = 1, **options: Any) -> float:
    """Return a weight that was 0 after ``steps`` of SGD by 1 with gradients 1 on rank 0 and 2 on rank 1."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)], **options)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(options.get("backward_passes_per_step", 1)):
            (weight.sum() * (hvd.rank() + 1)).backward()
        optimizer.step()
    return float(weight.item())


def check_collectives() -> None:
    value = torch.tensor([hvd.rank() + 1.0])
    assert hvd.allreduce(value).item() == 1.5
    assert [hvd.allreduce(value, op=op).item() for op in (hvd.Sum, hvd.Min, hvd.Max, hvd.Product)] == [3, 1, 2, 2]
    assert [tensor.item() for tensor in hvd.grouped_allreduce([value, 2 * value], op=hvd.Sum)] == [3, 6]
    assert hvd.allgather(value.repeat(hvd.rank() + 1)).tolist() == [1, 2, 2]
    assert hvd.broadcast(value, 1).item() == 2
    assert hvd.alltoall(value.repeat(2)).tolist() == [1, 2]
    assert hvd.reducescatter(value.repeat(2), op=hvd.Sum).tolist() == [3]
    assert hvd.broadcast_object({"rank": hvd.rank()}, 1) == {"rank": 1}
    for dtype in (torch.float16, torch.float64, torch.int32, torch.int64):
        assert_close(hvd.allreduce(value.to(dtype), op=hvd.Sum), torch.tensor([3], dtype=dtype))
    ones = torch.ones(2, requires_grad=True)
    (hvd.allreduce(ones, op=hvd.Sum) * value).sum().backward()
    assert ones.grad is not None
    assert ones.grad.tolist() == [3, 3]
    hvd.barrier()


def check_process_sets() -> None:
    sets = [hvd.add_process_set([rank]) for rank in range(hvd.size())]
    result = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum, process_set=sets[hvd.rank()])
    assert result.item() == hvd.rank() + 1
    assert all(hvd.remove_process_set(process_set) for process_set in sets)


def check_optimizer_options() -> None:
    assert stepped() == -1.5
    assert stepped(op=hvd.Sum) == -3
    assert stepped(gradient_predivide_factor=2.0) == -1.5
    assert stepped(compression=hvd.Compression.fp16) == -1.5
    assert stepped(groups=1) == -1.5


def check_backward_passes() -> None:
    assert stepped(backward_passes_per_step=2) == -3
    assert stepped(2, backward_passes_per_step=2) == -6


def check_clipping() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    (weight.sum() * (hvd.rank() + 1)).backward()
    optimizer.synchronize()
    assert weight.grad is not None
    assert weight.grad.item() == 1.5
    torch.nn.utils.clip_grad_norm_([weight], 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert_close(weight.item(), -0.5, rtol=0, atol=1e-5)


def check_every_optimizer() -> None:
    """Two ranks with half a batch each train like one with the whole batch."""
    batch = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    for name, options in OPTIMIZERS.items():
        models = [network(), network()]
        for model in models:
            hvd.broadcast_parameters(model.state_dict(), 0)
        optimizers = [getattr(torch.optim, name)(model.parameters(), lr=0.1, **options) for model in models]
        optimizers[0] = hvd.DistributedOptimizer(optimizers[0], models[0].named_parameters())
        for _ in range(3):
            for model, optimizer, rows in zip(models, optimizers, (batch.chunk(2)[hvd.rank()], batch), strict=True):
                optimizer.zero_grad()
                model(rows).square().mean().backward()
                optimizer.step()
        assert_close(list(models[0].parameters()), list(models[1].parameters()))
        same(models[0].parameters())


def check_broadcast_of_the_optimizer() -> None:
    for name, options in OPTIMIZERS.items():
        model = network()
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1 * (hvd.rank() + 1), **options)
        if hvd.rank() == 0:  # only this rank has a state, as after loading a checkpoint
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), 0)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        hvd.broadcast_optimizer_state(optimizer, 0)
        assert_close(list(model.parameters()), before, rtol=0, atol=0)
        states = optimizer.state_dict()["state"].values()
        same([torch.as_tensor(value) for state in states for value in state.values() if value is not None])
        same(model.parameters())
        assert optimizer.param_groups[0]["lr"] == 0.1


def check_options_of_an_optimizer_without_state() -> None:
    """SGD without momentum has no state."""
    optimizer = torch.optim.SGD(network().parameters(), lr=0.1 * (hvd.rank() + 1))
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert (optimizer.param_groups[0]["lr"], len(optimizer.state)) == (0.1, 0)


def check_zero_grad() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    for options, expected in (({"set_to_none": False}, torch.zeros(1)), ({}, None), ({"set_to_none": True}, None)):
        weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad(**options)
        assert weight.grad == expected


def check_learning_rate_schedule() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(2):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        schedule.step()
    assert weight.item() == -1.5


def compare(layer: torch.nn.Module, reference: torch.nn.Module, parts: list[torch.Tensor]) -> None:
    """Assert that ``layer`` computes with one part per rank the same as ``alone`` with the whole batch."""
    own_part, whole = parts[hvd.rank()].clone().requires_grad_(), torch.cat(parts).requires_grad_()
    weights = torch.randn(whole.shape, generator=torch.Generator().manual_seed(2))
    first = sum(len(part) for part in parts[: hvd.rank()])
    rows = slice(first, first + len(own_part))
    outputs, expected = layer(own_part), reference(whole)
    (outputs * weights[rows]).sum().backward()
    (expected * weights).sum().backward()
    assert_close(outputs, expected[rows], **CLOSE)
    assert own_part.grad is not None
    assert whole.grad is not None
    assert_close(own_part.grad, whole.grad[rows], **CLOSE)
    for parameter, expected_parameter in zip(layer.parameters(), reference.parameters(), strict=True):
        assert_close(hvd.allreduce(parameter.grad, op=hvd.Sum), expected_parameter.grad, **CLOSE)
    assert_close(list(layer.buffers()), list(reference.buffers()), **CLOSE)


def check_sync_batch_norm() -> None:
    """Use parts of different sizes, with a mean that is large compared to the deviation."""
    generator = torch.Generator().manual_seed(1)
    for size in ((), (5,), (4, 3)):
        parts = [100 + torch.randn(rows, 3, *size, generator=generator) for rows in (4, 6)]
        kind = torch.nn.BatchNorm2d if len(size) == 2 else torch.nn.BatchNorm1d
        compare(hvd.SyncBatchNorm(3), kind(3), parts)


def check_sync_batch_norm_options() -> None:
    parts = [torch.randn(rows, 3, 2, generator=torch.Generator().manual_seed(rows)) for rows in (4, 6)]
    for options in ({"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1}):
        layer, reference = hvd.SyncBatchNorm(3, **options), torch.nn.BatchNorm1d(3, **options)
        for _ in range(2):
            compare(layer, reference, parts)
            layer.zero_grad()
            reference.zero_grad()
        if layer.track_running_stats and layer.momentum is not None:
            assert_close(layer.eval()(parts[0]), reference.eval()(parts[0]), **CLOSE)


def check_sync_batch_norm_in_16_bits() -> None:
    """Use more values per channel than float16 can count."""
    for dtype, momentum in ((torch.bfloat16, 0.1), (torch.float16, 0.1), (torch.bfloat16, None)):
        parts = [torch.randn(2, 3, 40000, generator=torch.Generator().manual_seed(rank)) for rank in range(2)]
        reference = torch.nn.BatchNorm1d(3, momentum=momentum)
        expected = reference(torch.cat(parts).to(dtype).float())
        for kept, tolerance in ((torch.float32, 1e-3), (dtype, 1e-2)):
            layer = hvd.SyncBatchNorm(3, momentum=momentum).to(kept)
            outputs = layer(parts[hvd.rank()].to(dtype))
            assert outputs.dtype == dtype
            assert_close(outputs.float(), expected[2 * hvd.rank() :][:2], rtol=0.02, atol=0.02)
            assert layer.running_var.dtype == kept
            assert_close(layer.running_var.float(), reference.running_var, rtol=tolerance, atol=0)


def check_elastic_state() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=hvd.rank())
    state.sync()
    same(model.parameters())
    assert state.batch == 0
    state.batch = 5
    state.commit()
    committed = [parameter.detach().clone() for parameter in model.parameters()]
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state.batch = 6
    state.restore()
    assert_close(list(model.parameters()), committed)
    assert state.batch == 5


def check_elastic_sampler() -> None:
    sampler = hvd.elastic.ElasticSampler(list(range(10)), shuffle=False)
    sampler.record_batch(0, 2)
    sampler.load_state_dict(sampler.state_dict())
    remaining = hvd.allgather_object(list(sampler))
    assert len(sampler) == len(remaining[0]) == len(remaining[1])


if __name__ == "__main__":
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    execute(named(globals()))

"""The files that cross between the control side and the worker side, each with one shape on both sides.

==================  ==================  ==============================================
file in a run's     written by          shape
directory
==================  ==================  ==============================================
``config.json``     control side        :class:`TrainConfig`
``command.json``    control side        list of strings: the launcher and its arguments
``program.json``    control side        list of strings: what every rank executes
``ranks/N.json``    rank N's shim       ``trainer.supervision.record``
``stop``            the supervisor      empty: rank 0 is to end with a checkpoint
``checkpoints/…``   rank 0              :class:`Checkpoints`, :class:`Checkpoint`
``status.json``     the supervisor      :class:`RunStatus`
``results.json``    rank 0              :class:`Results`
``hello.json``      rank 0              :class:`Hello`
``prepared.json``   rank 0              :class:`Prepared`
``staged.json``     rank 0              :class:`Staged`
==================  ==================  ==============================================

``config.json`` of a run that prepares or stages data is a :class:`PrepareConfig` or a :class:`StageConfig`. Beside
TFRecord shards that were prepared lies ``manifest.json``, a :class:`Manifest`, and for each a :class:`Shard`.

:class:`NodeFacts` crosses on the standard output of ``orchestrator.trainer.watching.health``.
"""

from orchestrator.schema.data import LOCAL_DATA, Manifest, PrepareConfig, Prepared, Shard, StageConfig, Staged
from orchestrator.schema.names import Address, FileName, MetricName
from orchestrator.schema.results import (
    Checkpoint,
    Checkpoints,
    Communication,
    Epoch,
    Kept,
    Results,
    Scores,
    Trained,
    Unfinished,
    World,
)
from orchestrator.schema.runs import (
    TERMINATED,
    Failure,
    Hello,
    HelloRank,
    HelloSize,
    NodeFacts,
    RunStatus,
    State,
)
from orchestrator.schema.training import Compression, Optimizer, Otherwise, Precision, Schedule, TrainConfig

__all__ = [
    "LOCAL_DATA",
    "TERMINATED",
    "Address",
    "Checkpoint",
    "Checkpoints",
    "Communication",
    "Compression",
    "Epoch",
    "Failure",
    "FileName",
    "Hello",
    "HelloRank",
    "HelloSize",
    "Kept",
    "Manifest",
    "MetricName",
    "NodeFacts",
    "Optimizer",
    "Otherwise",
    "Precision",
    "PrepareConfig",
    "Prepared",
    "Results",
    "RunStatus",
    "Schedule",
    "Scores",
    "Shard",
    "StageConfig",
    "Staged",
    "State",
    "TrainConfig",
    "Trained",
    "Unfinished",
    "World",
]

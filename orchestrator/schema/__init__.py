"""Models of the files that cross between the control side and the nodes, the same on both sides.

==================  ==================  ==============================================
file in a run's     written by          model
directory
==================  ==================  ==============================================
``config.json``     control side        :class:`TrainConfig`
``command.json``    control side        list of strings: the launcher and its arguments
``program.json``    control side        list of strings: the program of every rank
``launch.json``     control side        ``orchestrator.launch_layout``: hosts of ranks and processes
``ranks/N.json``    rank N's wrapper    ``trainer.supervision.rank_record``
``stop``            the supervisor      empty: rank 0 must end with a checkpoint
``checkpoints/…``   rank 0              :class:`Checkpoints`, :class:`Checkpoint`
``status.json``     the supervisor      :class:`RunStatus`
``.reserve``        the supervisor      space for ``status.json``, which replaces it
``queue.json``      control side        :class:`Queue`, in the directory of a queue
``turn.json``       the queue           :class:`Turn`, in the directory of a run that it starts
``packages.json``   the supervisor      :class:`~orchestrator.schema.packages.Installed`
``results.json``    rank 0              :class:`Results`
``check.json``      rank 0              :class:`CheckResult`
``profile.json``    rank 0              :class:`Profile`
``prepared.json``   rank 0              :class:`Prepared`
``staged.json``     rank 0              :class:`Staged`
==================  ==================  ==============================================

``config.json`` is a :class:`PrepareConfig` or a :class:`StageConfig` in a run that prepares or stages data. Prepared
TFRecord shards have a ``manifest.json``, a :class:`Manifest`, in their directory, and each shard has a :class:`Shard`.

:class:`NodeReport` crosses on the standard output of ``orchestrator.trainer.telemetry.node_report``. The models of
``packages`` cross on standard input and output of ``orchestrator.trainer.packages``; an overlay of Python packages has
an :class:`~orchestrator.schema.packages.Overlay` in its directory.
"""

from orchestrator.schema.accuracy import time_to_accuracy
from orchestrator.schema.data import LOCAL_DATA, MANIFEST, Manifest, PrepareConfig, Prepared, Shard, StageConfig, Staged
from orchestrator.schema.names import Address, FileName, MetricName
from orchestrator.schema.prediction import Predicted, Profile, Ready
from orchestrator.schema.results import (
    Checkpoint,
    CheckpointEntry,
    Checkpoints,
    Communication,
    Epoch,
    Results,
    Scores,
    StepTimes,
    Trained,
    Unfinished,
    World,
)
from orchestrator.schema.runs import (
    LOG_TAG,
    CheckMessage,
    CheckRank,
    CheckResult,
    Failure,
    Hardware,
    NodeReport,
    Queue,
    QueuedRun,
    RunStatus,
    State,
    Turn,
)
from orchestrator.schema.training import (
    SAVED_MODEL,
    SMALL_IMAGE,
    Compression,
    Engine,
    Goal,
    Optimizer,
    Precision,
    Schedule,
    StopOrSkip,
    TrainConfig,
    goal,
    top1_of,
)

__all__ = [
    "LOCAL_DATA",
    "LOG_TAG",
    "MANIFEST",
    "SAVED_MODEL",
    "SMALL_IMAGE",
    "Address",
    "CheckMessage",
    "CheckRank",
    "CheckResult",
    "Checkpoint",
    "CheckpointEntry",
    "Checkpoints",
    "Communication",
    "Compression",
    "Engine",
    "Epoch",
    "Failure",
    "FileName",
    "Goal",
    "Hardware",
    "Manifest",
    "MetricName",
    "NodeReport",
    "Optimizer",
    "Precision",
    "Predicted",
    "PrepareConfig",
    "Prepared",
    "Profile",
    "Queue",
    "QueuedRun",
    "Ready",
    "Results",
    "RunStatus",
    "Schedule",
    "Scores",
    "Shard",
    "StageConfig",
    "Staged",
    "State",
    "StepTimes",
    "StopOrSkip",
    "TrainConfig",
    "Trained",
    "Turn",
    "Unfinished",
    "World",
    "goal",
    "time_to_accuracy",
    "top1_of",
]

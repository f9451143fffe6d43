"""Grace periods of a stop, in seconds: how long each program of a run waits for another before it kills it.

A stopped trainer has ``TRAINER`` to write a checkpoint and end; a script has ``RANK`` after SIGTERM, ``MPI_RANK`` under
mpirun. The stop goes down this chain: each program asks another to end, and kills it after the period.

=================  ================  ==============================================================================
who waits          period            for whom
=================  ================  ==============================================================================
control side       ``STOP_COMMAND``  ``systemctl stop`` on the head
systemd            ``UNIT``          ``supervise``, the main process of the run's unit, or the queue that started it
``supervise``      ``TRAINER``       the trainer, which a file asks to end; no other program is asked
``supervise``      ``LAUNCHER``      then the launcher: ``horovodrun``, ``mpirun`` or ``node_launcher``
``supervise``      ``LEFTOVERS``     then the processes that are left on the head
``supervise``      ``SWEEP``         then those on the other hosts, plus ``SWEEP_EACH_HOST`` for each host
``node_launcher``  ``AGENT``         the ``node_agent`` of each host
``node_launcher``  ``DRAIN``         then the output of that host
``node_agent``     ``WRAPPER``       the ``rank_wrapper`` of each rank; ``DAEMON`` for a program without a rank
``node_agent``     ``LEFTOVERS``     then the processes that are left on its host
``rank_wrapper``   ``RANK``          the processes of its rank; ``MPI_RANK`` under mpirun
``rank_wrapper``   ``DRAIN``         then their output
=================  ================  ==============================================================================

A program must wait longer than those below it need together. Otherwise it kills one that still ends its own processes,
and the run is left without its ``status.json`` or last output. ``tests/unit/test_grace_periods.py`` asserts:

- ``STOP_COMMAND`` > ``UNIT``
- ``UNIT`` > ``TRAINER`` + ``LAUNCHER`` + ``LEFTOVERS`` + ``SWEEP`` + ``SWEEP_EACH_HOST`` x the largest number of nodes
- ``SWEEP`` > ConnectTimeout of ``supervise.SSH`` + ``LEFTOVERS``
- ``LAUNCHER`` >= ``AGENT`` + ``DRAIN``
- ``AGENT`` > ``WRAPPER`` + ``LEFTOVERS``
- ``WRAPPER`` >= ``RANK`` + ``DRAIN``, and ``WRAPPER`` >= ``DAEMON``
- ``RANK`` < 5 s and ``MPI_RANK`` < 1 s: what horovodrun and mpirun give a wrapper before they kill it

Other periods are for ends of a run without a stop:

- A rank fails: its agent waits ``OTHER_RANKS`` for more ranks to fail by themselves before it ends them, and the
  launcher ``OTHER_HOSTS`` for more agents, which must be longer. If the launcher is gone, a wrapper waits ``HANG_UP``.
- The shared storage does not answer, as NFS of a head that is gone: a wrapper that has ended its rank, and an agent one
  of whose processes has failed, wait ``RECORD`` for the record of the rank.
- A node shuts down: its trainer has ``NODE_SHUTDOWN`` in the wrapper, and in the hook of ``ansible/roles/node``
  (``save_checkpoints_at_shutdown.sh``), whose unit must have a longer TimeoutStopSec.

Nothing is imported here, since the wrapper of every rank imports this module.
"""

RANK, MPI_RANK = 3.0, 0.5
DRAIN = 5.0  # a process may hold a pipe, or not read
HANG_UP = 1.0  # for a rank that exits while the launcher hangs up: its exit code may be the reason
LEFTOVERS = 5.0
RECORD = 1.0
WRAPPER = RANK + DRAIN
DAEMON = 2.0  # for programs with a log of their own: Ray's daemon drains for 30 seconds, and nothing is left to do
AGENT = WRAPPER + LEFTOVERS + 2.0  # it also kills what ignores SIGTERM
LAUNCHER = 20.0
TRAINER = 60.0  # for a step and a checkpoint
SWEEP, SWEEP_EACH_HOST = 15.0, 0.25  # hosts are swept in parallel
UNIT = 150
STOP_COMMAND = UNIT + 30.0
NODE_SHUTDOWN = 25.0  # clouds give a node that they take away 30 and more
OTHER_RANKS, OTHER_HOSTS = 2.0, 3.0

"""Print the variables that a launcher sets for a rank, as JSON."""

import json
import os

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG",
         "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS", "HOROVOD_RANK", "HOROVOD_SIZE")  # fmt: skip

print(json.dumps({name: os.environ[name] for name in NAMES}))

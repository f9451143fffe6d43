"""Rank 1 raises after a second; the others wait for a minute."""

import os
import time

time.sleep(1)
if os.environ["RANK"] == "1":
    raise ValueError("the moon is in the wrong house")
time.sleep(60)

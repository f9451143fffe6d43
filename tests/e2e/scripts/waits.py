"""Count seconds for an hour, with a helper process in a session of its own."""

import subprocess
import time

subprocess.Popen(["sleep", "3600"], start_new_session=True)
for second in range(3600):
    print(f"waiting for {second} s", flush=True)
    time.sleep(1)

"""Never ends by itself, nor does the helper that it starts in a session of its own; counts the seconds meanwhile."""

import subprocess
import time

subprocess.Popen(["sleep", "3600"], start_new_session=True)
for second in range(3600):
    print(f"waiting for {second} s", flush=True)
    time.sleep(1)

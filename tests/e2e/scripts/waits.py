"""Never ends by itself, nor does the helper that it starts in a session of its own."""

import subprocess
import time

subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("waiting", flush=True)
time.sleep(3600)

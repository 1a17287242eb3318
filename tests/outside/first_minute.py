"""What a new user does after `pip install pml-server pml-client`: starts the server, reports some runs, asks what comes next."""

import json
import shutil
import subprocess
import time

from pml_client import Client

# PATH holds nothing but the environment that was installed into.
program = shutil.which("pml")
server = subprocess.Popen([program, "serve", "--json", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
try:
    pml = Client("http://" + json.loads(server.stdout.readline())["listen"])
    for _ in range(5):
        with pml.run("zip the reports") as run:
            files = run.step("fs:list", lambda: ["a", "b"])
            run.step("zip:pack", len, files)
    assert pml.flush()
    while pml.ask("state")["events"].get("trace.completed", 0) < 5:
        time.sleep(0.01)
    print(pml.predict("zip all reports", context=["fs:list"])["ranked"][0]["item"])
finally:
    server.kill()
    server.wait()

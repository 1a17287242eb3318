"""Client of pml, procedural memory for AI agents.

    from pml_client import Client

    pml = Client()                                     # http://127.0.0.1:8080, or what PML_URL and PML_KEY say
    with pml.run("zip the reports") as run:
        files = run.step("fs:list", os.listdir, "reports")
        run.step("zip:pack", pack, files)              # a handle as an argument is data flow

What runs report goes into a bounded buffer that a thread sends. When pml is away, nothing blocks and nothing fails: events wait, and
beyond the bound they are dropped and counted (`Client.stats`).
"""

from ._aio import AsyncClient, AsyncRun, AsyncStep
from ._client import Client
from ._errors import PmlError, Refused, Unreachable
from ._run import Run, Step, current_run
from ._sender import Stats

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "AsyncRun",
    "AsyncStep",
    "Client",
    "PmlError",
    "Refused",
    "Run",
    "Stats",
    "Step",
    "Unreachable",
    "current_run",
]

import sys
from pml_client import Client

intent, *tools = sys.argv[1:]
pml = Client()
heard = pml.subscribe("me")
with pml.run(intent, session="me") as run:
    for tool in tools:
        expected = next(heard)
        run.step(tool, print, "after", run.calls, "expected", [one["item"] for one in expected["ranked"][:3]])
        verdict = "accepted" if tool in [one["item"] for one in expected["ranked"][:1]] else "ignored"
        pml.feedback(verdict, prediction=expected["prediction"])

"""An agent as somebody else would write it: the official CloudEvents library, plain HTTP, no pml code.

Usage: agent.py URL. Publishes one execution, each event in another content mode, and prints the answers as one JSON array.
"""

import json
import sys
import urllib.request
from datetime import datetime, timezone

from cloudevents.core.bindings.http import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent


def event(number, kind, data):
    attributes = {
        "specversion": "1.0",
        "id": f"0190c0de-0000-7000-8000-{number:012x}",
        "source": "urn:test:python-agent",
        "type": f"pml.{kind}",
        "time": datetime(2026, 1, 1, 12, 0, number, tzinfo=timezone.utc),
        "datacontenttype": "application/json",
        "dataschema": f"urn:pml:{kind}/v1",
    }
    return CloudEvent(attributes=attributes, data=data)


def post(url, message):
    request = urllib.request.Request(url + "/v1/events", data=message.body, headers=message.headers, method="POST")
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def main(url):
    execution = "python-1"
    started = event(1, "execution.started", {"execution": execution, "intent": "Zip the reports"})
    listed = event(2, "step.finished", {"execution": execution, "step": "list", "tool": "fs:list", "success": True})
    zipped = event(
        3,
        "step.finished",
        {"execution": execution, "step": "zip", "tool": "mcp__zip__pack", "depends_on": ["list"], "success": True},
    )
    finished = event(4, "execution.finished", {"execution": execution, "success": True})
    modes = [(started, to_structured), (listed, to_binary), (zipped, to_structured), (finished, to_binary)]
    print(json.dumps([post(url, write(message, JSONFormat())) for message, write in modes]))


if __name__ == "__main__":
    main(sys.argv[1])

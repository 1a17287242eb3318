"""An agent as somebody else would write it: the official NATS client, CloudEvents by hand, no pml code.

Usage: nats_agent.py URL EXECUTION. Publishes one execution to the work queue, structured and binary in turn, one event twice and one
that pml refuses; prints what JetStream acknowledged as one JSON array.
"""

import asyncio
import json
import sys

import nats


def event(execution, number, kind, data):
    # Ids are UUIDv7; the last part follows from the execution, so that publishing again is the same event.
    suffix = abs(hash_of(execution)) * 100 + number
    return {
        "specversion": "1.0",
        "id": f"0190c0de-0000-7000-8000-{suffix % (1 << 48):012x}",
        "source": "urn:test:nats-agent",
        "type": f"pml.{kind}",
        "time": f"2026-01-01T12:00:{number:02d}Z",
        "dataschema": f"urn:pml:{kind}/v1",
        "data": {"execution": execution, **data},
    }


def hash_of(text):
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % (1 << 40)
    return value


async def publish(stream, event, binary):
    subject = "pml.default.in." + event["type"].removeprefix("pml.")
    headers = {"Nats-Msg-Id": event["id"]}
    if binary:
        headers |= {f"ce-{name}": value for name, value in event.items() if name != "data"}
        body = json.dumps(event["data"])
    else:
        headers["content-type"] = "application/cloudevents+json"
        body = json.dumps(event)
    acknowledged = await stream.publish(subject, body.encode(), headers=headers, timeout=30)
    return {"stream": acknowledged.stream, "duplicate": bool(acknowledged.duplicate)}


async def main(url, execution):
    client = await nats.connect(url)
    stream = client.jetstream()
    events = [
        event(execution, 1, "execution.started", {"intent": "Zip the reports"}),
        event(execution, 2, "step.finished", {"step": "list", "tool": "fs:list", "success": True}),
        event(execution, 3, "step.finished", {"step": "zip", "tool": "zip:pack", "depends_on": ["list"], "success": True}),
        event(execution, 4, "execution.finished", {"success": True}),
    ]
    answers = [await publish(stream, one, binary=number % 2 == 1) for number, one in enumerate(events)]
    answers.append(await publish(stream, events[0], binary=False))
    for binary in (False, True):
        wrong = event(execution, 10 + binary, "step.finished", {"step": "x", "tool": "no-server:", "success": True})
        answers.append(await publish(stream, wrong, binary))
    print(json.dumps(answers))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))

"""An agent that publishes its steps to pml and prints the predictions it receives. It uses only nats-py, no pml code.

    pip install nats-py
    python agent.py nats://127.0.0.1:4222 "zip the reports" fs:list zip:pack

It runs the tools one after the other (here: pretends to), publishes each step, and prints what pml expects after it.
"""

import asyncio
import json
import os
import sys
import time
import uuid

import nats

WORKSPACE = os.environ.get("PML_WORKSPACE", "default")
PATIENCE_S = 30


def new_id():
    """A UUIDv7: pml takes those and ULIDs. The same id twice is one event, so sending again is safe."""
    random = uuid.uuid4().int
    head = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | (random >> 64 & 0xFFF) << 64
    return str(uuid.UUID(int=head | 0b10 << 62 | random & (1 << 62) - 1))


async def publish(stream, kind, data):
    """Publishes one CloudEvent and waits until the server has stored it."""
    event = {"specversion": "1.0", "id": new_id(), "source": "examples/python", "type": f"pml.{kind}", "data": data}
    headers = {"Nats-Msg-Id": event["id"], "content-type": "application/cloudevents+json"}
    await stream.publish(f"pml.{WORKSPACE}.in.{kind}", json.dumps(event).encode(), headers=headers)


async def print_prediction(predictions, after):
    """Waits for the next prediction and prints it."""
    message = await predictions.next_msg(timeout=PATIENCE_S)
    prediction = json.loads(message.data)
    ranked = ", ".join(f"{one['item']} {one['p']:.0%}" for one in prediction["ranked"][:3])
    print(f"after {after}: {ranked} [{prediction['decision']}]", flush=True)
    return prediction


async def main(url, intent, tools):
    client = await nats.connect(url)
    stream = client.jetstream()
    execution = session = f"python-{new_id()}"
    # In a subject, letters, digits, - and _ of a session are unchanged; any other byte is written =XX.
    predictions = await client.subscribe(f"pml.{WORKSPACE}.predict.{session}")
    await client.flush()

    await publish(stream, "execution.started", {"execution": execution, "session": session, "intent": intent})
    prediction = await print_prediction(predictions, "the start")
    for number, tool in enumerate(tools, start=1):
        step = {"execution": execution, "step": f"s{number}", "tool": tool, "success": True}
        await publish(stream, "step.finished", step)
        expected = prediction["ranked"][0]["item"] if prediction["ranked"] else None
        verdict = "accepted" if expected == tool else "ignored"
        await publish(stream, "feedback.given", {"prediction": prediction["prediction"], "verdict": verdict})
        prediction = await print_prediction(predictions, tool)
    await publish(stream, "execution.finished", {"execution": execution, "success": True})
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))

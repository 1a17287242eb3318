"""What the documents use of the `nats` program: `nats req SUBJECT BODY` and `nats pub --jetstream SUBJECT BODY`, with NATS_URL."""

import asyncio
import os
import sys

import nats


async def main(command, *arguments):
    client = await nats.connect(os.environ["NATS_URL"])
    if command == "req":
        subject, body = arguments
        answer = await client.request(subject, body.encode(), timeout=30)
        problem = (answer.headers or {}).get("Nats-Service-Error")
        print(problem or answer.data.decode())
    elif command == "pub":
        stored, subject, body = arguments
        assert stored == "--jetstream", stored
        await client.jetstream().publish(subject, body.encode())
        problem = None
    else:
        sys.exit(f"nats: {command} is not known here")
    await client.close()
    sys.exit(1 if problem else 0)


asyncio.run(main(*sys.argv[1:]))

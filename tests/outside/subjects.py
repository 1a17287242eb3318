"""What a real nats-server says about which subjects a pattern matches.

Usage: subjects.py nats://HOST:PORT < [[pattern, subject], ...]. Prints a JSON array of booleans: delivered or not.
"""

import asyncio
import json
import sys

import nats

# Not among the subjects asked about.
AFTER = "after.the.question"


async def delivered(client, pattern, subject):
    subscription = await client.subscribe(pattern)
    after = await client.subscribe(AFTER)
    await client.publish(subject, b"")
    await client.publish(AFTER, b"")
    # One connection keeps its order: once the second message is here, the first one is too, or never comes.
    await after.next_msg(timeout=10)
    arrived = {message.subject async for message in drained(subscription)}
    await subscription.unsubscribe()
    await after.unsubscribe()
    return subject in arrived


async def drained(subscription):
    while subscription.pending_msgs > 0:
        yield await subscription.next_msg(timeout=10)


async def main(url, pairs):
    client = await nats.connect(url)
    print(json.dumps([await delivered(client, pattern, subject) for pattern, subject in pairs]))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.load(sys.stdin)))

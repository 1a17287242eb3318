"""What a real nats-server says about which subjects a pattern matches.

Usage: subjects.py nats://HOST:PORT < [[pattern, subject], ...]. Prints a JSON array of booleans: delivered or not.
"""

import asyncio
import json
import sys

import nats


async def delivered(client, pattern, subject):
    subscription = await client.subscribe(pattern)
    await client.publish(subject, b"")
    await client.flush()
    # The server handled the publish before it answered the flush, so what was delivered is already here.
    arrived = subscription.pending_msgs > 0
    await subscription.unsubscribe()
    return arrived


async def main(url, pairs):
    client = await nats.connect(url)
    print(json.dumps([await delivered(client, pattern, subject) for pattern, subject in pairs]))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.load(sys.stdin)))

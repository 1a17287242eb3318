"""An agent with the official Python client of MCP that waits for notices: prints what it was told, and what it then lists.

    notices.py URL MODE

MODE is `listen` (subscriptions/listen, version 2026-07-28) or `session` (notifications of a session, older versions). Prints a line
`listening`, then, after both lists have changed, {"events": [...], "tools": [...], "resources": [...]}.
"""

import asyncio
import json
import sys

from mcp import Client

URL, MODE = sys.argv[1:]
WANTED = {"ToolsListChanged", "ResourcesListChanged"}


async def listed(client):
    tools = await client.list_tools()
    resources = await client.list_resources()
    return {"tools": [tool.description for tool in tools.tools], "resources": [str(entry.uri) for entry in resources.resources]}


async def listen():
    seen = set()
    async with Client(URL, mode="2026-07-28", read_timeout_seconds=60) as client:
        async with client.listen(tools_list_changed=True, resources_list_changed=True) as events:
            print("listening", flush=True)
            async for event in events:
                seen.add(type(event).__name__)
                if WANTED <= seen:
                    return {"events": sorted(seen), **await listed(client)}


async def session():
    seen, both = set(), asyncio.Event()

    async def handle(message):
        root = getattr(message, "root", message)
        seen.add(type(root).__name__.removesuffix("Notification").replace("ToolList", "ToolsList").replace("ResourceList", "ResourcesList"))
        if WANTED <= seen:
            both.set()

    async with Client(URL, mode="legacy", read_timeout_seconds=60, message_handler=handle) as client:
        await client.list_tools()
        print("listening", flush=True)
        await both.wait()
        return {"events": sorted(seen), **await listed(client)}


print(json.dumps(asyncio.run(listen() if MODE == "listen" else session())))

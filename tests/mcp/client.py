"""An agent with the official Python client of MCP: connects to each target, lists everything, makes the calls, and prints what it saw.

Reads {"targets": [{"url": ...} or {"command": ..., "args": [...], "env": {...}}, each with "mode"], "calls": [[name, arguments], ...]}
from standard input.
"""

import asyncio
import importlib.metadata
import json
import sys

from mcp import Client, StdioServerParameters


def server(target):
    if "url" in target:
        return target["url"]
    return StdioServerParameters(command=target["command"], args=target["args"], env=target.get("env"))


async def unknown_skill(client):
    try:
        await client.read_resource("skill://no-such-skill/SKILL.md")
    except Exception as error:
        return str(error)


async def visit(target, calls):
    async with Client(server(target), mode=target["mode"], read_timeout_seconds=60) as client:
        tools = await client.list_tools()
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        catalogue = await client.read_resource("pml://catalogue")
        skills = {}
        for resource in resources.resources:
            if str(resource.uri).startswith("skill://"):
                read = (await client.read_resource(resource.uri)).contents[0]
                skills[str(resource.uri)] = {"listed_as": resource.mime_type, "mime_type": read.mime_type, "text": read.text}
        answers = []
        for name, arguments in calls:
            # The client checks structured content against the tool's output schema.
            result = await client.call_tool(name, arguments)
            texts = [block.text for block in result.content if block.type == "text"]
            answers.append({"is_error": bool(result.is_error), "structured": result.structured_content, "texts": texts})
        return {
            "protocol": client.protocol_version,
            "instructions": client.instructions,
            "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.tools],
            "resources": [str(resource.uri) for resource in resources.resources],
            "templates": [template.uri_template for template in templates.resource_templates],
            "catalogue": catalogue.contents[0].text,
            "skills": skills,
            "unknown_skill": await unknown_skill(client),
            "answers": answers,
        }


async def main():
    asked = json.load(sys.stdin)
    seen = [await visit(target, asked["calls"]) for target in asked["targets"]]
    print(json.dumps({"client": importlib.metadata.version("mcp"), "seen": seen}))


asyncio.run(main())

"""An MCP server over standard input and output, for tests: JSON-RPC by hand, so that it can also misbehave.

    mcp_server.py [--mode MODE] [--tools FILE]

FILE holds the list of tools as JSON and is read again for each tools/list; without it, the tools below. Modes: good, hang (never
answers), crash (ends at the first call), garbage (prints lines that are no JSON between its answers), repeat (sends every answer twice),
flood (a call is answered with 100 MB), many (a million tools, page by page), huge_list (one page with more tools than a message may hold).
"""

import json
import os
import sys
import threading
import time

arguments = sys.argv[1:]


def option(name, default):
    return arguments[arguments.index(name) + 1] if name in arguments else default


MODE = option("--mode", "good")
FILE = option("--tools", None)
OUT = threading.Lock()


def tool(name, description, properties=None, annotations=None):
    schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    made = {"name": name, "description": description, "inputSchema": schema}
    if annotations:
        made["annotations"] = annotations
    return made


TEXT = {"text": {"type": "string"}}
TOOLS = [
    tool("echo", "Give the text back", TEXT, {"readOnlyHint": True}),
    tool("upper", "Write the text in capital letters", TEXT, {"readOnlyHint": True}),
    tool("join", "Join two texts", {"left": {"type": "string"}, "right": {"type": "string"}}, {"readOnlyHint": True}),
    tool("fail", "Fail always", {}, {"readOnlyHint": True}),
    tool("flaky", "Fail twice, then answer", TEXT, {"readOnlyHint": True}),
    tool("slow", "Answer after some milliseconds", {"ms": {"type": "integer"}}, {"readOnlyHint": True}),
    tool("drop", "Delete everything", {}, {"destructiveHint": True}),
    tool("environment", "Name the variables of the environment", {}, {"readOnlyHint": True}),
    tool("secret", "Give a secret back", {}, {"readOnlyHint": True}),
]
flaked = 0


def send(message):
    text = json.dumps({"jsonrpc": "2.0", **message})
    with OUT:
        if MODE == "garbage":
            sys.stdout.write("this is no JSON\n{\"half\": \n")
        sys.stdout.write((text + "\n") * (2 if MODE == "repeat" else 1))
        sys.stdout.flush()


def listed():
    if FILE:
        with open(FILE) as file:
            return json.load(file)
    return TOOLS


def list_tools(params):
    if MODE == "many":
        start = int(params.get("cursor") or 0)
        page = [tool(f"tool{number}", "One of very many") for number in range(start, start + 1000)]
        return {"tools": page, "nextCursor": str(start + 1000)}
    if MODE == "huge_list":
        return {"tools": [tool(f"tool{number}", "x" * 1000) for number in range(30_000)]}
    return {"tools": listed()}


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def call(name, given):
    global flaked
    if MODE == "crash":
        sys.stderr.write("about to crash\n")
        sys.stderr.flush()
        os._exit(3)
    if MODE == "flood":
        return text("x" * 100_000_000)
    if name == "upper":
        return text(given["text"].upper(), structuredContent={"text": given["text"].upper(), "length": len(given["text"])})
    if name == "join":
        return text(given["left"] + given["right"])
    if name == "fail":
        return text("it never works, password=hunter2secret", isError=True)
    if name == "flaky":
        flaked += 1
        return text("not yet", isError=True) if flaked < 3 else text(given["text"])
    if name == "slow":
        time.sleep(given["ms"] / 1000)
        return text("done")
    if name == "drop":
        return text("dropped")
    if name == "environment":
        return text(json.dumps(sorted(os.environ)))
    if name == "secret":
        return text(json.dumps({"api_key": "sk-live-0123456789abcdef0123456789abcdef", "note": "keep it"}))
    return text(given.get("text", ""))


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        info = {"name": "fake", "version": "1.0"}
        return {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}
    if method == "tools/list":
        return list_tools(params)
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    if method == "ping":
        return {}
    return None


def respond(request):
    result = answer(request)
    if result is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
    else:
        send({"id": request["id"], "result": result})


def watch():
    """Says that the tools changed when the file did."""
    seen = os.stat(FILE).st_mtime_ns
    while True:
        time.sleep(0.02)
        now = os.stat(FILE).st_mtime_ns
        if now != seen:
            seen = now
            send({"method": "notifications/tools/list_changed"})


sys.stderr.write("the fake server has started\n")
sys.stderr.flush()
if FILE:
    threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or MODE == "hang":
        continue
    # Calls run at the same time, as on a real server.
    threading.Thread(target=respond, args=(request,), daemon=True).start()

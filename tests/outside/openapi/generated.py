"""Uses the client that openapi-python-client generated: asks a running server, and prints what the types say."""

import importlib
import json
import sys

directory, url = sys.argv[1:]
sys.path.insert(0, directory)
client = importlib.import_module("generated").Client(base_url=url)
discover = importlib.import_module("generated.api.questions.discover")
body = importlib.import_module("generated.models.discover_body").DiscoverBody(intent="copy a file")
health = importlib.import_module("generated.api.machines.get_health").sync(client=client)
found = discover.sync(client=client, body=body)
print(json.dumps({"status": health.status, "results": [item.id for item in found.results]}))

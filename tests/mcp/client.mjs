// An agent with the official TypeScript client of MCP: connects to each target, lists everything, makes the calls, and prints what it saw.
// The argument is the package to use. Standard input is the same as for client.py; `mode` is not used.

import { readFileSync } from "node:fs";

const name = process.argv[2];
const { Client } = await import(`${name}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${name}/client/streamableHttp.js`);
const { StdioClientTransport } = await import(`${name}/client/stdio.js`);

function transport(target) {
  if (target.url) return new StreamableHTTPClientTransport(new URL(target.url));
  return new StdioClientTransport({ command: target.command, args: target.args, env: target.env });
}

async function visit(target, calls) {
  const client = new Client({ name: "pml-test", version: "1" });
  await client.connect(transport(target));
  const { tools } = await client.listTools();
  const { resources } = await client.listResources();
  const { resourceTemplates } = await client.listResourceTemplates();
  const catalogue = await client.readResource({ uri: "pml://catalogue" });
  const skills = {};
  for (const { uri, mimeType } of resources.filter((resource) => resource.uri.startsWith("skill://"))) {
    const [read] = (await client.readResource({ uri })).contents;
    skills[uri] = { listed_as: mimeType, mime_type: read.mimeType, text: read.text };
  }
  const unknown = await client.readResource({ uri: "skill://no-such-skill/SKILL.md" }).catch((error) => error.message);
  const answers = [];
  for (const [tool, args] of calls) {
    // The client checks structured content against the tool's output schema.
    const result = await client.callTool({ name: tool, arguments: args });
    const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
    answers.push({ is_error: result.isError === true, structured: result.structuredContent ?? null, texts });
  }
  const seen = {
    protocol: client.transport.protocolVersion ?? null,
    instructions: client.getInstructions(),
    tools,
    resources: resources.map((resource) => resource.uri),
    templates: resourceTemplates.map((template) => template.uriTemplate),
    catalogue: catalogue.contents[0].text,
    skills,
    unknown_skill: unknown,
    answers,
  };
  await client.close();
  return seen;
}

const asked = JSON.parse(readFileSync(0, "utf8"));
const seen = [];
for (const target of asked.targets) seen.push(await visit(target, asked.calls));
const { version } = JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url)));
console.log(JSON.stringify({ client: version, seen }));

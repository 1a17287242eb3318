// Reads every file of a folder and sends the long ones.
interface File { path: string; size?: number }
const listed: File[] = await mcp.fs.list_directory({ path: "/tmp" });
for (const { path, size } of listed) {
  if ((size ?? 0) > 100 && path !== "x") {
    const text = await mcp.fs.read_file({ path, ...{ limit: 10 } });
    await mcp.mail.send({ to: "a@b.c", body: `size ${size}: ${text.slice(0, 5)}` });
  }
}
return listed.map((f) => f.path as string);

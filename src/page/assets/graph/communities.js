// Communities by node, as the server measured them. Pure.

// Leads from a node's id to the number of its community; the community with the highest ranks comes first.
export function communitiesOf(measured) {
  const numbers = new Map();
  const found = new Map();
  for (const { node, community } of measured ?? []) {
    if (!numbers.has(community)) numbers.set(community, numbers.size);
    found.set(node, numbers.get(community));
  }
  return found;
}

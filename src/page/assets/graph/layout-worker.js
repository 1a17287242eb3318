// Computes places of nodes with d3-force, off the thread that draws. A classic worker, because the vendored files are classic scripts.
importScripts(
  '../vendor/d3-dispatch-3.0.2.js', '../vendor/d3-quadtree-3.0.2.js', '../vendor/d3-timer-3.0.2.js', '../vendor/d3-force-3.0.0.js',
);

const TICKS = 200;
const TICKS_PER_MESSAGE = 6;

// Takes { nodes: [{ radius }], links: [{ source, target, weight }] } and answers with { places: Float32Array, done }.
self.onmessage = ({ data: { nodes, links } }) => {
  const simulation = self.d3.forceSimulation(nodes)
    .force('charge', self.d3.forceManyBody().strength(-34).distanceMax(420).theta(1.1))
    .force('link', self.d3.forceLink(links).distance(42).strength((link) => 0.08 + 0.25 * Math.min(1, link.weight)))
    .force('collide', self.d3.forceCollide((node) => node.radius + 2))
    .force('x', self.d3.forceX(0).strength(0.04))
    .force('y', self.d3.forceY(0).strength(0.055))
    .alphaDecay(1 - 0.001 ** (1 / TICKS))
    .stop();
  for (let tick = 0; tick < TICKS; tick += TICKS_PER_MESSAGE) {
    simulation.tick(TICKS_PER_MESSAGE);
    const places = new Float32Array(nodes.length * 2);
    nodes.forEach((node, at) => {
      places[at * 2] = node.x;
      places[at * 2 + 1] = node.y;
    });
    self.postMessage({ places, done: tick + TICKS_PER_MESSAGE >= TICKS }, [places.buffer]);
  }
};

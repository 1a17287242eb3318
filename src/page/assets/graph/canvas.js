// The canvas as a component: size, camera, pointer and keyboard; the layout comes from the worker.
import { html, useEffect, useRef, useState } from '../preact.js';
import { theme } from '../theme.js';
import { useStore } from '../store.js';
import { draw, fit, nearSet, nodeAt, readPalette } from './draw.js';

export function GraphCanvas({ graph, community, chosen, found, onChoose, label }) {
  const canvas = useRef(null);
  const scene = useRef({ places: null, camera: { x: 0, y: 0, scale: 1 }, isMoved: false, width: 0, height: 0, ratio: 1 });
  const [settled, setSettled] = useState(false);
  const colours = useStore(theme);
  Object.assign(scene.current, { graph, community, chosen, found });
  const redraw = useRedraw(canvas, scene);

  useEffect(redraw, [graph, community, chosen, found, colours]);
  useEffect(() => onColourChange(redraw), []);
  useSize(canvas, scene, redraw);
  useLayout(graph, scene, redraw, setSettled);
  usePointer(canvas, scene, redraw, onChoose);

  const zoom = (factor) => () => {
    const { camera } = scene.current;
    scene.current.isMoved = true;
    scene.current.camera = { scale: camera.scale * factor, x: camera.x * factor, y: camera.y * factor };
    redraw();
  };
  const all = () => {
    const { places, width, height } = scene.current;
    scene.current.isMoved = true;
    if (places) scene.current.camera = fit(places, width, height);
    redraw();
  };
  return html`<div class="card graph-box">
    <canvas ref=${canvas} role="img" aria-label=${label} data-settled=${settled}></canvas>
    <div class="buttons" role="group" aria-label="Zoom"><button type="button" aria-label="Closer" onClick=${zoom(1.3)}>+</button>
      <button type="button" aria-label="Farther" onClick=${zoom(1 / 1.3)}>\u2212</button><button type="button" onClick=${all}>All</button></div>
    <div class="tally" role="status">${label}${settled ? '' : ', placing\u2026'}</div>
  </div>`;
}

function onColourChange(redraw) {
  const query = matchMedia('(prefers-color-scheme: dark)');
  query.addEventListener('change', redraw);
  return () => query.removeEventListener('change', redraw);
}

// What is shown until a person moves it: everything, or a chosen node with its neighbours.
function opening({ graph, places, chosen, width, height }) {
  return fit(places, width, height, chosen === null ? null : nearSet(graph, chosen));
}

// At most one drawing per frame.
function useRedraw(canvas, scene) {
  const waiting = useRef(false);
  const redraw = useRef(() => {
    if (waiting.current) return;
    waiting.current = true;
    requestAnimationFrame(() => {
      waiting.current = false;
      if (canvas.current) draw(canvas.current.getContext('2d'), scene.current, readPalette(canvas.current));
    });
  });
  return redraw.current;
}

function useSize(canvas, scene, redraw) {
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = canvas.current;
      const ratio = devicePixelRatio || 1;
      Object.assign(canvas.current, { width: width * ratio, height: height * ratio });
      Object.assign(scene.current, { width, height, ratio });
      if (scene.current.places && !scene.current.isMoved) scene.current.camera = opening(scene.current);
      redraw();
    });
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
}

function useLayout(graph, scene, redraw, setSettled) {
  useEffect(() => {
    const worker = new Worker(new URL('./layout-worker.js', import.meta.url));
    setSettled(false);
    scene.current.places = null;
    worker.onmessage = ({ data: { places, done } }) => {
      scene.current.places = places;
      if (!scene.current.isMoved) scene.current.camera = opening(scene.current);
      if (done) setSettled(true);
      redraw();
    };
    worker.postMessage({ nodes: graph.nodes.map(({ radius }) => ({ radius })), links: graph.links.map(({ source, target, weight }) => ({ source, target, weight })) });
    return () => worker.terminate();
  }, [graph]);
}

function usePointer(canvas, scene, redraw, onChoose) {
  const choose = useRef(onChoose);
  choose.current = onChoose;
  useEffect(() => {
    const element = canvas.current;
    let drag = null;
    const place = (event) => [event.offsetX, event.offsetY];
    const onDown = (event) => {
      drag = { start: place(event), camera: scene.current.camera, far: false };
      element.setPointerCapture(event.pointerId);
    };
    const onMove = (event) => {
      if (!drag) return;
      const [x, y] = place(event);
      const [dx, dy] = [x - drag.start[0], y - drag.start[1]];
      if (Math.hypot(dx, dy) > 4) drag.far = true;
      if (!drag.far) return;
      scene.current.isMoved = true;
      scene.current.camera = { ...drag.camera, x: drag.camera.x + dx, y: drag.camera.y + dy };
      redraw();
    };
    const onUp = (event) => {
      if (drag && !drag.far) choose.current(nodeAt(scene.current, ...place(event)));
      drag = null;
    };
    const onWheel = (event) => {
      event.preventDefault();
      const { camera, width, height } = scene.current;
      const factor = Math.exp(-event.deltaY * 0.0015);
      const [px, py] = [event.offsetX - width / 2, event.offsetY - height / 2];
      scene.current.isMoved = true;
      scene.current.camera = { scale: camera.scale * factor, x: px - (px - camera.x) * factor, y: py - (py - camera.y) * factor };
      redraw();
    };
    element.addEventListener('pointerdown', onDown);
    element.addEventListener('pointermove', onMove);
    element.addEventListener('pointerup', onUp);
    element.addEventListener('wheel', onWheel, { passive: false });
  }, []);
}

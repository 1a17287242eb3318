// The frame of the page: navigation, the view that the URL names, login, and the state of the connection.
import { html, render, useEffect, useRef, useState } from './preact.js';
import { access, connection, key, open } from './api.js';
import { useStore } from './store.js';
import { nextTheme, theme } from './theme.js';
import { link, useRoute } from './url.js';
import { Problem, Loading } from './parts/states.js';
import { Now } from './views/now.js';
import { Ask } from './views/ask.js';
import { Graph } from './views/graph.js';
import { Executions } from './views/executions.js';
import { Capabilities } from './views/capabilities.js';
import { Learning } from './views/learning.js';
import { System } from './views/system.js';

const VIEWS = [
  ['now', 'Now', Now], ['ask', 'Ask', Ask], ['graph', 'Graph', Graph], ['executions', 'Executions', Executions],
  ['capabilities', 'Capabilities', Capabilities], ['learning', 'Learning', Learning], ['system', 'System', System],
];

function Page() {
  const [problem, setProblem] = useState(null);
  const [ready, setReady] = useState(false);
  const { asked } = useStore(access);
  const start = () => open().then(() => { setProblem(null); setReady(true); }, setProblem);
  useEffect(() => { start(); }, []);
  if (problem && !ready) return html`<main class="alone"><h1>pml</h1><${Problem} problem=${problem} retry=${start} /></main>`;
  if (!ready) return html`<main class="alone"><${Loading} /></main>`;
  if (asked) return html`<${Login} onKey=${start} />`;
  return html`<${Frame} />`;
}

function Frame() {
  const route = useRoute();
  const main = useRef(null);
  const [name, title, View] = VIEWS.find(([own]) => own === route.view) ?? VIEWS[0];
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title}${route.id ? `: ${route.id}` : ''} - pml`;
    // A screen reader goes on at the new view; at the first one the reader has not left the top of the page.
    if (!first.current) main.current.focus({ preventScroll: true });
    first.current = false;
    window.scrollTo(0, 0);
  }, [name, route.id]);
  useShortcuts();
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <${Header} current=${name} />
    <${Offline} />
    <main id="main" tabindex="-1" ref=${main} class="view-${name}"><${View} key=${name} route=${route} /></main>`;
}

function Header({ current }) {
  return html`<header>
    <a class="brand" href=${link('now')} aria-label="pml, start page">pml</a>
    <nav aria-label="Views">${VIEWS.map(([name, title], at) => html`
      <a key=${name} href=${link(name)} aria-current=${name === current ? 'page' : null} title="Shortcut: g then ${at + 1}">${title}</a>`)}
    </nav>
    <div class="tools"><${ThemeButton} /><${KeyButton} /></div>
  </header>`;
}

function ThemeButton() {
  const current = useStore(theme);
  return html`<button type="button" class="plain" onClick=${nextTheme} title="Light, dark, or as the system says">Colours: ${current}</button>`;
}

function KeyButton() {
  const { needsKey, name, scopes } = useStore(access);
  if (!needsKey) return null;
  const leave = () => {
    key.set(null);
    location.reload();
  };
  return html`<button type="button" class="plain" onClick=${leave} title="Scopes: ${scopes.join(', ')}">Forget key ${name ?? ''}</button>`;
}

function Offline() {
  const { online } = useStore(connection);
  return html`<div role="status" class=${online ? 'online' : 'offline'}>${online ? '' : 'The server cannot be reached. Trying again\u2026'}
    </div>`;
}

function Login({ onKey }) {
  const { problem } = useStore(access);
  const submit = (event) => {
    event.preventDefault();
    key.set(new FormData(event.target).get('key').trim());
    onKey();
  };
  return html`<main class="alone">
    <h1>pml</h1>
    <p>This server needs an API key. It is kept in this tab only and forgotten when the tab is closed.</p>
    <form onSubmit=${submit} class="row">
      <label class="field grow"><span>API key</span><input name="key" type="password" autocomplete="off" required autofocus /></label>
      <button class="primary">Open</button>
    </form>
    ${problem && html`<${Problem} problem=${{ message: problem }} />`}
    <p class="quiet">An administrator makes one with <code>pml key</code>. The scope query is enough to look; publish lets you give
      feedback, admin lets you change things.</p>
  </main>`;
}

// g and a number choose a view, / goes to the first search box.
function useShortcuts() {
  useEffect(() => {
    let wasG = false;
    const onKey = (event) => {
      if (event.target.closest('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
      const view = wasG ? VIEWS[Number(event.key) - 1] : null;
      wasG = event.key === 'g';
      if (view) location.hash = link(view[0]);
      const box = event.key === '/' && document.querySelector('main input');
      if (box) {
        event.preventDefault();
        box.focus();
      }
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, []);
}

render(html`<${Page} />`, document.getElementById('page'));

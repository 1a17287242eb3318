// The state of a view is the fragment of the URL: `#view/id?name=value`. Whoever opens the link sees the same view.
import { createStore, useStore } from './store.js';

export const DEFAULT_VIEW = 'now';

export function parseFragment(fragment) {
  const text = fragment.replace(/^#\/?/, '');
  const mark = text.indexOf('?');
  const path = mark < 0 ? text : text.slice(0, mark);
  const [view, ...rest] = path.split('/');
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)));
  return { view: view || DEFAULT_VIEW, id: rest.length ? decode(rest.join('/')) : null, query };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Members of `query` that are null, undefined or empty are left out.
export function link(view, id = null, query = {}) {
  const path = id === null ? view : `${view}/${encodeURIComponent(id)}`;
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(kept).toString();
  return `#${path}${text ? `?${text}` : ''}`;
}

const route = createStore(parseFragment(location.hash));
window.addEventListener('hashchange', () => route.set(parseFragment(location.hash)));

export const useRoute = () => useStore(route);

export function go(target) {
  location.hash = target;
}

// Changes members of the query in place. Typing in a search box replaces the entry of the history instead of adding one.
export function amend(changes) {
  const { view, id, query } = route.get();
  const target = link(view, id, { ...query, ...changes });
  if (target === location.hash) return;
  history.replaceState(null, '', target);
  route.set(parseFragment(target));
}

// Requests to the server that served the page. Carries the API key, turns errors into `ApiProblem` and knows from the server's own
// description which routes and parameters it has, so that views offer only what exists.
import { createStore, useStore } from './store.js';

const KEY = 'pml-key';

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};

// `asked`: a person must give a key first. `scopes`: what the key allows. `name`: what the server calls it.
export const access = createStore({ asked: false, problem: null, scopes: [], name: null, needsKey: false });
// Whether the last request reached the server. `generation` grows with each reconnection; views load again then.
export const connection = createStore({ online: true, generation: 0 });

let description = null;

export class ApiProblem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function useScopes() {
  const { scopes } = useStore(access);
  return { can: (scope) => scopes.includes(scope) || scopes.includes('admin') };
}

// Whether the server has a route, and a parameter of it if one is named.
export function supports(method, path, parameter = null) {
  const operation = description?.paths?.[path]?.[method.toLowerCase()];
  if (!operation || parameter === null) return Boolean(operation);
  const inBody = operation.requestBody?.content?.['application/json']?.schema?.properties ?? {};
  return parameter in inBody || (operation.parameters ?? []).some(({ name }) => name === parameter);
}

// Sends a request and returns the response as it is; throws for a status that is an error.
export async function send(path, { headers = {}, ...options } = {}) {
  const given = key.get();
  const all = given ? { ...headers, authorization: `Bearer ${given}` } : headers;
  let response;
  try {
    response = await fetch(path, { ...options, headers: all, credentials: 'omit' });
  } catch (error) {
    if (error.name !== 'AbortError') lost();
    throw error.name === 'AbortError' ? error : new ApiProblem(0, 'the server cannot be reached');
  }
  if (response.ok) return response;
  const message = await problemText(response);
  if (response.status === 401) access.set({ ...access.get(), asked: true, needsKey: true, problem: given ? message : null });
  if (response.status === 502) lost();
  throw new ApiProblem(response.status, message);
}

async function problemText(response) {
  const text = await response.text();
  try {
    const { error, results } = JSON.parse(text);
    return error ?? results?.find((result) => result.error)?.error.message ?? text;
  } catch {
    return text.slice(0, 200) || `${response.status} ${response.statusText}`;
  }
}

export async function get(path, query = {}, signal = undefined) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(kept).toString();
  return (await send(text ? `${path}?${text}` : path, { signal })).json();
}

// `query` goes into the address: the moment that a question is about.
export async function post(path, body = {}, signal = undefined, query = {}) {
  const text = new URLSearchParams(query).toString();
  const headers = { 'content-type': 'application/json' };
  return (await send(text ? `${path}?${text}` : path, { method: 'POST', headers, body: JSON.stringify(body), signal })).json();
}

// All entries of a list that comes in pages, at most `max` of them.
export async function getAll(path, member, max, signal) {
  const entries = [];
  let after = null;
  do {
    const page = await get(path, { limit: Math.min(1000, max - entries.length), after }, signal);
    entries.push(...page[member]);
    after = page.next;
  } while (after && entries.length < max);
  return { entries, more: Boolean(after) };
}

// Reads what the server can do and what the key allows. Called at the start and after a login.
export async function open() {
  description = await get('/openapi.json');
  const { key_needed: needsKey, name = null, scopes } = await get('/v1/access');
  const isUnknown = needsKey && name === null;
  const problem = isUnknown && key.get() ? 'the API key is not known' : null;
  access.set({ asked: isUnknown, problem, scopes, name, needsKey });
}

const RETRY_MS = [500, 1000, 2000, 5000];

function lost() {
  if (!connection.get().online) return;
  connection.set({ ...connection.get(), online: false });
  const retry = async (attempt) => {
    try {
      const response = await fetch('/healthz', { cache: 'no-store' });
      if (!response.ok) throw new Error(response.statusText);
      await open();
      connection.set({ online: true, generation: connection.get().generation + 1 });
    } catch {
      setTimeout(retry, RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)], attempt + 1);
    }
  };
  setTimeout(retry, RETRY_MS[0], 1);
}

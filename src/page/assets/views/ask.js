// Ask: one intent, and the answers of discover, predict and suggest side by side, with their reasons.
import { html, useEffect, useState } from '../preact.js';
import { useLoad } from '../load.js';
import { amend } from '../url.js';
import { count, decimal, percent } from '../format.js';
import { Meter, SignalBars } from '../parts/bars.js';
import { Badge, Field } from '../parts/controls.js';
import { Callee } from '../parts/callee.js';
import { Empty, Loaded } from '../parts/states.js';
import { Plan } from './ask/plan.js';
import { Why } from './ask/why.js';
import { AtField, askAt, atQuery } from './ask/at.js';

const RESULTS = 6;
const parseSteps = (text) => text.split(/[\s,]+/).filter(Boolean);

export function Ask({ route: { query } }) {
  const { intent = '', after = '', why = null, plan = '0' } = query;
  const steps = parseSteps(after);
  const question = { intent, context: steps, ...atQuery(query) };
  const isAsked = intent !== '' || steps.length > 0;
  const addStep = (item) => amend({ after: [...steps, item].join(','), why: null, plan: null });
  return html`<h1>Ask</h1>
    <${Form} intent=${intent} steps=${steps} query=${query} />
    ${isAsked ? html`<div class="ask">
      <${Discover} question=${question} />
      <${Predict} question=${question} why=${why} addStep=${addStep} />
      <${Plan} question=${question} chosen=${Number(plan)} />
      ${why && html`<${Why} question=${question} item=${why} />`}
    </div>` : html`<div class="card"><${Empty} title="Nothing asked yet.">Describe in your own words what an agent should get done, such as
      <button type="button" class="link"
        onClick=${() => amend({ intent: 'book a flight and rent a car' })}>book a flight and rent a car</button>.
      </${Empty}></div>`}`;
}

function Form({ intent, steps, query }) {
  const [text, setText] = useState(intent);
  const [step, setStep] = useState('');
  useEffect(() => setText(intent), [intent]);
  const submit = (event) => {
    event.preventDefault();
    amend({ intent: text.trim(), after: [...steps, ...parseSteps(step)].join(','), why: null, plan: null });
    setStep('');
  };
  const without = (at) => amend({ after: steps.filter((_, other) => other !== at).join(','), why: null, plan: null });
  return html`<form class="card" onSubmit=${submit} role="search">
    <div class="row">
      <div class="grow"><${Field} label="Intent"><input value=${text} onInput=${(event) => setText(event.target.value)}
        placeholder="what should be done" /></${Field}></div>
      <${Field} label="Add a step that was called"><input class="mono" value=${step} onInput=${(event) => setStep(event.target.value)}
        placeholder="server:tool" spellcheck=${false} /></${Field}>
      <button class="primary">Ask</button>
    </div>
    ${steps.length > 0 && html`<ol class="steps" aria-label="Steps so far">${steps.map((id, at) => html`<li key=${at}><span class="mono">${id}
      </span>
      <button type="button" aria-label="Remove step ${id}" onClick=${() => without(at)}>\u00d7</button></li>`)}</ol>`}
    <${AtField} query=${query} />
  </form>`;
}

function Discover({ question: { intent, context, ...at } }) {
  const load = useLoad((signal) => (intent ? askAt('/v1/discover', { intent, limit: RESULTS, ...at }, signal) : { results: [], meta: { total_found: 0 } }), [intent, at.at]);
  return html`<section class="card" aria-labelledby="discover" aria-busy=${load.loading}>
    <h2 id="discover">Which tools fit</h2>
    <${Loaded} load=${load} what="Asking">${({ results, meta }) => results.length === 0
      ? html`<${Empty} title="Nothing fits.">${intent ? 'Tools are found once they are registered or called.' : 'Give an intent: steps alone do not say what is wanted.'}</${Empty}>`
      : html`${results.map((result) => html`<${Found} key=${result.id} result=${result} />`)}
        <p class="quiet small">${results.length} of ${count(meta.total_found)} matches, record ${count(meta.based_on_seq)}</p>`}</${Loaded}>
  </section>`;
}

function Found({ result }) {
  const signals = Object.entries(result.signals).map(([name, adds]) => ({ name, adds }));
  return html`<div class="result">
    <div class="spread"><span class="title"><${Callee}
      id=${result.type === 'capability' && !result.id.startsWith('capability:') ? `capability:${result.id}` : result.id} name=${result.name} />
      </span>
      <span class="number">${decimal(result.score)}</span></div>
    <${Meter} share=${result.score} label="Score ${decimal(result.score)}" />
    <p class="small quiet">${result.description || result.type}${result.usage_count ? `, used ${count(result.usage_count)} times, ${percent(result.success_rate)} success` : ', never used'}</p>
    <details><summary>Signals</summary><${SignalBars} signals=${signals} label="Signals of ${result.name}" />
      ${result.similar_intent && html`<p class="small quiet">Similar past intent: ${result.similar_intent}</p>`}</details>
  </div>`;
}

function Predict({ question, why, addStep }) {
  const load = useLoad((signal) => askAt('/v1/predict', { ...question, limit: RESULTS }, signal), [question.intent, question.context.join(), question.at]);
  return html`<section class="card" aria-labelledby="predict" aria-busy=${load.loading}>
    <h2 id="predict">Which call comes next</h2>
    <${Loaded} load=${load} what="Asking">${(answer) => answer.ranked.length === 0
      ? html`<${Empty} title="Nothing to predict from yet.">Publish executions; every completed one teaches the next call.</${Empty}>`
      : html`
      <p class="small"><${Badge}
        tone=${answer.decision === 'emit' ? 'good' : 'warn'}>${answer.decision === 'emit' ? 'likely enough to act on' : 'not likely enough to act on'}</${Badge}>
        <span class="quiet"> threshold ${percent(answer.threshold)}</span></p>
      ${answer.unknown?.length > 0 && html`<p class="small bad">Not known: ${answer.unknown.join(', ')}</p>`}
      ${answer.ranked.map((outcome, at) => html`<div class="result" key=${outcome.item}>
        <div class="spread"><span class="title"><${Callee} id=${outcome.item} name=${outcome.name} /></span><span
          class="number">${percent(outcome.p)}</span></div>
        <${Meter} share=${outcome.p} threshold=${at === 0 ? answer.threshold : null} label="Probability ${percent(outcome.p)}" />
        <div class="row small">
          <button type="button" class="link" aria-expanded=${why === outcome.item}
            onClick=${() => amend({ why: why === outcome.item ? null : outcome.item })}>Why</button>
          ${outcome.item !== 'done' && html`<button type="button" class="link"
            onClick=${() => addStep(outcome.item)}>Take it as the next step</button>`}
        </div>
        <details><summary>Signals</summary><${SignalBars} label="Signals of ${outcome.item}"
          signals=${outcome.reasons.map(({ signal, value, weight, adds }) => ({ name: signal, adds, detail: `value ${decimal(value, 3)} x weight ${decimal(weight, 3)}` }))} /></details>
      </div>`)}
      <p class="quiet small">model ${answer.model}, record ${count(answer.based_on_seq)}</p>`}</${Loaded}>
  </section>`;
}

// Publishing what a person decided: feedback about a prediction or a plan.
import { post, send } from '../api.js';

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

// A ULID: 48 bits of time, 80 random bits.
export function newId(now = Date.now()) {
  const random = crypto.getRandomValues(new Uint8Array(10));
  let bits = BigInt(now);
  for (const byte of random) bits = (bits << 8n) | BigInt(byte);
  let text = '';
  for (let digit = 0; digit < 26; digit += 1) {
    text = ALPHABET[Number(bits & 31n)] + text;
    bits >>= 5n;
  }
  return text;
}

// `about` is { prediction } or { suggestion }.
export async function giveFeedback(about, verdict) {
  const event = {
    specversion: '1.0', id: newId(), source: 'pml/page', type: 'pml.feedback.given', data: { ...about, verdict },
  };
  const headers = { 'content-type': 'application/cloudevents+json' };
  await send('/v1/events', { method: 'POST', headers, body: JSON.stringify(event) });
}

export const redrive = (numbers) => post('/v1/dead/redrive', { numbers });

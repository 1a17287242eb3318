const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
let lastMs = 0;
let lastRandom = 0n;
let lastUs = 0;

/** A ULID. pml knows an event by it: the same id twice is one event. Ids increase. */
export function newId(): string {
  const ms = Date.now();
  if (ms > lastMs) {
    lastMs = ms;
    const bytes = crypto.getRandomValues(new Uint8Array(10));
    lastRandom = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n) >> 1n;
  } else {
    lastRandom += 1n;
  }
  let number = (BigInt(lastMs) << 80n) | lastRandom;
  let text = "";
  for (let at = 0; at < 26; at += 1) {
    text = ALPHABET[Number(number & 31n)] + text;
    number >>= 5n;
  }
  return text;
}

/** The time as RFC 3339 with microseconds, later than any before, so that steps keep their order. */
export function newTime(): string {
  lastUs = Math.max(Date.now() * 1000, lastUs + 1);
  const micros = String(lastUs % 1000).padStart(3, "0");
  return new Date(Math.floor(lastUs / 1000)).toISOString().replace("Z", `${micros}Z`);
}

// Runs before the program: makes the three names that a program has, and takes away what makes code from text.
(function (hostCall, hostPrint, clock, seed) {
  "use strict";
  const { stringify, parse } = JSON;
  const { freeze, create, defineProperty, getPrototypeOf } = Object;
  const PromiseOf = Promise, ErrorOf = Error, TypeErrorOf = TypeError, StringOf = String, ProxyOf = Proxy;
  const isArray = Array.isArray;
  const waiting = create(null);
  let next = 1;

  // An error that is thrown here rejects the promise.
  const call = (callee, given, options) => new PromiseOf((resolve, reject) => {
    if (given === undefined) given = {};
    if (typeof given !== "object" || given === null || isArray(given)) {
      throw new TypeErrorOf(callee + " takes one object with its arguments");
    }
    const text = stringify(given), asked = stringify(options ?? {});
    const id = next++;
    waiting[id] = { resolve, reject };
    hostCall(id, callee, text, asked, StringOf(new ErrorOf().stack));
  });

  const settle = (id, succeeded, text) => {
    const { resolve, reject } = waiting[id];
    delete waiting[id];
    if (succeeded) {
      resolve(parse(text));
    } else {
      const error = new ErrorOf(text);
      error.name = "ToolError";
      reject(error);
    }
  };

  // Every name leads to something but those that the language asks for by itself.
  const names = (make) => {
    const known = create(null);
    const get = (_, name) => {
      if (typeof name !== "string" || name === "then" || name === "toJSON") return undefined;
      return (known[name] ??= make(name));
    };
    const refuse = () => false;
    return new ProxyOf(freeze(create(null)), { get, set: refuse, defineProperty: refuse, deleteProperty: refuse });
  };
  const tools = names((server) => names((tool) => freeze((given, options) => call(server + ":" + tool, given, options))));
  const capabilities = names((name) => freeze((given, options) => call("capability:" + name, given, options)));

  const shown = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof ErrorOf) return StringOf(value);
    try {
      return stringify(value) ?? StringOf(value);
    } catch {
      return "[not JSON]";
    }
  };
  const print = (...values) => {
    let line = "";
    for (let at = 0; at < values.length; at++) line += (at > 0 ? " " : "") + shown(values[at]);
    hostPrint(line + "\n");
  };
  const console = freeze({ log: print, info: print, warn: print, error: print, debug: print });
  defineProperty(globalThis, "console", { value: console });

  const refuseText = function () {
    throw new TypeErrorOf("code cannot be made from text in the sandbox");
  };
  refuseText.prototype = Function.prototype;
  const refused = { value: refuseText, writable: false, enumerable: false, configurable: false };
  for (const made of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    defineProperty(getPrototypeOf(made), "constructor", refused);
  }
  defineProperty(globalThis, "Function", refused);
  defineProperty(globalThis, "eval", refused);

  // A run that goes on after an interruption is run from its beginning with the results that it had: nothing else may differ.
  const { imul } = Math, { construct } = Reflect, DateOf = Date;
  const fixed = (object, name, value) => defineProperty(object, name, { value, writable: false, configurable: false });
  fixed(Math, "random", () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  });
  const FixedDate = new ProxyOf(DateOf, {
    construct: (target, given, made) => construct(target, given.length === 0 ? [clock] : given, made),
    apply: () => StringOf(new DateOf(clock)),
  });
  fixed(DateOf, "now", () => clock);
  fixed(DateOf.prototype, "constructor", FixedDate);
  fixed(globalThis, "Date", FixedDate);
  delete globalThis.performance;

  const run = async (program, given) => stringify((await program(tools, capabilities, parse(given))) ?? null) ?? "null";
  return { run, settle };
});

// Runs before the program: makes the three names that a program has, and takes away what makes code from text.
(function (hostCall, hostPrint) {
  "use strict";
  const { stringify, parse } = JSON;
  const { freeze, create, defineProperty, getPrototypeOf } = Object;
  const PromiseOf = Promise, ErrorOf = Error, TypeErrorOf = TypeError, StringOf = String, ProxyOf = Proxy;
  const isArray = Array.isArray;
  const waiting = create(null);
  let next = 1;

  // An error that is thrown here rejects the promise.
  const call = (callee, given) => new PromiseOf((resolve, reject) => {
    if (given === undefined) given = {};
    if (typeof given !== "object" || given === null || isArray(given)) {
      throw new TypeErrorOf(callee + " takes one object with its arguments");
    }
    const text = stringify(given);
    const id = next++;
    waiting[id] = { resolve, reject };
    hostCall(id, callee, text, StringOf(new ErrorOf().stack));
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
  const tools = names((server) => names((tool) => freeze((given) => call(server + ":" + tool, given))));
  const capabilities = names((name) => freeze((given) => call("capability:" + name, given)));

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

  const run = async (program, given) => stringify((await program(tools, capabilities, parse(given))) ?? null) ?? "null";
  return { run, settle };
});

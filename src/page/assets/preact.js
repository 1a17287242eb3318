// The one place that names the version of the vendored view library.
export {
  html, render, useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useReducer,
} from './vendor/htm-preact-3.1.1.js';

// Light, dark, or as the system says. It is a taste of the person, not a state of the view, so it is kept in the browser.
import { createStore } from './store.js';

const NAME = 'pml-theme';
const THEMES = ['auto', 'light', 'dark'];

export const theme = createStore(THEMES.includes(localStorage.getItem(NAME)) ? localStorage.getItem(NAME) : 'auto');

function apply(value) {
  if (value === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
}

apply(theme.get());
theme.subscribe((value) => {
  localStorage.setItem(NAME, value);
  apply(value);
});

export const nextTheme = () => theme.set(THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length]);

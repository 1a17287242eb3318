// A browser for the tests: Debian's chromium through its driver, with what it logged and asked for.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { Builder, logging } from 'selenium-webdriver';
import chrome from 'selenium-webdriver/chrome.js';

export const needed = (name) => process.env[name] ?? assert.fail(`${name} is not set`);

const WAIT_MS = 60_000;
const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export async function openBrowser() {
  const levels = new logging.Preferences();
  levels.setLevel('browser', logging.Level.ALL);
  levels.setLevel('performance', logging.Level.ALL);
  const options = new chrome.Options().addArguments('--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars');
  options.setChromeBinaryPath(needed('PML_TEST_CHROMIUM'));
  options.setLoggingPrefs(levels);
  const service = new chrome.ServiceBuilder(needed('PML_TEST_CHROMEDRIVER'));
  const driver = await new Builder().forBrowser('chrome').setChromeOptions(options).setChromeService(service).build();
  return new Browser(driver);
}

class Browser {
  constructor(driver) {
    this.driver = driver;
    this.hosts = new Set();
  }

  // Width in pixels; `scheme` is light or dark.
  async look(width, scheme) {
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.driver.sendDevToolsCommand('Emulation.setEmulatedMedia', { features });
    await this.driver.sendDevToolsCommand('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false });
  }

  // Opens a view afresh and waits until it has loaded.
  async open(url) {
    await this.driver.get('about:blank');
    await this.driver.get(url);
    await this.until('a heading and nothing under way', `
      return document.querySelector('main h1') && !/(Loading|Asking|Reading the log)/.test(document.body.innerText)`);
  }

  run(script, ...values) {
    return this.driver.executeScript(script, ...values);
  }

  text() {
    return this.run('return document.body.innerText');
  }

  // Waits until the script returns something true, and returns how long that took.
  async until(what, script, ...values) {
    const start = Date.now();
    while (Date.now() - start < WAIT_MS) {
      if (await this.run(script, ...values)) return Date.now() - start;
      await new Promise((done) => setTimeout(done, 20));
    }
    throw new Error(`waited ${WAIT_MS} ms for ${what}:\n${await this.text()}`);
  }

  async press(label, within = 'main') {
    await this.until(`the button ${label}`, `
      const all = [...document.querySelectorAll(arguments[1] + ' button')];
      const found = all.find((one) => (one.innerText.trim() === arguments[0] || one.getAttribute('aria-label') === arguments[0]) && !one.disabled);
      if (found) found.click();
      return Boolean(found)`, label, within);
  }

  // What axe-core calls serious or critical, as lines.
  async violations() {
    await this.run(axe);
    const answer = await this.driver.executeAsyncScript('const done = arguments[0]; axe.run(document).then(done, (error) => done({ error: String(error) }))');
    if (answer.error) throw new Error(answer.error);
    const serious = answer.violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
    return serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
  }

  // Errors and warnings of the console since the last call.
  async problems() {
    const entries = await this.driver.manage().logs().get('browser');
    return entries.filter(({ level }) => ['SEVERE', 'WARNING'].includes(level.name)).map(({ message }) => message);
  }

  // The hosts of all requests so far.
  async requestedHosts() {
    for (const { message } of await this.driver.manage().logs().get('performance')) {
      const { method, params } = JSON.parse(message).message;
      if (method === 'Network.requestWillBeSent') this.hosts.add(new URL(params.request.url).host);
    }
    return [...this.hosts].filter(Boolean);
  }

  close() {
    return this.driver.quit();
  }
}

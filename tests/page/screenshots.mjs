// Takes a picture of every view, light and dark: node screenshots.mjs URL FOLDER. Called by scripts/screenshots.
import fs from 'node:fs';
import path from 'node:path';
import { openBrowser } from './browser.mjs';

const [url, folder] = process.argv.slice(2);
const ask = async (route) => (await fetch(`${url}${route}`)).json();
const WIDTH = 1280;

const { capabilities } = await ask('/v1/capabilities?limit=1000');
const [used] = capabilities.filter(({ calls }) => calls.length > 2).sort((a, b) => b.usage_count - a.usage_count);
const { executions } = await ask('/v1/executions?outcome=success&limit=50');
const [longest] = executions.sort((a, b) => b.steps - a.steps);
const VIEWS = {
  now: '#now', ask: '#ask?intent=book+a+flight+and+rent+a+car&why=travel%3Abook_flight', graph: '#graph?node=travel%3Abook_flight',
  executions: '#executions', execution: `#executions/${longest.execution}`, capabilities: '#capabilities',
  capability: `#capabilities/${used.capability}`, learning: '#learning', system: '#system',
};

fs.mkdirSync(folder, { recursive: true });
const browser = await openBrowser();
try {
  for (const [name, fragment] of Object.entries(VIEWS)) {
    for (const scheme of ['light', 'dark']) {
      await browser.look(WIDTH, scheme);
      await browser.open(`${url}/${fragment}`);
      // The layout of the graph settles in a worker.
      await new Promise((done) => setTimeout(done, name === 'graph' ? 4000 : 1000));
      const { data } = await browser.driver.sendAndGetDevToolsCommand('Page.captureScreenshot', { format: 'png' });
      fs.writeFileSync(path.join(folder, `${name}-${scheme}.png`), Buffer.from(data, 'base64'));
    }
  }
} finally {
  await browser.close();
}

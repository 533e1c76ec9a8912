// Opens pages in the system's Chromium, from files, with no network.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { paste } from "./profiles.mjs";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PAGE = fileURLToPath(new URL("../../ui/dist/flamegraph.html", import.meta.url));

/**
 * One browser with a fresh profile. Throws when there is none: a missing browser is a failed test.
 */
export async function openBrowser() {
    if (!existsSync(CHROMIUM)) {
        throw new Error(
            `no Chromium at ${CHROMIUM}: install the package chromium, or set CHROMIUM`,
        );
    }
    const folder = mkdtempSync(join(tmpdir(), "flamegraph-ui-"));
    const template = readFileSync(PAGE, "utf8");
    const browser = await chromium.launch({
        executablePath: CHROMIUM,
        args: [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ],
    });
    let serial = 0;
    return {
        /**
         * A page with a document; `problems` collects errors of its console, and requests other than
         * of itself.
         */
        async open(
            document,
            {
                hash = "",
                viewport = { width: 1280, height: 800 },
                colorScheme = "light",
                motion = "reduce",
                scale = 1,
            } = {},
        ) {
            const path = join(folder, `${++serial}.html`);
            writeFileSync(path, document === undefined ? template : paste(template, document));
            const context = await browser.newContext({
                viewport,
                colorScheme,
                reducedMotion: motion,
                deviceScaleFactor: scale,
                offline: true,
            });
            const page = await context.newPage();
            page.setDefaultTimeout(10000);
            const problems = [];
            // The one warning that is the tests' own: they read the canvas back, the page never does.
            page.on(
                "console",
                (message) =>
                    ["error", "warning"].includes(message.type()) &&
                    !message.text().includes("willReadFrequently") &&
                    problems.push(message.text()),
            );
            page.on("pageerror", (error) => problems.push(String(error)));
            const url = pathToFileURL(path).href;
            page.on(
                "request",
                (request) =>
                    !request.url().startsWith(url) &&
                    !request.url().startsWith("data:") &&
                    problems.push(`request: ${request.url()}`),
            );
            await page.goto(hash === "" ? url : `${url}#${hash}`);
            return { page, problems, url, close: () => context.close() };
        },
        async close() {
            await browser.close();
            rmSync(folder, { recursive: true, force: true });
        },
    };
}

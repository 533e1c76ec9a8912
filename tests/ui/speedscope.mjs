// Opens files in speedscope itself, the page of its npm package, with no network:
//   node speedscope.mjs FILE…
// One JSON line a file: {"shown", "profiles", "functions", "problems"}: the profile that it shows, the
// sum of each profile by name (where it has several), [total, self] of each function of the shown
// one, in speedscope's words, and what it complained of.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const release = join(dirname(require.resolve("speedscope/package.json")), "dist", "release");
const url = `${pathToFileURL(join(release, "index.html")).href}#view=sandwich`;

/** The texts of all its tables' rows, by cell. */
const rows = (page) =>
    page
        .locator("table tr")
        .evaluateAll((found) =>
            found.map((row) =>
                [...row.querySelectorAll("td")].map((cell) => cell.textContent.trim()),
            ),
        );

async function open(browser, file) {
    const context = await browser.newContext({ offline: true });
    const page = await context.newPage();
    page.setDefaultTimeout(120000);
    const problems = [];
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on(
        "console",
        (message) =>
            (message.type() === "error" || message.text().startsWith("Failed")) &&
            problems.push(message.text()),
    );
    const alerted = new Promise((resolve) =>
        page.on("dialog", async (dialog) => {
            problems.push(dialog.message());
            await dialog.dismiss();
            resolve();
        }),
    );
    await page.goto(url);
    await page.locator("#file").setInputFiles(file);
    const answered = page.getByText(/^Symbol Name|Something went wrong/).waitFor();
    answered.catch(() => {}); // after an alert nothing comes
    await Promise.race([answered, alerted]);
    const result = { shown: "", profiles: {}, functions: {}, problems };
    if (problems.length === 0) {
        result.shown = (await page.locator("body").innerText()).split("\n")[1];
        for (const [first, second, third] of (await rows(page)).filter((row) => row.length === 3)) {
            // Of profiles: number, name, sum. Of functions: total, self, name.
            if (/^\d+$/.test(first)) result.profiles[second] = third;
            else result.functions[third] = [first, second];
        }
    }
    await context.close();
    return result;
}

if (!existsSync(CHROMIUM)) {
    throw new Error(`no Chromium at ${CHROMIUM}: install the package chromium, or set CHROMIUM`);
}
// With WebGL, which speedscope draws by, in software.
const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking"],
});
for (const file of process.argv.slice(2)) {
    console.log(JSON.stringify(await open(browser, file)));
}
await browser.close();

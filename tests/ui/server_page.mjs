// Checks of the server's page in a real browser: node server_page.mjs EMPTY FULL LOCKED TOKEN, the
// addresses of a server without profiles, one with two versions of "shop", one that asks for TOKEN.
// One JSON line a check: {"name", "ok", "detail"}.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../ui/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const [empty, full, locked, token] = process.argv.slice(2);

const summary = (page) => page.locator(".summary").innerText();
const chosen = (page) => page.evaluate(() => location.search);

const checks = {
    async "without profiles it says how to send some"(open) {
        const page = await open(empty);
        await page.getByText("No profiles yet").waitFor();
        assert.match(await page.locator("pre").nth(1).innerText(), /api\/upload\?service=NAME/);
    },
    async "the newest service is shown with graph, table and time"(open) {
        const page = await open(full);
        await page.locator(".flame canvas").first().waitFor();
        assert.equal(await page.title(), "shop · Pyrometer");
        assert.match(await summary(page), /cpu-time/);
        assert.ok((await page.locator(".table tbody tr").count()) > 3);
        await page.locator(".chart canvas").waitFor();
        assert.match(await page.locator(".chart-head").innerText(), /cpu-time/);
    },
    async "a version is chosen, stays in the address, and changes the sum"(open) {
        const page = await open(full);
        await page.locator(".flame canvas").first().waitFor();
        const before = await summary(page);
        await page.locator(".chooser").getByLabel("version").selectOption("1.0");
        await page.waitForFunction((old) => {
            const now = document.querySelector(".summary")?.innerText;
            return now !== undefined && now !== old;
        }, before);
        assert.match(await chosen(page), /version=1\.0/);
        await page.reload();
        await page.locator(".flame canvas").first().waitFor();
        assert.notEqual(await summary(page), before);
        await page.goBack();
        await page.waitForFunction(() => !location.search.includes("version"));
    },
    async "changes against another version, noise pale"(open) {
        // Against the time before, which is asked for first, there is nothing.
        const page = await open(`${full}/?service=shop&version=2.0`, { expected: 1 });
        await page.locator(".flame canvas").first().waitFor();
        await page.getByRole("button", { name: "Changes" }).click();
        await page.getByLabel("against").selectOption("version:1.0");
        await page.locator(".changes td", { hasText: "slower" }).first().waitFor();
        const row = page.locator(".changes tr", { hasText: "slower" });
        assert.equal(await row.locator("td.worse").count(), 2);
        assert.ok((await page.locator(".changes tr.pale").count()) > 0);
    },
    async "changes per request, where profiles tell how many were served"(open) {
        const page = await open(
            `${full}/?service=busy&version=2.0&view=changes&against=version:1.0`,
        );
        await page.getByText("per second of one process").waitFor();
        const whole = page.locator("tr.whole td.worse, tr.whole td.noise").first();
        assert.match(await whole.innerText(), /^\+0/);
        await page.getByRole("button", { name: "Per request" }).click();
        await page.getByText("Requests: 100 before, 50 after.").waitFor();
        assert.match(await page.locator("tr.whole").innerText(), /100\sms\s+200\sms/);
        assert.match(await chosen(page), /per=request/);
    },
    async "where no profile tells of requests, it says so"(open) {
        const page = await open(
            `${full}/?service=shop&version=2.0&view=changes&against=version:1.0&per=request`,
            { expected: 1 },
        );
        await page.getByText(/how many requests were served/).waitFor();
    },
    async "a digit chooses a view, which stays in the address with the filters"(open) {
        const page = await open(`${full}/?service=busy&where=function%3Dmain`);
        await page.locator(".flame canvas").first().waitFor();
        await page.keyboard.press("4");
        await page.getByRole("table", { name: "Waits" }).waitFor();
        assert.match(await chosen(page), /view=waits/);
        assert.match(await chosen(page), /where=function%3Dmain/);
        await page.goBack();
        await page.locator(".flame canvas").first().waitFor();
        for (const name of ["Call graph", "Timeline", "Exceptions", "Leaks", "Profiler"]) {
            await page.getByRole("button", { name, exact: true }).click();
            await page.locator(".view").first().waitFor();
        }
    },
    async "waits: who, because of whom; a click looks at one"(open) {
        const page = await open(`${full}/?service=busy&view=waits`);
        const row = page.getByRole("table", { name: "Waits" }).locator("tbody tr").first();
        assert.match(await row.innerText(), /waiter[^]*holder[^]*lock[^]*6\ss/);
        await page.getByRole("button", { name: "GIL" }).click();
        await page.getByText("Nobody was seen waiting").waitFor();
        await page.getByRole("button", { name: "All", exact: true }).click();
        await page.getByRole("button", { name: "holder" }).click();
        await page.locator(".flame canvas").first().waitFor();
        assert.match(await chosen(page), /where=function%3Dholder/);
        assert.match(await summary(page), /lock-hold-blocking/);
    },
    async "exceptions by type, and where one is raised"(open) {
        const page = await open(`${full}/?service=busy&view=exceptions`);
        const types = page.getByRole("table", { name: "Exceptions" });
        await types.waitFor();
        assert.match(await types.locator("tbody tr").first().innerText(), /ValueError\s+82/);
        await page.getByRole("table", { name: "Where ValueError is raised" }).waitFor();
        await page.getByRole("button", { name: "KeyError" }).click();
        const where = page.getByRole("table", { name: "Where KeyError is raised" });
        await where.waitFor();
        assert.match(await where.locator("tbody").innerText(), /lookup[^]*14/);
    },
    async "exceptions: none is said, not an error"(open) {
        const page = await open(`${full}/?service=shop&view=exceptions`, { expected: 1 });
        await page.getByText("No exceptions in this time").waitFor();
    },
    async "leaks: the suspect, its growth summed over processes"(open) {
        const page = await open(`${full}/?service=busy&view=leaks`);
        const row = page.getByRole("table", { name: "Leak suspects" }).locator("tbody tr").first();
        assert.match(await row.innerText(), /remember[^]*grows[^]*3\.433\sMiB\/h/);
    },
    async "the profiler's own cost and losses"(open) {
        const page = await open(`${full}/?service=busy&view=cost`);
        const row = page
            .getByRole("table", { name: "Cost of profiling" })
            .locator("tbody tr")
            .first();
        assert.match(await row.innerText(), /pid 7 on box\s+3\.13\.0\s+0\.21%/);
        assert.match(await row.innerText(), /10 missed-ticks/);
        await page.getByText("Collectors that are not on").click();
        await page.getByText("gc: off: not wanted").waitFor();
    },
    async "profiles without documents: their cost is not known"(open) {
        const page = await open(`${full}/?service=shop&view=cost`);
        await page.getByText("came without a document").waitFor();
    },
    async "timeline: lanes, a span's facts, zoom by keys"(open) {
        const page = await open(`${full}/?service=busy&view=timeline`);
        const lanes = page.locator(".lanes");
        await lanes.waitFor();
        await page.getByText("2 threads, busiest first").waitFor();
        await page.waitForTimeout(200);
        const box = await lanes.boundingBox();
        await page.mouse.click(box.x + box.width * 0.6, box.y + 20 + 10);
        const facts = page.locator(".span-facts");
        await facts.getByText("lane-0").waitFor();
        assert.match(await facts.innerText(), /compute\s+on-cpu\s+1\ss/);
        assert.ok(await page.getByRole("button", { name: "Whole window" }).isDisabled());
        await lanes.focus();
        await page.keyboard.press("+");
        assert.ok(await page.getByRole("button", { name: "Whole window" }).isEnabled());
        await page.keyboard.press("0");
        assert.ok(await page.getByRole("button", { name: "Whole window" }).isDisabled());
        await facts.getByRole("button", { name: "lane-0" }).click();
        await page.locator(".flame canvas").first().waitFor();
        assert.match(await chosen(page), /where=thread\+name%3Dlane-0/);
    },
    async "timeline: a window without tasks says so"(open) {
        const page = await open(`${full}/?service=busy&view=timeline&lanes=tasks`);
        await page.getByText("No sample of this window names a task").waitFor();
    },
    async "the call graph is drawn, and a node is a link"(open) {
        const page = await open(`${full}/?service=busy&view=calls`);
        const node = page.locator(".drawing .node", { hasText: "compute" });
        await node.waitFor();
        assert.equal(await page.locator(".drawing .edge").count(), 1);
        await node.focus();
        await page.keyboard.press("Enter");
        await page.locator(".flame canvas").first().waitFor();
        assert.match(await chosen(page), /where=function%3Dcompute/);
    },
    async "the call graph has hostile names as text"(open) {
        const page = await open(
            `${full}/?service=${encodeURIComponent("<img src=x onerror=alert(1)>")}&view=calls`,
        );
        await page.locator(".drawing .node").first().waitFor();
        assert.equal(await page.locator("img").count(), 0);
    },
    async "values over time are split"(open) {
        const page = await open(`${full}/?service=shop`);
        await page.getByLabel("split by").selectOption("function");
        await page.locator(".chart-legend li", { hasText: "slower" }).waitFor();
        assert.match(await chosen(page), /split=function/);
    },
    async "dragging over the time chooses it"(open) {
        const page = await open(full);
        await page.locator(".flame canvas").first().waitFor();
        const box = await page.locator(".chart .u-over").boundingBox();
        await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width - 2, box.y + 20, { steps: 5 });
        await page.mouse.up();
        await page.waitForFunction(() => /range=\d+-\d+/.test(location.search));
        await page.locator(".flame canvas").first().waitFor();
    },
    async "a filter is added, and one that nothing passes says so"(open) {
        const page = await open(full, { expected: 1 });
        await page.locator(".flame canvas").first().waitFor();
        const box = page.getByLabel("Add a filter");
        await box.fill("thread name=nobody");
        await box.press("Enter");
        await page.getByText("Nothing here").waitFor();
        await page.getByTitle("Remove this filter").click();
        await page.locator(".flame canvas").first().waitFor();
    },
    async "a wrong filter gives the server's reason"(open) {
        const page = await open(full, { expected: 1 });
        await page.locator(".flame canvas").first().waitFor();
        const box = page.getByLabel("Add a filter");
        await box.fill("thread name=~(");
        await box.press("Enter");
        await page.getByRole("alert").waitFor();
        assert.match(await page.getByRole("alert").innerText(), /The pattern of thread name/);
    },
    async "hostile names are text"(open) {
        const page = await open(full);
        await page.getByLabel("service").selectOption("<img src=x onerror=alert(1)>");
        await page.waitForFunction(() => document.title.startsWith("<img"));
        await page.locator(".flame canvas").first().waitFor();
        assert.equal(await page.locator("img").count(), 0);
    },
    async "a token is asked for, and kept"(open) {
        const page = await open(locked, { expected: 1 });
        await page.getByLabel("Token").fill(token);
        await page.getByRole("button", { name: "Go on" }).click();
        await page.getByText("No profiles yet").waitFor();
        await page.reload();
        await page.getByText("No profiles yet").waitFor();
    },
    async "dark where the system is, and no request elsewhere"(open) {
        const page = await open(empty, { colorScheme: "dark" });
        await page.getByText("No profiles yet").waitFor();
        const theme = await page.evaluate(() => document.documentElement.dataset.theme);
        assert.equal(theme, "dark");
    },
    async "small windows can be used"(open) {
        const page = await open(full, { viewport: { width: 420, height: 800 } });
        await page.locator(".flame canvas").first().waitFor();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= 420, `${wide} px wide`);
    },
};

async function main() {
    if (!existsSync(CHROMIUM)) {
        throw new Error(`no Chromium at ${CHROMIUM}`);
    }
    const browser = await chromium.launch({
        executablePath: CHROMIUM,
        args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
    });
    let failed = 0;
    for (const [name, check] of Object.entries(checks)) {
        const problems = [];
        const contexts = [];
        const result = { name, ok: true, detail: "" };
        let expected = 0;
        try {
            await check(async (url, options = {}) => {
                const context = await browser.newContext({
                    viewport: options.viewport ?? { width: 1280, height: 800 },
                    colorScheme: options.colorScheme ?? "light",
                    reducedMotion: "reduce",
                });
                contexts.push(context);
                expected = options.expected ?? 0;
                const page = await context.newPage();
                page.setDefaultTimeout(20000);
                page.on("console", (message) => {
                    // A refused request is one such line: the check knows of it.
                    const refused = /the server responded with a status of 4/.test(message.text());
                    if (message.type() === "error" && !(refused && expected > 0)) {
                        problems.push(message.text());
                    }
                });
                page.on("pageerror", (error) => problems.push(String(error)));
                page.on("dialog", (dialog) => {
                    problems.push("a dialog");
                    void dialog.dismiss();
                });
                const origin = new URL(url).origin;
                page.on("request", (request) => {
                    if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) {
                        problems.push(`request: ${request.url()}`);
                    }
                });
                await page.goto(url);
                return page;
            });
            assert.deepEqual(problems, []);
        } catch (error) {
            failed++;
            result.ok = false;
            result.detail = `${String(error.stack ?? error)}\n${problems.join("\n")}`;
        }
        for (const context of contexts) {
            await context.close();
        }
        console.log(JSON.stringify(result));
    }
    await browser.close();
    return failed > 0 ? 1 : 0;
}

process.exitCode = await main();

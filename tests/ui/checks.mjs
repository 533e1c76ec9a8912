// Checks of the built flame graph page in a real browser, as a person would use it.
//   node checks.mjs --list       names, one a line
//   node checks.mjs [NAME…]      all or those; one JSON line each: {"name", "ok", "detail"}
// Numbers expected of profiles.mjs small(): wall-time 100 ns, 60 parked; of the other 40, a has
// all, b 36 (10 itself), c 30 (all itself); thread one has 26, thread two 14.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { openBrowser } from "./browser.mjs";
import { large, service, small } from "./profiles.mjs";

const ROW = 20;
const ui = (path) => fileURLToPath(new URL(`../../ui/${path}`, import.meta.url));

const flameOf = (page, index = 0) => page.locator(".flame").nth(index);

/** A point of the graph: row from the top, part of the width from 0 to 1. */
async function at(page, row, part, index = 0) {
    const box = await flameOf(page, index).boundingBox();
    return { x: box.x + box.width * part, y: box.y + row * ROW + ROW / 2 + 1 };
}
async function tooltip(page, row, part, index = 0) {
    const point = await at(page, row, part, index);
    await page.mouse.move(point.x, point.y);
    return page.getByRole("tooltip").innerText();
}
async function clickBox(page, row, part, index = 0) {
    const point = await at(page, row, part, index);
    await page.mouse.click(point.x, point.y);
}
const text = async (locator) => (await locator.innerText()).replace(/[\u00a0\u202f]/g, " ");
const summary = (page) => text(page.locator(".summary"));
const hash = (page) => page.evaluate(() => location.hash);
const rows = async (page) => {
    const found = await page.locator(".table tbody tr:not(.spacer)").allInnerTexts();
    return found.map((row) =>
        row
            .replace(/[\u00a0\u202f]/g, " ")
            .split(/\s*[\n\t]+\s*/)
            .filter(Boolean)
            .join(" "),
    );
};
/** Colour of the graph at a point, as the canvas holds it. */
const pixel = (page, row, part) =>
    page.evaluate(
        ([r, p, height]) => {
            const canvas = document.querySelector(".flame canvas");
            const ratio = devicePixelRatio;
            const x = Math.min(canvas.width - 1, Math.floor(canvas.width * p));
            return [
                ...canvas
                    .getContext("2d")
                    .getImageData(x, Math.floor((r * height + 3) * ratio), 1, 1).data,
            ].slice(0, 3);
        },
        [row, part, ROW],
    );
const settle = (page) =>
    page.evaluate(
        () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
    );

/* The page hears keys from its first frame on, and shows what they do in the one after. */
async function patient(page) {
    const press = page.keyboard.press.bind(page.keyboard);
    page.keyboard.press = async (...key) => {
        await press(...key);
        await settle(page);
    };
    await settle(page);
}

const checks = {
    async "page is one file under 120 KB with one place for data"() {
        const path = ui("dist/flamegraph.html");
        const page = readFileSync(path, "utf8");
        assert.ok(statSync(path).size < 120 * 1024, `${statSync(path).size} bytes`);
        assert.equal(page.split("/*PROFILE*/null").length, 2);
        assert.match(
            page,
            /<script id="profile" type="application\/json">\/\*PROFILE\*\/null<\/script>/,
        );
        assert.match(
            page,
            /Content-Security-Policy" content="default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-/,
        );
        assert.doesNotMatch(page, /(src|href)="(?!data:)/);
        assert.doesNotMatch(page, /\beval\(|new Function\(/);
    },

    async "documents follow the schema"() {
        const require = createRequire(ui("package.json"));
        const Ajv = require("ajv/dist/2020").default;
        const validate = new Ajv({ strict: false }).compile(
            JSON.parse(readFileSync(ui("flamegraph/profile.schema.json"), "utf8")),
        );
        for (const document of [small(), service(), large(500)]) {
            assert.ok(validate(document), JSON.stringify(validate.errors));
        }
        for (const spoil of [
            (d) => {
                d.stacks[0] = [-2, 0];
            },
            (d) => {
                d.samples[0][3] = ["1"];
            },
            (d) => {
                delete d.types;
            },
            (d) => {
                d.start_ns = 1;
            },
        ]) {
            const document = small();
            spoil(document);
            assert.ok(!validate(document));
        }
    },

    async "totals leave parked out, and the toggle puts it in"(open) {
        const page = await open(small());
        assert.equal(
            await summary(page),
            "40 ns wall-time · 0.00 threads on average · 40.0% of 100 ns recorded",
        );
        assert.match(await text(page.locator(".notes")), /Left out: 60 ns of threads parked/);
        assert.deepEqual(await rows(page), [
            "c c.py:9 30 ns 75.0% 30 ns 75.0%",
            "b b.py:5 10 ns 25.0% 36 ns 90.0%",
            "a a.py:1 – 40 ns 100%",
        ]);
        await page.getByRole("button", { name: "Include parked" }).click();
        assert.equal(await summary(page), "100 ns wall-time · 0.00 threads on average");
        assert.equal((await rows(page))[0], "wait <native> 60 ns 60.0% 60 ns 60.0%");
        assert.equal(await hash(page), "#hide=");
        await page.keyboard.press("p");
        assert.match(await summary(page), /^40 ns/);
        assert.equal(await hash(page), "");
    },

    async "boxes are where their values put them"(open) {
        const page = await open(small());
        assert.match(await tooltip(page, 0, 0.5), /^all · 40.ns/);
        assert.match(
            await tooltip(page, 2, 0.895),
            /^b\n\/srv\/app\/b.py:5\n.*Total\s+36.ns\s+90.0%\s+Self\s+10.ns\s+25.0%\s+Of its caller\s+90.0%/s,
        );
        assert.match(await tooltip(page, 2, 0.905), /^c\n/);
        assert.match(
            await tooltip(page, 3, 0.395),
            /^c\n.*Total\s+16.ns\s+40.0%.*Of its caller\s+44.4%.*Function, total\s+30.ns\s+75.0%/s,
        );
        assert.match(await tooltip(page, 3, 0.405), /^a\n/);
        assert.match(await tooltip(page, 4, 0.64), /^c\n/);
        const point = await at(page, 3, 0.75);
        await page.mouse.move(point.x, point.y);
        assert.equal(await page.getByRole("tooltip").count(), 0);
    },

    async "click zooms, breadcrumb and Escape lead back"(open) {
        const page = await open(small());
        await clickBox(page, 2, 0.3);
        assert.match(await tooltip(page, 2, 0.99), /^b\n/);
        assert.match(await tooltip(page, 3, 16 / 36 - 0.01), /^c\n/);
        assert.deepEqual(
            (await text(page.locator(".breadcrumb ol"))).split(/\s*\n\s*|›/).filter(Boolean),
            ["all · 40 ns", "a", "b"],
        );
        assert.match(await hash(page), /^#zoom=\d+\.\d+$/);
        assert.match(await text(page.locator(".details")), /^b\n.*Total\n36 ns 90.0%/s);
        await page
            .getByRole("navigation", { name: "Zoom" })
            .getByRole("button", { name: "a", exact: true })
            .click();
        assert.match(await tooltip(page, 2, 0.95), /^c\n/);
        await page.goBack();
        assert.match(await tooltip(page, 2, 0.95), /^b\n/);
        await page.keyboard.press("Escape");
        assert.equal(await hash(page), "");
        assert.equal(await page.locator(".breadcrumb").count(), 0);
    },

    async "search tells the share that matches, marks it, and narrows the table"(open) {
        const page = await open(small());
        await page.keyboard.press("/");
        await page.keyboard.type("^c$");
        await page.locator("#found", { hasText: "match" }).waitFor();
        assert.equal(await text(page.locator("#found")), "75.0% · 30 ns in 1 match");
        assert.deepEqual(await rows(page), ["c c.py:9 30 ns 75.0% 30 ns 75.0%"]);
        await settle(page);
        const [red, green, blue] = await pixel(page, 2, 0.95);
        assert.ok(red > green + 60 && blue > green + 30, `match is ${red},${green},${blue}`);
        await clickBox(page, 2, 0.3);
        assert.equal(
            await text(page.locator("#found")),
            "75.0% · 30 ns in 1 match; 72.2% of the zoomed",
        );
        await page.getByRole("searchbox").fill("b|c");
        await page.locator("#found", { hasText: "2 matches" }).waitFor();
        assert.match(await text(page.locator("#found")), /^100% · 40 ns in 2 matches/);
        await page.getByRole("searchbox").fill("(");
        await page.locator("#found", { hasText: "not a regular expression" }).waitFor();
        assert.equal((await rows(page)).length, 3);
        await page.keyboard.press("Escape");
        assert.equal(await page.getByRole("searchbox").inputValue(), "");
    },

    async "inverted has the same total, and leaves at its root"(open) {
        const page = await open(small());
        const before = await summary(page);
        await page.keyboard.press("i");
        assert.equal(await summary(page), before);
        assert.match(await tooltip(page, 1, 0.74), /^c\n.*By this path\s+30.ns\s+75.0%/s);
        assert.match(
            await tooltip(page, 1, 0.76),
            /^b\n.*By this path\s+10.ns\s+25.0%.*Function, total\s+36.ns/s,
        );
        assert.equal(await hash(page), "#inverted=1");
        await page.getByRole("button", { name: "Calls" }).click();
        assert.match(await tooltip(page, 1, 0.76), /^a\n/);
    },

    async "every sample type is shown in its unit"(open) {
        const page = await open(service());
        const options = await page.getByLabel("Sample type").locator("option").allInnerTexts();
        assert.equal(options.length, 6);
        assert.match(options[0], /^cpu-time · \d+\.\d+.s$/);
        assert.match(options[1], /^cpu-samples · \d.\d+$/);
        assert.match(options[4], /^heap-space · \d+\.\d+.MiB$/);
        assert.equal(options[5], "exception-samples · none");
        await page.getByLabel("Sample type").selectOption("4");
        assert.match(await summary(page), /^\d+\.\d+ MiB heap-space/);
        assert.equal(await hash(page), "#type=heap-space");
        await page.getByLabel("Sample type").selectOption("5");
        assert.match(await text(page.locator(".empty")), /No samples of this type/);
    },

    async "cpu-time is the sum of the document, and cores are its average"(open) {
        const document = service();
        const sum = document.samples.reduce((total, sample) => total + sample[3][0], 0);
        const page = await open(document);
        assert.ok(
            (await summary(page)).startsWith(
                `${(sum / 1e9).toFixed(2)} s cpu-time · ${(sum / 60e9).toFixed(2)} cores on average`,
            ),
            await summary(page),
        );
    },

    async "threads and states filter with totals of their own"(open) {
        const page = await open(small());
        await page.getByRole("button", { name: /^Threads/ }).click();
        assert.match(await text(page.locator(".panel")), /one 11\s+26 ns\s+only\s+two 12\s+14 ns/);
        await page.getByRole("button", { name: "Only one 11" }).click();
        assert.match(await summary(page), /^26 ns.* 26.0% of 100 ns/);
        assert.match(await text(page.locator(".toolbar")), /Threads one/);
        await page.getByRole("checkbox", { name: /two/ }).check();
        assert.match(await summary(page), /^40 ns/);
        await page.keyboard.press("Escape");
        assert.equal(await page.locator(".panel").count(), 0);
        await page.getByRole("button", { name: /^States/ }).click();
        await page.getByRole("button", { name: /^Only io/ }).click();
        assert.match(await summary(page), /^4 ns/);
        await page.getByRole("checkbox", { name: /io/ }).uncheck();
        assert.match(await text(page.locator(".empty")), /No samples pass the filters/);
        await page.getByRole("button", { name: "Show everything" }).click();
        assert.match(await summary(page), /^100 ns/);
    },

    async "focus shows callers and callees with the function's total"(open) {
        const page = await open(small());
        await page.getByRole("button", { name: "b", exact: true }).dblclick();
        assert.equal(await page.locator(".flame").count(), 2);
        assert.match(await text(page.locator(".pane-head").first()), /^Callers of b/);
        assert.match(await tooltip(page, 0, 0.99, 1), /^b\n.*Total\s+36.ns\s+90.0%/s);
        assert.match(await tooltip(page, 1, 0.43, 1), /^c\n.*Total\s+16.ns\s+40.0%/s);
        const box = await flameOf(page).boundingBox();
        await page.mouse.move(box.x + box.width / 2, box.y + box.height - ROW - ROW / 2);
        assert.match(
            await page.getByRole("tooltip").innerText(),
            /^a\n.*By this path\s+36.ns\s+90.0%/s,
        );
        assert.match(await hash(page), /^#focus=\d+$/);
        await page.keyboard.press("Escape");
        assert.equal(await page.locator(".flame").count(), 1);
    },

    async "callers stand on the function, in sight"(open) {
        const page = await open(service(), {
            viewport: { width: 390, height: 800 },
        });
        await clickBox(page, 13, 0.2);
        await page.getByRole("button", { name: "Focus" }).click();
        await settle(page);
        const box = await flameOf(page).boundingBox();
        assert.ok(box.height < 14 * ROW, "the pane is to be smaller than its tree");
        await page.mouse.move(box.x + 50, box.y + box.height - ROW / 2);
        assert.match(await page.getByRole("tooltip").innerText(), /^monte_carlo/);
        await page.mouse.move(box.x + 50, box.y + box.height - ROW - ROW / 2);
        assert.match(await page.getByRole("tooltip").innerText(), /^price_quote/);
    },

    async "lines tell the lines of a function apart"(open) {
        const document = small();
        document.frames.push([1, 77]);
        document.stacks.push([0, document.frames.length - 1]);
        document.samples.push([document.stacks.length - 1, 0, 0, [4, 0, 0]]);
        const page = await open(document);
        assert.equal((await rows(page)).length, 3);
        await page.keyboard.press("l");
        assert.deepEqual(
            (await rows(page)).filter((row) => row.startsWith("b")),
            ["b b.py:6 10 ns 22.7% 36 ns 81.8%", "b b.py:77 4 ns 9.09% 4 ns 9.09%"],
        );
        assert.equal(await hash(page), "#lines=1");
    },

    async "table sorts, and is linked with the graph"(open) {
        const page = await open(small());
        await page.getByRole("button", { name: /^Total/ }).click();
        assert.deepEqual(
            (await rows(page)).map((row) => row[0]),
            ["a", "b", "c"],
        );
        assert.equal(
            await page.getByRole("columnheader", { name: /^Total/ }).getAttribute("aria-sort"),
            "descending",
        );
        await page
            .getByRole("columnheader", { name: /^Function/ })
            .getByRole("button")
            .click();
        assert.deepEqual(
            (await rows(page)).map((row) => row[0]),
            ["a", "b", "c"],
        );
        await page
            .getByRole("columnheader", { name: /^Function/ })
            .getByRole("button")
            .click();
        assert.deepEqual(
            (await rows(page)).map((row) => row[0]),
            ["c", "b", "a"],
        );
        await clickBox(page, 2, 0.95);
        assert.match(await text(page.locator(".table tr.selected")), /^c/);
        await page.getByRole("button", { name: "b", exact: true }).click();
        assert.match(
            await text(page.locator(".details")),
            /^b\n.*Total\n36 ns 90.0%\nSelf\n10 ns 25.0%/s,
        );
    },

    async "keyboard does all"(open) {
        const page = await open(small());
        await flameOf(page).focus();
        const selected = async () => await text(page.locator(".details .name"));
        for (const [key, name] of [
            ["ArrowDown", "undefined"],
            ["ArrowDown", "a"],
            ["ArrowDown", "b"],
            ["ArrowRight", "c"],
            ["ArrowRight", "c"],
            ["ArrowLeft", "b"],
            ["ArrowDown", "c"],
            ["ArrowRight", "a"],
            ["ArrowUp", "b"],
        ]) {
            await page.keyboard.press(key);
            if (name !== "undefined") {
                assert.equal(await selected(), name, key);
            }
        }
        await page.keyboard.press("Enter");
        assert.match(await hash(page), /^#zoom=/);
        await page.keyboard.press("ArrowRight");
        assert.equal(await selected(), "b", "a move does not leave what is zoomed");
        await page.keyboard.press("Escape");
        assert.equal(await hash(page), "");
        await page.keyboard.press("f");
        assert.equal(await page.locator(".flame").count(), 2);
        await page.keyboard.press("Escape");
        await page.keyboard.press("?");
        assert.ok(await page.getByRole("dialog").isVisible());
        await page.keyboard.press("i");
        assert.equal(await hash(page), "", "keys do not reach the page below the dialog");
        await page.keyboard.press("Escape");
        assert.equal(await page.getByRole("dialog").count(), 0);
    },

    async "light and dark follow the system, and the choice"(open) {
        const theme = (page) =>
            page.evaluate(() => [
                document.documentElement.dataset.theme,
                getComputedStyle(document.body).backgroundColor,
            ]);
        const light = await open(small());
        assert.deepEqual(await theme(light), ["light", "rgb(247, 246, 244)"]);
        assert.deepEqual(await pixel(light, 15, 0.5), [255, 255, 255]);
        await light.keyboard.press("t");
        await settle(light);
        assert.deepEqual(await theme(light), ["dark", "rgb(16, 17, 19)"]);
        assert.deepEqual(await pixel(light, 15, 0.5), [0x17, 0x18, 0x1b]);
        await light.reload();
        assert.equal((await theme(light))[0], "dark");
        await light.keyboard.press("t");
        assert.equal((await theme(light))[0], "light");
        const dark = await open(small(), { colorScheme: "dark" });
        assert.equal((await theme(dark))[0], "dark");
        await dark.getByRole("button", { name: "Theme: auto" }).click();
        assert.equal((await theme(dark))[0], "light");
    },

    async "the address holds the view"(open) {
        const first = await open(small());
        await first.keyboard.press("i");
        await first.keyboard.press("p");
        await first.getByRole("searchbox").fill("c|wait");
        await clickBox(first, 1, 0.7);
        const fragment = (await hash(first)).slice(1);
        const second = await open(small(), { hash: fragment });
        for (const page of [first, second]) {
            assert.equal(await page.getByRole("searchbox").inputValue(), "c|wait");
            assert.match(await summary(page), /^100 ns/);
            assert.equal(
                await page.getByRole("button", { name: "Inverted" }).getAttribute("aria-pressed"),
                "true",
            );
            assert.equal(await text(page.locator(".breadcrumb [aria-current]")), "c");
        }
        assert.deepEqual(await rows(second), await rows(first));
        const wrong = await open(small(), {
            hash: "zoom=99.1&type=no&focus=99&threads=x&q=%",
        });
        assert.equal(await wrong.locator(".flame, .empty").count(), 1);
    },

    async "an empty, a broken and a missing profile say so"(open) {
        const failure = async (document) => text((await open(document)).getByRole("alert"));
        assert.match(
            await failure(undefined),
            /This profile cannot be shown.*no profile has been written/s,
        );
        assert.match(await failure(JSON.stringify(small()).slice(0, 400)), /cut off or damaged/);
        const spoiled = small();
        spoiled.samples[0][0] = 4711;
        assert.match(await failure(spoiled), /samples\[0\]\[0\] is 4711/);
        const nothing = {
            ...small(),
            samples: [],
            stacks: [],
            frames: [],
            functions: [],
            threads: [],
            states: [],
        };
        assert.match(
            await text((await open(nothing)).locator(".empty")),
            /No samples of this type/,
        );
    },

    async "names are text, whatever they hold"(open) {
        const document = small();
        const evil = "</script><img src=x onerror=\"document.title='owned'\"><b>&amp;";
        document.strings[document.functions[0][0]] = evil;
        document.title = evil;
        document.notes.push(evil);
        const page = await open(document);
        assert.equal(await text(page.locator("h1")), evil);
        assert.equal(await page.locator("img").count(), 0);
        assert.ok((await tooltip(page, 1, 0.5)).startsWith(evil));
        assert.notEqual(await page.title(), "owned");
    },

    async "synthetic and native frames look apart"(open) {
        const page = await open(service());
        await page
            .locator(".legend")
            .getByRole("button", { name: /^not code/ })
            .click();
        assert.deepEqual(
            (await rows(page)).map((row) => row.split(" ").slice(0, 3).join(" ")).sort(),
            ["<12 frames omitted>", "<short-lived threads> 410"],
        );
        assert.equal(await page.locator(".table tbody .swatch.hatched").count(), 2);
        await page
            .locator(".legend")
            .getByRole("button", { name: /^native/ })
            .click();
        assert.ok((await rows(page)).every((row) => row.includes("<native>")));
    },

    async "a name can be copied"(open) {
        const page = await open(small());
        await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
        await clickBox(page, 2, 0.3);
        await page.getByRole("button", { name: "Copy name" }).click();
        await page.getByRole("button", { name: "Copied" }).waitFor();
        assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "b");
    },

    async "it fits a phone"(open) {
        for (const [width, height] of [
            [360, 640],
            [390, 800],
        ]) {
            const page = await open(service(), {
                viewport: { width, height },
                scale: 2,
                hash: "type=wall-time",
            });
            const overflow = () =>
                page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            assert.ok((await overflow()) <= 0);
            const flame = await flameOf(page).boundingBox();
            assert.ok(flame.width > width - 30 && flame.height >= 90, JSON.stringify(flame));
            assert.equal(
                await page.evaluate(() => document.querySelector(".flame canvas").width),
                Math.round(
                    2 * (await page.evaluate(() => document.querySelector(".flame").clientWidth)),
                ),
            );
            await page.getByRole("button", { name: "Table" }).click();
            assert.ok((await page.locator(".table").isVisible()) && (await overflow()) <= 0);
            await page.getByRole("button", { name: /^States/ }).click();
            const panel = await page.locator(".panel").boundingBox();
            assert.ok(panel.x >= 0 && panel.x + panel.width <= width);
        }
    },

    async "a zoomed box is in sight on a small screen"(open) {
        const page = await open(service(), {
            viewport: { width: 390, height: 800 },
        });
        await clickBox(page, 13, 0.2);
        await page.waitForTimeout(200);
        const box = await flameOf(page).boundingBox();
        const scrolled = await flameOf(page).evaluate((flame) => flame.scrollTop);
        assert.ok(
            scrolled > 0 && 13 * ROW - scrolled >= 0 && 16 * ROW - scrolled <= box.height,
            `${scrolled} of ${box.height}`,
        );
        assert.match(await text(page.locator(".details")), /^monte_carlo/);
        await page.mouse.move(box.x + 300, box.y + 13 * ROW - scrolled + 10);
        assert.match(await page.getByRole("tooltip").innerText(), /^monte_carlo/);
        assert.match(await text(page.locator(".breadcrumb")), /more/);
    },

    async "the zoom glides, and ends where it should"(open) {
        const page = await open(small(), { motion: "no-preference" });
        await clickBox(page, 2, 0.3);
        await page.waitForTimeout(400);
        assert.match(await tooltip(page, 2, 0.99), /^b\n/);
        assert.match(await tooltip(page, 3, 16 / 36 + 0.01), /^a\n/);
        await page.keyboard.press("Escape");
        await page.waitForTimeout(400);
        assert.match(await tooltip(page, 2, 0.95), /^c\n/);
    },

    async "everything that can be used has a name"(open) {
        const page = await open(service(), { hash: "type=wall-time" });
        const unnamed = await page.evaluate(() =>
            [...document.querySelectorAll("button, input, select, [role], [tabindex]")]
                .filter(
                    (element) =>
                        !(
                            element.getAttribute("aria-label") ||
                            element.labels?.length ||
                            element.textContent.trim()
                        ),
                )
                .map((element) => element.outerHTML.slice(0, 80)),
        );
        assert.deepEqual(unnamed, []);
        assert.match(
            await flameOf(page).getAttribute("aria-label"),
            /wall-time, all · .*Arrow keys move/,
        );
        assert.equal(await page.evaluate(() => document.documentElement.lang), "en");
        assert.equal(await page.locator("h1").count(), 1);
        assert.equal(await page.locator("main").count(), 1);
    },

    async "50,000 stacks stay smooth"(open) {
        const page = await open(large());
        await page.locator(".flame[data-boxes]").waitFor();
        const loading = await page.evaluate(
            () =>
                new Promise((done) =>
                    requestAnimationFrame(() => done(Math.round(performance.now()))),
                ),
        );
        const boxes = Number(await flameOf(page).getAttribute("data-boxes"));
        assert.ok(boxes >= 50000, `${boxes} boxes`);
        const box = await flameOf(page).boundingBox();
        const frame = await page.evaluate(
            async ([x, y, width]) => {
                const flame = document.querySelector(".flame");
                const canvas = flame.querySelector("canvas").getContext("2d");
                const times = [];
                for (let i = 0; i < 40; i++) {
                    const before = performance.now();
                    flame.dispatchEvent(
                        new PointerEvent("pointermove", {
                            bubbles: true,
                            clientX: x + (width * i) / 40,
                            clientY: y + 50 + (i % 5) * 20,
                        }),
                    );
                    await new Promise(requestAnimationFrame);
                    canvas.getImageData(0, 0, 1, 1);
                    times.push(performance.now() - before);
                }
                return times.sort((a, b) => a - b)[20];
            },
            [box.x, box.y, box.width],
        );
        const began = Date.now();
        await page.keyboard.press("i");
        await page.getByRole("button", { name: "Inverted", pressed: true }).waitFor();
        const inverting = Date.now() - began;
        const searching = Date.now();
        await page.getByRole("searchbox").fill("method_1\\d*$");
        await page.locator("#found", { hasText: "match" }).waitFor();
        const detail = `load ${loading} ms, frame ${frame.toFixed(1)} ms, invert ${inverting} ms, search ${Date.now() - searching} ms, ${boxes} boxes`;
        // Bounds for a busy machine without a graphics processor; usual figures are a third of them.
        assert.ok(loading < 6000 && frame < 100 && inverting < 4000, detail);
        return detail;
    },
};

async function main(names) {
    if (names[0] === "--list") {
        console.log(Object.keys(checks).join("\n"));
        return 0;
    }
    const browser = await openBrowser();
    let failed = 0;
    for (const name of names.length > 0 ? names : Object.keys(checks)) {
        const opened = [];
        const result = { name, ok: true, detail: "" };
        try {
            result.detail =
                (await checks[name](async (document, options) => {
                    const one = await browser.open(document, options);
                    opened.push(one);
                    await patient(one.page);
                    return one.page;
                })) ?? "";
            assert.deepEqual(
                opened.flatMap((one) => one.problems),
                [],
                "console, exceptions and requests",
            );
        } catch (error) {
            failed++;
            result.ok = false;
            result.detail = String(error.stack ?? error);
        }
        for (const one of opened) {
            await one.close();
        }
        console.log(JSON.stringify(result));
    }
    await browser.close();
    return failed > 0 ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));

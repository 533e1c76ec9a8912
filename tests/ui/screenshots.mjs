// Pictures of the page, for people: node screenshots.mjs FOLDER
import { mkdirSync } from "node:fs";
import { openBrowser } from "./browser.mjs";
import { large, service } from "./profiles.mjs";

const folder = process.argv[2] ?? "shots";
mkdirSync(folder, { recursive: true });
const browser = await openBrowser();
const shot = async (name, document, options, act = async () => {}) => {
    const { page, close } = await browser.open(document, options);
    await page.waitForTimeout(250);
    await act(page);
    await page.waitForTimeout(350);
    await page.screenshot({ path: `${folder}/${name}.png` });
    await close();
};
const wide = { width: 1280, height: 800 };
const phone = { width: 390, height: 800 };
for (const colorScheme of ["light", "dark"]) {
    await shot(`wide-${colorScheme}`, service(), { viewport: wide, colorScheme });
    await shot(`phone-${colorScheme}`, service(), {
        viewport: phone,
        colorScheme,
    });
    await shot(
        `wide-search-${colorScheme}`,
        service(),
        { viewport: wide, colorScheme, hash: "type=wall-time&q=Session" },
        async (page) => {
            await page.mouse.move(800, 420);
        },
    );
    await shot(
        `wide-focus-${colorScheme}`,
        service(),
        { viewport: wide, colorScheme },
        async (page) => {
            await page.getByRole("button", { name: "Flask.dispatch_request", exact: true }).click();
            await page.keyboard.press("f");
        },
    );
}
await shot("phone-table", service(), { viewport: phone }, (page) =>
    page.getByRole("button", { name: "Table" }).click(),
);
await shot("phone-narrow", service(), {
    viewport: { width: 360, height: 640 },
});
await shot("wide-inverted", service(), { viewport: wide, hash: "inverted=1" });
await shot("wide-menu", service(), { viewport: wide, hash: "type=wall-time" }, (page) =>
    page.getByRole("button", { name: /^Threads/ }).click(),
);
await shot("wide-help", service(), { viewport: wide }, (page) => page.keyboard.press("?"));
await shot("wide-large", large(), { viewport: wide });
await shot("wide-empty", service(), {
    viewport: wide,
    hash: "type=exception-samples",
});
await shot("wide-broken", '{"title": ', { viewport: wide });
await browser.close();

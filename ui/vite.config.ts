// Builds the pages: each one HTML file with its script and style inline, allowed by their hashes in
// a content security policy that permits nothing else. So the flame graph page can never reach a
// network; the server's page (vite build --mode server) may ask the server that it came from, and
// load from there the one script that is not in it (--mode graphviz), which is WebAssembly.
import { createHash } from "node:crypto";
import { defineConfig } from "vitest/config";
import type { Plugin } from "vite";

function sha256(text: string): string {
    return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

function onePage(fileName: string, more: { script: string; policy: string }): Plugin {
    return {
        name: "one-page",
        enforce: "post",
        generateBundle(_options, bundle) {
            let script = "";
            let style = "";
            let page = "";
            for (const [name, item] of Object.entries(bundle)) {
                if (item.type === "chunk") {
                    script += item.code.replace(/<\/script/gi, "<\\/script").trim();
                } else if (name.endsWith(".css")) {
                    style += String(item.source).trim();
                } else if (name.endsWith(".html")) {
                    page = String(item.source);
                    continue;
                }
                delete bundle[name];
            }
            if (script === "" || style === "" || page === "") {
                this.error("the build gave no script, style or page to put together");
            }
            const policy =
                `default-src 'none'; script-src ${sha256(script)}${more.script}; ` +
                `style-src ${sha256(style)}; ` +
                `img-src data:; ${more.policy}base-uri 'none'; form-action 'none'`;
            page = page
                .replace(
                    /\s*<(script|link)[^>]*(src|href)="[^"]*\.(js|css)"[^>]*>(<\/script>)?/g,
                    "",
                )
                .replace(
                    "<!--policy-->",
                    () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
                )
                .replace("<!--style-->", () => `<style>${style}</style>`)
                .replace("<!--script-->", () => `<script>${script}</script>`);
            this.emitFile({ type: "asset", fileName, source: page });
            delete bundle["index.html"];
        },
    };
}

const FOLDERS: Record<string, string> = { server: "server", graphviz: "server" };
const PLUGINS: Record<string, Plugin[]> = {
    production: [onePage("flamegraph.html", { script: "", policy: "" })],
    server: [
        onePage("server.html", {
            script: " 'self' 'wasm-unsafe-eval'",
            policy: "connect-src 'self'; ",
        }),
    ],
};

export default defineConfig(({ mode }) => ({
    root: FOLDERS[mode] ?? "flamegraph",
    base: "./",
    publicDir: false,
    plugins: PLUGINS[mode] ?? [],
    build: {
        outDir: "../dist",
        emptyOutDir: false,
        target: "es2022",
        modulePreload: false,
        cssCodeSplit: false,
        reportCompressedSize: false,
        chunkSizeWarningLimit: 2000,
        rollupOptions: {
            output: { format: "iife", entryFileNames: "[name].js" },
            ...(mode === "graphviz" ? { input: "server/graphviz.ts" } : {}),
        },
    },
    // On a busy machine the longest takes a multiple of its three seconds.
    test: { root: ".", include: ["*/unit/*.test.ts"], testTimeout: 60_000 },
}));

// Light and dark: the choice, and the colours that the canvas needs (the rest is in style.css).
import { useEffect, useState } from "preact/hooks";
import { oklch } from "./color";

export type Choice = "auto" | "light" | "dark";

export interface Palette {
    readonly dark: boolean;
    readonly text: string;
    readonly muted: string;
    readonly background: string;
    readonly rootBox: string;
    readonly rest: string;
    readonly hatch: string;
    readonly match: string;
    readonly select: string;
}

const LIGHT: Palette = {
    dark: false,
    text: "#1c1b1a",
    muted: "rgba(28,27,26,.62)",
    background: "#ffffff",
    rootBox: "#e4e2df",
    rest: "#dcdad6",
    hatch: "#bdbab4",
    match: oklch(0.79, 0.14, 335),
    select: "#1c1b1a",
};

const DARK: Palette = {
    dark: true,
    text: "#f4f2ef",
    muted: "rgba(244,242,239,.66)",
    background: "#17181b",
    rootBox: "#303239",
    rest: "#2c2e33",
    hatch: "#555860",
    match: oklch(0.56, 0.2, 340),
    select: "#ffffff",
};

const KEY = "pyrometer-theme";

function stored(): Choice {
    try {
        const value = localStorage.getItem(KEY);
        return value === "light" || value === "dark" ? value : "auto";
    } catch {
        return "auto"; // storage may be forbidden to a local file
    }
}

/** The palette in force, the choice, and a function for the next choice. */
export interface Theme {
    readonly palette: Palette;
    readonly choice: Choice;
    readonly next: () => void;
}

export function useTheme(): Theme {
    const [choice, setChoice] = useState<Choice>(stored);
    const [systemDark, setSystemDark] = useState(
        () => matchMedia("(prefers-color-scheme: dark)").matches,
    );
    useEffect(() => {
        const query = matchMedia("(prefers-color-scheme: dark)");
        const listen = (): void => setSystemDark(query.matches);
        query.addEventListener("change", listen);
        return () => query.removeEventListener("change", listen);
    }, []);
    const dark = choice === "auto" ? systemDark : choice === "dark";
    useEffect(() => {
        document.documentElement.dataset.theme = dark ? "dark" : "light";
        try {
            localStorage.setItem(KEY, choice);
        } catch {
            // The choice then lasts as long as the page.
        }
    }, [dark, choice]);
    // From "auto" the first step is to what is not shown now.
    const next = (): void =>
        setChoice(
            choice === "auto"
                ? systemDark
                    ? "light"
                    : "dark"
                : (choice === "dark") === systemDark
                  ? "auto"
                  : systemDark
                    ? "dark"
                    : "light",
        );
    return { palette: dark ? DARK : LIGHT, choice, next };
}

// Colours. The family says where code comes from: warm is the application, cool are packages,
// pale blue is the standard library, green-grey is native code, hatched grey is not code. Within
// a family the hue comes from a hash of the group's name, so that a package has one colour in
// every profile. Lightness is the same for all (in the perceptual OKLCH space), so no box stands
// out that is not meant to, and text is legible on each.
import type { Kind } from "./symbols";

/**
 * FNV-1a over UTF-16 units, mixed so that names which differ at their end alone differ in all
 * bits.
 */
export function hashText(text: string): number {
    let hash = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) {
        hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    }
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return (hash ^ (hash >>> 13)) >>> 0;
}

/**
 * OKLCH (lightness and chroma from 0 to 1, hue in degrees) to "#rrggbb", clipped to the sRGB
 * gamut.
 */
export function oklch(lightness: number, chroma: number, hue: number): string {
    const a = chroma * Math.cos((hue * Math.PI) / 180);
    const b = chroma * Math.sin((hue * Math.PI) / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    return (
        "#" +
        linear
            .map((value) => {
                const clipped = Math.min(1, Math.max(0, value));
                const gamma =
                    clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
                return Math.round(255 * gamma)
                    .toString(16)
                    .padStart(2, "0");
            })
            .join("")
    );
}

const FAMILY: Record<Kind, { hue: number; spread: number; chroma: number }> = {
    application: { hue: 42, spread: 58, chroma: 0.105 },
    package: { hue: 185, spread: 150, chroma: 0.075 },
    stdlib: { hue: 245, spread: 20, chroma: 0.035 },
    native: { hue: 150, spread: 0, chroma: 0.05 },
    synthetic: { hue: 0, spread: 0, chroma: 0 },
};

export function colorOf(kind: Kind, origin: string, dark: boolean): string {
    const family = FAMILY[kind];
    const hash = hashText(origin);
    const hue = family.hue + ((hash & 0xffff) / 0xffff) * family.spread;
    const step = ((hash >>> 16) & 3) * 0.012;
    return dark
        ? oklch(0.46 + step, family.chroma * 0.9, hue)
        : oklch(0.85 - step, family.chroma, hue);
}

// What every view of the server's page is given, and how it asks.
import type { Palette } from "../flamegraph/theme";
import { askJson } from "./api";
import { useAsked, type Asked } from "./asked";
import { argumentsOf, filterKey, withFilter, type Choice } from "./choice";

export interface ViewProps {
    readonly choice: Choice;
    /** Counts how often all was asked anew. */
    readonly round: number;
    readonly palette: Palette;
    readonly versions: readonly string[];
    change(part: Partial<Choice>): void;
    again(): void;
}

export function nowSeconds(): number {
    return Math.floor(Date.now() / 1000);
}

/** Asks about the chosen profiles, with more arguments; null asks nothing. */
export function useQuestion<T>(
    props: Pick<ViewProps, "choice" | "round">,
    path: string,
    more: Readonly<Record<string, string | readonly string[]>> | null,
): Asked<T> {
    const { choice, round } = props;
    return useAsked<T>(
        more === null
            ? null
            : (signal) => {
                  const query = argumentsOf(choice, nowSeconds());
                  for (const [name, value] of Object.entries(more)) {
                      [value].flat().forEach((one) => one !== "" && query.append(name, one));
                  }
                  return askJson<T>(path, query, signal);
              },
        [filterKey(choice), path, JSON.stringify(more), round],
    );
}

/** Looks at a function in the flame graph, by the type that the view is about; the other filters
 * are kept. */
export function lookAt(props: ViewProps, type = props.choice.type): (name: string) => void {
    return (name) =>
        props.change({ view: "graph", type, where: withFilter(props.choice, "function", name) });
}

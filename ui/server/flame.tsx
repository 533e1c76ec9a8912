// The flame graph of what is chosen: the self-contained page's own, with the server's data.
import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import { App } from "../flamegraph/app";
import { parseProfile, type Profile } from "../flamegraph/profile";
import type { Theme } from "../flamegraph/theme";
import { ask } from "./api";
import { Shown, useAsked } from "./asked";
import { argumentsOf, filterKey } from "./choice";
import { nowSeconds, type ViewProps } from "./view";

interface Loaded {
    readonly number: number;
    readonly profile: Profile;
}

export function FlameGraph(props: ViewProps & { theme: Theme }): JSX.Element {
    const { choice, change } = props;
    const number = useRef(0);
    const asked = useAsked<Loaded>(
        async (signal) => {
            const text = await ask("/api/document", argumentsOf(choice, nowSeconds()), signal);
            number.current += 1;
            return { number: number.current, profile: parseProfile(text) };
        },
        [filterKey(choice), props.round],
    );
    return (
        <Shown asked={asked} onRetry={props.again}>
            {(loaded) => (
                <Graph
                    key={loaded.number}
                    profile={loaded.profile}
                    type={choice.type}
                    theme={props.theme}
                    onType={(type) => change({ type })}
                />
            )}
        </Shown>
    );
}

/** The type that the other views show is the one that it starts with. */
function Graph(props: {
    profile: Profile;
    type: string;
    theme: Theme;
    onType(type: string): void;
}): JSX.Element {
    const { profile, type } = props;
    const shown = useMemo(() => {
        const index = profile.types.findIndex((item) => item.type === type);
        return index < 0 ? profile : { ...profile, defaultType: index };
    }, [profile]);
    return <App profile={shown} theme={props.theme} onType={props.onType} />;
}

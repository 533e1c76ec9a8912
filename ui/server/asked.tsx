// A question to the server, as a component sees it: under way, answered, or failed, and what is
// shown meanwhile.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "./api";

/** What is known of the last question: its answer, that it is under way, or why it failed. */
export interface Asked<T> {
    readonly value: T | null;
    readonly error: ApiError | null;
    readonly busy: boolean;
}

/** Asks anew when `deps` change; null asks nothing. An old answer stays until the new one comes. */
export function useAsked<T>(
    question: ((signal: AbortSignal) => Promise<T>) | null,
    deps: readonly unknown[],
): Asked<T> {
    const [asked, setAsked] = useState<Asked<T>>({ value: null, error: null, busy: true });
    useEffect(() => {
        if (question === null) {
            setAsked({ value: null, error: null, busy: false });
            return;
        }
        const abort = new AbortController();
        setAsked((old) => ({ ...old, busy: true }));
        question(abort.signal).then(
            (value) => !abort.signal.aborted && setAsked({ value, error: null, busy: false }),
            (error: unknown) => {
                if (!abort.signal.aborted) {
                    const known =
                        error instanceof ApiError ? error : new ApiError(-1, String(error));
                    setAsked({ value: null, error: known, busy: false });
                }
            },
        );
        return () => abort.abort();
    }, deps);
    return asked;
}

/** A sentence in place of an answer. */
export function Message(props: { title: string; children: ComponentChildren }): JSX.Element {
    return (
        <div class="message">
            <h2>{props.title}</h2>
            {props.children}
        </div>
    );
}

export function Failure(props: { error: ApiError; onRetry(): void }): JSX.Element {
    if (props.error.code === 404) {
        return (
            <Message title="Nothing here">
                <p>{sentence(props.error.message)}</p>
                <p class="muted">Try a longer time, or fewer filters.</p>
            </Message>
        );
    }
    return (
        <div class="message" role="alert">
            <h2>That did not work</h2>
            <p>{sentence(props.error.message)}</p>
            <button class="control" onClick={props.onRetry}>
                Try again
            </button>
        </div>
    );
}

function sentence(text: string): string {
    return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** The answer by `children`, or what is said before it comes or when it does not. */
export function Shown<T>(props: {
    asked: Asked<T>;
    onRetry(): void;
    children(value: T): JSX.Element;
}): JSX.Element {
    const { value, error, busy } = props.asked;
    if (error) {
        return <Failure error={error} onRetry={props.onRetry} />;
    }
    if (value === null) {
        return (
            <div class="message" aria-busy="true">
                <p>Loading…</p>
            </div>
        );
    }
    return (
        <div class="shown" data-busy={busy} aria-busy={busy}>
            {props.children(value)}
        </div>
    );
}

// Small controls that several views have.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

export function Select(props: {
    label: string;
    value: string;
    items: readonly (readonly [value: string, label: string])[];
    onChange(value: string): void;
}): JSX.Element {
    const { value, items } = props;
    const isThere = items.some(([item]) => item === value);
    const shown = isThere ? items : [[value, value] as const, ...items];
    return (
        <label class="control pick">
            <span class="label">{props.label}</span>
            <select value={value} onChange={(event) => props.onChange(event.currentTarget.value)}>
                {shown.map(([item, label]) => (
                    <option key={item} value={item}>
                        {label}
                    </option>
                ))}
            </select>
        </label>
    );
}

/** One of a few, all of them in sight. */
export function Segments<T extends string>(props: {
    label: string;
    value: T;
    items: readonly (readonly [value: T, label: string, title: string])[];
    onChange(value: T): void;
}): JSX.Element {
    return (
        <div class="segments" role="group" aria-label={props.label}>
            {props.items.map(([item, label, title]) => (
                <button
                    key={item}
                    type="button"
                    title={title}
                    aria-pressed={item === props.value}
                    onClick={() => props.onChange(item)}
                >
                    {label}
                </button>
            ))}
        </div>
    );
}

/** The conditions: each can be taken away, and one is added by typing it. */
export function Where(props: {
    items: readonly string[];
    names: readonly string[];
    onChange(items: readonly string[]): void;
}): JSX.Element {
    const [text, setText] = useState("");
    return (
        <form
            class="where"
            onSubmit={(event) => {
                event.preventDefault();
                if (/[=!]/.test(text)) {
                    props.onChange([...props.items, text.trim()]);
                    setText("");
                }
            }}
        >
            {props.items.map((item) => (
                <button
                    key={item}
                    type="button"
                    class="control chip"
                    title="Remove this filter"
                    onClick={() => props.onChange(props.items.filter((other) => other !== item))}
                >
                    <span>{item}</span> ×
                </button>
            ))}
            <input
                class="control"
                type="search"
                aria-label="Add a filter"
                placeholder="filter: thread name=~worker.*"
                title="NAME=VALUE, != , =~ PATTERN, !~ ; then Enter"
                list="filter-names"
                spellcheck={false}
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
            />
            <datalist id="filter-names">
                {["function", "file", "package", ...props.names].map((name) => (
                    <option key={name} value={`${name}=`} />
                ))}
            </datalist>
        </form>
    );
}

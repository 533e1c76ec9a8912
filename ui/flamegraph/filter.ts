// Which samples count: the sample type, the chosen threads, the hidden states. All totals shown
// anywhere come from here, so a filter can never change a graph without changing its
// percentages.
import type { Profile } from "./profile";

export interface Filter {
    readonly type: number;
    /** Indexes of the threads that count; null for all. */
    readonly threads: ReadonlySet<number> | null;
    /** Names of states that do not count; "" stands for samples without a state. */
    readonly hiddenStates: ReadonlySet<string>;
}

export interface Weights {
    /** A value for each stack: of the samples that end there. */
    readonly ofStack: Float64Array;
    readonly total: number;
    /** Of all samples of the type, whatever the filter. */
    readonly unfiltered: number;
    /**
     * What each thread has under the state filter; a thread that is left out shows what it would
     * add.
     */
    readonly ofThread: Float64Array;
    /**
     * What each state has under the thread filter, in the order of profile.states, then "no
     * state".
     */
    readonly ofState: Float64Array;
}

export function weigh(profile: Profile, filter: Filter): Weights {
    const values = profile.values[filter.type]!;
    const ofStack = new Float64Array(profile.stackParent.length);
    const ofThread = new Float64Array(profile.threads.length);
    const ofState = new Float64Array(profile.states.length + 1);
    const noState = profile.states.length;
    const stateShown = [...profile.states, ""].map((name) => !filter.hiddenStates.has(name));
    const threadShown = profile.threads.map((_thread, i) => filter.threads?.has(i) ?? true);
    let total = 0;
    let unfiltered = 0;
    for (let i = 0; i < values.length; i++) {
        const value = values[i]!;
        if (value === 0) {
            continue;
        }
        const thread = profile.sampleThread[i]!;
        const state = profile.sampleState[i]! < 0 ? noState : profile.sampleState[i]!;
        unfiltered += value;
        if (stateShown[state]) {
            ofThread[thread]! += value;
        }
        if (threadShown[thread]) {
            ofState[state]! += value;
        }
        if (stateShown[state] && threadShown[thread]) {
            ofStack[profile.sampleStack[i]!]! += value;
            total += value;
        }
    }
    return { ofStack, total, unfiltered, ofThread, ofState };
}

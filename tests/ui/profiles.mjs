// Profiles for the page's tests: a web service as the profiler would see it, a large one, and
// small ones whose numbers can be checked by hand. Made from a fixed seed, so every run tests
// the same bytes.

/** Collects samples by stacks of [name, file, first line, line] into a profile document. */
export class Builder {
    constructor(types, extra = {}) {
        this.document = {
            title: "test",
            start_ns: "1753000000000000000",
            duration_ns: 60e9,
            default: 0,
            types,
            strings: [],
            functions: [],
            frames: [],
            stacks: [],
            threads: [],
            states: [],
            samples: [],
            notes: [],
            ...extra,
        };
        this.known = new Map();
    }

    index(list, key, make) {
        const id = `${list}:${key}`;
        if (!this.known.has(id)) {
            this.known.set(id, this.document[list].length);
            this.document[list].push(make());
        }
        return this.known.get(id);
    }

    string(text) {
        return this.index("strings", text, () => text);
    }

    /** Frames root first. */
    stack(frames) {
        let parent = -1;
        for (const [name, file, start, line] of frames) {
            const fn = this.index("functions", `${name}|${file}|${start}`, () => [
                this.string(name),
                this.string(file),
                start,
            ]);
            const frame = this.index("frames", `${fn}:${line}`, () => [fn, line]);
            const above = parent;
            parent = this.index("stacks", `${above}:${frame}`, () => [above, frame]);
        }
        return parent;
    }

    add(frames, thread, state, values) {
        const [name, id] = thread;
        const threadIndex = this.index("threads", `${name}|${id}`, () => [this.string(name), id]);
        const stateIndex =
            state === "" ? -1 : this.index("states", state, () => this.string(state));
        const stack = this.stack(frames);
        const sample = this.index("samples", `${stack}|${threadIndex}|${stateIndex}`, () => [
            stack,
            threadIndex,
            stateIndex,
            values.map(() => 0),
        ]);
        values.forEach((value, i) => {
            this.document.samples[sample][3][i] += value;
        });
    }
}

function random(seed) {
    let state = seed >>> 0;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

const LIB = "/usr/lib/python3.11";
const SITE = "/srv/shop/.venv/lib/python3.11/site-packages";
const APP = "/srv/shop/shop";
const TYPES = [
    { type: "cpu-time", unit: "nanoseconds" },
    { type: "cpu-samples", unit: "count" },
    { type: "wall-time", unit: "nanoseconds" },
    { type: "wall-samples", unit: "count" },
    { type: "heap-space", unit: "bytes" },
    { type: "exception-samples", unit: "count" },
];

const BOOT = [
    ["Thread._bootstrap", `${LIB}/threading.py`, 985, 995],
    ["Thread._bootstrap_inner", `${LIB}/threading.py`, 1020, 1038],
    ["Thread.run", `${LIB}/threading.py`, 953, 975],
    ["_worker", `${LIB}/concurrent/futures/thread.py`, 69, 83],
];
const REQUEST = [
    ["_WorkItem.run", `${LIB}/concurrent/futures/thread.py`, 53, 58],
    ["ThreadWorker.handle", `${SITE}/gunicorn/workers/gthread.py`, 271, 284],
    ["ThreadWorker.handle_request", `${SITE}/gunicorn/workers/gthread.py`, 320, 334],
    ["Flask.__call__", `${SITE}/flask/app.py`, 1478, 1488],
    ["Flask.wsgi_app", `${SITE}/flask/app.py`, 1420, 1455],
    ["Flask.full_dispatch_request", `${SITE}/flask/app.py`, 867, 880],
    ["Flask.dispatch_request", `${SITE}/flask/app.py`, 841, 865],
];

/** A threaded web service: CPU, sleep, locks, I/O, recursion, idle workers. */
export function service() {
    const next = random(7);
    const builder = new Builder(TYPES, {
        title: "shop-api",
        rows: [
            ["interval", "10 ms"],
            ["own cost", "0.31 % of a core"],
            ["process", "4127"],
            ["Python", "3.11.2"],
        ],
        notes: [
            "3 of 48 112 samples were dropped: the recorder was full.",
            "12 stacks were deeper than 64 frames; the omitted ones are marked.",
        ],
    });
    const recursion = Array.from({ length: 14 }, () => [
        "Category.walk",
        `${APP}/catalog/tree.py`,
        40,
        52,
    ]);
    const endpoints = [
        [
            7,
            [
                ["get_orders", `${APP}/handlers/orders.py`, 12, 31],
                ["OrderStore.recent", `${APP}/storage/orders.py`, 44, 61],
                ["Session.execute", `${SITE}/sqlalchemy/orm/session.py`, 2200, 2245],
                ["Connection._execute_context", `${SITE}/sqlalchemy/engine/base.py`, 1780, 1964],
                ["DefaultDialect.do_execute", `${SITE}/sqlalchemy/engine/default.py`, 918, 922],
                ["sqlite3.Cursor.execute", "<native>", 0, 0],
            ],
            "on-cpu",
        ],
        [
            5,
            [
                ["get_orders", `${APP}/handlers/orders.py`, 12, 38],
                ["render_orders", `${APP}/views/orders.py`, 8, 22],
                ["Template.render", `${SITE}/jinja2/environment.py`, 1269, 1285],
                ["root", `${APP}/templates/orders.html`, 1, 17],
            ],
            "on-cpu",
        ],
        [
            9,
            [
                ["price_quote", `${APP}/handlers/quotes.py`, 20, 47],
                ["monte_carlo", `${APP}/pricing/model.py`, 60, 88],
                ["Model.step", `${APP}/pricing/model.py`, 100, 117],
            ],
            "on-cpu",
        ],
        [
            4,
            [
                ["price_quote", `${APP}/handlers/quotes.py`, 20, 47],
                ["monte_carlo", `${APP}/pricing/model.py`, 60, 91],
                ["Random.gauss", `${LIB}/random.py`, 608, 640],
                ["math.log", "<native>", 0, 0],
            ],
            "on-cpu",
        ],
        [
            4,
            [
                ["list_catalog", `${APP}/handlers/catalog.py`, 9, 15],
                ...recursion,
                ["builtins.sorted", "<native>", 0, 0],
            ],
            "on-cpu",
        ],
        [
            3,
            [
                ["list_catalog", `${APP}/handlers/catalog.py`, 9, 18],
                ["JSONEncoder.encode", `${LIB}/json/encoder.py`, 182, 200],
                ["JSONEncoder.iterencode", `${LIB}/json/encoder.py`, 205, 258],
            ],
            "on-cpu",
        ],
        [
            3,
            [
                ["upload_image", `${APP}/handlers/images.py`, 30, 44],
                ["compress", `${APP}/media/compress.py`, 5, 19],
                ["zlib.compress", "<native>", 0, 0],
            ],
            "on-cpu",
        ],
        [
            6,
            [
                ["fetch_stock", `${APP}/handlers/stock.py`, 14, 25],
                ["Session.request", `${SITE}/requests/sessions.py`, 500, 589],
                ["HTTPAdapter.send", `${SITE}/requests/adapters.py`, 613, 667],
                ["urlopen", `${SITE}/urllib3/connectionpool.py`, 590, 715],
                ["SSLSocket.recv_into", `${LIB}/ssl.py`, 1300, 1314],
                ["_ssl._SSLSocket.read", "<native>", 0, 0],
            ],
            "io",
        ],
        [
            3,
            [
                ["update_cart", `${APP}/handlers/cart.py`, 22, 29],
                ["Cart.lock", `${APP}/storage/cart.py`, 15, 18],
                ["_thread.lock.acquire", "<native>", 0, 0],
            ],
            "lock-wait",
        ],
        [
            2,
            [
                ["poll_supplier", `${APP}/handlers/stock.py`, 70, 83],
                ["time.sleep", "<native>", 0, 0],
            ],
            "sleep",
        ],
        [
            1,
            [
                ["get_orders", `${APP}/handlers/orders.py`, 12, 31],
                ["<lambda>", `${APP}/handlers/orders.py`, 33, 33],
            ],
            "gil-wait",
        ],
        [
            1,
            [
                ["名前を検索", `${APP}/handlers/検索.py`, 5, 9],
                ["re.Pattern.match", "<native>", 0, 0],
            ],
            "on-cpu",
        ],
        [
            1,
            [
                ["<12 frames omitted>", "", 0, 0],
                ["deep", `${APP}/catalog/tree.py`, 90, 94],
            ],
            "on-cpu",
        ],
    ];
    const whole = endpoints.reduce((sum, [weight]) => sum + weight, 0);
    for (let worker = 0; worker < 8; worker++) {
        const thread = [`ThreadPoolExecutor-0_${worker}`, 4130 + worker];
        for (let i = 0; i < 400; i++) {
            let at = next() * whole;
            const [, frames, state] =
                endpoints.find(([weight]) => (at -= weight) < 0) ?? endpoints[0];
            const wall = Math.round(1e7 * (0.5 + next()));
            const onCpu = state === "on-cpu";
            builder.add([...BOOT, ...REQUEST, ...frames], thread, state, [
                onCpu ? wall : 0,
                onCpu ? 1 : 0,
                wall,
                1,
                next() < 0.2 ? Math.round(65536 * next()) : 0,
                0,
            ]);
        }
        builder.add(
            [...BOOT, ["SimpleQueue.get", "<native>", 0, 0]],
            thread,
            "parked",
            [0, 0, 4.2e10, 4200, 0, 0],
        );
    }
    const main = [
        ["<module>", "/srv/shop/.venv/bin/gunicorn", 1, 8],
        ["run", `${SITE}/gunicorn/app/wsgiapp.py`, 60, 67],
        ["Arbiter.run", `${SITE}/gunicorn/arbiter.py`, 200, 226],
    ];
    builder.add(
        [...main, ["select.select", "<native>", 0, 0]],
        ["MainThread", 4127],
        "parked",
        [0, 0, 6e10, 6000, 0, 0],
    );
    builder.add(
        [["<short-lived threads>", "", 0, 0]],
        ["short-lived", 0],
        "",
        [4.1e8, 41, 0, 0, 0, 0],
    );
    builder.add(
        [
            ["<module>", "<frozen importlib._bootstrap>", 1, 241],
            ["_call_with_frames_removed", "<frozen importlib._bootstrap>", 233, 241],
        ],
        ["MainThread", 4127],
        "on-cpu",
        [2.1e8, 21, 2.1e8, 21, 12e6, 0],
    );
    return builder.document;
}

/** 50,000 distinct stacks, up to 60 deep, over 4,000 functions and 200 threads. */
export function large(stacks = 50000) {
    const next = random(42);
    const builder = new Builder(TYPES.slice(0, 2), { title: "large" });
    const fn = (i) => [
        `package_${i % 40}.Class${i % 300}.method_${i}`,
        `${i % 3 ? SITE : APP}/package_${i % 40}/module_${i % 300}.py`,
        i,
        i + 3,
    ];
    let path = [fn(0)];
    while (builder.document.samples.length < stacks) {
        const keep = Math.max(1, Math.floor(path.length * (0.4 + 0.6 * next())));
        path = path.slice(0, keep);
        const grow = 1 + Math.floor(next() * 8);
        for (let k = 0; k < grow && path.length < 60; k++) {
            path.push(fn(Math.floor(next() ** 2 * 4000)));
        }
        const value = Math.round(1e6 + 2e7 * next() ** 4);
        builder.add(path, [`worker-${Math.floor(next() * 200)}`, 0], "on-cpu", [value, 1]);
    }
    return builder.document;
}

/** Small enough to check by hand: 100 ns in all, 60 of them parked (not in cpu). */
export function small() {
    const builder = new Builder(
        [
            { type: "wall-time", unit: "nanoseconds" },
            { type: "cpu-samples", unit: "count" },
            { type: "heap-space", unit: "bytes" },
        ],
        { title: "small" },
    );
    const a = ["a", "/srv/app/a.py", 1, 2];
    const b = ["b", "/srv/app/b.py", 5, 6];
    const c = ["c", "/srv/app/c.py", 9, 10];
    const wait = ["wait", "<native>", 0, 0];
    const one = ["one", 11];
    const two = ["two", 12];
    builder.add([a, b], one, "on-cpu", [10, 1, 0]);
    builder.add([a, b, c], one, "on-cpu", [16, 2, 0]);
    builder.add([a, c], two, "io", [4, 0, 0]);
    builder.add([a, b, a, c], two, "on-cpu", [10, 5, 0]);
    builder.add([wait], two, "parked", [60, 0, 0]);
    return builder.document;
}

/** The page with a document in it, as the C program makes it. */
export function paste(page, document) {
    const text = typeof document === "string" ? document : JSON.stringify(document);
    return page.replace("/*PROFILE*/null", () => text.replaceAll("<", "\\u003c"));
}

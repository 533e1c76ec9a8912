/* Every maximum of the core, in one place. Each growing thing takes its bound from here. */
#ifndef PYR_BASE_LIMITS_H
#define PYR_BASE_LIMITS_H

enum {
    PYR_LIMIT_FRAMES = 599,              /* frames of one stack; Datadog's intake takes 600 */
    PYR_LIMIT_FRAMES_DEFAULT = 64,       /* ... unless set otherwise */
    PYR_LIMIT_THREADS = 16384,           /* thread states of all interpreters together */
    PYR_LIMIT_THREAD_STATE_BYTES = 1024, /* of a thread state, as far as it is read */
    PYR_LIMIT_INTERPRETERS = 1024,
    PYR_LIMIT_CHUNKS = 64,           /* data-stack chunks read of one thread */
    PYR_LIMIT_STACK_BYTES = 1 << 20, /* data-stack bytes copied of one thread */
    PYR_LIMIT_TRIES = 16,            /* attempts at a consistent stack */
    PYR_LIMIT_SPANS = 1024,          /* IOV_MAX: spans of one batched read */
    PYR_LIMIT_NAME_BYTES = 1024,     /* a function, thread or type name */
    PYR_LIMIT_PATH_BYTES = 4096,     /* a file name */
    PYR_LIMIT_LINE_TABLE_BYTES = 1 << 20,
    PYR_LIMIT_BYTECODE_BYTES = 1 << 22,
    PYR_LIMIT_CODES = 1 << 16,        /* code objects remembered */
    PYR_LIMIT_FUNCTIONS = 1 << 16,    /* functions of one symbol table */
    PYR_LIMIT_STRINGS = 1 << 17,      /* strings of one symbol table */
    PYR_LIMIT_STRING_BYTES = 1 << 24, /* bytes of all strings of one symbol table */
    PYR_LIMIT_LABELS = 16,            /* labels of one sample */
    PYR_LIMIT_PROGRAM_LABELS = 16,    /* ... that the program itself set, beside those */
    PYR_LIMIT_VALUES = 4,             /* values of one sample record */
    PYR_LIMIT_LANES = 4,              /* writers of the recorder at one instant */
    PYR_LIMIT_PENDING_WINDOWS = 3,    /* sealed windows that wait for export */
    PYR_LIMIT_PPROF_BYTES = 1 << 30,  /* an uncompressed pprof that we accept */
    PYR_LIMIT_LOG_LINES = 64,         /* log lines queued for Python */
};

#endif

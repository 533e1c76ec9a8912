/* Connect's unary calls (connectrpc.com): one message each way, in protobuf's binary encoding or
 * its JSON, as the request's Content-Type says. Private to server/. A worker's thread.
 *
 * Messages are those that protoc-c makes of pyroscope.proto. All memory of a call belongs to it and
 * goes with it. */
#ifndef PYR_SERVER_CONNECT_H
#define PYR_SERVER_CONNECT_H

#include <protobuf-c/protobuf-c.h>

#include "base/buffer.h"
#include "server/request.h"

typedef struct pyr_connect {
    pyr_request *request;
    ProtobufCMessage *question;
    bool is_json;
    bool has_failed; /* memory ran out: there will be no answer */
    void *blocks;    /* private */
} pyr_connect;

/* Reads the question. False: the request was refused. End it either way. */
bool pyr_connect_start(pyr_connect *call, pyr_request *request,
                       const ProtobufCMessageDescriptor *question);
void pyr_connect_end(pyr_connect *call);

/* Zeroed memory of the call, NULL: none. */
void *pyr_connect_new(pyr_connect *call, size_t count, size_t size);
/* A copy; the empty text when there is no memory. */
char *pyr_connect_text(pyr_connect *call, const char *text, size_t length);
/* A new message, added to the pointers in `list`; NULL: no memory. */
void *pyr_connect_add(pyr_connect *call, pyr_buffer *list,
                      const ProtobufCMessageDescriptor *descriptor);
/* What was gathered in `list`, as memory of the call; `list` is freed. */
void *pyr_connect_take(pyr_connect *call, pyr_buffer *list, size_t *count);

/* Fields of the question by their names, for what several questions have. 0, "" and NULL where it
 * has none of that name. */
int64_t pyr_connect_integer(const pyr_connect *call, const char *name);
const char *pyr_connect_string(const pyr_connect *call, const char *name);
char *const *pyr_connect_strings(const pyr_connect *call, const char *name, size_t *count);

/* Answers with the message, unless the request is refused already. */
void pyr_connect_answer(pyr_connect *call, const ProtobufCMessage *answer);

#endif

/* Messages from and to bytes; see the header.
 *
 * The binary encoding is protobuf-c's. JSON follows the same descriptors: names in lower camel
 * case, 64-bit numbers as texts, enumerators by name, as protobuf's JSON has them; what is not
 * known is passed over. Questions are small and bounded, since a message may take many times its
 * bytes.
 */
#include "server/connect.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "query/answer.h"
#include "server/api.h"
#include "server/intake.h"

enum { QUESTION_BYTES = 64 << 10, BLOCK_BYTES = 64 << 10, NAME_BYTES = 64 };

#define PROTO_TYPE "application/proto"

/* ---------------------------------------------------------------------------------- memory ---- */

typedef struct block {
    struct block *next;
    size_t used, size;
    max_align_t bytes[];
} block;

void *pyr_connect_new(pyr_connect *call, size_t count, size_t size)
{
    block *first = call->blocks;
    size_t wanted = 0;
    if (__builtin_mul_overflow(count, size, &wanted) || wanted > SIZE_MAX / 4) {
        call->has_failed = true;
        return NULL;
    }
    wanted = (wanted + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (first == NULL || first->size - first->used < wanted) {
        size_t room = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES;
        block *made = pyr_memory_new(1, sizeof *made + room);
        if (made == NULL) {
            call->has_failed = true;
            return NULL;
        }
        made->size = room;
        made->next = first;
        call->blocks = first = made;
    }
    void *found = (char *)first->bytes + first->used;
    first->used += wanted;
    return found;
}

static void *allocate(void *call, size_t size)
{
    return pyr_connect_new(call, 1, size > 0 ? size : 1);
}

static void release(void *call, void *memory)
{
    (void)call;
    (void)memory; /* goes with the call */
}

char *pyr_connect_text(pyr_connect *call, const char *text, size_t length)
{
    static char empty[1];
    char *copy = length < SIZE_MAX ? pyr_connect_new(call, length + 1, 1) : NULL;
    if (copy == NULL) {
        return empty;
    }
    memcpy(copy, text, length);
    return copy;
}

void *pyr_connect_add(pyr_connect *call, pyr_buffer *list,
                      const ProtobufCMessageDescriptor *descriptor)
{
    void *message = pyr_connect_new(call, 1, descriptor->sizeof_message);
    if (message != NULL) {
        protobuf_c_message_init(descriptor, message);
        if (pyr_buffer_append(list, &message, sizeof message) != PYR_OK) {
            call->has_failed = true;
            message = NULL;
        }
    }
    return message;
}

void *pyr_connect_take(pyr_connect *call, pyr_buffer *list, size_t *count)
{
    void *taken = pyr_connect_new(call, 1, list->length);
    *count = 0;
    if (list->status != PYR_OK) {
        call->has_failed = true;
    } else if (taken != NULL && list->length > 0) {
        memcpy(taken, list->data, list->length);
        *count = list->length / sizeof(void *);
    }
    pyr_buffer_fini(list);
    return taken;
}

/* ------------------------------------------------------------------------------------ JSON ---- */

/* "label_names" as protobuf's JSON writes it: "labelNames". */
static const char *json_name(const ProtobufCFieldDescriptor *field, char name[NAME_BYTES])
{
    size_t length = 0;
    for (const char *at = field->name; *at != '\0' && length < NAME_BYTES - 1; at++) {
        bool is_start = *at == '_' && at[1] >= 'a' && at[1] <= 'z';
        name[length++] = is_start ? (char)(at[1] - 'a' + 'A') : *at;
        at += is_start;
    }
    name[length] = '\0';
    return name;
}

static int64_t read_integer(const json_t *value)
{
    if (json_is_string(value)) {
        return strtoll(json_string_value(value), NULL, 10);
    }
    double number = json_number_value(value);
    return json_is_integer(value)            ? json_integer_value(value)
           : number > -9e18 && number < 9e18 ? (int64_t)number
                                             : 0;
}

static void read_value(pyr_connect *call, const ProtobufCFieldDescriptor *field,
                       const json_t *value, void *at)
{
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        char *text = pyr_connect_text(call, json_string_value(value), json_string_length(value));
        memcpy(at, &text, sizeof text);
    } else if (field->type == PROTOBUF_C_TYPE_INT64) {
        int64_t number = read_integer(value);
        memcpy(at, &number, sizeof number);
    } else if (field->type == PROTOBUF_C_TYPE_DOUBLE) {
        double number = json_is_string(value) ? strtod(json_string_value(value), NULL)
                                              : json_number_value(value);
        memcpy(at, &number, sizeof number);
    } else if (field->type == PROTOBUF_C_TYPE_ENUM) {
        const char *name = json_string_value(value);
        const ProtobufCEnumValue *found =
            name != NULL ? protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, name)
                         : NULL;
        int number = found != NULL ? found->value : (int)json_integer_value(value);
        memcpy(at, &number, sizeof number);
    }
}

/* Only texts repeat in questions. */
static void read_texts(pyr_connect *call, const ProtobufCFieldDescriptor *field,
                       const json_t *values, char *message)
{
    size_t count = json_array_size(values);
    char **list = pyr_connect_new(call, count + 1, sizeof *list);
    size_t used = 0;
    for (size_t at = 0; list != NULL && at < count; at++) {
        const json_t *value = json_array_get(values, at);
        if (json_is_string(value)) {
            read_value(call, field, value, &list[used++]);
        }
    }
    memcpy(message + field->offset, &list, sizeof list);
    memcpy(message + field->quantifier_offset, &used, sizeof used);
}

static ProtobufCMessage *read_json(pyr_connect *call, const ProtobufCMessageDescriptor *descriptor)
{
    const pyr_buffer *body = &call->request->body;
    json_t *json = body->length > 0 ? json_loadb((const char *)body->data, body->length,
                                                 JSON_REJECT_DUPLICATES, NULL)
                                    : json_object();
    char *message =
        json_is_object(json) ? pyr_connect_new(call, 1, descriptor->sizeof_message) : NULL;
    if (message != NULL) {
        protobuf_c_message_init(descriptor, message);
    }
    for (unsigned at = 0; message != NULL && at < descriptor->n_fields; at++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[at];
        char name[NAME_BYTES];
        const json_t *value = json_object_get(json, json_name(field, name));
        value = value != NULL ? value : json_object_get(json, field->name);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            read_texts(call, field, value, message);
        } else if (json_is_string(value) || json_is_number(value)) {
            read_value(call, field, value, message + field->offset);
        }
    }
    json_decref(json);
    return (ProtobufCMessage *)(void *)message;
}

static void write_message(pyr_answer *answer, const char *key, const ProtobufCMessage *message);

static size_t write_value(pyr_answer *answer, const char *key,
                          const ProtobufCFieldDescriptor *field, const char *at)
{
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = NULL;
        memcpy(&text, at, sizeof text);
        pyr_answer_string(answer, key, text);
        return sizeof text;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *message = NULL;
        memcpy(&message, at, sizeof message);
        if (message != NULL) {
            write_message(answer, key, message);
        }
        return sizeof message;
    }
    if (field->type == PROTOBUF_C_TYPE_DOUBLE) {
        double number = 0;
        memcpy(&number, at, sizeof number);
        pyr_answer_real(answer, key, number);
        return sizeof number;
    }
    int64_t number = 0; /* the only other type that answers have */
    memcpy(&number, at, sizeof number);
    pyr_answer_big(answer, key, number);
    return sizeof number;
}

/* As deep as the messages of pyroscope.proto contain each other. */
static void write_message(pyr_answer *answer, const char *key, const ProtobufCMessage *message)
{
    const char *base = (const char *)message;
    pyr_answer_begin(answer, key, '{');
    for (unsigned at = 0; at < message->descriptor->n_fields; at++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[at];
        char name[NAME_BYTES];
        (void)json_name(field, name);
        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            (void)write_value(answer, name, field, base + field->offset);
            continue;
        }
        size_t count = 0;
        const char *list = NULL;
        memcpy(&count, base + field->quantifier_offset, sizeof count);
        memcpy(&list, base + field->offset, sizeof list);
        pyr_answer_begin(answer, name, '[');
        for (; count > 0; count--) {
            list += write_value(answer, NULL, field, list);
        }
        pyr_answer_end(answer, ']');
    }
    pyr_answer_end(answer, '}');
}

/* ---------------------------------------------------------------------------------- a call ---- */

static bool has_type(const pyr_request *request, const char *type)
{
    size_t length = strlen(type);
    return strncmp(request->content_type, type, length) == 0 &&
           strchr("; ", request->content_type[length]) != NULL;
}

bool pyr_connect_start(pyr_connect *call, pyr_request *request,
                       const ProtobufCMessageDescriptor *question)
{
    *call = (pyr_connect){.request = request};
    call->is_json = request->content_type[0] == '\0' || has_type(request, PYR_API_JSON);
    if (!call->is_json && !has_type(request, PROTO_TYPE)) {
        pyr_request_refuse(request, 415, "send " PROTO_TYPE " or " PYR_API_JSON);
        return false;
    }
    if (!pyr_intake_body(request)) {
        return false;
    }
    if (request->body.length > QUESTION_BYTES) {
        pyr_request_refuse(request, 413, "the question is longer than %d bytes", QUESTION_BYTES);
        return false;
    }
    if (call->is_json) {
        call->question = read_json(call, question);
    } else {
        ProtobufCAllocator allocator = {allocate, release, call};
        static const uint8_t nothing[1];
        call->question =
            protobuf_c_message_unpack(question, &allocator, request->body.length,
                                      request->body.length > 0 ? request->body.data : nothing);
    }
    if (call->has_failed) {
        pyr_request_refuse(request, 503, "out of memory");
        return false;
    }
    if (call->question == NULL) {
        pyr_request_refuse(request, 400, "the body is no question of this path, in %s",
                           call->is_json ? "JSON" : "protobuf");
        return false;
    }
    return true;
}

void pyr_connect_end(pyr_connect *call)
{
    for (block *at = call->blocks; at != NULL;) {
        block *next = at->next;
        pyr_memory_free(at);
        at = next;
    }
    call->blocks = NULL;
}

static const ProtobufCFieldDescriptor *find(const pyr_connect *call, const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(call->question->descriptor, name);
}

int64_t pyr_connect_integer(const pyr_connect *call, const char *name)
{
    const ProtobufCFieldDescriptor *field = find(call, name);
    int64_t number = 0;
    if (field != NULL) {
        memcpy(&number, (const char *)call->question + field->offset, sizeof number);
    }
    return number;
}

const char *pyr_connect_string(const pyr_connect *call, const char *name)
{
    const ProtobufCFieldDescriptor *field = find(call, name);
    const char *text = "";
    if (field != NULL) {
        memcpy(&text, (const char *)call->question + field->offset, sizeof text);
    }
    return text;
}

char *const *pyr_connect_strings(const pyr_connect *call, const char *name, size_t *count)
{
    const ProtobufCFieldDescriptor *field = find(call, name);
    char *const *list = NULL;
    *count = 0;
    if (field != NULL) {
        memcpy(&list, (const char *)call->question + field->offset, sizeof list);
        memcpy(count, (const char *)call->question + field->quantifier_offset, sizeof *count);
    }
    return list;
}

typedef struct sink {
    ProtobufCBuffer base;
    pyr_buffer *out;
} sink;

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *bytes)
{
    sink *to = (sink *)(void *)buffer;
    (void)pyr_buffer_append(to->out, bytes, length);
}

void pyr_connect_answer(pyr_connect *call, const ProtobufCMessage *message)
{
    pyr_request *request = call->request;
    if (request->code != 0) {
        return;
    }
    pyr_buffer_clear(&request->answer);
    if (call->has_failed) {
        pyr_request_refuse(request, 503, "out of memory");
    } else if (call->is_json) {
        pyr_answer answer = {.out = &request->answer};
        write_message(&answer, NULL, message);
        pyr_request_answer(request, 200, PYR_API_JSON);
    } else {
        sink to = {{append}, &request->answer};
        (void)protobuf_c_message_pack_to_buffer(message, &to.base);
        pyr_request_answer(request, 200, PROTO_TYPE);
    }
}

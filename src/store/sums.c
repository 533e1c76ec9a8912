/* From a pprof profile to rows in the numbers of a book; see the header.
 *
 * Strings and frames of the profile are looked up in the book once each; a stack once for each
 * place that frames of samples begin at, since the parser has equal stacks share theirs; texts of
 * labels once for each kind. So a sample costs one lookup, of its row.
 */
#include "store/sums.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { UNKNOWN = UINT32_MAX, ROWS = 1 << 22 };

typedef struct found_stack { /* of the frames that begin at one place of the profile */
    uint32_t count;          /* how many frames it has; 0 = not looked up yet */
    uint32_t stack;
} found_stack;

typedef struct found_labels { /* of a kind */
    uint32_t list;            /* UNKNOWN = not looked up yet */
    bool has_moment;
} found_labels;

typedef struct intake {
    const pyr_profile *profile;
    pyr_book *book;
    uint32_t *strings; /* of the profile -> of the book; UNKNOWN = not looked up yet */
    uint32_t *frames;
    found_stack *starts; /* by the place of the first frame: samples of one stack share frames */
    pyr_map *lists;      /* hash of the labels with texts -> list, where their kind is not known */
    found_labels *kinds;
    uint64_t seed;
    int counts[PYR_SUMS_TYPES]; /* type that counts the looks behind this one, or -1 */
    uint32_t moment_key;        /* string of the profile: end_timestamp_ns; UNKNOWN = none */
} intake;

pyr_status pyr_sums_init(pyr_sums *sums, uint32_t types, size_t type_count)
{
    *sums = (pyr_sums){.types = types, .type_count = type_count};
    pyr_buffer_init(&sums->stacks, ROWS * sizeof(uint32_t));
    pyr_buffer_init(&sums->lists, ROWS * sizeof(uint32_t));
    pyr_buffer_init(&sums->values, SIZE_MAX / 2);
    pyr_buffer_init(&sums->squares, SIZE_MAX / 2);
    sums->rows = pyr_map_new(ROWS);
    return sums->rows != NULL ? PYR_OK : PYR_ENOMEM;
}

void pyr_sums_fini(pyr_sums *sums)
{
    pyr_buffer_fini(&sums->stacks);
    pyr_buffer_fini(&sums->lists);
    pyr_buffer_fini(&sums->values);
    pyr_buffer_fini(&sums->squares);
    pyr_map_free(sums->rows);
    sums->rows = NULL;
}

static pyr_status new_row(pyr_sums *sums, uint32_t stack, uint32_t list)
{
    size_t types = sums->type_count;
    (void)pyr_buffer_append(&sums->stacks, &stack, sizeof stack);
    (void)pyr_buffer_append(&sums->lists, &list, sizeof list);
    if (pyr_buffer_reserve(&sums->values, types * sizeof(int64_t)) != PYR_OK ||
        pyr_buffer_reserve(&sums->squares, types * sizeof(double)) != PYR_OK ||
        sums->stacks.status != PYR_OK || sums->lists.status != PYR_OK) {
        return sums->stacks.status == PYR_ETOOBIG ? PYR_ETOOBIG : PYR_ENOMEM;
    }
    memset(sums->values.data + sums->values.length, 0, types * sizeof(int64_t));
    memset(sums->squares.data + sums->squares.length, 0, types * sizeof(double));
    sums->values.length += types * sizeof(int64_t);
    sums->squares.length += types * sizeof(double);
    sums->count++;
    return PYR_OK;
}

static void add_value(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum)) {
        *sum = value > 0 ? INT64_MAX : INT64_MIN;
    }
}

static pyr_status find_row(pyr_sums *sums, uint32_t stack, uint32_t list, size_t *row)
{
    uint64_t key = (uint64_t)stack << 32 | list;
    uint64_t found = sums->count;
    pyr_status status = PYR_OK;
    if (!pyr_map_get(sums->rows, key, &found)) {
        status = new_row(sums, stack, list);
        if (status == PYR_OK) {
            status = pyr_map_put(sums->rows, key, found);
        }
    }
    *row = (size_t)found;
    return status;
}

static void add_type(pyr_sums *sums, size_t row, size_t type, int64_t value, double square)
{
    size_t place = row * sums->type_count + type;
    double *all = (double *)(void *)sums->squares.data + place;
    add_value((int64_t *)(void *)sums->values.data + place, value);
    *all = *all < 0 || square < 0 ? -1 : *all + square;
}

pyr_status pyr_sums_add(pyr_sums *sums, uint32_t stack, uint32_t list, const int64_t *values,
                        const double *squares, size_t *row)
{
    pyr_status status = find_row(sums, stack, list, row);
    for (size_t type = 0; type < sums->type_count && status == PYR_OK; type++) {
        if (values[type] != 0 || squares[type] != 0) {
            add_type(sums, *row, type, values[type], squares[type]);
        }
    }
    return status;
}

/* ------------------------------------------------------------------------------- intake ---- */

static pyr_status find_string(intake *in, uint32_t string, uint32_t *number)
{
    pyr_status status = PYR_OK;
    if (in->strings[string] == UNKNOWN) {
        const pyr_profile_text *text = &in->profile->strings[string];
        status = pyr_book_string(in->book, text->data, text->length, &in->strings[string]);
    }
    *number = in->strings[string];
    return status;
}

static pyr_status find_frame(intake *in, uint32_t frame, uint32_t *number)
{
    *number = in->frames[frame];
    if (*number != UNKNOWN) {
        return PYR_OK;
    }
    const pyr_profile_frame *from = &in->profile->frames[frame];
    const pyr_profile_function *of = &in->profile->functions[from->function];
    pyr_book_function function = {.start_line = of->start_line};
    pyr_book_frame made = {.line = from->line > 0 && from->line <= UINT32_MAX ? (uint32_t)from->line
                                                                              : 0};
    pyr_status status = find_string(in, of->name, &function.name);
    if (status == PYR_OK) {
        status = find_string(in, of->file, &function.file);
    }
    if (status == PYR_OK) {
        status = pyr_book_function_add(in->book, &function, &made.function);
    }
    if (status == PYR_OK) {
        status = pyr_book_frame_add(in->book, &made, &in->frames[frame]);
    }
    *number = in->frames[frame];
    return status;
}

static pyr_status find_stack(intake *in, const pyr_profile_sample *sample, uint32_t *stack)
{
    const uint32_t *frames = in->profile->stack_frames + sample->frame_start;
    *stack = 0;
    if (sample->frame_count == 0) {
        return PYR_OK;
    }
    found_stack *found = &in->starts[sample->frame_start];
    if (found->count == sample->frame_count) {
        *stack = found->stack;
        return PYR_OK;
    }
    found->count = sample->frame_count;
    pyr_status status = PYR_OK;
    for (uint32_t left = sample->frame_count; left > 0 && status == PYR_OK; left--) {
        uint32_t frame = 0;
        status = find_frame(in, frames[left - 1], &frame);
        if (status == PYR_OK) {
            status = pyr_book_stack_add(in->book, *stack, frame, stack);
        }
    }
    found->stack = *stack;
    return status;
}

static int compare_pairs(const void *a, const void *b)
{
    const pyr_book_pair *left = a;
    const pyr_book_pair *right = b;
    return left->key != right->key ? (left->key < right->key ? -1 : 1)
                                   : (left->value > right->value) - (left->value < right->value);
}

static pyr_status make_list(intake *in, const pyr_book_pair *texts, size_t count, uint32_t *list)
{
    pyr_book_pair pairs[PYR_BOOK_LIST_PAIRS];
    pyr_status status = PYR_OK;
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        status = find_string(in, texts[at].key, &pairs[at].key);
        if (status == PYR_OK) {
            status = find_string(in, texts[at].value, &pairs[at].value);
        }
    }
    if (count > 1) {
        qsort(pairs, count, sizeof *pairs, compare_pairs);
    }
    return status == PYR_OK ? pyr_book_list_add(in->book, pairs, count, list) : status;
}

static pyr_status find_list_by_labels(intake *in, const pyr_profile_sample *sample, uint32_t *list,
                                      bool *has_moment)
{
    pyr_book_pair texts[PYR_BOOK_LIST_PAIRS]; /* strings of the profile */
    size_t count = 0;
    uint64_t known = 0;
    *has_moment = false;
    for (uint32_t at = 0; at < sample->label_count; at++) {
        const pyr_profile_label *label = &in->profile->labels[sample->label_start + at];
        if (label->text == 0) {
            *has_moment = *has_moment || label->key == in->moment_key;
            continue;
        }
        if (count == PYR_BOOK_LIST_PAIRS) {
            return PYR_EINVAL;
        }
        texts[count++] = (pyr_book_pair){label->key, label->text};
    }
    uint64_t hash = pyr_hash_bytes(texts, count * sizeof *texts, in->seed);
    if (pyr_map_get(in->lists, hash, &known)) {
        *list = (uint32_t)known;
        return PYR_OK;
    }
    pyr_status status = make_list(in, texts, count, list);
    return status == PYR_OK ? pyr_map_put(in->lists, hash, *list) : status;
}

static pyr_status find_list(intake *in, const pyr_profile_sample *sample, uint32_t *list,
                            bool *has_moment)
{
    found_labels *found = &in->kinds[sample->label_kind];
    pyr_status status = PYR_OK;
    if (sample->label_kind == 0 || found->list == UNKNOWN) {
        status = find_list_by_labels(in, sample, list, has_moment);
        if (sample->label_kind > 0 && status == PYR_OK) {
            *found = (found_labels){*list, *has_moment};
        }
        return status;
    }
    *list = found->list;
    *has_moment = found->has_moment;
    return status;
}

/* Types whose count type says how many looks are behind a value; as pprof/diff.c has them. */
static void find_counts(intake *in)
{
    static const char *const PAIRS[][2] = {
        {"cpu-time", "cpu-samples"},
        {"cpu-samples", "cpu-samples"},
        {"wall-time", "wall-samples"},
        {"cpu", "samples"},
        {"wall-samples", "wall-samples"},
        {"samples", "samples"},
        {"gpu-time", "gpu-samples"},
        {"gpu-samples", "gpu-samples"},
        {"wall", "samples"},
    };
    for (size_t type = 0; type < in->profile->type_count; type++) {
        in->counts[type] = -1;
        const char *name = in->profile->strings[in->profile->types[type].type].data;
        for (size_t pair = 0; pair < sizeof PAIRS / sizeof PAIRS[0]; pair++) {
            if (strcmp(name, PAIRS[pair][0]) == 0) {
                in->counts[type] = pyr_profile_find_type(in->profile, PAIRS[pair][1]);
            }
        }
    }
}

static double square_of(const intake *in, const int64_t *values, size_t type, bool has_moment)
{
    double value = (double)values[type];
    if (has_moment) {
        return value * value;
    }
    int count = in->counts[type];
    return count < 0 ? -1 : value * value / (values[count] > 1 ? (double)values[count] : 1.0);
}

/* Few of a profile's types: so whoever goes through the values later goes by this set. */
uint64_t pyr_sums_types_of(const int64_t *values, size_t type_count)
{
    uint64_t types = 0;
    size_t type = 0;
    for (; type + 4 <= type_count; type += 4) { /* most are 0 */
        const int64_t *four = &values[type];
        if ((four[0] | four[1] | four[2] | four[3]) != 0) {
            types |= (uint64_t)((four[0] != 0) | (four[1] != 0) << 1 | (four[2] != 0) << 2 |
                                (four[3] != 0) << 3)
                     << type;
        }
    }
    for (; type < type_count; type++) {
        types |= (uint64_t)(values[type] != 0) << type;
    }
    return types;
}

static pyr_status add_samples(intake *in, pyr_sums *sums, pyr_buffer *places)
{
    const pyr_profile *profile = in->profile;
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        const int64_t *values = &profile->values[sample->value_start];
        uint64_t types = pyr_sums_types_of(values, profile->type_count);
        uint32_t stack = 0;
        uint32_t list = 0;
        size_t row = 0;
        bool has_moment = false;
        status = find_stack(in, sample, &stack);
        if (status == PYR_OK) {
            status = find_list(in, sample, &list, &has_moment);
        }
        if (status == PYR_OK) {
            status = find_row(sums, stack, list, &row);
        }
        for (uint64_t left = status == PYR_OK ? types : 0; left != 0; left &= left - 1) {
            size_t type = (size_t)__builtin_ctzll(left);
            add_type(sums, row, type, values[type], square_of(in, values, type, has_moment));
        }
        if (status == PYR_OK && places != NULL) {
            const pyr_sums_place place = {types, (uint32_t)row};
            status = pyr_buffer_append(places, &place, sizeof place);
        }
    }
    sums->samples = profile->sample_count;
    return status;
}

/* A window has a row for every four or so samples: room for them at once. */
static pyr_status make_room(pyr_sums *sums, size_t samples)
{
    size_t rows = samples / 4;
    pyr_status status = pyr_map_reserve(sums->rows, rows);
    if (status == PYR_OK) {
        status = pyr_buffer_reserve(&sums->values, rows * sums->type_count * sizeof(int64_t));
    }
    return status == PYR_OK
               ? pyr_buffer_reserve(&sums->squares, rows * sums->type_count * sizeof(double))
               : status;
}

static pyr_status find_types(intake *in, uint32_t *types)
{
    pyr_book_pair pairs[PYR_SUMS_TYPES];
    pyr_status status = PYR_OK;
    for (size_t type = 0; type < in->profile->type_count && status == PYR_OK; type++) {
        status = find_string(in, in->profile->types[type].type, &pairs[type].key);
        if (status == PYR_OK) {
            status = find_string(in, in->profile->types[type].unit, &pairs[type].value);
        }
    }
    return status == PYR_OK ? pyr_book_list_add(in->book, pairs, in->profile->type_count, types)
                            : status;
}

static uint32_t *unknown_numbers(size_t count)
{
    uint32_t *numbers = pyr_memory_new(count + 1, sizeof *numbers);
    if (numbers != NULL) {
        memset(numbers, 0xff, (count + 1) * sizeof *numbers);
    }
    return numbers;
}

pyr_status pyr_sums_of_profile(pyr_sums *sums, const pyr_profile *profile, pyr_book *book,
                               pyr_buffer *places)
{
    *sums = (pyr_sums){0};
    if (profile->type_count == 0 || profile->type_count > PYR_SUMS_TYPES) {
        return PYR_EINVAL;
    }
    intake in = {.profile = profile, .book = book, .seed = pyr_hash_seed()};
    in.strings = unknown_numbers(profile->string_count);
    in.frames = unknown_numbers(profile->frame_count);
    in.starts = pyr_memory_new(profile->stack_frame_count + 1, sizeof *in.starts);
    in.lists = pyr_map_new(profile->sample_count + 1);
    in.kinds = pyr_memory_new(profile->kind_count + 1, sizeof *in.kinds);
    for (size_t kind = 0; in.kinds != NULL && kind <= profile->kind_count; kind++) {
        in.kinds[kind].list = UNKNOWN;
    }
    in.moment_key = UNKNOWN;
    for (size_t string = 0; string < profile->string_count; string++) {
        if (strcmp(profile->strings[string].data, "end_timestamp_ns") == 0) {
            in.moment_key = (uint32_t)string;
        }
    }
    find_counts(&in);
    uint32_t types = 0;
    pyr_status status = PYR_OK;
    if (in.strings == NULL || in.frames == NULL || in.starts == NULL || in.lists == NULL ||
        in.kinds == NULL) {
        status = PYR_ENOMEM;
    }
    if (status == PYR_OK) {
        status = find_types(&in, &types);
    }
    if (status == PYR_OK) {
        status = pyr_sums_init(sums, types, profile->type_count);
    }
    if (status == PYR_OK) {
        status = make_room(sums, profile->sample_count);
    }
    if (status == PYR_OK) {
        status = add_samples(&in, sums, places);
    }
    pyr_memory_free(in.strings);
    pyr_memory_free(in.frames);
    pyr_memory_free(in.starts);
    pyr_map_free(in.lists);
    pyr_memory_free(in.kinds);
    return status;
}

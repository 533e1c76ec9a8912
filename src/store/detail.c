/* Single samples as columns; see the header and docs/design/0010-how-samples-are-kept.md.
 *
 * Samples stand by lane (the numeric label "thread native id", else "thread id"), then by moment,
 * then by row. A row is kept as the difference from a guess, which is right for half of them.
 * What a profiler measures in one thread mostly ended where the next thing began: runs follow each
 * other without a gap, so wall time is the distance from the run before; a lock is held from the
 * sample before its release. So the values of a type are kept in the shortest of three ways: as
 * they are, or as the difference from either distance. The last sample of each row needs no value:
 * it is what the others leave of the row's sum. Extras are sets of the other numeric labels,
 * each kept once.
 */
#include "store/detail.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "pprof/intern.h"
#include "store/detail_format.h"

typedef struct single {
    int64_t lane, moment;
    uint32_t row, sample, extra;
} single;

typedef struct kind { /* what samples of one kind have in common */
    int64_t lane;
    uint32_t extra;
    uint32_t moment; /* which of the labels it is, plus 1; 0 = none */
    bool is_known;
} kind;

typedef struct writing {
    const pyr_profile *profile;
    const pyr_sums_place *samples; /* where each is in the block */
    const pyr_sums *sums;
    const uint32_t *order; /* of the block's rows: where they are in the sums */
    pyr_book *book;
    pyr_packer *packer;
    pyr_buffer *out;
    single *singles;
    kind *kinds;
    pyr_intern *extras;
    uint64_t *masks;           /* of each sample in its place: the types that it has a value of */
    uint32_t *strings;         /* of the profile -> of the book, plus 1 */
    uint8_t *keys;             /* of the profile's strings: key_kind */
    pyr_detail_guess *guesses; /* a row */
    uint32_t *last;            /* of each row: which sample of the type is its last one, plus 1 */
    uint64_t *rest;            /* of each row: its sum without the samples so far */
    int64_t *steps;            /* how far each is from the one before; 0 at a lane's first */
    uint32_t *places;          /* of the samples that have a type, type after type */
    int64_t *values;           /* what they have of it */
    size_t ends[PYR_SUMS_TYPES];
    uint32_t *kept; /* scratch: samples of a type whose value is kept; before that, their lanes */
    pyr_buffer plain, other;
    pyr_column column;
} writing;

typedef enum key_kind { KEY_OTHER, KEY_MOMENT, KEY_NATIVE_ID, KEY_THREAD_ID } key_kind;

static bool is_before(const single *left, const single *right)
{
    return left->moment != right->moment ? left->moment < right->moment
           : left->row != right->row     ? left->row < right->row
                                         : left->sample < right->sample;
}

static size_t run_end(const single *singles, size_t at, size_t count)
{
    size_t end = at < count ? at + 1 : at;
    while (end < count && is_before(&singles[end - 1], &singles[end])) {
        end++;
    }
    return end;
}

/* Sorts a lane by moment, with `other` as scratch. Agents write a thread's samples in a few runs
 * that are in order, so what is there is merged. */
static void sort_lane(single *singles, single *other, size_t count)
{
    single *from = singles;
    single *to = other;
    for (size_t first = run_end(from, 0, count); first < count; first = run_end(from, 0, count)) {
        for (size_t at = 0; at < count;) {
            size_t middle = run_end(from, at, count);
            size_t end = run_end(from, middle, count);
            size_t left = at;
            size_t right = middle;
            while (left < middle && right < end) {
                bool is_left = is_before(&from[left], &from[right]);
                to[at++] = from[is_left ? left++ : right++];
            }
            size_t rest = left < middle ? left : right;
            memcpy(&to[at], &from[rest], (end - at) * sizeof *to);
            at = end;
        }
        single *next = to;
        to = from;
        from = next;
    }
    if (from != singles) {
        memcpy(singles, from, count * sizeof *singles);
    }
}

/* Groups the samples by lane, which are in the order of their first samples. */
static void group_lanes(writing *w, single *grouped, uint32_t *ends, size_t lanes)
{
    size_t count = w->profile->sample_count;
    uint32_t all = 0;
    for (size_t lane = 0; lane < lanes; lane++) {
        all += ends[lane];
        ends[lane] = all - ends[lane]; /* moves on to the end as samples are added */
    }
    for (size_t at = 0; at < count; at++) {
        grouped[ends[w->kept[at]]++] = w->singles[at];
    }
    for (size_t lane = 0; lane < lanes; lane++) {
        size_t start = lane > 0 ? ends[lane - 1] : 0;
        sort_lane(grouped + start, w->singles + start, ends[lane] - start);
    }
}

static pyr_status sort_singles(writing *w)
{
    size_t count = w->profile->sample_count;
    single *grouped = pyr_memory_resize(NULL, count + 1, sizeof *grouped);
    uint32_t *ends = pyr_memory_new(count + 1, sizeof *ends);
    pyr_map *lanes = pyr_map_new(count + 1);
    pyr_status status = grouped != NULL && ends != NULL && lanes != NULL ? PYR_OK : PYR_ENOMEM;
    uint64_t lane = 0;
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        uint64_t key = (uint64_t)w->singles[at].lane;
        if ((at == 0 || w->singles[at - 1].lane != w->singles[at].lane) &&
            !pyr_map_get(lanes, key, &lane)) {
            lane = pyr_map_count(lanes);
            status = pyr_map_put(lanes, key, lane);
        }
        w->kept[at] = (uint32_t)lane;
        ends[lane]++;
    }
    if (status == PYR_OK) {
        group_lanes(w, grouped, ends, pyr_map_count(lanes));
        pyr_memory_free(w->singles);
        w->singles = grouped;
    } else {
        pyr_memory_free(grouped);
    }
    pyr_memory_free(ends);
    pyr_map_free(lanes);
    return status;
}

/* Which keys mean something here, once for each string of the profile. */
static void find_keys(writing *w)
{
    static const char *const NAMES[] = {
        [KEY_MOMENT] = "end_timestamp_ns",
        [KEY_NATIVE_ID] = "thread native id",
        [KEY_THREAD_ID] = "thread id",
    };
    for (size_t string = 0; string < w->profile->string_count; string++) {
        for (uint8_t key = KEY_MOMENT; key <= KEY_THREAD_ID; key++) {
            if (strcmp(w->profile->strings[string].data, NAMES[key]) == 0) {
                w->keys[string] = key;
            }
        }
    }
}

static pyr_status number_string(writing *w, uint32_t string, uint32_t *number)
{
    const pyr_profile_text *text = &w->profile->strings[string];
    pyr_status status = PYR_OK;
    if (w->strings[string] == 0) {
        status = pyr_book_string(w->book, text->data, text->length, number);
        w->strings[string] = *number + 1;
    }
    *number = w->strings[string] - 1;
    return status;
}

static bool is_extra(const writing *w, uint64_t extra, const pyr_detail_number *numbers,
                     size_t count)
{
    size_t length = 0;
    if (extra >= pyr_intern_count(w->extras)) {
        return false;
    }
    const void *bytes = pyr_intern_get(w->extras, extra, &length);
    return length == count * sizeof *numbers && (count == 0 || memcmp(bytes, numbers, length) == 0);
}

/* What the labels of a sample say; its numbers are likely those of the extra `likely`. */
static pyr_status read_labels(writing *w, const pyr_profile_sample *sample, uint32_t likely,
                              kind *found)
{
    pyr_detail_number numbers[PYR_DETAIL_NUMBERS];
    size_t count = 0;
    pyr_status status = PYR_OK;
    *found = (kind){.is_known = true};
    for (uint32_t at = 0; at < sample->label_count && status == PYR_OK; at++) {
        const pyr_profile_label *label = &w->profile->labels[sample->label_start + at];
        uint8_t key = w->keys[label->key];
        if (label->text != 0) {
            continue;
        }
        if (key == KEY_MOMENT) {
            found->moment = at + 1;
            continue;
        }
        if (key == KEY_NATIVE_ID || (key == KEY_THREAD_ID && found->lane == 0)) {
            found->lane = label->number;
        }
        if (count < PYR_DETAIL_NUMBERS) {
            numbers[count] = (pyr_detail_number){.value = label->number};
            status = number_string(w, label->key, &numbers[count].key);
            if (status == PYR_OK) {
                status = number_string(w, label->unit, &numbers[count].unit);
            }
            count++;
        }
    }
    uint64_t extra = likely;
    if (status == PYR_OK && !is_extra(w, extra, numbers, count)) {
        status = pyr_intern_add(w->extras, count > 0 ? (const void *)numbers : "",
                                count * sizeof *numbers, &extra);
    }
    found->extra = (uint32_t)extra;
    return status;
}

static pyr_status take_sample(writing *w, size_t index, uint32_t row)
{
    const pyr_profile_sample *sample = &w->profile->samples[index];
    single *one = &w->singles[index];
    kind *known =
        &w->kinds[sample->label_kind]; /* the first, of those without a kind, is scratch */
    pyr_status status = PYR_OK;
    if (sample->label_kind == 0 || !known->is_known) {
        status = read_labels(w, sample, index > 0 ? one[-1].extra : 0, known);
    }
    *one = (single){
        .lane = known->lane,
        .moment = known->moment > 0
                      ? w->profile->labels[sample->label_start + known->moment - 1].number
                      : 0,
        .row = row,
        .sample = (uint32_t)index,
        .extra = known->extra,
    };
    return status;
}

static void write_extras(writing *w)
{
    size_t count = pyr_intern_count(w->extras);
    pyr_buffer_clear(&w->plain);
    pyr_wire_append_varint(&w->plain, count);
    for (size_t extra = 0; extra < count; extra++) {
        size_t length = 0;
        const uint8_t *bytes = pyr_intern_get(w->extras, extra, &length);
        pyr_wire_append_varint(&w->plain, length / sizeof(pyr_detail_number));
        for (size_t at = 0; at < length; at += sizeof(pyr_detail_number)) {
            pyr_detail_number number;
            memcpy(&number, bytes + at, sizeof number);
            pyr_wire_append_varint(&w->plain, number.key);
            pyr_wire_append_varint(&w->plain, number.unit);
            pyr_pack_signed(&w->plain, number.value);
        }
    }
    pyr_pack_section(w->packer, w->plain.data, w->plain.length, w->out);
}

static bool begins_lane(const single *singles, size_t at)
{
    return at == 0 || singles[at - 1].lane != singles[at].lane;
}

static int64_t difference(int64_t value, int64_t expected)
{
    return (int64_t)((uint64_t)value - (uint64_t)expected);
}

/* The largest number that all moments are multiples of: agents round them. */
static int64_t grain_of(const single *singles, size_t count)
{
    int64_t grain = 0;
    for (size_t at = 0; at < count; at++) {
        int64_t rest = singles[at].moment != INT64_MIN ? singles[at].moment : 1;
        if (grain > 0 && rest % grain == 0) {
            continue; /* as nearly always */
        }
        while (rest != 0) {
            int64_t next = grain % rest;
            grain = rest;
            rest = next;
        }
    }
    return grain < 0 ? -grain : grain > 0 ? grain : 1;
}

static pyr_status write_places(writing *w)
{
    size_t count = w->profile->sample_count;
    int64_t grain = grain_of(w->singles, count);
    pyr_wire_append_varint(w->out, (uint64_t)grain);
    pyr_buffer_clear(&w->plain);
    for (size_t at = 0; at < count;) { /* lanes: how many samples */
        size_t end = at;
        while (end < count && w->singles[end].lane == w->singles[at].lane) {
            end++;
        }
        pyr_wire_append_varint(&w->plain, end - at);
        at = end;
    }
    pyr_pack_section(w->packer, w->plain.data, w->plain.length, w->out);
    pyr_column_clear(&w->column);
    int64_t last = 0;
    for (size_t at = 0; at < count; at++) {
        const single *one = &w->singles[at];
        int64_t moment = one->moment / grain;
        bool begins = begins_lane(w->singles, at);
        pyr_column_add(&w->column, difference(moment, begins ? 0 : last));
        w->steps[at] = begins ? 0 : difference(one->moment, one[-1].moment);
        last = moment;
    }
    pyr_status status = pyr_column_write(&w->column, w->packer, w->out);
    pyr_buffer_clear(&w->plain);
    pyr_buffer_clear(&w->other);
    uint32_t extra = 0;
    uint32_t row = 0;
    for (size_t at = 0; at < count; at++) {
        const single *one = &w->singles[at];
        row = begins_lane(w->singles, at) ? 0 : row;
        pyr_pack_signed(&w->plain, (int64_t)one->row - pyr_detail_guess_after(w->guesses, row));
        pyr_detail_guess_learn(w->guesses, row, one->row);
        row = one->row;
        pyr_pack_signed(&w->other, (int64_t)one->extra - extra);
        extra = one->extra;
    }
    pyr_pack_section(w->packer, w->plain.data, w->plain.length, w->out);
    pyr_pack_section(w->packer, w->other.data, w->other.length, w->out);
    return status;
}

/* Keeps of each set only what is not expected: the last one of its row, or all types that the row
 * has a sum of. */
static pyr_status write_unexpected(writing *w)
{
    const pyr_sums *sums = w->sums;
    const int64_t *values = (const int64_t *)(const void *)sums->values.data;
    uint64_t *expected = w->rest;
    for (size_t row = 0; row < sums->count; row++) {
        expected[row] =
            pyr_sums_types_of(&values[w->order[row] * sums->type_count], sums->type_count);
    }
    for (size_t at = 0; at < w->profile->sample_count; at++) {
        uint64_t types = w->masks[at];
        w->masks[at] ^= expected[w->singles[at].row];
        expected[w->singles[at].row] = types;
    }
    return pyr_column_write_sets(w->masks, w->profile->sample_count, w->packer, w->out);
}

/* Which types each sample has; and for each type the places of the samples that have it. */
static pyr_status write_masks(writing *w)
{
    const pyr_profile *profile = w->profile;
    size_t counts[PYR_SUMS_TYPES] = {0};
    for (size_t at = 0; at < profile->sample_count; at++) {
        w->masks[at] = w->samples[w->singles[at].sample].types;
        for (uint64_t left = w->masks[at]; left != 0; left &= left - 1) {
            counts[__builtin_ctzll(left)]++;
        }
    }
    size_t all = 0;
    for (size_t type = 0; type < profile->type_count; type++) {
        w->ends[type] = all; /* moves on as places are added */
        all += counts[type];
    }
    w->places = pyr_memory_resize(NULL, all + 1, sizeof *w->places);
    w->values = pyr_memory_resize(NULL, all + 1, sizeof *w->values);
    if (w->places == NULL || w->values == NULL) {
        return PYR_ENOMEM;
    }
    for (size_t at = 0; at < profile->sample_count; at++) {
        const int64_t *values =
            &profile->values[profile->samples[w->singles[at].sample].value_start];
        for (uint64_t left = w->masks[at]; left != 0; left &= left - 1) {
            size_t type = (size_t)__builtin_ctzll(left);
            size_t place = w->ends[type]++;
            w->places[place] = (uint32_t)at;
            w->values[place] = values[type];
        }
    }
    return write_unexpected(w);
}

/* The samples that have one type, in their order. */
typedef struct having {
    const uint32_t *places;
    const int64_t *values;
    size_t count, type;
} having;

/* Finds the last sample of each row. False: a sum saturated, so it says nothing of them. */
static bool find_rests(writing *w, const having *these)
{
    const pyr_sums *sums = w->sums;
    const int64_t *values = (const int64_t *)(const void *)sums->values.data;
    for (size_t row = 0; row < sums->count; row++) {
        w->last[row] = 0;
        w->rest[row] = (uint64_t)values[w->order[row] * sums->type_count + these->type];
    }
    for (size_t at = 0; at < these->count; at++) {
        uint32_t row = w->singles[these->places[at]].row;
        w->last[row] = (uint32_t)at + 1;
        w->rest[row] -= (uint64_t)these->values[at];
    }
    uint64_t all = 0;
    for (size_t row = 0; row < sums->count; row++) {
        all |= w->rest[row];
    }
    return all == 0;
}

/* What is kept of a value in each of the ways. */
static inline void find_ways(const writing *w, const having *these, size_t at,
                             int64_t kept[PYR_DETAIL_WAYS])
{
    const single *one = &w->singles[these->places[at]];
    const single *same = &w->singles[these->places[at > 0 ? at - 1 : 0]];
    int64_t value = these->values[at];
    int64_t step = same->lane == one->lane ? difference(one->moment, same->moment) : 0;
    kept[PYR_DETAIL_PLAIN] = value;
    kept[PYR_DETAIL_FROM_LAST] = difference(value, w->steps[these->places[at]]);
    kept[PYR_DETAIL_FROM_SAME] = difference(value, step);
}

/* Says how the values of a type are kept, and adds them to the column of all. */
static void write_type(writing *w, size_t type)
{
    size_t start = type > 0 ? w->ends[type - 1] : 0;
    const having these = {w->places + start, w->values + start, w->ends[type] - start, type};
    bool has_rests = these.count == 0 || find_rests(w, &these);
    int64_t kept[PYR_DETAIL_WAYS];
    size_t left = 0; /* those whose value is kept go to the front */
    size_t bits[PYR_DETAIL_WAYS] = {0};
    for (size_t at = 0; at < these.count; at++) {
        if (has_rests && w->last[w->singles[these.places[at]].row] == at + 1) {
            continue;
        }
        find_ways(w, &these, at, kept);
        for (size_t way = 0; way < PYR_DETAIL_WAYS; way++) {
            bits[way] += pyr_column_bits(kept[way]);
        }
        w->kept[left++] = (uint32_t)at;
    }
    size_t best = PYR_DETAIL_PLAIN;
    for (size_t way = PYR_DETAIL_FROM_LAST; way < PYR_DETAIL_WAYS; way++) {
        best = bits[way] < bits[best] ? way : best;
    }
    for (size_t at = 0; at < left; at++) {
        find_ways(w, &these, w->kept[at], kept);
        pyr_column_add(&w->column, kept[best]);
    }
    pyr_wire_append_varint(w->out, best | (has_rests ? PYR_DETAIL_REST : 0));
}

static pyr_status write_values(writing *w)
{
    pyr_column_clear(&w->column);
    for (size_t type = 0; type < w->profile->type_count; type++) {
        write_type(w, type);
    }
    return pyr_column_write(&w->column, w->packer, w->out);
}

static bool has_numbers(const pyr_profile *profile)
{
    for (size_t label = 0; label < profile->label_count; label++) {
        if (profile->labels[label].text == 0) {
            return true;
        }
    }
    return false;
}

pyr_status pyr_detail_write(const pyr_profile *profile, const pyr_sums_place *places,
                            const pyr_sums *sums, const uint32_t *order, pyr_book *book,
                            pyr_packer *packer, pyr_buffer *out)
{
    if (!has_numbers(profile)) {
        return PYR_OK;
    }
    writing w = {
        .profile = profile,
        .samples = places,
        .sums = sums,
        .order = order,
        .book = book,
        .packer = packer,
        .out = out,
    };
    pyr_buffer_init(&w.plain, PYR_PACK_SECTION_BYTES - 1);
    pyr_buffer_init(&w.other, PYR_PACK_SECTION_BYTES - 1);
    pyr_column_init(&w.column);
    w.singles = pyr_memory_resize(NULL, profile->sample_count + 1, sizeof *w.singles);
    w.kinds = pyr_memory_new(profile->kind_count + 1, sizeof *w.kinds);
    w.steps = pyr_memory_resize(NULL, profile->sample_count + 1, sizeof *w.steps);
    w.extras = pyr_intern_new(PYR_DETAIL_SAMPLES, PYR_DETAIL_EXTRA_BYTES);
    w.strings = pyr_memory_new(profile->string_count + 1, sizeof *w.strings);
    w.keys = pyr_memory_new(profile->string_count + 1, sizeof *w.keys);
    w.masks = pyr_memory_resize(NULL, profile->sample_count + 1, sizeof *w.masks);
    w.kept = pyr_memory_resize(NULL, profile->sample_count + 1, sizeof *w.kept);
    w.guesses = pyr_memory_new(sums->count + 1, sizeof *w.guesses);
    w.last = pyr_memory_new(sums->count + 1, sizeof *w.last);
    w.rest = pyr_memory_new(sums->count + 1, sizeof *w.rest);
    pyr_status status = PYR_OK;
    if (w.singles == NULL || w.kinds == NULL || w.steps == NULL || w.extras == NULL ||
        w.strings == NULL || w.keys == NULL || w.masks == NULL || w.kept == NULL ||
        w.guesses == NULL || w.last == NULL || w.rest == NULL) {
        status = PYR_ENOMEM;
    } else {
        find_keys(&w);
    }
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        status = take_sample(&w, index, places[index].row);
    }
    if (status == PYR_OK) {
        status = sort_singles(&w);
    }
    if (status == PYR_OK) {
        pyr_wire_append_varint(out, PYR_DETAIL_FORMAT);
        pyr_wire_append_varint(out, profile->sample_count);
        write_extras(&w);
        status = write_places(&w);
        if (status == PYR_OK) {
            status = write_masks(&w);
        }
        if (status == PYR_OK) {
            status = write_values(&w);
        }
        status = status != PYR_OK           ? status
                 : w.plain.status != PYR_OK ? w.plain.status
                 : w.other.status != PYR_OK ? w.other.status
                                            : out->status;
    }
    pyr_column_fini(&w.column);
    pyr_buffer_fini(&w.plain);
    pyr_buffer_fini(&w.other);
    pyr_intern_free(w.extras);
    pyr_memory_free(w.strings);
    pyr_memory_free(w.keys);
    pyr_memory_free(w.masks);
    pyr_memory_free(w.places);
    pyr_memory_free(w.values);
    pyr_memory_free(w.steps);
    pyr_memory_free(w.kinds);
    pyr_memory_free(w.kept);
    pyr_memory_free(w.guesses);
    pyr_memory_free(w.last);
    pyr_memory_free(w.rest);
    pyr_memory_free(w.singles);
    return status;
}

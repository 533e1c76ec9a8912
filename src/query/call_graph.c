/* Edges of the call graph; see the header. A sample is walked once; a mark for each edge says for
 * which sample it was counted last, so that recursion counts once. */
#include "query/call_graph.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "pprof/intern.h"

enum { EDGES = 1 << 21 };

typedef struct marked_edge {
    pyr_call_edge edge;
    size_t last; /* sample that it was counted for, plus 1 */
} marked_edge;

uint32_t *pyr_functions_unify(const pyr_profile *profile)
{
    uint32_t *first = pyr_memory_new(profile->function_count + 1, sizeof *first);
    uint32_t *of_group = pyr_memory_new(profile->function_count + 1, sizeof *of_group);
    pyr_intern *known = pyr_intern_new(profile->function_count + 1, SIZE_MAX / 2);
    pyr_status status = first != NULL && of_group != NULL && known != NULL ? PYR_OK : PYR_ENOMEM;
    for (size_t at = 0; at < profile->function_count && status == PYR_OK; at++) {
        const uint32_t key[2] = {profile->functions[at].name, profile->functions[at].file};
        uint64_t group = 0;
        size_t before = pyr_intern_count(known);
        status = pyr_intern_add(known, key, sizeof key, &group);
        if (status == PYR_OK && group == before) {
            of_group[group] = (uint32_t)at;
        }
        first[at] = status == PYR_OK ? of_group[group] : 0;
    }
    pyr_memory_free(of_group);
    pyr_intern_free(known);
    if (status != PYR_OK) {
        pyr_memory_free(first);
        return NULL;
    }
    return first;
}

static pyr_status find_edge(pyr_map *known, pyr_buffer *edges, uint32_t caller, uint32_t callee,
                            marked_edge **edge)
{
    uint64_t key = (uint64_t)caller << 32 | callee;
    uint64_t index = 0;
    pyr_status status = PYR_OK;
    if (!pyr_map_get(known, key, &index)) {
        const marked_edge made = {.edge = {.caller = caller, .callee = callee}};
        index = edges->length / sizeof made;
        status = pyr_buffer_append(edges, &made, sizeof made);
        if (status == PYR_OK) {
            status = pyr_map_put(known, key, index);
        }
    }
    *edge = status == PYR_OK ? (marked_edge *)(void *)edges->data + index : NULL;
    return status;
}

static pyr_status add_samples(const pyr_profile *profile, size_t type, const uint32_t *first,
                              pyr_map *known, pyr_buffer *edges)
{
    pyr_status status = PYR_OK;
    for (size_t index = 0; index < profile->sample_count && status == PYR_OK; index++) {
        const pyr_profile_sample *sample = &profile->samples[index];
        const uint32_t *frames = &profile->stack_frames[sample->frame_start];
        int64_t value = profile->values[sample->value_start + type];
        for (uint32_t at = 0; value != 0 && at + 1 < sample->frame_count && status == PYR_OK;
             at++) {
            marked_edge *edge = NULL;
            status = find_edge(known, edges, first[profile->frames[frames[at + 1]].function],
                               first[profile->frames[frames[at]].function], &edge);
            if (status == PYR_OK && edge->last != index + 1) {
                edge->last = index + 1;
                if (__builtin_add_overflow(edge->edge.value, value, &edge->edge.value)) {
                    edge->edge.value = value > 0 ? INT64_MAX : INT64_MIN;
                }
            }
        }
    }
    return status;
}

static int compare_edges(const void *a, const void *b)
{
    const pyr_call_edge *left = a;
    const pyr_call_edge *right = b;
    if (left->value != right->value) {
        return left->value < right->value ? 1 : -1;
    }
    return left->caller != right->caller
               ? (left->caller < right->caller ? -1 : 1)
               : (left->callee > right->callee) - (left->callee < right->callee);
}

pyr_status pyr_call_graph_init(pyr_call_graph *graph, const pyr_gathered *gathered, size_t type)
{
    pyr_buffer edges;
    *graph = (pyr_call_graph){0};
    pyr_buffer_init(&edges, EDGES * sizeof(marked_edge));
    uint32_t *first = pyr_functions_unify(gathered->profile);
    pyr_map *known = pyr_map_new(EDGES);
    pyr_status status = first != NULL && known != NULL ? PYR_OK : PYR_ENOMEM;
    if (status == PYR_OK) {
        status = add_samples(gathered->profile, type, first, known, &edges);
    }
    size_t count = edges.length / sizeof(marked_edge);
    if (status == PYR_OK) {
        graph->edges = pyr_memory_new(count + 1, sizeof *graph->edges);
        status = graph->edges != NULL ? PYR_OK : PYR_ENOMEM;
    }
    for (size_t at = 0; at < count && status == PYR_OK; at++) {
        graph->edges[at] = ((const marked_edge *)(const void *)edges.data)[at].edge;
        graph->count = count;
    }
    if (graph->count > 1) {
        qsort(graph->edges, graph->count, sizeof *graph->edges, compare_edges);
    }
    pyr_memory_free(first);
    pyr_map_free(known);
    pyr_buffer_fini(&edges);
    return status;
}

void pyr_call_graph_fini(pyr_call_graph *graph)
{
    pyr_memory_free(graph->edges);
    *graph = (pyr_call_graph){0};
}

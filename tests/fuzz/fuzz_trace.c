/*
 * Any bytes as a trace: read to the end, replay, ask. Nothing may crash, hang or take more memory
 * than the bytes suggest. The bytes are tried as they are, and with a header that fits them, so
 * that what a mutation changed is looked at rather than refused.
 */
#include "cct/contexts.h"
#include "trace/replay.h"

#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const uint8_t *bytes, size_t size, struct replay_options options)
{
    struct trace trace;
    struct replay replay;
    struct contexts contexts, inverse;
    struct ct_error err;
    if (trace_from_bytes(bytes, size, "input", &trace, &err) != CT_OK)
        return;
    if (replay_trace(&trace, &options, &replay, &err) == CT_OK) {
        contexts_from_forest(&replay.forest, &contexts);
        contexts_invert(&contexts, 2, &inverse);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < contexts.count; i++)
            sum += contexts.values[i];
        if (sum != replay.calls)
            abort();
        contexts_free(&contexts);
        contexts_free(&inverse);
        replay_end(&replay);
    }
    trace_close(&trace);
}

/* The number of events is the one thing that only reading tells. */
static uint64_t count_events(const uint8_t *bytes, size_t size)
{
    struct trace trace;
    struct ct_error err;
    struct trace_event event = {.kind = TRACE_CALL};
    if (trace_from_bytes(bytes, size, "input", &trace, &err) != CT_OK)
        return 0;
    while (event.kind != TRACE_END && trace_next(&trace, &event, &err) == CT_OK)
        continue;
    uint64_t events = trace.state.events;
    trace_close(&trace);
    return events;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    replay(data, size, (struct replay_options){.k = FOREST_UNBOUNDED, .sites = true});
    struct trace_header header;
    if (size < sizeof header)
        return 0;
    uint8_t *copy = must_calloc(size, 1); /* exactly as long, so that one byte too many is seen */
    memcpy(copy, data, size);
    size_t stream = size - sizeof header;
    header = (struct trace_header){.version = TRACE_VERSION,
                                   .header_bytes = sizeof header,
                                   .stream_bytes = stream,
                                   .stream_hash = XXH3_64bits(copy + sizeof header, stream)};
    memcpy(header.magic, TRACE_MAGIC, sizeof header.magic);
    memcpy(copy, &header, sizeof header);
    header.event_count = count_events(copy, size);
    memcpy(copy, &header, sizeof header);
    replay(copy, size, (struct replay_options){.k = 2, .fold_recursion = true});
    replay(copy, size, (struct replay_options){.k = 1, .sites = true});
    free(copy);
    return 0;
}

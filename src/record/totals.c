#include "record/totals.h"

#include "record/server.h"
#include "unwind/walk.h"

void totals_add_thread(struct totals *sum, const struct arena_thread *t)
{
    sum->samples += t->samples;
    sum->complete += t->ends[WALK_COMPLETE];
    sum->cut_by_window += t->ends[ARENA_GAP_WINDOW];
    sum->walked += t->frames_walked;
    sum->checked += t->verify_checked;
    sum->differ += t->verify_differ;
    sum->differ_by_cfi += t->verify_by_cfi;
    sum->differ_by_frame_pointers += t->verify_by_frame_pointers;
    sum->lost += t->fired > t->arrived ? t->fired - t->arrived : 0;
    sum->merged += t->merged;
    sum->handler_ticks += t->handler_ticks;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        sum->histogram[i] += t->handler_histogram[i];
}

void totals_add(struct totals *sum, const struct totals *part)
{
    sum->samples += part->samples;
    sum->complete += part->complete;
    sum->cut_by_window += part->cut_by_window;
    sum->guessed += part->guessed;
    sum->walked += part->walked;
    sum->checked += part->checked;
    sum->differ += part->differ;
    for (unsigned i = 0; i < ENGINE_SUMS; i++)
        sum->engine[i] += part->engine[i];
    sum->differ_by_cfi += part->differ_by_cfi;
    sum->differ_by_frame_pointers += part->differ_by_frame_pointers;
    sum->sites += part->sites;
    sum->sites_not_edited += part->sites_not_edited;
    sum->modules_not_edited += part->modules_not_edited;
    sum->functions_not_edited += part->functions_not_edited;
    sum->unknown_bytes += part->unknown_bytes;
    sum->lost += part->lost;
    sum->merged += part->merged;
    sum->handler_ticks += part->handler_ticks;
    sum->arena_bytes += part->arena_bytes;
    sum->threads_not_sampled += part->threads_not_sampled;
    sum->utime_s += part->utime_s;
    sum->stime_s += part->stime_s;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        sum->histogram[i] += part->histogram[i];
}

static double percentile_ns(const struct totals *t, double share, double ticks_per_ns)
{
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++)
        total += t->histogram[i];
    for (unsigned i = 0; i < ARENA_HISTOGRAM; i++) {
        seen += t->histogram[i];
        if (total && (double)seen >= share * (double)total) /* the middle of the bucket */
            return (double)(histogram_least(i) + histogram_least(i + 1)) / 2 / ticks_per_ns;
    }
    return 0;
}

/* The CPU time that samples are taken of. */
static double sampled_seconds(const struct totals *t, const struct server *s)
{
    uint32_t modes = s->events.cpu_modes ? s->events.cpu_modes : CPU_USER;
    return (modes & CPU_USER ? t->utime_s : 0) + (modes & CPU_KERNEL ? t->stime_s : 0);
}

void totals_write(const struct totals *t, const struct fact_kinds *kinds, struct profile_writer *w,
                  enum ctp_scope scope, uint32_t index)
{
    const struct record_engine *engine = kinds->server->engine;
    double ticks = kinds->ticks_per_ns;
    if (kinds->samples) {
        profile_fact_u64(w, scope, index, "samples", t->samples);
        profile_fact_f64(w, scope, index, "rate_asked_hz", kinds->rate_hz);
        /* Of stacks that were looked at: a sample that stands for several makes it no faster. */
        double seconds = sampled_seconds(t, kinds->server);
        if (seconds > 0 && kinds->is_whole)
            profile_fact_f64(w, scope, index, "rate_got_hz",
                             (double)(t->samples - t->merged) / seconds);
        profile_fact_u64(w, scope, index, "lost", t->lost);
        profile_fact_u64(w, scope, index, "merged", t->merged);
    }
    profile_fact_u64(w, scope, index, "arena_bytes", t->arena_bytes);
    profile_fact_u64(w, scope, index, "threads_not_sampled", t->threads_not_sampled);
    profile_fact_u64(w, scope, index, "walks_complete", t->complete);
    profile_fact_u64(w, scope, index, "walks_guessed", t->guessed);
    profile_fact_u64(w, scope, index, "walks_total", t->samples);
    if (!kinds->server->is_outside) { /* there is no handler */
        profile_fact_f64(w, scope, index, "handler_ns_p50", percentile_ns(t, 0.5, ticks));
        profile_fact_f64(w, scope, index, "handler_ns_p99", percentile_ns(t, 0.99, ticks));
        profile_fact_f64(w, scope, index, "handler_s", (double)t->handler_ticks / ticks / 1e9);
    }
    profile_fact_f64(w, scope, index, "frames_walked_per_sample",
                     t->samples ? (double)t->walked / (double)t->samples : 0);
    if (engine->write_facts)
        engine->write_facts(kinds->server, t->engine, w, scope, index);
    if (engine_edits(engine, kinds->server->engine_options)) {
        profile_fact_u64(w, scope, index, "sites", t->sites);
        profile_fact_u64(w, scope, index, "sites_not_edited", t->sites_not_edited);
        profile_fact_u64(w, scope, index, "modules_not_edited", t->modules_not_edited);
        profile_fact_u64(w, scope, index, "functions_not_edited", t->functions_not_edited);
        profile_fact_u64(w, scope, index, "code_not_edited_bytes", t->unknown_bytes);
    }
    profile_fact_u64(w, scope, index, "verify_checked", t->checked);
    profile_fact_u64(w, scope, index, "verify_differ", t->differ);
    profile_fact_u64(w, scope, index, "verify_differ_cfi", t->differ_by_cfi);
    profile_fact_u64(w, scope, index, "verify_differ_frame_pointers", t->differ_by_frame_pointers);
    if (t->utime_s > 0 || t->stime_s > 0) { /* whatever ran took some: it is not known otherwise */
        profile_fact_f64(w, scope, index, "utime_s", t->utime_s);
        profile_fact_f64(w, scope, index, "stime_s", t->stime_s);
    }
}

/*
 * A SQLite database: the tree as tables, and views that answer the first questions. docs/exports.md
 * describes the schema.
 *
 * SQLite writes to files of its own. This one has no name: it is copied to the
 * output when it is complete.
 */
#include "base/utf8.h"
#include "export/export.h"
#include "export/libsqlite.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char schema[] =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA user_version = 1;"
    "BEGIN;"
    "CREATE TABLE metric (id INTEGER PRIMARY KEY, name TEXT, unit TEXT, description TEXT,"
    " kind TEXT, period INTEGER, total INTEGER);"
    "CREATE TABLE module (id INTEGER PRIMARY KEY, path TEXT, build_id TEXT);"
    "CREATE TABLE process (id INTEGER PRIMARY KEY, pid INTEGER, parent INTEGER, command TEXT);"
    "CREATE TABLE thread (id INTEGER PRIMARY KEY, process INTEGER, tid INTEGER, name TEXT);"
    "CREATE TABLE function (id INTEGER PRIMARY KEY, name TEXT, symbol TEXT, kind TEXT,"
    " module INTEGER, file TEXT, line INTEGER);"
    "CREATE TABLE frame (id INTEGER PRIMARY KEY, function INTEGER, module INTEGER,"
    " \"offset\" INTEGER, file TEXT, line INTEGER, inlined INTEGER);"
    "CREATE TABLE node (id INTEGER PRIMARY KEY, parent INTEGER, last INTEGER, depth INTEGER,"
    " frame INTEGER, thread INTEGER, recursive INTEGER);"
    "CREATE TABLE cost (metric INTEGER, node INTEGER, self INTEGER, total INTEGER,"
    " PRIMARY KEY (metric, node)) WITHOUT ROWID;"
    "CREATE VIEW context AS SELECT metric.name AS metric, node.id AS node, node.parent, node.depth,"
    " function.name AS function, module.path AS module, frame.file, frame.line, thread.name AS"
    " thread, cost.self, cost.total FROM cost JOIN node ON node.id = cost.node JOIN metric ON"
    " metric.id = cost.metric JOIN frame ON frame.id = node.frame JOIN function ON function.id ="
    " frame.function LEFT JOIN module ON module.id = function.module LEFT JOIN thread ON"
    " thread.id = node.thread;"
    "CREATE VIEW flat AS SELECT metric.name AS metric, function.name AS function, module.path AS"
    " module, sum(cost.self) AS self, sum(CASE WHEN node.recursive THEN 0 ELSE cost.total END) AS"
    " total, count(*) AS contexts FROM cost JOIN node ON node.id = cost.node JOIN metric ON"
    " metric.id = cost.metric JOIN frame ON frame.id = node.frame JOIN function ON function.id ="
    " frame.function LEFT JOIN module ON module.id = function.module GROUP BY cost.metric,"
    " function.id;"
    "CREATE VIEW call AS SELECT metric.name AS metric, caller.name AS caller, callee.name AS"
    " callee, sum(cost.total) AS total, count(*) AS contexts FROM cost JOIN node ON node.id ="
    " cost.node JOIN metric ON metric.id = cost.metric JOIN frame ON frame.id = node.frame JOIN"
    " function callee ON callee.id = frame.function JOIN node above ON above.id = node.parent JOIN"
    " frame above_frame ON above_frame.id = above.frame JOIN function caller ON caller.id ="
    " above_frame.function GROUP BY cost.metric, caller.id, callee.id;";

struct database {
    const struct stacks *stacks;
    sqlite3 *handle;
    sqlite3_stmt *insert;
    int column; /* of the row that is being filled */
    bool failed;
};

/* ---- Rows ---------------------------------------------------------------------------------------
 */

/* The first failure is remembered by the handle; what comes behind it does nothing. */
static void run(struct database *d, const char *sql)
{
    if (!d->failed)
        d->failed = sqlite3_exec(d->handle, sql, NULL, NULL, NULL) != SQLITE_OK;
}

static void begin_table(struct database *d, const char *sql)
{
    if (!d->failed)
        d->failed = sqlite3_prepare_v2(d->handle, sql, -1, &d->insert, NULL) != SQLITE_OK;
    d->column = 0;
}

static void end_table(struct database *d)
{
    sqlite3_finalize(d->insert);
    d->insert = NULL;
}

static void put_number(struct database *d, uint64_t value)
{
    if (!d->failed)
        sqlite3_bind_int64(d->insert, ++d->column, (sqlite3_int64)value);
}

static void put_reference(struct database *d, uint32_t index)
{
    if (index != CTP_NONE)
        put_number(d, index);
    else if (!d->failed)
        sqlite3_bind_null(d->insert, ++d->column);
}

static void put_text(struct database *d, const char *text)
{
    if (!d->failed)
        sqlite3_bind_text(d->insert, ++d->column, utf8_copy(text), -1, free);
}

static void end_row(struct database *d)
{
    if (!d->failed)
        d->failed = sqlite3_step(d->insert) != SQLITE_DONE || sqlite3_reset(d->insert) != SQLITE_OK;
    d->column = 0;
}

/* ---- Tables -------------------------------------------------------------------------------------
 */

static void write_metrics(struct database *d)
{
    const struct stacks *s = d->stacks;
    begin_table(d, "INSERT INTO metric VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (uint32_t i = 0; i < s->metric_count; i++) {
        const struct ctp_metric *metric = profile_metric(s->profile, s->metrics[i]);
        put_number(d, i);
        put_text(d, stack_metric_name(s, i));
        put_text(d, stack_metric_unit(s, i));
        put_text(d, profile_string(s->profile, metric->description));
        put_text(d, profile_metric_kind_name(metric->kind));
        put_number(d, metric->period);
        put_number(d, s->totals[i]);
        end_row(d);
    }
    end_table(d);
}

static void write_what_ran(struct database *d)
{
    const struct profile *p = d->stacks->profile;
    begin_table(d, "INSERT INTO process VALUES (?, ?, ?, ?)");
    for (uint32_t i = 0; i < profile_process_count(p); i++) {
        put_number(d, i);
        put_number(d, profile_process(p, i)->pid);
        put_reference(d, profile_process_parent(p, i));
        put_text(d, profile_string(p, profile_process(p, i)->command));
        end_row(d);
    }
    end_table(d);
    begin_table(d, "INSERT INTO thread VALUES (?, ?, ?, ?)");
    for (uint32_t i = 0; i < profile_thread_count(p); i++) {
        put_number(d, i);
        put_reference(d, profile_thread(p, i)->process);
        put_number(d, profile_thread(p, i)->tid);
        put_text(d, profile_string(p, profile_thread(p, i)->name));
        end_row(d);
    }
    end_table(d);
}

static const char *kind_name(uint32_t kind)
{
    return kind == LABEL_FUNCTION  ? "function"
           : kind == LABEL_PLACE   ? "place"
           : kind == LABEL_GAP     ? "gap"
           : kind == LABEL_NOTHING ? "unknown"
                                   : "thread";
}

static void write_code(struct database *d)
{
    const struct stacks *s = d->stacks;
    char text[STACK_NAME_ROOM];
    begin_table(d, "INSERT INTO module VALUES (?, ?, ?)");
    for (uint32_t i = 0; i < profile_module_count(s->profile); i++) {
        put_number(d, i);
        put_text(d, stack_module_path(s, i));
        put_text(d, stack_build_id(profile_module(s->profile, i), text));
        end_row(d);
    }
    end_table(d);
    begin_table(d, "INSERT INTO function VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (uint32_t i = 0; i < s->labels.items.count; i++) {
        const struct ctp_function *function = stack_function(s, i);
        put_number(d, i);
        put_text(d, stack_label_name(s, i, text));
        put_text(d, profile_string(s->profile, function->name));
        put_text(d, kind_name(s->labels.items.items[i].kind));
        put_reference(d, s->labels.items.items[i].module);
        put_text(d, profile_string(s->profile, function->file));
        put_number(d, function->line);
        end_row(d);
    }
    end_table(d);
    begin_table(d, "INSERT INTO frame VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (uint32_t i = 0; i < s->frames.count; i++) {
        const struct stack_frame *frame = &s->frames.items[i];
        put_number(d, i);
        put_number(d, frame->label);
        put_reference(d, frame->module);
        put_number(d, frame->offset);
        put_text(d, frame->file);
        put_number(d, frame->line);
        put_number(d, frame->inlined);
        end_row(d);
    }
    end_table(d);
}

static void write_nodes(struct database *d)
{
    const struct stacks *s = d->stacks;
    const struct tree *tree = &s->tree;
    uint32_t *depths = must_calloc(tree->count, sizeof *depths);
    uint32_t *ends = must_calloc(s->labels.items.count, sizeof *ends); /* of outermost calls */
    begin_table(d, "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (uint32_t thread = TREE_NONE; (thread = stack_thread(s, thread)) != TREE_NONE;)
        for (uint32_t i = thread + 1; i < thread + tree->sizes[thread]; i++) {
            uint32_t parent = tree->nodes[i].parent, *end = &ends[stack_frame(s, i)->label];
            bool recursive = i < *end;
            if (!recursive)
                *end = i + tree->sizes[i];
            depths[i] = parent == thread ? 1 : depths[parent] + 1;
            put_number(d, i);
            put_reference(d, parent == thread ? CTP_NONE : parent);
            put_number(d, i + tree->sizes[i] - 1);
            put_number(d, depths[i]);
            put_number(d, tree->nodes[i].label);
            put_reference(d, stack_thread_index(s, thread));
            put_number(d, recursive);
            end_row(d);
        }
    end_table(d);
    free(depths);
    free(ends);
}

static void write_costs(struct database *d)
{
    const struct stacks *s = d->stacks;
    begin_table(d, "INSERT INTO cost VALUES (?, ?, ?, ?)");
    for (uint32_t metric = 0; metric < s->metric_count; metric++) {
        uint64_t *sums = stack_sums(s, metric);
        for (uint32_t thread = TREE_NONE; (thread = stack_thread(s, thread)) != TREE_NONE;)
            for (uint32_t i = thread + 1; i < thread + s->tree.sizes[thread]; i++) {
                if (!sums[i])
                    continue;
                put_number(d, metric);
                put_number(d, i);
                put_number(d, s->values[metric][i]);
                put_number(d, sums[i]);
                end_row(d);
            }
        free(sums);
    }
    end_table(d);
}

/* ---- The file -----------------------------------------------------------------------------------
 */

static int fill(struct database *d, const char *path, struct ct_error *err)
{
    CT_TRY(libsqlite_load(err));
    d->failed = sqlite3_open(path, &d->handle) != SQLITE_OK;
    run(d, schema);
    write_metrics(d);
    write_what_ran(d);
    write_code(d);
    write_nodes(d);
    write_costs(d);
    run(d, "COMMIT");
    int status = d->failed ? ct_fail(err, "the database cannot be written: %s",
                                     d->handle ? sqlite3_errmsg(d->handle) : "no memory")
                           : CT_OK;
    sqlite3_close(d->handle);
    return status;
}

static void copy(int fd, FILE *out)
{
    char room[1 << 16];
    for (ssize_t size; (size = read(fd, room, sizeof room)) > 0;)
        fwrite(room, 1, (size_t)size, out);
}

int export_sqlite(const struct stacks *stacks, FILE *out, struct ct_error *err)
{
    const char *folder = getenv("TMPDIR");
    char *path = must_format("%s/calltrail-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        int status = ct_fail_errno(err, errno, "%s: cannot be made for the database", path);
        free(path);
        return status;
    }
    struct database database = {.stacks = stacks};
    int status = fill(&database, path, err);
    unlink(path);
    free(path);
    if (status == CT_OK)
        copy(fd, out);
    close(fd);
    return status;
}

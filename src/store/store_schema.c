/*
 * The tables of a store.
 *
 * Names, code and contexts are kept once for all profiles, by a hash of what they are; costs have
 * one row for each profile and metric, with the contexts that have any as one array and the amounts
 * as another: a row for each cost would take four times the room. Their table has a partition for
 * each day, so that old days go by dropping tables, and questions about a few days read those.
 */
#include "store/store.h"

#include "store/store_db.h"

static const char schema[] =
    "CREATE SCHEMA IF NOT EXISTS calltrail;"
    "CREATE TABLE IF NOT EXISTS calltrail.about (version integer NOT NULL);"
    "INSERT INTO calltrail.about SELECT 1 WHERE NOT EXISTS (SELECT FROM calltrail.about);"

    /* A name is bytes. Where they are not UTF-8, `text` is made of them, and `raw` has them. */
    "CREATE TABLE IF NOT EXISTS calltrail.string (id integer PRIMARY KEY, hash uuid NOT NULL "
    "UNIQUE,"
    " text text NOT NULL, raw bytea);"
    "CREATE TABLE IF NOT EXISTS calltrail.module (id integer PRIMARY KEY, hash uuid NOT NULL "
    "UNIQUE,"
    " path integer NOT NULL, kind integer NOT NULL, base bigint NOT NULL, size bigint NOT NULL,"
    " build_id bytea NOT NULL);"
    "CREATE TABLE IF NOT EXISTS calltrail.function (id integer PRIMARY KEY,"
    " hash uuid NOT NULL UNIQUE, module integer, name integer NOT NULL, file integer NOT NULL,"
    " line integer NOT NULL, start bigint NOT NULL, size bigint NOT NULL);"
    /* lines: function (0: none), file, line and column of each inlined function, innermost first.
     */
    "CREATE TABLE IF NOT EXISTS calltrail.frame (id integer PRIMARY KEY, hash uuid NOT NULL UNIQUE,"
    " module integer, function integer, place bigint NOT NULL, flags integer NOT NULL,"
    " gap integer NOT NULL, lines integer[] NOT NULL);"
    "CREATE TABLE IF NOT EXISTS calltrail.origin (id integer PRIMARY KEY, hash uuid NOT NULL "
    "UNIQUE,"
    " command integer, rank integer, thread integer, phase integer);"
    /* A context has a parent and a frame; the outermost of a thread has an origin instead. */
    "CREATE TABLE IF NOT EXISTS calltrail.context (id integer PRIMARY KEY,"
    " hash uuid NOT NULL UNIQUE, parent integer, frame integer, origin integer);"

    /* skeleton: the profile without code and nodes, as a .ctp: what it says of itself. */
    "CREATE TABLE IF NOT EXISTS calltrail.profile ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, hash uuid NOT NULL UNIQUE,"
    " taken timestamptz NOT NULL, ended timestamptz NOT NULL, labels jsonb NOT NULL,"
    " file_bytes bigint NOT NULL, skeleton bytea NOT NULL);"
    "CREATE INDEX IF NOT EXISTS profile_taken ON calltrail.profile (taken);"
    "CREATE INDEX IF NOT EXISTS profile_labels ON calltrail.profile USING gin (labels "
    "jsonb_path_ops);"
    "CREATE TABLE IF NOT EXISTS calltrail.cost (taken timestamptz NOT NULL, profile bigint NOT "
    "NULL,"
    " metric integer NOT NULL, contexts integer[] NOT NULL, amounts bigint[] NOT NULL)"
    " PARTITION BY RANGE (taken);"
    "CREATE INDEX IF NOT EXISTS cost_profile ON calltrail.cost (profile);"

    /* For people who ask in SQL. */
    "CREATE OR REPLACE VIEW calltrail.costs AS SELECT c.profile, c.taken, s.text AS metric,"
    " u.context, u.amount FROM calltrail.cost c JOIN calltrail.string s ON s.id = c.metric"
    " CROSS JOIN LATERAL unnest(c.contexts, c.amounts) u(context, amount);"
    "CREATE OR REPLACE VIEW calltrail.frames AS SELECT x.id AS context, x.parent,"
    " n.text AS function, p.text AS module, f.place FROM calltrail.context x"
    " LEFT JOIN calltrail.frame f ON f.id = x.frame LEFT JOIN calltrail.function g"
    " ON g.id = f.function LEFT JOIN calltrail.string n ON n.id = g.name LEFT JOIN "
    "calltrail.module m"
    " ON m.id = f.module LEFT JOIN calltrail.string p ON p.id = m.path;"

    /*
     * The partition of a day. It runs with the rights of the owner, so that those who add profiles
     * need not be able to make tables; all that they choose is a day. Under the lock the table is
     * looked for in pg_class: to_regclass remembers that it was not there.
     */
    "CREATE OR REPLACE FUNCTION calltrail.partition_for(moment timestamptz) RETURNS void"
    " LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$"
    " DECLARE day timestamptz := date_trunc('day', moment, 'UTC');"
    "  name text := 'cost_' || to_char(moment AT TIME ZONE 'UTC', 'YYYYMMDD');"
    " BEGIN"
    "  IF to_regclass('calltrail.' || name) IS NOT NULL THEN RETURN; END IF;"
    "  PERFORM pg_advisory_xact_lock(7309453, 2);"
    "  PERFORM FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "   WHERE n.nspname = 'calltrail' AND c.relname = name;"
    "  IF FOUND THEN RETURN; END IF;"
    "  EXECUTE format('CREATE TABLE calltrail.%I (LIKE calltrail.cost)', name);"
    "  EXECUTE format('ALTER TABLE calltrail.cost ATTACH PARTITION calltrail.%I"
    " FOR VALUES FROM (%L) TO (%L)', name, day, day + interval '1 day');"
    " END $$;"
    "REVOKE ALL ON FUNCTION calltrail.partition_for FROM PUBLIC;";

static int check_encoding(struct store *store, struct ct_error *err)
{
    const char *encoding = PQparameterStatus(store->connection, "server_encoding");
    if (encoding && __builtin_strcmp(encoding, "UTF8") == 0)
        return CT_OK;
    return ct_fail(err,
                   "the database has the encoding %s, and names need UTF8: createdb -E UTF8 -T "
                   "template0 NAME",
                   encoding ? encoding : "(not known)");
}

int store_init(struct store *store, struct ct_error *err)
{
    CT_TRY(check_encoding(store, err));
    CT_TRY(db_run(store, "BEGIN; SELECT pg_advisory_xact_lock(7309453, 3)", err));
    int status = db_run(store, schema, err);
    if (status == CT_OK)
        return db_run(store, "COMMIT", err);
    db_run(store, "ROLLBACK", NULL);
    return status;
}

int store_open(const char *url, struct store *store, struct ct_error *err)
{
    PGresult *result;
    CT_TRY(db_connect(url, store, err));
    int status =
        db_query(store, "SELECT to_regclass('calltrail.about')::oid::int8", NULL, 0, &result, err);
    if (status == CT_OK) {
        bool is_there = !PQgetisnull(result, 0, 0);
        PQclear(result);
        if (!is_there)
            status = ct_fail(err, "the database has no store yet: calltrail store init makes one");
    }
    if (status == CT_OK && (status = db_query(store, "SELECT version FROM calltrail.about", NULL, 0,
                                              &result, err)) == CT_OK) {
        if (PQntuples(result) != 1 || db_u32(result, 0, 0) != STORE_VERSION)
            status = ct_fail(err, "the store has another version than this calltrail (%d)",
                             STORE_VERSION);
        PQclear(result);
    }
    if (status != CT_OK)
        db_close(store);
    return status;
}

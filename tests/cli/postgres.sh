# A PostgreSQL server of the test's own: a cluster in a temporary folder, reached by a Unix socket there and
# by nothing else; to be read with `.` behind checks.sh. As root it runs under another user. Sets $url.
# shellcheck shell=sh

postgres_bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)

# Says why there can be no server, or nothing.
postgres_missing() {
    if ! "$CALLTRAIL" store --help >/dev/null 2>&1; then
        echo 'calltrail was built without libpq (libpq-dev)'
    elif [ ! -x "$postgres_bin/initdb" ]; then
        echo 'there is no PostgreSQL server (postgresql)'
    fi
}

# Runs a command as the one whose cluster it is.
as_postgres() {
    if [ "$(id -u)" -ne 0 ]; then
        "$@"
    elif id postgres >/dev/null 2>&1; then
        runuser -u postgres -- "$@"
    else
        runuser -u nobody -- "$@"
    fi
}

# postgres_start [SETTINGS]: makes the cluster once, and starts the server.
postgres_start() {
    if [ -z "${cluster:-}" ]; then
        cluster=$(mktemp -d /tmp/calltrail-pg-XXXXXX) || return 1
        chmod 755 "$cluster"
        [ "$(id -u)" -ne 0 ] || chown "$(id postgres >/dev/null 2>&1 && echo postgres || echo nobody)" "$cluster"
        (cd / && as_postgres "$postgres_bin/initdb" -D "$cluster/data" -U calltrail --auth=trust -E UTF8 --locale=C.UTF-8 \
            --no-sync >"$dir/initdb.log" 2>&1) || { cat "$dir/initdb.log"; return 1; }
        # shellcheck disable=SC2034
        url="host=$cluster user=calltrail dbname=postgres"
    fi
    (cd / && as_postgres "$postgres_bin/pg_ctl" -D "$cluster/data" -w -t 120 -l "$cluster/log" \
        -o "-c listen_addresses= -c unix_socket_directories=$cluster ${1:-}" start >/dev/null 2>&1)
}

postgres_stop() { # MODE
    (cd / && as_postgres "$postgres_bin/pg_ctl" -D "$cluster/data" -w -t 120 -m "${1:-fast}" stop >/dev/null 2>&1)
}

postgres_remove() {
    [ -n "${cluster:-}" ] || return 0
    postgres_stop immediate
    rm -rf "$cluster"
}

sql() { "$postgres_bin/psql" -h "$cluster" -U "${sql_user:-calltrail}" -d postgres -XAtq -v ON_ERROR_STOP=1 -c "$1"; }

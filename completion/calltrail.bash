# bash completion of calltrail: commands, options, their values, profiles, metrics.
# What commands and options there are is asked of calltrail itself, so that it is never out of date.

_calltrail_words() { # candidates…
    mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
}

_calltrail_lines() { # candidates in lines, which may have spaces in them
    local IFS=$'\n'
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_calltrail_files() { # pattern of names, of files beside folders
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(
        compgen -d -- "$cur"
        compgen -f -X "!$1" -- "$cur"
    )
}

_calltrail_folders() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -d -- "$cur")
}

# The names of something in the profile on the command line, or the default one: `calltrail info
# --json` has a line for each.
_calltrail_names() { # key
    local word file=calltrail.ctp
    for word in "${COMP_WORDS[@]:2}"; do
        [[ $word == *.ctp && -f $word ]] && file=$word
    done
    "${COMP_WORDS[0]}" info --json "$file" 2>/dev/null |
        sed -n "/^  \"$1\": \[/,/^  \]/s/^    {\"name\": \"\([^\"]*\)\".*/\1/p"
}

# Base names of the functions of that profile, which are what commands find them by: whole names have
# colons and spaces, at which bash divides words.
_calltrail_functions() {
    local word file=calltrail.ctp
    for word in "${COMP_WORDS[@]:2}"; do
        [[ $word == *.ctp && -f $word ]] && file=$word
    done
    "${COMP_WORDS[0]}" report --view flat --json --limit 2000 "$file" 2>/dev/null |
        sed -nE 's/.*"function": "([^"(<]*)[^"]*", "module".*/\1/p' | sed -E 's/.*[: ]//' |
        grep -E '^[A-Za-z_~][A-Za-z0-9_.@]*$' | sort -u
}

# What an option of a command takes, as its help says: FILE, N, …
_calltrail_argument() { # option
    [[ $1 == --* ]] && "$program" "$command" --help 2>/dev/null |
        sed -nE "s/^ *$1 ([A-Z]+)( .*|$)/\1/p"
}

_calltrail() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    local command=${COMP_WORDS[1]} programs
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _calltrail_words --help --version \
            "$("$program" --help 2>/dev/null | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }')"
        return
    fi
    case $before in
    --view)
        if [ "$command" = top ]; then
            _calltrail_words functions callees callers threads
            return
        fi
        _calltrail_words summary contexts topdown bottomup flat kctx structure paths flame threads processes phases ranks
        ;;
    -m) _calltrail_words time ;;
    --metric | --weight)
        if [ "$command" = record ]; then
            _calltrail_words time
            return
        fi
        _calltrail_lines "$(_calltrail_names metrics)"
        ;;
    --callers | --callees | --lines | --fn | --focus | --ignore | --show-from)
        _calltrail_lines "$(_calltrail_functions)"
        ;;
    --color) _calltrail_words auto always never ;;
    --sort) _calltrail_words self total name ;;
    --by) _calltrail_words function context ;;
    --to)
        _calltrail_words "$("$program" export --help 2>/dev/null |
            awk '$1 == "--to" && $2 != "FORMAT" { print $2 }')"
        ;;
    --from)
        _calltrail_words "$("$program" import --help 2>/dev/null | awk '$1 == "--from" { print $2 }')"
        ;;
    -e | --event)
        _calltrail_words cpu wall malloc heap lock io perf:page-faults perf:context-switches perf:task-clock \
            perf:cycles perf:instructions perf:cache-misses perf:branch-misses
        ;;
    --engine)
        _calltrail_words "$("$program" record --help 2>/dev/null | awk '$1 == "--engine" { print $2 }')"
        ;;
    -o | --output | --replay) _calltrail_files '*' ;;
    --source-dir | --debug-dir) _calltrail_folders ;;
    -F | --frequency | --delay | --duration | --limit | --depth | --min | --min-share | --fail-over | \
        --callers | --callees | --lines | --focus | --ignore | --show-from | --only-module | --thread | \
        --process | --phase | --fn | --explain | --k | --unit) ;;
    *)
        case $(_calltrail_argument "$before") in
        '') ;;
        FILE)
            _calltrail_files '*'
            return
            ;;
        *) return ;;
        esac
        if [[ $cur == -* ]]; then
            _calltrail_words "$("$program" "$command" --help 2>/dev/null |
                grep -oE -- '(^|[ ,[])--?[A-Za-z][a-z-]*' | tr -d ' ,[' | sort -u)"
            return
        fi
        case $command in
        report | top | kctx | view | html | info | export | symbolize | decode | diff | merge | store) _calltrail_files '*.ctp' ;;
        record)
            mapfile -t programs < <(compgen -c -- "$cur")
            _calltrail_files '*'
            COMPREPLY+=("${programs[@]}")
            ;;
        *) _calltrail_files '*' ;;
        esac
        ;;
    esac
}

complete -F _calltrail calltrail

// Names in the room that there is, as src/query/shorten.c has them: template arguments are folded first, then
// parameters go, then scopes, and only then letters.

const OPENING = "<({[", CLOSING = ">)}]", OPERATOR = "operator", DOTS = "…", NAME_READ_MAX = 2000;
const OPERATORS = "<=> <<= >>= ->* () [] << >> <= >= == != && || ++ -- += -= *= /= %= ^= &= |= -> < > = - ! + * / % & | ^ ~ ,".split(" ");
const isOfWord = (letter) => /\w/.test(letter || " ");

// Behind "operator<<" and the like where one begins at `at`, else `at`.
function skipOperator(name, at) {
    const end = at + OPERATOR.length;
    if (!name.startsWith(OPERATOR, at) || isOfWord(name[end]) || isOfWord(name[at - 1]))
        return at;
    // Longer ones first. What follows may be template arguments: operator+<char>.
    const found = OPERATORS.find((one) => name.startsWith(one, end));
    return end + (found || "").length;
}

// Behind the bracket that closes the one at `at`; 0 where none does.
function skipBrackets(name, from) {
    const open = [];
    for (let at = from; at < name.length;) {
        const end = skipOperator(name, at), kind = OPENING.indexOf(name[at]);
        if (end > at || name.startsWith("->", at)) {
            at = end > at ? end : at + 2;
            continue;
        }
        if (kind >= 0)
            open.push(CLOSING[kind]);
        else if (name[at] === open[open.length - 1] && (open.pop(), !open.length))
            return at + 1;
        at++;
    }
    return 0;
}

// (anonymous namespace), (*Type)
const beginsScope = (name, at) => at === 0 || ": .".includes(name[at - 1]);

// Where the name begins behind its return type, its last part, and its parameters.
function partsOf(name) {
    let outer = 0, start = 0, base = 0, parameters = name.length, inOperator = false, hasParameters = false, closed = true;
    for (let at = 0, end; at < name.length; at = end) {
        end = skipOperator(name, at);
        if (end > at) {
            inOperator = true;
        } else if (closed && OPENING.includes(name[at])) {
            end = skipBrackets(name, at);
            closed = end > 0;
            end = closed ? end : at + 1;
            if (closed && name[at] === "(" && !beginsScope(name, at)) {
                parameters = at;
                hasParameters = true;
            }
        } else if (name.startsWith("::", at)) {
            end = at + 2;
            if (!inOperator || hasParameters) {
                outer = base;
                base = end;
                inOperator = hasParameters = false;
            }
        } else {
            end = at + 1;
            if (name[at] === " " && !inOperator && !hasParameters && name[end] !== "[")
                outer = base = start = end;
        }
    }
    if (!hasParameters) {
        parameters = name.length;
        if (start)
            outer = base = start = 0;
    }
    if (name.startsWith(OPERATOR, base) || "{$".includes(name[base] || " "))
        base = outer;
    return { start, base, parameters };
}

// What is between brackets of this kind becomes an ellipsis; with `drop`, it goes with its brackets.
function fold(text, open, drop) {
    let name = text;
    for (let at = 0; at < name.length;) {
        const afterOperator = skipOperator(name, at), end = afterOperator === at && name[at] === open ? skipBrackets(name, at) : 0;
        if (!end) {
            at = Math.max(afterOperator, at + 1);
            continue;
        }
        const isScope = at === 0 || (open === "(" && ": .".includes(name[at - 1]));
        if (drop && !isScope) {
            name = name.slice(0, at) + name.slice(end);
        } else {
            const inner = end - at - 2 > 3 && !isScope ? DOTS : name.slice(at + 1, end - 1);
            name = name.slice(0, at + 1) + inner + name.slice(end - 1);
            at += inner.length + 2;
        }
    }
    return name;
}

// Without its outermost scope; the same where it has none.
function dropScope(name) {
    const { base } = partsOf(name);
    for (let at = 0; at < base;) {
        const end = OPENING.includes(name[at]) ? skipBrackets(name, at) : 0;
        if (!end && name.startsWith("::", at))
            return name.slice(at + 2);
        at = end || at + 1;
    }
    return name;
}

function cutMiddle(name, most) {
    if (most < 8)
        return name.slice(0, most);
    const tail = (most - 1) >> 1;
    return name.slice(0, most - 1 - tail) + DOTS + name.slice(name.length - tail);
}

// A name in so many letters; without a number, what is said of template arguments alone goes.
export function shortName(full, most = Infinity) {
    // So long a name is not read, and taking it apart would take long, too.
    if (full.length > NAME_READ_MAX)
        return cutMiddle(full, Math.min(most, NAME_READ_MAX));
    let name = full;
    // What is all in brackets is no function but a remark, such as why a walk ended.
    if (name[0] !== "(" || name.indexOf(")") + 1 < name.length) {
        name = fold(name.slice(partsOf(name).start), "<", false);
        if (name.length > most)
            name = fold(name, "(", false);
        if (name.length > most)
            name = name.slice(0, partsOf(name).parameters);
        for (let less = ""; name.length > most && (less = dropScope(name)) !== name;)
            name = less;
        if (name.length > most)
            name = fold(name, "<", true);
    }
    return name.length > most ? cutMiddle(name, most) : name;
}

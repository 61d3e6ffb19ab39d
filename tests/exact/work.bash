# Work for a shell: functions, recursion, arrays, patterns, arithmetic, subshells.
words=(alpha beta gamma delta epsilon zeta eta theta)
declare -A seen

fib() { # result in $f
    if (($1 < 2)); then
        f=$1
        return
    fi
    local a
    fib $(($1 - 1))
    a=$f
    fib $(($1 - 2))
    f=$((a + f))
}

shuffle() {
    local i text=
    for ((i = 0; i < ${#words[@]}; i++)); do
        text+="${words[($1 * 7 + i * 3) % ${#words[@]}]^},"
    done
    seen[${text:$(($1 % 9)):12}]=$1
    case $text in
    *Beta,Eps*) text=${text//a/A} ;;
    Gamma*) text=${text%%,*} ;;
    esac
    printf -v line '%s:%03d' "$text" "$1"
}

sum=0
for ((n = 0; n < $1; n++)); do
    shuffle "$n"
    [[ $line =~ ([A-Z][a-z]+),([A-Z]+) ]] && sum=$((sum + ${#BASH_REMATCH[1]}))
    fib $((n % 9))
    sum=$((sum + f))
    ((n % 100)) || sum=$((sum + $(echo "$n" | { read -r x; echo $((x % 7)); })))
done
echo "$sum ${#seen[@]}"

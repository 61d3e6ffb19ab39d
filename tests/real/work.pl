# Hashes, sorting with a comparator, regular expressions, objects, recursion. Argument: rounds.
use strict;
use warnings;

package Account;
sub new { my ($class, $name) = @_; return bless {name => $name, total => 0, log => []}, $class }
sub add {
    my ($self, $amount) = @_;
    $self->{total} += $amount;
    push @{$self->{log}}, $amount;
    shift @{$self->{log}} if @{$self->{log}} > 20;
    return $self->{total};
}

package main;
my $seed = 42;
sub next_number { $seed = ($seed * 1103515245 + 12345) % 2147483648; return $seed >> 8 }
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) }

for my $round (1 .. $ARGV[0]) {
    my (%accounts, %words);
    for (1 .. 20000) {
        my $name = "name" . next_number() % 500;
        ($accounts{$name} ||= Account->new($name))->add(next_number() % 1000);
    }
    my @best = sort { $b->{total} <=> $a->{total} or $a->{name} cmp $b->{name} } values %accounts;
    my $text = join ' ', map { sprintf '%s=%d;', $_->{name}, $_->{total} } @best;
    while ($text =~ /(\w+?)(\d+)=(\d+);/g) { $words{$1} += $2 * $3 }
    (my $turned = $text) =~ s/(\d+)=(\d+)/$2:$1/g;
    my @sorted = sort map { scalar reverse } split / /, $turned;
    printf "%d %s %d %d %s %d\n", $round, $best[0]{name}, $words{name}, length $turned,
        $sorted[100], fib(19);
}

#!/usr/bin/perl
# Work of many kinds for windows in the middle of an interpreter: hashes, regular expressions,
# sorting with callbacks, closures, formatting, eval and die.
use strict;
use warnings;

my $state = 42;
sub random { $state = ($state * 1103515245 + 12345) % 2147483648; return $state % $_[0]; }

sub words {
    my ($count) = @_;
    return map { join '', map { chr(97 + random(26)) } 1 .. 3 + random(6) } 1 .. $count;
}

sub fibonacci { my ($n) = @_; return $n < 2 ? $n : fibonacci($n - 1) + fibonacci($n - 2); }

my $total = 0;
for my $round (1 .. $ARGV[0] // 40) {
    my %seen;
    $seen{$_}++ for words(400);
    my @sorted = sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
    my $text = join ' ', @sorted;
    $total += () = $text =~ /\b(\w*?[aeiou]{2}\w*)\b/g;
    (my $changed = $text) =~ s/([a-m])([n-z])/$2$1/g;
    $total += length $changed;
    my @counters = map { my $n = $_; sub { return $n += $_[0] } } 1 .. 20;
    $total += $_->(random(10)) for @counters;
    my $message = eval { die { code => $round } if $round % 3 == 0; 'fine' } // $@->{code};
    $total += length sprintf '%08.3f|%-10s|%x|%s', $round / 7, 'text', $round * 77, $message;
    $total += fibonacci(12);
    my @numbers = sort { $a <=> $b } map { random(1000) / 3 } 1 .. 300;
    $total += int $numbers[150];
    $total += unpack '%32C*', pack 'N*', 1 .. 200;
}
print "perl $total\n";

"""
Programs of many languages and run times, recorded from outside: output and status as plain, shares of modules and functions as
perf's. What is not installed is skipped. Arguments: a folder for their files, and what to run of the checks (all).
"""
import os
import shutil

from harness import path, run_checks
from programs import Skip, checked, make, program

C = """#include <stdio.h>
__attribute__((noinline)) unsigned one(unsigned x)
{ for (long i = 0; i < 1000000; i++) x = x * 1103515245u + 12345u; return x; }
__attribute__((noinline)) unsigned two(unsigned x)
{ for (long i = 0; i < 2000000; i++) x = x * 1103515245u + 54321u; return x; }
int main(void) { unsigned x = 1; for (int i = 0; i < 300; i++) x = one(x) + two(x); printf("%u\\n", x); return 7; }
"""
RUST = """#[inline(never)] fn one(mut x: u32) -> u32 { for i in 0..1000000u32 { x = x.wrapping_mul(1103515245) ^ i; } x }
#[inline(never)] fn two(mut x: u32) -> u32 { for i in 0..2000000u32 { x = x.wrapping_mul(1103515245) ^ i; } x }
fn main() { let mut x = 1; for _ in 0..300 { x = one(x).wrapping_add(two(x)); } println!("{}", x); std::process::exit(6); }
"""
NIM = """proc one(a: uint32): uint32 {.noinline.} =
  result = a
  for i in 0 ..< 1000000: result = result * 1103515245'u32 + 12345'u32
proc two(a: uint32): uint32 {.noinline.} =
  result = a
  for i in 0 ..< 2000000: result = result * 1103515245'u32 + 54321'u32
var x = 1'u32
for i in 0 ..< 300: x = one(x) + two(x)
echo x
quit(6)
"""
D = """import std.stdio;
pragma(inline, false) uint one(uint x) { foreach (i; 0 .. 1000000) x = x * 1103515245 + 12345; return x; }
pragma(inline, false) uint two(uint x) { foreach (i; 0 .. 2000000) x = x * 1103515245 + 54321; return x; }
int main() { uint x = 1; foreach (i; 0 .. 300) x = one(x) + two(x); writeln(x); return 6; }
"""
GO = """package main
import ("fmt"; "os")
//go:noinline
func one(x uint32) uint32 { for i := 0; i < 1000000; i++ { x = x*1103515245 + 12345 }; return x }
//go:noinline
func two(x uint32) uint32 { for i := 0; i < 2000000; i++ { x = x*1103515245 + 54321 }; return x }
func main() { c := make(chan uint32); go func() { x := uint32(1); for i := 0; i < 300; i++ { x = one(x) + two(x) }; c <- x }()
 fmt.Println(<-c); os.Exit(6) }
"""
ADA = """with Ada.Text_IO; with Interfaces; use Interfaces;
procedure Spin is
   function One (A : Unsigned_32) return Unsigned_32 is X : Unsigned_32 := A; begin
      for I in 1 .. 1_000_000 loop X := X * 1103515245 + 12345; end loop; return X; end One;
   function Two (A : Unsigned_32) return Unsigned_32 is X : Unsigned_32 := A; begin
      for I in 1 .. 2_000_000 loop X := X * 1103515245 + 54321; end loop; return X; end Two;
   pragma No_Inline (One); pragma No_Inline (Two);
   S : Unsigned_32 := 1;
begin
   for I in 1 .. 300 loop S := One (S) + Two (S); end loop;
   Ada.Text_IO.Put_Line (Unsigned_32'Image (S));
end Spin;
"""
FORTRAN = """integer function one(a)
  integer :: a, i
  one = a
  do i = 1, 1000000
    one = ieor(one * 1103515, i)
  end do
end function
integer function two(a)
  integer :: a, i
  two = a
  do i = 1, 2000000
    two = ieor(two * 1103515, i)
  end do
end function
program spin
  integer :: x, i, one, two
  x = 1
  do i = 1, 300
    x = one(x)
    x = two(x)
  end do
  print *, x
  stop 6
end program
"""
PASCAL = """program spin;
function one(x: longword): longword;
var i: longint; begin for i := 1 to 1000000 do x := longword(x * 11035 + 12345); one := x; end;
function two(x: longword): longword;
var i: longint; begin for i := 1 to 2000000 do x := longword(x * 11035 + 54321); two := x; end;
var x: longword; i: integer;
begin x := 1; for i := 1 to 300 do x := longword(one(x) + two(x)); writeln(x); halt(6); end.
"""
LUA = "local x = 1 for i = 1, 3e8 do x = (x * 16807 + i) % 2147483647 end print(x) os.exit(6)"
PHP = "<?php function f($n) { $x = 1; for ($i = 0; $i < $n; $i++) $x = ($x * 16807 + $i) % 2147483647; return $x; } " \
      "echo f(2e7), \"\\n\"; exit(6);"
RUBY = "def f(n) x = 1; i = 0; while i < n; x = (x * 16807 + i) % 2147483647; i += 1; end; x end\nputs f(10_000_000)\nexit 6"
LISP = "(defun f (n) (let ((x 1)) (declare (fixnum x n)) (dotimes (i n x) (setf x (mod (+ (* x 16807) i) 2147483647)))))" \
       "(compile 'f) (format t \"~a~%\" (f 100000000)) (sb-ext:exit :code 6 :abort nil)"
NODE = "let x = 1; for (let i = 0; i < 2e8; i++) x = (Math.imul(x, 16807) + i) | 0; console.log(x); process.exit(6)"
ERLANG = """#!/usr/bin/env escript
%%! +S 1 +sbwt none
main(_) -> io:format("~p~n", [f(2000000, 1)]), halt(6).
f(0, X) -> X;
f(N, X) -> f(N - 1, (X * 16807 + N) rem 2147483647).
"""


def built(name, source, extension, names, *command):
    def check():
        make(name + extension, source, *command)
        return program("outside", [path(name)], ["--outside"], names)
    return check


def interpreted(name, source, extension, *command):
    def check():
        if not shutil.which(command[0]):
            raise Skip(command[0] + " is not installed")
        with open(path(name + extension), "w") as file:
            file.write(source)
        return program("outside", [*command, path(name + extension)], ["--outside"])
    return check


def shell(*command):
    def check():
        if not shutil.which(command[0]):
            raise Skip(command[0] + " is not installed")
        return program("outside", list(command), ["--outside"])
    return check


FORTH = ": f ( n -- x ) 1 swap 0 do 16807 * i + 2147483647 mod loop ;\n100000000 f . cr\n6 (bye)\n"
SCHEME = "(define (f n x) (if (= n 0) x (f (- n 1) (modulo (+ (* x 16807) n) 2147483647))))\n" \
         "(display (f %d 1)) (newline) (exit 6)\n"
RACKET = "#lang racket/base\n" + SCHEME % 30000000
PROLOG = """f(0, X, X) :- !.
f(N, X, Y) :- M is N - 1, Z is (X * 16807 + N) mod 2147483647, f(M, Z, Y).
:- initialization(main).
main :- f(%d, 1, X), write(X), nl, halt(6).
"""
CLISP = "(defun f (n) (let ((x 1)) (dotimes (i n x) (setf x (mod (+ (* x 16807) i) 2147483647)))))\n" \
        "(compile 'f) (format t \"~a~%\" (f 3000000)) (ext:exit 6)\n"
NEWLISP = "(set 'x 1) (for (i 1 5000000) (set 'x (% (+ (* x 16807) i) 2147483647))) (println x) (exit 6)\n"
PICOLISP = "(let X 1 (for I 5000000 (setq X (% (+ (* X 16807) I) 2147483647))) (prinl X)) (bye 6)\n"
ML = """fun f (0, x) = x | f (n, x) = f (n - 1, (x * 16807 + n) mod 2147483647);
print (Int.toString (f (300000000, 1)) ^ "\\n");
OS.Process.exit (OS.Process.success);
"""
LOOP = "i=0; while [ $i -lt %d ]; do i=$((i+1)); done; echo $i; exit 6"


def emulated(emulator):
    """A static program, whose code the emulator makes anew."""
    def check():
        make("emulated.c", C.replace("300", "30"), "gcc", "-O1", "-static", "-o", "emulated", "emulated.c")
        return shell(emulator, path("emulated"))()
    return check


ONE_TWO = ["one", "two"]
run_checks([(name, checked(check)) for name, check in [
    ("Rust", built("rust", RUST, ".rs", ONE_TWO, "rustc", "-O", "-o", "rust", "rust.rs")),
    ("Nim", built("nim_spin", NIM, ".nim", ONE_TWO, "nim", "c", "--hints:off", "-d:danger", "nim_spin.nim")),
    ("D", built("d_spin", D, ".d", ONE_TWO, "gdc", "-O1", "-o", "d_spin", "d_spin.d")),
    ("gccgo", built("gccgo_spin", GO, ".go", ONE_TWO, "gccgo", "-O1", "-o", "gccgo_spin", "gccgo_spin.go")),
    ("Ada", built("spin", ADA, ".adb", ONE_TWO, "gnatmake", "-q", "-O1", "spin.adb")),
    ("Fortran", built("f_spin", FORTRAN, ".f90", ONE_TWO, "gfortran", "-O1", "-o", "f_spin", "f_spin.f90")),
    ("Pascal", built("p_spin", PASCAL, ".pas", ["ONE", "TWO"], "fpc", "-O1", "-Xs-", "p_spin.pas")),
    ("tcc", built("tcc_spin", C.replace("300", "100"), ".c", ONE_TWO, "tcc", "-g", "-o", "tcc_spin", "tcc_spin.c")),
    ("static-pie", built("static_pie", C, ".c", ONE_TWO, "gcc", "-O1", "-static-pie", "-o", "static_pie", "static_pie.c")),
    ("static, stripped, without unwind tables", built("bare", C, ".c", [], "gcc", "-O1", "-static", "-s",
                                                      "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer", "-o", "bare",
                                                      "bare.c")),
    ("luajit", interpreted("spin_jit", LUA, ".lua", "luajit")),
    ("luajit, interpreting", interpreted("spin_int", LUA.replace("3e8", "3e7"), ".lua", "luajit", "-joff")),
    ("php", interpreted("spin_php", PHP, ".php", "php")),
    ("ruby", interpreted("spin_rb", RUBY, ".rb", "ruby")),
    ("sbcl", interpreted("spin_lisp", LISP, ".lisp", "sbcl", "--script")),
    ("node", interpreted("spin_js", NODE, ".js", "node")),
    ("erlang", interpreted("spin_erl", ERLANG, ".escript", "escript")),
    ("awk", shell("awk", "BEGIN { for (i = 0; i < 5000000; i++) x = (x * 16807 + i) % 2147483647; print x; exit 6 }")),
    ("dash", shell("dash", "-c", "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; echo $i; exit 6")),
    ("git", shell("git", "-C", os.path.dirname(os.path.abspath(__file__)), "log", "--stat", "-n", "400", "--format=%H")),
    ("openssl", shell("openssl", "dgst", "-sha256", "-hmac", "k", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3")),
    ("gforth", interpreted("spin_forth", FORTH, ".fs", "gforth")),
    ("Scheme, by chicken", built("spin_chicken", SCHEME % 30000000, ".scm", [], "csc", "-O2", "spin_chicken.scm")),
    ("Scheme, by chicken's interpreter", interpreted("spin_csi", SCHEME % 1000000, ".scm", "csi", "-s")),
    ("Scheme, by guile", interpreted("spin_guile", SCHEME % 10000000, ".scm", "guile", "--no-auto-compile", "-s")),
    ("Racket", interpreted("spin_racket", RACKET, ".rkt", "racket")),
    ("Prolog, by gprolog", built("spin_gplc", PROLOG % 5000000, ".pl", [], "gplc", "--no-top-level", "-o", "spin_gplc",
                                 "spin_gplc.pl")),
    ("Prolog, by SWI", interpreted("spin_swi", PROLOG % 2000000, ".pl", "swipl", "-q")),
    ("clisp", interpreted("spin_clisp", CLISP, ".lisp", "clisp", "-q")),
    ("newlisp", interpreted("spin_newlisp", NEWLISP, ".lsp", "newlisp")),
    ("picolisp", interpreted("spin_pico", PICOLISP, ".l", "picolisp")),
    ("Poly/ML", interpreted("spin_poly", ML, ".ml", "poly", "-q", "--use")),
    ("zsh", shell("zsh", "-c", LOOP % 500000)),
    ("ksh", shell("ksh", "-c", LOOP % 500000)),
    ("yash", shell("yash", "-c", LOOP % 500000)),
    ("qemu", emulated("qemu-x86_64-static")),
    ("tar and gzip", shell("sh", "-c", "tar -C /usr/include -cf - . | gzip -n | cksum; exit 6")),
]])

(* Row 49: a collector that finds its frames by return address, in a library. *)
let rec build depth = if depth = 0 then [] else (depth, string_of_int depth) :: build (depth - 1)
let rec sum list = match list with [] -> 0 | (n, text) :: rest -> n + String.length text + sum rest
let work rounds =
  let total = ref 0 in
  for i = 1 to rounds do
    total := !total + sum (build (1000 + i mod 7 * 100));
    if i mod 50 = 0 then Gc.compact ()
  done;
  !total
let () = Callback.register "work" work

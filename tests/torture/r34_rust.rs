// Row 34: a Rust program: traits, closures, sorting, panics that are caught, threads. It counts its
// own calls, in their contexts, and prints them as truth.h does.
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic;
use std::sync::Mutex;

thread_local! { static HERE: RefCell<Vec<&'static str>> = RefCell::new(Vec::new()); }
static COUNTS: Mutex<Option<BTreeMap<String, u64>>> = Mutex::new(None);

struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        HERE.with(|h| h.borrow_mut().pop());
    }
}

#[inline(always)]
fn enter(name: &'static str) -> Entered {
    HERE.with(|h| {
        let mut stack = h.borrow_mut();
        stack.push(name);
        let key = stack.join(";");
        let mut counts = COUNTS.lock().unwrap();
        *counts.get_or_insert_with(BTreeMap::new).entry(key).or_insert(0) += 1;
    });
    Entered
}

#[no_mangle]
#[inline(never)]
pub fn leaf(n: i64) -> i64 {
    let _here = enter("leaf");
    n + 1
}

trait Shape {
    fn area(&self, n: i64) -> i64;
}

struct Circle;
struct Square(i64);

#[no_mangle]
#[inline(never)]
pub fn circle_area(n: i64) -> i64 {
    let _here = enter("circle_area");
    leaf(n) * 3
}

#[no_mangle]
#[inline(never)]
pub fn square_area(side: i64, n: i64) -> i64 {
    let _here = enter("square_area");
    leaf(n) * leaf(side)
}

impl Shape for Circle {
    fn area(&self, n: i64) -> i64 {
        circle_area(n)
    }
}

impl Shape for Square {
    fn area(&self, n: i64) -> i64 {
        square_area(self.0, n)
    }
}

#[no_mangle]
#[inline(never)]
pub fn shapes(n: i64) -> i64 {
    let _here = enter("shapes");
    let all: Vec<Box<dyn Shape>> = vec![Box::new(Circle), Box::new(Square(n)), Box::new(Circle)];
    all.iter().map(|s| s.area(n)).sum()
}

#[no_mangle]
#[inline(never)]
pub fn sorts(n: i64) -> i64 {
    let _here = enter("sorts");
    let mut v: Vec<i64> = (0..12).map(|i| (i * 7 + n) % 12).collect();
    v.sort_by(|a, b| leaf(*a).cmp(&leaf(*b)));
    v[5]
}

struct Noisy(i64);

#[no_mangle]
#[inline(never)]
pub fn ends(n: i64) -> i64 {
    let _here = enter("ends");
    leaf(n)
}

impl Drop for Noisy {
    fn drop(&mut self) {
        ends(self.0);
    }
}

#[no_mangle]
#[inline(never)]
pub fn panics(depth: i64, kind: i64) -> i64 {
    let _here = enter("panics");
    let _noisy = Noisy(depth);
    if depth == 0 {
        if kind % 2 == 0 {
            panic!("on purpose");
        }
        return kind;
    }
    panics(depth - 1, kind) + leaf(depth)
}

#[no_mangle]
#[inline(never)]
pub fn catches(depth: i64, kind: i64) -> i64 {
    let _here = enter("catches");
    match panic::catch_unwind(|| panics(depth, kind)) {
        Ok(n) => leaf(n),
        Err(_) => leaf(1) + leaf(2),
    }
}

#[no_mangle]
#[inline(never)]
pub fn everything(rounds: i64) -> i64 {
    let _here = enter("everything");
    (0..rounds).map(|i| shapes(i) + sorts(i) + catches(i % 9, i)).sum()
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| everything(60))).collect();
    let own = everything(60);
    for t in threads {
        assert_eq!(t.join().unwrap(), own);
    }
    println!("{}", own);
    for (context, count) in COUNTS.lock().unwrap().iter().flatten() {
        println!("context {} {}", context, count);
    }
}

// Panics and catch_unwind through marked frames; `mark` is mark.c's, at every level.
use std::cell::RefCell;
use std::panic;

extern "C" {
    fn mark_begin();
    fn mark(level: i32);
}

thread_local! { static TRACE: RefCell<String> = RefCell::new(String::new()); }

fn say(text: &str) {
    TRACE.with(|t| t.borrow_mut().push_str(text));
}

struct Noisy(&'static str, i32);

impl Drop for Noisy {
    fn drop(&mut self) {
        if self.1 >= 0 {
            unsafe { mark(self.1) };
        }
        say(self.0);
    }
}

#[inline(never)]
fn leaf(first: i32, panics: bool) -> i32 {
    if first >= 0 {
        unsafe { mark(first) };
    }
    if panics {
        panic!("on purpose");
    }
    1
}

#[inline(never)]
fn one(first: i32, second: i32, panics: bool) -> i32 {
    let _noisy = Noisy("1", second);
    leaf(first, panics) + 1
}

#[inline(never)]
fn two(first: i32, second: i32, panics: bool) -> i32 {
    std::hint::black_box(one(first, second, panics)) + 1
}

#[inline(never)]
fn three(first: i32, second: i32, panics: bool) -> i32 {
    let _noisy = Noisy("3", second);
    match panic::catch_unwind(|| {
        let _inner = Noisy("i", second);
        two(first, second, panics)
    }) {
        Ok(value) => value + 1,
        Err(why) => {
            say("r");
            panic::resume_unwind(why)
        }
    }
}

#[inline(never)]
fn four(first: i32, second: i32, panics: bool) -> i32 {
    match panic::catch_unwind(|| three(first, second, panics)) {
        Ok(value) => value,
        Err(_) => {
            say("C");
            77
        }
    }
}

fn run(first: i32, second: i32, panics: bool) -> (i32, String) {
    TRACE.with(|t| t.borrow_mut().clear());
    let result = four(first, second, panics);
    (result, TRACE.with(|t| t.borrow().clone()))
}

fn main() {
    unsafe { mark_begin() };
    panic::set_hook(Box::new(|_| {}));
    let expected = [run(-1, -1, false), run(-1, -1, true)];
    let (mut bad, mut total) = (0, 0);
    for first in -1..14 {
        for second in -1..14 {
            for panics in [false, true] {
                total += 1;
                if run(first, second, panics) != expected[panics as usize] {
                    bad += 1;
                }
            }
        }
    }
    println!("{} of {} as without marks", total - bad, total);
    std::process::exit((bad != 0) as i32);
}

//! Feeding a decoder: inputs, limits, and what is reported when one is broken.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pml_model::random::Random;

use crate::{Form, Mutator, measure};

/// An input that takes longer ends the process: the decoder hangs.
const HANG: Duration = Duration::from_secs(20);
/// Interval at which the watchdog looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Samples that are kept besides the given ones.
const SAMPLES_MAX: usize = 512;
/// Attempts to make a failing input smaller.
const SHRINK_ATTEMPTS: usize = 2_000;

/// Reads an input; an error says why it was refused.
pub type Read = Box<dyn FnMut(&[u8]) -> Result<(), String>>;

/// A decoder with samples of what it reads.
pub struct Target {
    pub name: &'static str,
    pub form: Form,
    pub samples: Vec<Vec<u8>>,
    /// Words of the format.
    pub words: &'static [&'static str],
    /// Most bytes of memory per byte of input.
    pub memory_multiple: usize,
    /// Most bytes of memory that do not depend on the input.
    pub memory_fixed: usize,
    /// Longest time for one input.
    pub time_max: Duration,
    pub read: Read,
}

/// How many inputs a target gets.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    Inputs(u64),
    Time(Duration),
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub inputs: u64,
    pub accepted: u64,
    /// Different answers of the decoder.
    pub answers: usize,
    /// Most bytes held by one input.
    pub peak: usize,
    pub longest: Duration,
}

/// Feeds a target. Panics with the smallest failing input that was found.
pub fn run(target: &mut Target, seed: u64, share: Share) -> Report {
    assert!(!target.samples.is_empty(), "{} has no samples", target.name);
    let mutator = Mutator { form: target.form, words: target.words };
    let mut random = Random::new(seed);
    let (mut samples, mut answers) = (target.samples.clone(), BTreeSet::new());
    let (mut report, began) = (Report::default(), instant());
    let watch = Watchdog::start(target.name);
    loop {
        let done = match share {
            Share::Inputs(inputs) => report.inputs >= inputs,
            Share::Time(time) => began.elapsed() >= time,
        };
        if done {
            report.answers = answers.len();
            return report;
        }
        let first = usize::try_from(report.inputs).unwrap_or(usize::MAX);
        // Each sample as it is, then inputs made from them.
        let input = target.samples.get(first).cloned().unwrap_or_else(|| {
            // Half of the inputs come from the samples that were given, which are valid.
            let from = if random.below(2) == 0 { &target.samples } else { &samples };
            mutator.input(from, &mut random)
        });
        report.inputs += 1;
        let outcome = feed(target, &input, &watch, &mut report);
        match outcome {
            Ok(answer) => {
                let is_new = answers.len() < SAMPLES_MAX && answers.insert(class(&answer));
                if is_new && samples.len() < SAMPLES_MAX {
                    samples.push(input);
                }
            }
            Err(problem) => {
                let smallest = shrink(target, input, &watch);
                let (name, number) = (target.name, report.inputs);
                let text = String::from_utf8_lossy(&smallest).into_owned();
                panic!(
                    "{name}: input {number} of seed {seed}: {problem}\nsmallest input: {text:?}\nin hex: {}",
                    hex(&smallest)
                );
            }
        }
    }
}

/// Reads one input within the limits of the target. Returns the answer, or what is wrong.
fn feed(target: &mut Target, input: &[u8], watch: &Watchdog, report: &mut Report) -> Result<String, String> {
    watch.begin(input);
    let began = instant();
    let (answer, usage) = measure(|| catch_unwind(AssertUnwindSafe(|| (target.read)(input))));
    let took = began.elapsed();
    watch.end();
    report.peak = report.peak.max(usage.peak);
    report.longest = report.longest.max(took);
    // A panic first: showing it takes memory.
    let answer = answer.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        format!("it panicked: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?"))
    })?;
    let memory_max = target.memory_fixed + target.memory_multiple * input.len();
    if usage.peak > memory_max {
        return Err(format!("{} bytes of memory for {} bytes of input; at most {memory_max}", usage.peak, input.len()));
    }
    if took > target.time_max {
        return Err(format!("{took:?} for {} bytes of input", input.len()));
    }
    report.accepted += u64::from(answer.is_ok());
    Ok(answer.err().unwrap_or_default())
}

/// What two answers have in common that differ in numbers and quoted text only.
fn class(answer: &str) -> String {
    let mut quoted = false;
    let mut kept = String::new();
    for c in answer.chars().take(200) {
        quoted ^= matches!(c, '\'' | '"' | '`');
        if !quoted && !c.is_ascii_digit() {
            kept.push(c);
        }
    }
    kept
}

/// Leaves out parts of a failing input as long as it still fails.
fn shrink(target: &mut Target, mut input: Vec<u8>, watch: &Watchdog) -> Vec<u8> {
    let mut part = input.len() / 2;
    for _ in 0..SHRINK_ATTEMPTS {
        if part == 0 {
            break;
        }
        let smaller = (0..input.len()).step_by(part).find_map(|at| {
            let mut shorter = input.clone();
            shorter.drain(at..(at + part).min(input.len()));
            feed(target, &shorter, watch, &mut Report::default()).is_err().then_some(shorter)
        });
        match smaller {
            Some(shorter) => input = shorter,
            None => part /= 2,
        }
    }
    input
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to memory cannot fail");
        text
    })
}

#[expect(clippy::disallowed_methods, reason = "what is measured is the time that a decoder takes")]
fn instant() -> Instant {
    Instant::now()
}

/// Ends the process if an input takes too long, because a decoder that hangs cannot be interrupted otherwise.
struct Watchdog {
    /// Twice the number of inputs that were begun, less one while the last one is being read. Zero when there are no more.
    work: Arc<AtomicU64>,
    input: Arc<Mutex<Vec<u8>>>,
}

impl Watchdog {
    fn start(name: &'static str) -> Self {
        let watchdog = Self { work: Arc::new(AtomicU64::new(2)), input: Arc::default() };
        let (work, input) = (Arc::clone(&watchdog.work), Arc::clone(&watchdog.input));
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, instant());
            loop {
                std::thread::sleep(LOOK_EVERY);
                let now = work.load(Ordering::Relaxed);
                if now == 0 {
                    return;
                }
                if now != last || now % 2 == 0 {
                    (last, since) = (now, instant());
                } else if since.elapsed() > HANG {
                    let input = input.lock().map(|input| hex(&input)).unwrap_or_default();
                    eprintln!("{name}: an input takes longer than {HANG:?}; in hex: {input}");
                    std::process::abort();
                }
            }
        });
        watchdog
    }

    fn begin(&self, input: &[u8]) {
        if let Ok(mut shown) = self.input.lock() {
            shown.clear();
            shown.extend_from_slice(input);
        }
        self.work.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.work.store(0, Ordering::Relaxed);
    }
}

//! The calls of a program while it runs: those that it made before are answered from what is known, the others are made by the means of
//! workflows, one by one recorded and written to the journal.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, pending, ready};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Notify, Semaphore};

use super::nested;
use super::past::{self, PastCall};
use super::run::ProgramRun;
use crate::code::sandbox::CallRequest;
use crate::code::structure::{self, Repetition};
use crate::core::event::NewRecord;
use crate::core::graph::edge::EdgeKind;
use crate::core::id::{Callee, StepId};
use crate::core::time::Timestamp;
use crate::core::workflow::{RETRIES_MAX, Task, capability};
use crate::execute::call::{self, Called, Failure};
use crate::execute::drive::Driver;
use crate::execute::events;
use crate::execute::{TaskState, TaskStatus};

/// Steps of one earlier call that a step depends on, at most: a loop before it may have made any number.
const SOURCES_MAX: usize = 50;

/// What a program writes before the name of a capability.
const CAPABILITY: &str = "capability:";

/// A call that has not been made yet.
struct NewCall {
    /// The position of its task.
    at: usize,
    /// The call of the reading.
    site: Option<usize>,
    asked: String,
    callee: Callee,
    step: StepId,
    arguments: Map<String, Value>,
    depends_on: Vec<StepId>,
    timeout_ms: Option<u64>,
    retries: u32,
}

impl NewCall {
    /// The call of a tool as a task; `None` for a capability, which is a run of its own.
    fn task(&self) -> Option<Task> {
        let Callee::Tool(tool) = &self.callee else { return None };
        Some(Task {
            id: self.step.clone(),
            tool: tool.clone(),
            arguments: self.arguments.clone(),
            depends_on: self.depends_on.clone(),
            timeout_ms: self.timeout_ms,
            retries: self.retries,
        })
    }
}

/// The calls of one run.
pub(super) struct Calls<'a> {
    driver: &'a Driver,
    own: &'a ProgramRun,
    /// Calls that may be under way at the same time.
    slots: Semaphore,
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Default)]
struct Book {
    /// Calls that ended before, by what was asked, in the order of their starts.
    past: BTreeMap<(String, String), VecDeque<Arc<PastCall>>>,
    used: BTreeSet<StepId>,
    /// How often each call of the reading was made.
    made: BTreeMap<usize, usize>,
    /// The steps of each call of the reading that succeeded.
    succeeded: BTreeMap<usize, Vec<StepId>>,
    /// Calls under way, by the positions of their tasks.
    open: BTreeMap<usize, Option<Task>>,
    /// Calls that need approval.
    waiting: Vec<StepId>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(driver: &'a Driver, own: &'a ProgramRun) -> Self {
        let mut book = Book::default();
        let mut past = own.past();
        past.sort_by_key(|call| call.called.started);
        for call in past {
            book.used.insert(call.step.clone());
            book.past.entry(key(&call.asked, &call.arguments)).or_default().push_back(call);
        }
        let slots = Semaphore::new(driver.shared.parts.settings.parallel_max);
        Self { driver, own, slots, book: Mutex::new(book), changed: Notify::new() }
    }

    /// Makes a call that the program asks for, or answers it as before.
    pub(super) fn make(&self, request: CallRequest) -> BoxFuture<'_, Result<Box<RawValue>, String>> {
        let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(request.arguments.get()) else {
            return ready(Err(format!("{}: its arguments are no object", request.callee))).boxed();
        };
        let mut book = self.book.lock();
        let site = self.site(&request, &book);
        if let Some(site) = site {
            *book.made.entry(site).or_default() += 1;
        }
        let known = book.past.get_mut(&key(&request.callee, &arguments)).and_then(VecDeque::pop_front);
        if let Some(known) = known {
            if let (Some(site), Ok(_), Callee::Tool(_)) = (site, &known.called.outcome, &known.callee) {
                book.succeeded.entry(site).or_default().push(known.step.clone());
            }
            return self.answer_again(known).boxed();
        }
        match self.new_call(&request, arguments, site, &mut book) {
            Ok(call) => self.perform(call).boxed(),
            Err(problem) => ready(Err(problem)).boxed(),
        }
    }

    /// The call of the reading that asks. A function that is called twice has its calls twice, at the same place.
    fn site(&self, request: &CallRequest, book: &Book) -> Option<usize> {
        let program = &self.own.program;
        let found = program.reading.call_at(request.position?.offset(&program.source))?;
        let calls = &program.reading.calls;
        let is_same = |at: &usize| {
            calls[*at].span == calls[found].span
                && (calls[*at].callee == structure::Callee::Computed || calls[*at].callee.to_string() == request.callee)
        };
        let made = |at: &usize| book.made.get(at).copied().unwrap_or(0);
        (0..calls.len()).filter(is_same).min_by_key(|at| (made(at), *at))
    }

    fn new_call(
        &self,
        request: &CallRequest,
        arguments: Map<String, Value>,
        site: Option<usize>,
        book: &mut Book,
    ) -> Result<NewCall, String> {
        let asked = request.callee.clone();
        if request.retries > RETRIES_MAX {
            return Err(format!("{asked}: retries is {}, the limit is {RETRIES_MAX}", request.retries));
        }
        let callee = match asked.strip_prefix(CAPABILITY) {
            Some(name) => {
                let view = self.driver.shared.parts.views.current();
                Callee::Capability(capability::find(&view, name).map_err(|error| error.to_string())?.id)
            }
            None => Callee::Tool(asked.parse().map_err(|problem| format!("{asked}: {problem}"))?),
        };
        let step = book.free_step(site);
        let depends_on = site.map(|site| self.sources(site, book)).unwrap_or_default();
        let at = self.driver.run.add_task(TaskStatus {
            task: step.clone(),
            tool: callee.clone(),
            depends_on: depends_on.clone(),
            state: TaskState::Waiting,
            speculated: false,
            attempts: 0,
            duration_ms: None,
            result_bytes: None,
        });
        let CallRequest { timeout_ms, retries, .. } = *request;
        Ok(NewCall { at, site, asked, callee, step, arguments, depends_on, timeout_ms, retries })
    }

    /// The steps whose results may have become arguments of the call.
    fn sources(&self, site: usize, book: &Book) -> Vec<StepId> {
        let reading = &self.own.program.reading;
        let is_repeated = reading.calls[site].repetition != Repetition::Once;
        let provides = reading.edges.iter().filter(|edge| edge.to == site && edge.kind == EdgeKind::Provides);
        let steps = provides.filter_map(|edge| book.succeeded.get(&edge.from));
        // Within a loop, a call takes what the same turn gave it.
        let latest = if is_repeated { 1 } else { SOURCES_MAX };
        steps.flat_map(|steps| &steps[steps.len().saturating_sub(latest)..]).cloned().collect()
    }

    /// Answers a call that ended before, and records it: the trace of this run shall be whole.
    async fn answer_again(&self, known: Arc<PastCall>) -> Result<Box<RawValue>, String> {
        if let Some(task) = known.task() {
            self.record(vec![self.started(&task, known.called.started), self.finished(&task, &known.called)]).await;
        }
        answer(&known.called.outcome)
    }

    async fn perform(&self, call: NewCall) -> Result<Box<RawValue>, String> {
        if self.needs_approval(&call.callee) {
            self.book.lock().waiting.push(call.step.clone());
            self.changed.notify_one();
            return pending().await;
        }
        let _slot = self.slots.acquire().await.map_err(|closed| closed.to_string())?;
        if !self.book.lock().waiting.is_empty() {
            // The program is about to be stopped; it will ask again.
            return pending().await;
        }
        let (at, task, parts) = (call.at, call.task(), &self.driver.shared.parts);
        self.book.lock().open.insert(at, task.clone());
        self.driver.run.set_task(at, |status| status.state = TaskState::Running);
        let called = match (task, &call.callee) {
            (Some(task), _) => {
                self.record(vec![self.started(&task, parts.clock.now())]).await;
                call::call(task, call.arguments.clone(), parts.upstreams.clone(), parts.clock.clone()).await
            }
            (None, Callee::Capability(id)) => {
                nested::call(self.driver, self.own, *id, (&call.arguments, call.timeout_ms)).await
            }
            (None, Callee::Tool(_)) => unreachable!("the call of a tool is a task"),
        };
        self.finish(call, self.bounded(called)).await
    }

    /// Whether somebody has to approve a call before it is made.
    fn needs_approval(&self, callee: &Callee) -> bool {
        !nested::unapproved(self.driver, self.own, callee).is_empty()
    }

    /// A result that does not fit among those of this run becomes a failure.
    fn bounded(&self, mut called: Called) -> Called {
        let max = self.driver.shared.parts.code.results_bytes;
        if let Ok(result) = &called.outcome
            && self.driver.run.result_bytes().saturating_add(crate::execute::run::json_len(result)) > max
        {
            let problem = format!("the results of the calls have more than {max} bytes together (code.results_bytes)");
            called.outcome = Err(call::failure("results_too_large", problem, self.driver.redactor()));
        }
        called
    }

    /// Keeps what came of a call, and records it.
    async fn finish(&self, call: NewCall, called: Called) -> Result<Box<RawValue>, String> {
        let (run, task) = (&self.driver.run, call.task());
        let NewCall { at, site, asked, callee, step, arguments, depends_on, .. } = call;
        let past = Arc::new(PastCall { step, callee, depends_on, asked, arguments, called });
        run.note(&past::line(&past));
        self.own.add_past(Arc::clone(&past));
        match past.called.finished() {
            Some(finished) => {
                run.keep(at, finished);
            }
            None => run.set_task(at, |status| *status = past.status()),
        }
        if let Some(task) = task {
            if let Ok(result) = &past.called.outcome {
                self.driver.infer_output(&task.tool, result);
                if let Some(site) = site {
                    self.book.lock().succeeded.entry(site).or_default().push(task.id.clone());
                }
            }
            self.record(vec![self.finished(&task, &past.called)]).await;
        }
        self.book.lock().open.remove(&at);
        self.changed.notify_one();
        answer(&past.called.outcome)
    }

    /// Resolves when a call needs approval and no other is under way.
    pub(super) async fn waits(&self) -> Vec<StepId> {
        loop {
            let changed = self.changed.notified();
            {
                let book = self.book.lock();
                if !book.waiting.is_empty() && book.open.is_empty() {
                    return book.waiting.clone();
                }
            }
            changed.await;
        }
    }

    /// Ends the calls under way as failed; they were cancelled.
    pub(super) async fn abort(&self) {
        let open = std::mem::take(&mut self.book.lock().open);
        let now = self.driver.shared.parts.clock.now();
        for (at, task) in open {
            let failure = call::failure("aborted", "the run ended during the call".to_owned(), self.driver.redactor());
            let Failure { kind, problem } = failure.clone();
            self.driver.run.set_task(at, |status| status.state = TaskState::Failed { kind, problem });
            if let Some(task) = task {
                self.record(vec![self.finished(&task, &Called::failed(now, 1, failure))]).await;
            }
        }
        self.driver.run.skip_waiting_tasks();
    }

    fn started(&self, task: &Task, at: Timestamp) -> NewRecord {
        events::step_started(&self.driver.run, task, Value::Object(task.arguments.clone()).to_string(), at)
    }

    fn finished(&self, task: &Task, called: &Called) -> NewRecord {
        events::step_finished(&self.driver.run, task, called)
    }

    async fn record(&self, facts: Vec<NewRecord>) {
        self.driver.shared.parts.recorder.record_soon(facts).await;
    }
}

impl Book {
    /// The id of a new step: `c2` for the second call of the reading, `c2.2` when it is made again; `x` without a place in the reading.
    fn free_step(&mut self, site: Option<usize>) -> StepId {
        let base = site.map_or_else(|| "x".to_owned(), |site| super::step_id(site).to_string());
        let names = std::iter::once(base.clone()).chain((2..).map(|number| format!("{base}.{number}")));
        let mut steps = names.map(|name| name.parse::<StepId>().expect("letters, digits and a dot are a step id"));
        let free = steps.find(|step| !self.used.contains(step)).expect("numbers do not end");
        self.used.insert(free.clone());
        free
    }
}

/// What was asked, as text. Members of objects are sorted.
fn key(asked: &str, arguments: &Map<String, Value>) -> (String, String) {
    (asked.to_owned(), Value::Object(arguments.clone()).to_string())
}

/// The outcome of a call as the program gets it.
fn answer(outcome: &Result<Arc<Value>, Failure>) -> Result<Box<RawValue>, String> {
    match outcome {
        Ok(value) => RawValue::from_string(value.to_string()).map_err(|error| error.to_string()),
        Err(failure) => Err(failure.problem.clone()),
    }
}

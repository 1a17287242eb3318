//! `Threads` lets blocking code wait for the client of an object store, which is asynchronous.

use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError, mpsc};

use tokio::runtime::{Builder, Handle, Runtime};

/// The threads of a client, started with its first request.
#[derive(Debug, Default)]
pub(crate) struct Threads(Mutex<Option<Runtime>>);

impl Threads {
    /// Runs `work` on these threads, and blocks the present one until it has ended.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
        let (sender, answer) = mpsc::channel();
        self.handle()?.spawn(async move {
            // Whoever waits holds the receiver.
            drop(sender.send(work.await));
        });
        answer.recv().map_err(|_| io::Error::other("the request to the object store was interrupted"))
    }

    fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if runtime.is_none() {
            *runtime = Some(Builder::new_multi_thread().worker_threads(1).thread_name("pml-objects").enable_all().build()?);
        }
        Ok(runtime.as_ref().expect("just started").handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Without waiting for tasks, which is allowed on any thread.
        if let Some(runtime) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

//! The floors of `pml bench stream`: what it takes to store an event durably and to deliver its bytes once, at the same rate by as many
//! agents, and nothing else.

use std::path::Path;
use std::sync::Arc;

use redb::Database;
use tokio::sync::{mpsc, oneshot};

use super::{Load, QUEUE_LEN, StreamLatencies, Timing, agent_events, agent_interval, listen, listen_on_nats, measured};
use crate::bench::ingest::{Acknowledged, run_writer};
use crate::bench::nats::server::Server;
use crate::bench::nats::{config_for, connect, headers, raw_stream};
use crate::bus::{Bus, MemoryBus};
use crate::clock::Clock;
use crate::config::{AppendMode, Config};
use crate::core::event::cloud;
use crate::subject::Subjects;

/// The member of an event that names it.
const ID: &str = "id";

/// Id and bytes of the events of each agent, as they are sent.
fn messages(load: Load) -> Vec<Vec<(String, Arc<[u8]>)>> {
    let agents = agent_events(&Clock::system(), load).into_iter();
    let agents = agents.map(|facts| {
        let message =
            facts.iter().map(|fact| (fact.id.to_string(), cloud::to_structured(fact).to_string().into_bytes().into()));
        message.collect()
    });
    agents.collect()
}

/// A raw redb group commit of each event, then one delivery on the bus of the process.
pub(super) async fn embedded(config: &Config, place: &Path, load: Load) -> anyhow::Result<StreamLatencies> {
    std::fs::create_dir_all(place)?;
    let database = Database::create(place.join("raw.redb"))?;
    let (queue, waiting) = mpsc::channel::<(Vec<Vec<u8>>, Acknowledged)>(config.log.queue_appends_max);
    let group_max = config.log.group_records_max;
    let writer = std::thread::spawn(move || run_writer(&database, waiting, group_max));
    let subjects = Subjects::new(config.workspace.parse()?);
    let bus = Arc::new(MemoryBus::default());
    let timing = Timing::start();
    let subscription = bus.subscribe(subjects.all_predictions(), QUEUE_LEN).await?;
    let listening = tokio::spawn(listen(subscription, Arc::clone(&timing), ID));
    let agents = messages(load).into_iter().enumerate().map(|(number, messages)| {
        let (queue, bus, timing, subjects) = (queue.clone(), Arc::clone(&bus), Arc::clone(&timing), subjects.clone());
        tokio::spawn(async move {
            let subject = subjects.predict(&format!("agent-{number}").parse()?);
            let mut interval = agent_interval(number, load);
            for (id, bytes) in messages {
                interval.tick().await;
                timing.record_sent(&id);
                let (done, answer) = oneshot::channel();
                queue.send((vec![bytes.to_vec()], done)).await?;
                answer.await??;
                bus.publish(subject.clone(), bytes).await?;
            }
            Ok::<(), anyhow::Error>(())
        })
    });
    let measured = measured(agents, &timing, &listening).await?;
    drop(queue);
    writer.join().map_err(|_| anyhow::anyhow!("the writer of the floor panicked"))?;
    Ok(measured)
}

/// An acknowledged publish of each event to a stream, then one delivery by the server.
pub(super) async fn over_nats(config: &Config, program: &Path, place: &Path, load: Load) -> anyhow::Result<StreamLatencies> {
    let server = Server::start(program, place)?;
    let config = config_for(&server, config, AppendMode::Pipelined);
    let (sender, receiver) = (connect(&config).await?, connect(&config).await?);
    raw_stream(&sender).await?;
    let timing = Timing::start();
    let listening = listen_on_nats(&receiver, "delivered".to_owned(), Arc::clone(&timing), ID).await?;
    let agents = messages(load).into_iter().enumerate().map(|(number, messages)| {
        let (client, stream, timing) = (sender.client().clone(), sender.jetstream().clone(), Arc::clone(&timing));
        sender.spawn(async move {
            let mut interval = agent_interval(number, load);
            for (id, bytes) in messages {
                interval.tick().await;
                timing.record_sent(&id);
                stream.publish_with_headers("raw", headers(&id), bytes.to_vec().into()).await?.await?;
                client.publish("delivered", bytes.to_vec().into()).await?;
            }
            Ok::<(), anyhow::Error>(())
        })
    });
    let measured = measured(agents, &timing, &listening).await?;
    anyhow::ensure!(measured.missed == 0, "{} messages were lost", measured.missed);
    Ok(measured)
}

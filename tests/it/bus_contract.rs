use std::sync::Arc;

use pml::bus::contract::{LagCount, upholds_the_contract};
use pml::bus::{MemoryBus, SharedBus};

#[tokio::test]
async fn the_memory_bus_upholds_the_contract() {
    upholds_the_contract(async || Arc::new(MemoryBus::default()) as SharedBus, LagCount::Exact).await;
}
